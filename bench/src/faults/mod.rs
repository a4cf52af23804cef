//! Faults: real PostgreSQL, Redis and nginx servers are killed, frozen, restarted, slowed down and made to fail under load, with
//! carom or one of its peers in front of them, all with default options. All run at the same time, each with servers of its own, and
//! the same fault begins at the same moment for all.

mod app;
mod fault;
mod figures;
mod load;
mod nodes;
mod peers;
mod relay;
mod runner;
mod table;

use crate::report;
use carom_live::AnyError;
use fault::{FAULTS, Fault};
use figures::Figures;
use nodes::{Kind, Template};
use peers::Peer;
use runner::Runner;
use std::fs;
use std::io;
use std::path::Path;
use std::ptr;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How long a node works on one request.
const WORK: Duration = Duration::from_millis(20);
/// The size of pools whose default depends on the machine: that of bb8 and sqlx.
const CONNECTIONS: usize = 10;
/// Load before the fault; the second half of it shows the share of each node.
const WARM: Duration = Duration::from_secs(3);
/// How long a node that was repaired is watched, at least and at most.
const WATCHED: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(15);

/// The number of rounds, the one lane to run, text in the names of the faults to run, and whether the tables in `docs` are written.
#[derive(Clone, Debug)]
pub struct Extent {
    pub rounds: usize,
    pub only: Option<String>,
    pub fault: Option<String>,
    pub docs: bool,
}

/// A kind of server with its clients.
struct Lane {
    name: &'static str,
    title: &'static str,
    kind: Kind,
    peers: &'static [Peer],
}

const LANES: &[Lane] = &[
    Lane { name: "postgres", title: "Pools, PostgreSQL", kind: Kind::Postgres, peers: peers::postgres::PEERS },
    Lane { name: "redis", title: "Pools, Redis", kind: Kind::Redis, peers: peers::redis::PEERS },
    Lane { name: "agent", title: "HTTP clients, nginx nodes", kind: Kind::Nginx, peers: peers::http::PEERS },
    Lane { name: "sidecar", title: "Local proxies, nginx nodes", kind: Kind::Nginx, peers: peers::proxies::PEERS },
];

/// All runs of one peer under one fault.
struct Row {
    lane: &'static Lane,
    fault: Fault,
    peer: &'static Peer,
    runs: Vec<Figures>,
}

/// Prints and keeps the figures.
pub fn report(extent: &Extent) -> io::Result<()> {
    let wanted = |lane: &&Lane| extent.only.as_deref().is_none_or(|only| only == lane.name);
    let lanes: Vec<&'static Lane> = LANES.iter().filter(wanted).collect();
    if lanes.is_empty() {
        return Err(io::Error::other("--only takes one of postgres, redis, agent, sidecar"));
    }
    let mut rows = rows(&lanes, extent.fault.as_deref())?;
    if extent.docs && (extent.only.is_some() || extent.fault.is_some()) {
        return Err(io::Error::other(
            "--docs writes the tables of all lanes and faults, so it goes without --only and --fault",
        ));
    }
    let conditions = table::Conditions::new(extent.rounds)?;
    measure(&lanes, &mut rows, extent.rounds).map_err(io::Error::other)?;
    let table = table::markdown(&rows, &conditions);
    println!("\n{table}");
    report::write_text("faults.json", &format!("{:#}\n", table::json(&rows, &conditions)))?;
    if extent.docs {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        fs::write(docs.join("faults.md"), table)?;
        let page = docs.join("node-failure.md");
        let text = table::insert(&fs::read_to_string(&page)?, &table::tables(&rows));
        fs::write(page, text.ok_or_else(|| io::Error::other("docs/node-failure.md has no place for the table"))?)?;
    }
    Ok(())
}

/// The rows of these lanes whose fault has this text in its name, in the order of the tables.
fn rows(lanes: &[&'static Lane], text: Option<&str>) -> io::Result<Vec<Row>> {
    let text = text.unwrap_or_default().to_lowercase();
    let mut rows = Vec::new();
    for &lane in lanes {
        let matching = |fault: &Fault| lane.kind.has(*fault) && fault.name().to_lowercase().contains(&text);
        for fault in FAULTS.into_iter().filter(matching) {
            rows.extend(lane.peers.iter().map(|peer| Row { lane, fault, peer, runs: Vec::new() }));
        }
    }
    if rows.is_empty() {
        let known = FAULTS.into_iter().filter(|fault| lanes.iter().any(|lane| lane.kind.has(*fault)));
        let known: Vec<&str> = known.map(Fault::name).collect();
        return Err(io::Error::other(format!("--fault takes text in one of these names:\n  {}", known.join("\n  "))));
    }
    Ok(rows)
}

fn measure(lanes: &[&'static Lane], rows: &mut [Row], rounds: usize) -> Result<(), AnyError> {
    let template = Template::default();
    let peers = lanes.iter().flat_map(|lane| lane.peers.iter().map(|peer| (lane.kind, peer)));
    let mut runners = on_threads(peers, |(kind, peer)| Runner::start(kind, peer, &template))?;
    drop(template);
    let outcome = (1..=rounds).try_for_each(|round| {
        FAULTS.into_iter().try_for_each(|fault| measure_fault(fault, &mut runners, rows, &format!("{round}/{rounds}")))
    });
    // At the same time, as a server takes a while to stop.
    let stopped = on_threads(runners, |runner| {
        drop(runner);
        Ok(())
    });
    outcome.and(stopped.map(drop))
}

/// One fault, at the same time for all peers that have a row of it.
fn measure_fault(fault: Fault, runners: &mut [Runner], rows: &mut [Row], round: &str) -> Result<(), AnyError> {
    let mut rows: Vec<&mut Row> = rows.iter_mut().filter(|row| row.fault == fault).collect();
    let has_row = |runner: &&mut Runner| rows.iter().any(|row| ptr::eq(row.peer, runner.peer));
    let mut runners: Vec<&mut Runner> = runners.iter_mut().filter(has_row).collect();
    let requests = on_threads(&mut runners, |runner| runner.open(fault))?;
    let start = Instant::now();
    let figures =
        on_threads(runners.into_iter().zip(requests), |(runner, request)| runner.measure(fault, request, start))?;
    for (row, figures) in rows.iter_mut().zip(figures) {
        eprintln!("{} {round}, {}: {}: {figures:?}", row.lane.name, fault.name(), row.peer.name);
        row.runs.push(figures);
    }
    Ok(())
}

/// Handles all items at the same time, each on a thread of its own, and waits for all of them, also if one fails.
fn on_threads<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Result<R, AnyError> + Sync,
) -> Result<Vec<R>, AnyError> {
    let work = &work;
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    });
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|_| Err("a run panicked".into()))).collect()
}
