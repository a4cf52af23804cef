//! What a lease of a shared connection costs, beside a bare `Arc` and a pool's claim; and how long the detector takes over
//! 10,000 idle connections.

use crate::bars::{Bar, Limit};
use crate::measure::{self, Cut, Effort, Subject, median};
use crate::peers::carom::{AtOnce, Carom};
use crate::report::{self, cell, middle};
use crate::rounds::{Series, extend, share};
use carom::{Lease, Set, Share};
use carom_core::backend::Backend;
use carom_core::set::{Action, Leased, Machine, Options, Want};
use serde_json::json;
use std::hint::black_box;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 10_000;
const REPETITIONS: usize = 31;
const MAX_IDLE: Duration = Duration::from_secs(60);
const LOOKS: Duration = Duration::from_secs(15);

type Alone = fn(&Effort) -> Result<f64, Cut>;

const SUBJECTS: [(&str, Alone); 4] = [
    (Sharing::<1>::NAME, measure::alone::<Sharing<1>>),
    (Sharing::<3>::NAME, measure::alone::<Sharing<3>>),
    (Bare::NAME, measure::alone::<Bare>),
    ("pool: claim and release", measure::alone::<Carom>),
];

/// Prints and keeps the figures.
pub fn report(effort: &Effort) -> io::Result<()> {
    println!("\n{:<28} {:>9} {:>16}", "one task, warm", "alone ns", "of the pool's");
    let mut series: [Series<f64>; SUBJECTS.len()] = SUBJECTS.map(|_| Ok(Vec::new()));
    for _ in 0..effort.rounds {
        for ((_, alone), figures) in SUBJECTS.iter().zip(&mut series) {
            extend(figures, || alone(effort));
        }
    }
    let mut rows = Vec::new();
    let pool = &series[SUBJECTS.len() - 1];
    for ((name, _), figures) in SUBJECTS.iter().zip(&series) {
        let (alone, of_pool) = (middle(figures, |ns| *ns), share(figures, pool, |ns| *ns));
        println!("{name:<28} {:>9} {:>16}", cell(alone, 1), cell(of_pool, 2));
        rows.push(json!({ "subject": name, "alone_ns": alone.ok(), "of_pool": of_pool.ok() }));
    }
    println!();
    let (marking, releasing) = pass_ms();
    for (case, ms) in [("marked", marking), ("released", releasing)] {
        let bar = Bar {
            what: format!("{CONNECTIONS} idle connections {case}: ms"),
            figure: Some(ms),
            limit: Limit::AtMost(5.0),
        };
        println!("{bar}");
        rows.push(json!({ "case": case, "connections": CONNECTIONS, "pass_ms": ms }));
    }
    report::write("set.json", rows)
}

/// A set with a connection to each backend.
#[derive(Clone)]
struct Sharing<const BACKENDS: u16>(Set<AtOnce>);

impl Share for AtOnce {
    fn shut(&self, _connection: &u64) {}
}

impl<const BACKENDS: u16> Subject for Sharing<BACKENDS> {
    const NAME: &'static str = match BACKENDS {
        1 => "set: lease and drop",
        _ => "set: the same, 3 backends",
    };

    type Guard<'a> = Lease<AtOnce>;

    async fn open(_connections: usize) -> Self {
        let backends = (1..=BACKENDS).map(|port| Backend::fixed(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        let set = Set::builder(AtOnce).backends(backends.clone()).build().expect("the options are valid");
        for backend in backends {
            drop(set.lease_to(&backend).await.expect("the lease succeeds"));
        }
        Self(set)
    }

    async fn claim(&self) -> Lease<AtOnce> {
        self.0.lease().await.expect("the lease succeeds")
    }
}

/// The cheapest way to share a connection: nobody is counted, told or released.
#[derive(Clone)]
struct Bare(Arc<u64>);

impl Subject for Bare {
    const NAME: &'static str = "Arc: clone and drop";

    type Guard<'a> = Arc<u64>;

    async fn open(_connections: usize) -> Self {
        Self(Arc::new(1))
    }

    async fn claim(&self) -> Arc<u64> {
        Arc::clone(black_box(&self.0))
    }
}

/// The look that marks them all, and the one that releases them all.
fn pass_ms() -> (f64, f64) {
    let timed = |machine: &mut Machine, now: Instant| {
        let start = Instant::now();
        machine.handle_timeout(now);
        start.elapsed().as_secs_f64() * 1000.0
    };
    let (marking, releasing) = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            let mut machine = idling(start);
            // The timers of waiters and dials that are over come due apart from the looks, here as elsewhere.
            machine.handle_timeout(start + LOOKS - Duration::from_millis(1));
            let marking = timed(&mut machine, start + LOOKS);
            machine.handle_timeout(start + MAX_IDLE - Duration::from_millis(1));
            // A look finds them, and the turn after it lets go of them.
            let later = start + 2 * MAX_IDLE;
            let releasing = timed(&mut machine, later) + timed(&mut machine, later);
            let released =
                std::iter::from_fn(|| machine.poll_action()).filter(|action| matches!(action, Action::Shut(_)));
            assert_eq!(released.count(), CONNECTIONS);
            (marking, releasing)
        })
        .unzip();
    (median(marking), median(releasing))
}

/// Everybody has let go of everything.
fn idling(now: Instant) -> Machine {
    let options = Options { max_idle: Some(MAX_IDLE), idle_interval: Some(LOOKS), ..Options::default() };
    let mut machine = Machine::new(options, 1, now).expect("the options are valid");
    for at in 0..CONNECTIONS {
        let address = SocketAddr::from(([10, 0, (at / 250) as u8, (at % 250) as u8], 6650));
        let Leased::Waiting(_) = machine.lease(now, Want::of(Backend::fixed(address))) else { panic!("it is dialled") };
        let Some(Action::Dial { connection, .. }) = machine.poll_action() else { panic!("it is dialled") };
        machine.handle_connected(now, connection);
        machine.release(now, connection);
        while machine.poll_action().is_some() || machine.poll_delivery().is_some() {}
    }
    machine
}
