//! Producing to Pulsar beside the published client: messages per second and how long each waits for its receipt, over one
//! scripted broker.

mod clients;
mod floor;

use crate::bars::{Bar, Limit};
use crate::measure::{Cut, Effort, on_own_runtime};
use crate::report::{self, cell, middle};
use crate::rounds::{Series, extend, share};
use crate::waits::Waits;
use clients::{Carom, Client, Peer};
use serde_json::json;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use testkit::pulsar::Cluster;
use tokio::runtime::{Builder, Runtime};

const TOPIC: &str = "bench";
const PAYLOAD: usize = 1024;
/// How many messages are in flight.
const WINDOWS: [usize; 3] = [1, 16, 256];
/// Until the client has found its pace, nothing is counted.
const LEAD: Duration = Duration::from_millis(100);
/// What a round may take beyond its time.
const GRACE: Duration = Duration::from_secs(8);

const EXPLAINED: &str = "
Messages of 1 KiB to one topic of a scripted broker on a thread of its own, each in a frame of its own: carom-pulsar does not
batch. A task sends, and waits for the oldest receipt whenever so many are in flight; times are from before the send until
its receipt was waited for. floor: frames made beforehand, over a bare socket, which is the most that the broker can take.
";

type Run = fn(String, usize, Duration) -> Result<Round, Cut>;

const SUBJECTS: [(&str, Run); 3] = [
    (Carom::NAME, |url, window, period| within(period, produce::<Carom>(url, window, LEAD, period))),
    (Peer::NAME, |url, window, period| within(period, produce::<Peer>(url, window, LEAD, period))),
    ("floor", |url, window, period| within(period, floor::run(url, window, LEAD, period))),
];

/// What one client did in one round.
pub struct Round {
    messages_s: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Round {
    fn new(waits: &Waits, period: Duration) -> Self {
        Self {
            messages_s: waits.count() as f64 / period.as_secs_f64(),
            p50_us: waits.quantile_us(0.50),
            p99_us: waits.quantile_us(0.99),
        }
    }
}

/// Prints and keeps the figures.
pub fn report(effort: &Effort) -> io::Result<()> {
    println!("{EXPLAINED}");
    println!("{:<14} {:>9} {:>12} {:>9} {:>9}", "producing", "in flight", "messages/s", "p50 us", "p99 us");
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for window in WINDOWS {
        let all = measured(effort, window)?;
        for ((name, _), rounds) in SUBJECTS.iter().zip(&all) {
            let messages_s = middle(rounds, |round| round.messages_s);
            let (p50_us, p99_us) = (middle(rounds, |round| round.p50_us), middle(rounds, |round| round.p99_us));
            println!(
                "{name:<14} {window:>9} {:>12} {:>9} {:>9}",
                cell(messages_s, 0),
                cell(p50_us, 1),
                cell(p99_us, 1)
            );
            rows.push(json!({
                "client": name,
                "in_flight": window,
                "messages_s": messages_s.ok(),
                "p50_us": p50_us.ok(),
                "p99_us": p99_us.ok(),
            }));
        }
        let [carom, peer, _] = &all;
        let bar = |what: &str, figure: fn(&Round) -> f64, limit| Bar {
            what: format!("{what}, {window} in flight: {} / {}", Carom::NAME, Peer::NAME),
            figure: share(carom, peer, figure).ok(),
            limit,
        };
        bars.push(bar("messages/s", |round| round.messages_s, Limit::AtLeast(1.0)));
        bars.push(bar("p99", |round| round.p99_us, Limit::AtMost(1.0)));
    }
    println!();
    for bar in bars {
        println!("{bar}");
    }
    report::write("pulsar.json", rows)
}

/// Every client has its turn in every round, with a broker of its own.
fn measured(effort: &Effort, window: usize) -> io::Result<[Series<Round>; SUBJECTS.len()]> {
    let mut all = SUBJECTS.map(|_| Ok(Vec::new()));
    for _ in 0..effort.rounds {
        for ((_, run), rounds) in SUBJECTS.iter().zip(&mut all) {
            let broker = Broker::start()?;
            extend(rounds, || run(broker.url(), window, effort.period));
        }
    }
    Ok(all)
}

fn within(period: Duration, run: impl Future<Output = Round> + Send + 'static) -> Result<Round, Cut> {
    on_own_runtime(LEAD + period * 2 + GRACE, run)
}

/// Keeps `window` messages in flight, waiting for the oldest before the next is sent: receipts come in order.
async fn produce<C: Client>(url: String, window: usize, lead: Duration, period: Duration) -> Round {
    let mut client = C::open(url, TOPIC, window).await;
    let (start, mut waits) = (Instant::now() + lead, Waits::new());
    let mut in_flight = VecDeque::with_capacity(window);
    loop {
        if in_flight.len() == window
            && let Some((sent, receipt)) = in_flight.pop_front()
        {
            let receipt: C::Receipt = receipt;
            receipt.await.expect("the message is stored");
            let now = Instant::now();
            if sent >= start {
                waits.record(now - sent);
            }
            if now >= start + period {
                return Round::new(&waits, period);
            }
        }
        let sent = Instant::now();
        in_flight.push_back((sent, client.send(vec![0; PAYLOAD]).await));
    }
}

/// A broker with a thread to itself, that keeps nothing.
struct Broker {
    cluster: Cluster,
    _runtime: Runtime,
}

impl Broker {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let cluster = runtime.block_on(Cluster::start(1))?;
        cluster.keep_unsubscribed(false);
        Ok(Self { cluster, _runtime: runtime })
    }

    fn url(&self) -> String {
        self.cluster.url(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keeps_its_messages_in_flight_and_has_its_receipts() {
        for (name, run) in SUBJECTS {
            let broker = Broker::start().unwrap();
            let round = run(broker.url(), 4, Duration::from_millis(50)).unwrap();
            assert!(round.messages_s > 0.0, "{name}");
            assert!(round.p50_us <= round.p99_us, "{name}");
            assert_eq!(broker.cluster.written(TOPIC), 1, "{name}: all but the last is forgotten");
        }
    }
}
