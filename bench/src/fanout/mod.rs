//! What fanning out costs: clients who all want the same 100 topics, served by the gateway in a process of its own.

mod crowd;
mod frames;
mod publisher;
mod served;

pub use served::{Kind, serve};

use crate::bars::{Bar, Limit};
use crate::measure::median;
use crate::report;
use crowd::Crowd;
use serde_json::{Value, json};
use served::Served;
use std::io;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Topics of every client.
const SYMBOLS: usize = 100;
const BROKER: &str = "bench";
const USER: &str = "load";
/// What a payload has before the time at which it was published.
const SENT: &str = r#""sent":"#;

/// What OpenAlgo's own proxy delivered a second at its best, measured on a machine of two cores.
const OPENALGO: [(usize, f64); 3] = [(1, 4_550.0), (10, 13_800.0), (100, 20_900.0)];

/// How many clients, and how many ticks a second are moderate for them.
const CROWDS: [(usize, u64); 4] = [(1, 1_000), (10, 500), (100, 60), (1_000, 10)];

/// Messages in each write of the floor that is not one write for each.
const AT_ONCE: usize = 32;

/// How long things are measured.
pub struct Extent {
    lead: Duration,
    period: Duration,
    latency: Duration,
    rounds: usize,
}

impl Extent {
    pub const FULL: Self = Self {
        lead: Duration::from_millis(500),
        period: Duration::from_secs(2),
        latency: Duration::from_secs(4),
        rounds: 3,
    };
    pub const QUICK: Self = Self {
        lead: Duration::from_millis(200),
        period: Duration::from_millis(500),
        latency: Duration::from_secs(1),
        rounds: 1,
    };
}

const EXPLAINED: &str = "
Fan-out: clients with the same 100 LTP topics (about 200 bytes a message), the gateway in a process of its own. delivered: messages
that arrive at all clients in a second, at the best of rising offers; the floor writes the same bytes to as many bare sockets, by one
task, one message or 32 with each write. p50, p99: from publishing to the client, at a moderate rate. stalled: the others' p99 with a
client that never reads, to theirs without.
";

/// Prints and keeps the figures.
pub fn report(extent: &Extent) -> io::Result<()> {
    println!("{EXPLAINED}");
    println!(
        "{:>7} {:>12} {:>12} {:>12} {:>12} {:>9} {:>9} {:>11} {:>8}",
        "clients", "delivered/s", "x OpenAlgo", "floor 1/s", "floor 32/s", "p50 us", "p99 us", "KiB/client", "stalled"
    );
    let mut rows = Vec::new();
    for (clients, moderate) in CROWDS {
        let row = measure(extent, clients, moderate)?;
        println!("{row}");
        rows.push(row);
    }
    println!();
    for bar in bars(&rows) {
        println!("{bar}");
    }
    report::write("fanout.json", rows.iter().map(Row::to_json).collect())
}

struct Row {
    clients: usize,
    delivered_s: f64,
    floor_s: f64,
    floor_at_once_s: f64,
    p50_us: f64,
    p99_us: f64,
    kib_per_client: f64,
    /// Nothing for one client, which has no others.
    stalled: Option<f64>,
}

impl Row {
    fn of_openalgo(&self) -> Option<f64> {
        let (_, delivered_s) = OPENALGO.iter().find(|(clients, _)| *clients == self.clients)?;
        Some(self.delivered_s / delivered_s)
    }

    fn to_json(&self) -> Value {
        json!({
            "clients": self.clients,
            "delivered_per_s": self.delivered_s,
            "of_openalgo": self.of_openalgo(),
            "floor_per_s": self.floor_s,
            "floor_at_once_per_s": self.floor_at_once_s,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "rss_per_client_kib": self.kib_per_client,
            "stalled_client_p99_ratio": self.stalled,
        })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let or_none =
            |figure: Option<f64>, decimals| figure.map_or("-".into(), |figure| format!("{figure:.decimals$}"));
        write!(
            f,
            "{:>7} {:>12.0} {:>12} {:>12.0} {:>12.0} {:>9.0} {:>9.0} {:>11.1} {:>8}",
            self.clients,
            self.delivered_s,
            or_none(self.of_openalgo(), 1),
            self.floor_s,
            self.floor_at_once_s,
            self.p50_us,
            self.p99_us,
            self.kib_per_client,
            or_none(self.stalled, 2),
        )
    }
}

fn bars(rows: &[Row]) -> Vec<Bar> {
    let of = |clients| rows.iter().find(|row| row.clients == clients);
    vec![
        Bar {
            what: "delivered to 100 clients, x OpenAlgo".into(),
            figure: of(100).and_then(Row::of_openalgo),
            limit: Limit::AtLeast(20.0),
        },
        Bar {
            what: "memory per client with 100 topics, KiB".into(),
            figure: of(1_000).map(|row| row.kib_per_client),
            limit: Limit::AtMost(16.0),
        },
        Bar {
            what: "p99 of 100 clients with a stalled one".into(),
            figure: of(100).and_then(|row| row.stalled),
            limit: Limit::AtMost(2.0),
        },
    ]
}

/// A process of its own for each figure that another would disturb.
fn measure(extent: &Extent, clients: usize, moderate: u64) -> io::Result<Row> {
    let mut served = Served::start(Kind::Gateway)?;
    // What the first client costs, all would pay but once.
    drop(Crowd::gather(served.address, served.key.clone(), 1)?);
    let before = served.memory()?;
    let crowd = Crowd::gather(served.address, served.key.clone(), clients)?;
    std::thread::sleep(extent.lead);
    let kib_per_client = (served.memory()? - before) / clients as f64 / 1024.0;
    let (mut p50, mut p99, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..extent.rounds {
        let plain = timed(extent, &mut served, &crowd, moderate)?;
        p50.push(plain.0);
        p99.push(plain.1);
        if clients > 1 {
            let _stalled = stall(&mut served, &crowd)?;
            ratios.push(timed(extent, &mut served, &crowd, moderate)?.1 / plain.1);
        }
    }
    Ok(Row {
        clients,
        delivered_s: most_delivered(extent, &mut served, &crowd, clients)?,
        floor_s: floor(extent, clients, 1)?,
        floor_at_once_s: floor(extent, clients, AT_ONCE)?,
        p50_us: median(p50),
        p99_us: median(p99),
        kib_per_client,
        stalled: (!ratios.is_empty()).then(|| median(ratios)),
    })
}

/// The median and the 99th percentile of the time from publishing to the client.
fn timed(extent: &Extent, served: &mut Served, crowd: &Crowd, ticks_s: u64) -> io::Result<(f64, f64)> {
    served.publish(ticks_s)?;
    std::thread::sleep(extent.lead);
    let waits = crowd.time(extent.latency);
    served.publish(0)?;
    Ok((waits.quantile_us(0.50), waits.quantile_us(0.99)))
}

/// Offers more and more, until half of it is left out.
fn most_delivered(extent: &Extent, served: &mut Served, crowd: &Crowd, clients: usize) -> io::Result<f64> {
    let (mut most, mut offered_s) = (0.0, 20_000.0 * (clients as f64).min(10.0));
    loop {
        served.publish((offered_s / clients as f64) as u64)?;
        std::thread::sleep(extent.lead);
        let delivered_s = crowd.count(extent.period);
        most = f64::max(most, delivered_s);
        if delivered_s < offered_s / 2.0 {
            served.publish(0)?;
            return Ok(most);
        }
        offered_s *= 1.5;
    }
}

/// A client that never reads, from when so much waits for it that ticks are left out.
fn stall(served: &mut Served, crowd: &Crowd) -> io::Result<TcpStream> {
    let stalled = crowd.stall()?;
    let deadline = Instant::now() + Duration::from_secs(20);
    // As much as others can take: what is left out is left out for the one that does not read.
    let before = served.conflated()?;
    served.publish(2_000)?;
    while served.conflated()? < before + 10 * SYMBOLS as u64 {
        if Instant::now() > deadline {
            return Err(io::Error::other("a client that never reads is sent everything"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    served.publish(0)?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(stalled)
}

fn floor(extent: &Extent, clients: usize, at_once: usize) -> io::Result<f64> {
    let mut served = Served::start(Kind::Floor { at_once })?;
    let crowd = Crowd::gather(served.address, None, clients)?;
    served.publish(1)?;
    std::thread::sleep(extent.lead + Duration::from_millis(300));
    Ok(crowd.count(extent.period))
}

fn symbol(at: usize) -> String {
    format!("S{at:05}")
}
