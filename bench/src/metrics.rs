//! What metrics cost on the way of a claim: without a meter, with one that nobody reads, and with the program's own recorder behind it.
//!
//! All three are built with the feature `metrics`. What a build without it saves on top, a few bytes of each connection and a branch
//! or two, is not measured.

use crate::bars::{Bar, Limit};
use crate::measure::{self, Cut, Effort, Subject};
use crate::peers::carom::AtOnce;
use crate::report::{self, cell, middle};
use crate::rounds::{Series, extend};
use carom::monitor::Monitor;
use carom::{Claim, Pool};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use recorder::Recorder;
use serde_json::json;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Instant;

/// The very one that `carom up` serves at `/metrics`.
#[allow(dead_code, reason = "what it keeps is not shown here")]
#[path = "../../crates/cli/src/admin/metrics/recorder.rs"]
mod recorder;

/// Most that claim and release may take longer for being metered, in ns.
const MOST_NS: f64 = 150.0;

/// Most uses that are recorded where nothing is measured: those that make connections.
const FEW: u64 = 100;

type Measured = fn(&Effort) -> Result<f64, Cut>;

const SUBJECTS: [(&str, Measured, Measured); 3] = [of::<Unmetered>(), of::<Unread>(), of::<Recorded>()];

const fn of<S: Subject>() -> (&'static str, Measured, Measured) {
    (S::NAME, counted::<S, 0>, counted::<S, 1>)
}

/// Measures, alone or spread, and sees to it that uses were recorded if they should have been.
fn counted<S: Subject, const SPREAD: usize>(effort: &Effort) -> Result<f64, Cut> {
    let before = uses(S::NAME);
    let measured = [measure::alone::<S>, measure::spread::<S>][SPREAD](effort)?;
    let recorded = uses(S::NAME) - before > FEW;
    assert_eq!(recorded, S::NAME == Recorded::NAME, "{}: whether its uses were recorded", S::NAME);
    Ok(measured)
}

/// How many uses of a pool were recorded.
fn uses(pool: &str) -> u64 {
    let all = RECORDER.histograms.all(Instant::now());
    let of_uses = all.into_iter().filter(|(name, _)| name == "db.client.connection.use_time").flat_map(|(_, of)| of);
    let of_pool = of_uses.filter(|(labels, _)| labels.iter().any(|(_, value)| value == pool));
    of_pool.map(|(_, buckets)| buckets.values().0.iter().sum::<u64>()).sum()
}

/// Prints and keeps the figures.
pub fn report(effort: &Effort) -> io::Result<()> {
    let mut series: [[Series<f64>; 2]; SUBJECTS.len()] = SUBJECTS.map(|_| [Ok(Vec::new()), Ok(Vec::new())]);
    for _ in 0..effort.rounds {
        for ((_, alone, spread), [one, two]) in SUBJECTS.iter().zip(&mut series) {
            extend(one, || alone(effort));
            extend(two, || spread(effort));
        }
    }
    println!("\n{:<32} {:>9} {:>10} {:>23}", "metrics", "alone ns", "added ns", "2 threads: spread ops/s");
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    let plain = middle(&series[0][0], |ns| *ns);
    for ((name, _, _), [one, two]) in SUBJECTS.iter().zip(&series) {
        let (alone, spread) = (middle(one, |ns| *ns), middle(two, |ops_s| *ops_s));
        let added = alone.and_then(|alone| plain.map(|plain| alone - plain));
        println!("{name:<32} {:>9} {:>10} {:>23}", cell(alone, 1), cell(added, 1), cell(spread, 0));
        rows.push(json!({
            "subject": name,
            "alone_ns": alone.ok(),
            "added_ns": added.ok(),
            "spread_ops_s": spread.ok(),
        }));
        bars.push(Bar { what: format!("{name}: ns added"), figure: added.ok(), limit: Limit::AtMost(MOST_NS) });
    }
    println!();
    bars.iter().skip(1).for_each(|bar| println!("{bar}"));
    report::write("metrics.json", rows)
}

/// A recorder for those who want one: there is one for a process, and not everything that is measured here is to have it.
struct Switched;

static ON: AtomicBool = AtomicBool::new(false);
static RECORDER: LazyLock<Recorder> = LazyLock::new(Recorder::default);

impl Switched {
    fn set(on: bool) {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| assert!(metrics::set_global_recorder(Switched).is_ok(), "nobody else records"));
        ON.store(on, Ordering::SeqCst);
    }
}

impl metrics::Recorder for Switched {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        if ON.load(Ordering::SeqCst) { RECORDER.register_histogram(key, metadata) } else { Histogram::noop() }
    }
}

macro_rules! subject {
    ($subject:ident, $name:literal, $monitor:expr, $recorded:literal) => {
        #[derive(Clone)]
        struct $subject(Pool<AtOnce>);

        impl Subject for $subject {
            const NAME: &'static str = $name;

            type Guard<'a> = Claim<AtOnce>;

            async fn open(connections: usize) -> Self {
                Self(open($name, &$monitor, connections, $recorded).await)
            }

            async fn claim(&self) -> Claim<AtOnce> {
                self.0.claim().await.expect("the claim succeeds")
            }
        }
    };
}

subject!(Unmetered, "unmetered", Monitor::new(), true);
subject!(Unread, "metered, no recorder", Monitor::metered(), false);
subject!(Recorded, "metered, recorder", Monitor::metered(), true);

/// A pool whose connections are all there, made while there was a recorder, or none.
async fn open(name: &str, monitor: &Monitor, connections: usize, recorded: bool) -> Pool<AtOnce> {
    Switched::set(recorded);
    let backend = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let builder = Pool::builder(AtOnce).name(name).backends([backend]).monitor(monitor);
    let pool = builder.spares(connections).maximum(connections).build().expect("the options are valid");
    let mut claims = Vec::with_capacity(connections);
    for _ in 0..connections {
        claims.push(pool.claim().await.expect("the claim succeeds"));
    }
    Switched::set(false);
    pool
}
