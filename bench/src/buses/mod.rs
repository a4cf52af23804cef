//! What buses cost: ticks from a publisher by way of each kind of bus through a gateway to a client, each in a process of its own.

mod publishing;
mod served;
mod server;

pub use served::{Role, serve};

use crate::fanout::{Crowd, Extent, SYMBOLS, Wishes, most_delivered, timed};
use crate::measure::median;
use crate::report;
use serde_json::{Value, json};
use served::Served;
use server::Server;
use std::io;

/// Ticks a second, for the time from publishing to the client.
const MODERATE: u64 = 1_000;
/// One client, who wants all there is.
const CLIENTS: usize = 1;

const EXPLAINED: &str = "
Buses: one client with 100 LTP topics (about 200 bytes a message) of a gateway in a process of its own. The publisher is in the same
process (memory), or in a third one that connects to the gateway's SUB (zeromq), or to a nats-server on this machine (nats).
ticks: what the client gets in a second, at the best of rising offers. p50, p99: from publishing to the client, at 1,000 ticks/s.
";

/// Prints and keeps the figures.
pub fn report(extent: &Extent) -> io::Result<()> {
    println!("{EXPLAINED}\n{:>7} {:>10} {:>8} {:>8}", "bus", "ticks/s", "p50 us", "p99 us");
    let server = Server::start()?;
    let nats = server.as_ref().map(|server| Role::GatewayOnNats(server.address));
    let mut rows = Vec::new();
    for role in [Some(Role::GatewayAlone), Some(Role::GatewayOnZeroMq), nats].into_iter().flatten() {
        let row = measure(extent, role)?;
        println!("{row}");
        rows.push(row);
    }
    if server.is_none() {
        println!("   nats    there is no nats-server here");
    }
    report::write("buses.json", rows.iter().map(Row::to_json).collect())
}

struct Row {
    bus: &'static str,
    ticks_s: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Row {
    fn to_json(&self) -> Value {
        let Row { bus, ticks_s, p50_us, p99_us } = self;
        json!({ "bus": bus, "ticks_per_s": ticks_s, "p50_us": p50_us, "p99_us": p99_us })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { bus, ticks_s, p50_us, p99_us } = self;
        write!(f, "{bus:>7} {ticks_s:>10.0} {p50_us:>8.0} {p99_us:>8.0}")
    }
}

fn measure(extent: &Extent, role: Role) -> io::Result<Row> {
    let mut served = Served::start(role)?;
    let wishes = Wishes { clients: CLIENTS, topics: SYMBOLS };
    let crowd = Crowd::gather(served.address, Some(served.key.clone()), wishes)?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..extent.rounds {
        let round = timed(extent, |ticks_s| served.publish(ticks_s), &crowd, MODERATE)?;
        p50.push(round.0);
        p99.push(round.1);
    }
    let ticks_s = most_delivered(extent, |ticks_s| served.publish(ticks_s), &crowd, CLIENTS)?;
    Ok(Row { bus: role.bus(), ticks_s, p50_us: median(p50), p99_us: median(p99) })
}
