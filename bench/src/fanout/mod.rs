//! What fanning out costs: clients who all want the same 100 topics, served by the gateway in a process of its own.

mod crowd;
mod frames;
mod publisher;
mod served;

pub use crowd::{Crowd, Wishes, since_epoch};
pub use publisher::{Rhythm, payload};
pub use served::{Kind, gateway, serve};

use crate::bars::{Bar, Limit};
use crate::measure::median;
use crate::report;
use serde_json::{Value, json};
use served::Served;
use std::io;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Topics of every client.
pub const SYMBOLS: usize = 100;
pub const BROKER: &str = "bench";
pub const USER: &str = "load";
/// What a payload has before the time at which it was published.
const SENT: &str = r#""sent":"#;

/// What OpenAlgo's own proxy of August 2026 delivered a second at its best: medians, on a machine of two cores.
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
    pub rounds: usize,
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
that arrive at all clients in a second, at the best of rising offers; x OpenAlgo: its own proxy's, measured elsewhere on two cores. The
floor writes the same bytes to as many bare sockets, by one task, one message or 32 with each write. p50, p99: from publishing to the
client, at a moderate rate. KiB/client: resident memory, before and after ticks. stalled: p99 beside a client that never reads, to p99
without.
";

/// Prints and keeps the figures.
pub fn report(extent: &Extent) -> io::Result<()> {
    println!("{EXPLAINED}");
    println!(
        "{:>7} {:>12} {:>11} {:>10} {:>11} {:>8} {:>8} {:>11} {:>8} {:>8}",
        "clients",
        "delivered/s",
        "x OpenAlgo",
        "floor 1/s",
        "floor 32/s",
        "p50 us",
        "p99 us",
        "KiB/client",
        "after",
        "stalled"
    );
    let mut rows = Vec::new();
    for (clients, moderate) in CROWDS {
        let row = measure(extent, clients, moderate)?;
        println!("{row}");
        rows.push(row);
    }
    println!("\na topic of a client: {:.0} bytes\n", bytes_per_topic(extent)?);
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
    kib_per_client_after: f64,
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
            "rss_per_client_after_ticks_kib": self.kib_per_client_after,
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
            "{:>7} {:>12.0} {:>11} {:>10.0} {:>11.0} {:>8.0} {:>8.0} {:>11.1} {:>8.1} {:>8}",
            self.clients,
            self.delivered_s,
            or_none(self.of_openalgo(), 1),
            self.floor_s,
            self.floor_at_once_s,
            self.p50_us,
            self.p99_us,
            self.kib_per_client,
            self.kib_per_client_after,
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
    let mut plain = Served::start(Kind::Gateway)?;
    let (crowd, before, subscribed) = gather(extent, &mut plain, Wishes { clients, topics: SYMBOLS })?;
    let mut beside = if clients > 1 { Some(Beside::start(clients)?) } else { None };
    let (mut p50, mut p99, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..extent.rounds {
        let without = timed(extent, |ticks_s| plain.publish(ticks_s), &crowd, moderate)?;
        p50.push(without.0);
        p99.push(without.1);
        if let Some(Beside { served, crowd, .. }) = &mut beside {
            ratios.push(timed(extent, |ticks_s| served.publish(ticks_s), crowd, moderate)?.1 / without.1);
        }
    }
    drop(beside);
    let delivered_s = most_delivered(extent, |ticks_s| plain.publish(ticks_s), &crowd, clients)?;
    std::thread::sleep(extent.lead);
    let kib_each = |bytes: f64| (bytes - before) / clients as f64 / 1024.0;
    let kib_per_client_after = kib_each(plain.memory()?);
    drop((plain, crowd));
    Ok(Row {
        clients,
        delivered_s,
        floor_s: floor(extent, clients, 1)?,
        floor_at_once_s: floor(extent, clients, AT_ONCE)?,
        p50_us: median(p50),
        p99_us: median(p99),
        kib_per_client: kib_each(subscribed),
        kib_per_client_after,
        stalled: (!ratios.is_empty()).then(|| median(ratios)),
    })
}

/// A crowd, and how much memory was used before it came and after.
fn gather(extent: &Extent, served: &mut Served, wishes: Wishes) -> io::Result<(Crowd, f64, f64)> {
    // What the first client costs, all would pay but once.
    drop(Crowd::gather(served.address, served.key.clone(), Wishes { clients: 1, ..wishes })?);
    std::thread::sleep(extent.lead);
    let before = served.memory()?;
    let crowd = Crowd::gather(served.address, served.key.clone(), wishes)?;
    std::thread::sleep(extent.lead);
    Ok((crowd, before, served.memory()?))
}

fn bytes_per_topic(extent: &Extent) -> io::Result<f64> {
    let (clients, mut bytes) = (1_000, Vec::new());
    for topics in [1, SYMBOLS] {
        let mut served = Served::start(Kind::Gateway)?;
        let (_crowd, before, after) = gather(extent, &mut served, Wishes { clients, topics })?;
        bytes.push((after - before) / clients as f64);
    }
    Ok((bytes[1] - bytes[0]) / (SYMBOLS - 1) as f64)
}

/// The median and the 99th percentile of the time from publishing to the client.
pub fn timed(
    extent: &Extent,
    mut publish: impl FnMut(u64) -> io::Result<()>,
    crowd: &Crowd,
    ticks_s: u64,
) -> io::Result<(f64, f64)> {
    publish(ticks_s)?;
    std::thread::sleep(extent.lead);
    let waits = crowd.time(extent.latency);
    publish(0)?;
    waits.map(|waits| (waits.quantile_us(0.50), waits.quantile_us(0.99)))
}

/// Offers more and more, until half of it is left out; then the best offer again, and its median.
pub fn most_delivered(
    extent: &Extent,
    mut publish: impl FnMut(u64) -> io::Result<()>,
    crowd: &Crowd,
    clients: usize,
) -> io::Result<f64> {
    let mut delivered_s = |offered_s: f64| {
        publish((offered_s / clients as f64) as u64)?;
        std::thread::sleep(extent.lead);
        crowd.count(extent.period)
    };
    let (mut best, mut most, mut offered_s) = (0.0, 0.0, 20_000.0 * (clients as f64).min(10.0));
    loop {
        let delivered_s = delivered_s(offered_s)?;
        if delivered_s > most {
            (best, most) = (offered_s, delivered_s);
        }
        if delivered_s < offered_s / 2.0 {
            break;
        }
        offered_s *= 1.5;
    }
    let again: io::Result<Vec<f64>> = (0..extent.rounds).map(|_| delivered_s(best)).collect();
    publish(0)?;
    again.map(median)
}

/// A gateway with a client that never reads, and a crowd that came after it.
struct Beside {
    served: Served,
    crowd: Crowd,
    _stalled: (Runtime, TcpStream),
}

impl Beside {
    /// The crowd comes when so much waits for the one that does not read that ticks are left out, which can be for nobody else.
    fn start(clients: usize) -> io::Result<Beside> {
        let mut served = Served::start(Kind::Gateway)?;
        let stalled = crowd::stall(served.address, served.key.clone())?;
        let deadline = Instant::now() + Duration::from_secs(30);
        served.publish(5_000)?;
        while served.conflated()? < 20 * SYMBOLS as u64 {
            if Instant::now() > deadline {
                return Err(io::Error::other("a client that never reads is sent everything"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        served.publish(0)?;
        let crowd = Crowd::gather(served.address, served.key.clone(), Wishes { clients, topics: SYMBOLS })?;
        Ok(Beside { served, crowd, _stalled: stalled })
    }
}

fn floor(extent: &Extent, clients: usize, at_once: usize) -> io::Result<f64> {
    let mut served = Served::start(Kind::Floor { at_once })?;
    let crowd = Crowd::gather(served.address, None, Wishes { clients, topics: 0 })?;
    served.publish(1)?;
    std::thread::sleep(extent.lead);
    crowd.count(extent.period)
}

pub fn symbol(at: usize) -> String {
    format!("S{at:05}")
}
