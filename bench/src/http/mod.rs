//! What HTTP costs: the agent beside other clients, alone and while a node dies, and the sidecar beside nginx.

pub mod clients;
mod failover;
mod load;
mod node;
mod proxies;
mod sidecar;

pub use node::serve;
pub use proxies::report as report_proxies;

use crate::bars::{Bar, Limit};
use crate::measure::median;
use crate::report;
use clients::{Carom, Client, HyperUtil, Reqwest};
use load::Outcome;
use node::Node;
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const CROWDS: [usize; 3] = [1, 16, 256];
const PEERS: [&str; 2] = [HyperUtil::NAME, Reqwest::NAME];

/// How long things are measured.
pub struct Extent {
    lead: Duration,
    period: Duration,
    rounds: usize,
    kills: u32,
    each_kill: Duration,
    proxied: Duration,
}

impl Extent {
    pub const FULL: Self = Self {
        lead: Duration::from_millis(300),
        period: Duration::from_secs(1),
        rounds: 9,
        kills: 3,
        each_kill: Duration::from_secs(4),
        proxied: Duration::from_secs(3),
    };
    pub const QUICK: Self = Self {
        lead: Duration::from_millis(100),
        period: Duration::from_millis(400),
        rounds: 1,
        kills: 1,
        each_kill: Duration::from_secs(4),
        proxied: Duration::from_secs(1),
    };
}

const EXPLAINED: &str = "
HTTP/1.1 over connections that are kept, to one node in a process of its own; so many ask at a time, each again as soon as it is
answered. rps: answers in a second; p99 of the time to the end of the answer; the medians of rounds in which clients take turns.
";

const WITH_DEATH: &str = "
Three nodes, 16 who ask; one node is killed (SIGKILL) and comes back, again and again. failed: requests that got no answer, all of them
GET. Peers get the three addresses in turn from their resolver.
";

/// Prints and keeps the figures.
pub fn report(extent: &Extent) -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let alone = alone(extent, &runtime)?;
    let dying = dying(extent, &runtime)?;
    println!();
    for bar in bars(&alone, &dying) {
        println!("{bar}");
    }
    let rows = alone.iter().map(Alone::to_json);
    report::write("http.json", rows.chain(dying.iter().map(Dying::to_json)).collect())
}

struct Alone {
    client: &'static str,
    concurrency: usize,
    rps: f64,
    p99_us: f64,
}

impl Alone {
    fn to_json(&self) -> Value {
        json!({
            "what": "one node",
            "client": self.client,
            "concurrency": self.concurrency,
            "rps": self.rps,
            "p99_us": self.p99_us,
        })
    }
}

fn alone(extent: &Extent, runtime: &Runtime) -> io::Result<Vec<Alone>> {
    println!("{EXPLAINED}");
    println!("{:<12} {:>12} {:>10} {:>10}", "client", "concurrency", "rps", "p99 us");
    let node = Node::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let mut rows = Vec::new();
    for concurrency in CROWDS {
        let nodes = [node.address];
        let open = |error: String| io::Error::other(error);
        let carom = runtime.block_on(Carom::open(&nodes, concurrency)).map_err(open)?;
        let hyper = runtime.block_on(HyperUtil::open(&nodes, concurrency)).map_err(open)?;
        let reqwest = runtime.block_on(Reqwest::open(&nodes, concurrency)).map_err(open)?;
        let mut rounds: [Vec<(f64, f64)>; 3] = Default::default();
        for _ in 0..extent.rounds {
            rounds[0].push(round(extent, runtime, &carom, concurrency)?);
            rounds[1].push(round(extent, runtime, &hyper, concurrency)?);
            rounds[2].push(round(extent, runtime, &reqwest, concurrency)?);
        }
        for (client, rounds) in [Carom::NAME, HyperUtil::NAME, Reqwest::NAME].into_iter().zip(rounds) {
            let rps = median(rounds.iter().map(|round| round.0).collect());
            let p99_us = median(rounds.iter().map(|round| round.1).collect());
            println!("{client:<12} {concurrency:>12} {rps:>10.0} {p99_us:>10.0}");
            rows.push(Alone { client, concurrency, rps, p99_us });
        }
    }
    Ok(rows)
}

fn round<C: Client>(extent: &Extent, runtime: &Runtime, client: &C, concurrency: usize) -> io::Result<(f64, f64)> {
    let Outcome { served_s, waits, failed, reason } =
        load::run(runtime, client, concurrency, extent.lead, extent.period)?;
    if failed > 0 {
        println!("{}: {failed} failed: {}", C::NAME, reason.unwrap_or_default());
    }
    Ok((served_s, waits.quantile_us(0.99)))
}

struct Dying {
    client: &'static str,
    outcome: Outcome,
}

impl Dying {
    fn to_json(&self) -> Value {
        let Outcome { served_s, waits, failed, reason } = &self.outcome;
        json!({
            "what": "three nodes, one dying",
            "client": self.client,
            "rps": served_s,
            "p99_us": waits.quantile_us(0.99),
            "max_us": waits.max_us(),
            "failed": failed,
            "reason": reason,
        })
    }
}

fn dying(extent: &Extent, runtime: &Runtime) -> io::Result<Vec<Dying>> {
    println!("{WITH_DEATH}");
    println!("{:<12} {:>8} {:>10} {:>10} {:>10}  most frequent reason", "client", "failed", "rps", "p99 us", "max us");
    let (times, each) = (extent.kills, extent.each_kill);
    let runs = [
        (Carom::NAME, failover::run::<Carom>(runtime, times, each)?),
        (HyperUtil::NAME, failover::run::<HyperUtil>(runtime, times, each)?),
        (Reqwest::NAME, failover::run::<Reqwest>(runtime, times, each)?),
    ];
    let rows: Vec<Dying> = runs.into_iter().map(|(client, outcome)| Dying { client, outcome }).collect();
    for Dying { client, outcome: Outcome { served_s, waits, failed, reason } } in &rows {
        let (p99, max) = (waits.quantile_us(0.99), waits.max_us());
        let reason = reason.as_deref().unwrap_or_default();
        println!("{client:<12} {failed:>8} {served_s:>10.0} {p99:>10.0} {max:>10.0}  {reason}");
    }
    Ok(rows)
}

fn bars(alone: &[Alone], dying: &[Dying]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for concurrency in CROWDS {
        let of = |client: &str| alone.iter().find(|row| row.client == client && row.concurrency == concurrency);
        let carom = of(Carom::NAME);
        let best = |figure: fn(&Alone) -> f64, better: fn(f64, f64) -> f64| {
            PEERS.iter().filter_map(|peer| of(peer).map(figure)).reduce(better)
        };
        let ratio = |own: Option<f64>, other: Option<f64>| own.zip(other).map(|(own, other)| own / other);
        bars.push(Bar {
            what: format!("rps at {concurrency}: carom / the best peer"),
            figure: ratio(carom.map(|row| row.rps), best(|row| row.rps, f64::max)),
            limit: Limit::AtLeast(0.95),
        });
        bars.push(Bar {
            what: format!("p99 at {concurrency}: carom / the best peer"),
            figure: ratio(carom.map(|row| row.p99_us), best(|row| row.p99_us, f64::min)),
            limit: Limit::AtMost(1.05),
        });
    }
    let failed = dying.iter().find(|row| row.client == Carom::NAME).map(|row| row.outcome.failed as f64);
    bars.push(Bar { what: "failed GETs while a node dies".into(), figure: failed, limit: Limit::AtMost(0.0) });
    bars
}
