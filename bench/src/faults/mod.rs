//! Faults: real PostgreSQL, Redis and nginx servers are killed, frozen, restarted, slowed down and made to fail under load, with
//! carom in front of them and then each of its peers, all with default options.

mod app;
mod fault;
mod figures;
mod load;
mod nodes;
mod peers;
mod relay;
mod table;

use crate::report;
use carom_live::AnyError;
use fault::{FAULTS, Fault};
use figures::{Course, Figures, back_after};
use load::Load;
use nodes::{Kind, Nodes};
use peers::Peer;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

/// How long a node works on one request.
const WORK: Duration = Duration::from_millis(20);
/// The size of pools whose default depends on the machine: that of bb8 and sqlx.
const CONNECTIONS: usize = 10;
/// Load before the fault; the second half of it shows the share of each node.
const WARM: Duration = Duration::from_secs(3);
/// How long a node that was repaired is watched, at least and at most.
const WATCHED: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(15);

/// The number of rounds, the one lane to run, and whether the tables in `docs` are written.
#[derive(Clone, Debug)]
pub struct Extent {
    pub rounds: usize,
    pub only: Option<String>,
    pub docs: bool,
}

/// A kind of server with its clients. Lanes run at the same time, each with servers of its own.
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
    let conditions = table::Conditions::new(extent.rounds)?;
    let rounds = extent.rounds;
    let lanes: Vec<_> = lanes.into_iter().map(|lane| thread::spawn(move || run(lane, rounds))).collect();
    let mut rows = Vec::new();
    for lane in lanes {
        let measured = lane.join().map_err(|_| io::Error::other("a run panicked"))?;
        rows.extend(measured.map_err(io::Error::other)?);
    }
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

/// On its own thread, as starting and stopping servers blocks. The servers are killed when this returns, also by a panic.
fn run(lane: &'static Lane, rounds: usize) -> Result<Vec<Row>, AnyError> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            measured = measure(lane, rounds) => measured,
            _ = interrupted.recv() => Err("interrupted".into()),
            _ = terminated.recv() => Err("terminated".into()),
        }
    })
}

async fn measure(lane: &'static Lane, rounds: usize) -> Result<Vec<Row>, AnyError> {
    let mut nodes = Nodes::start(lane.kind).await?;
    let possible = |fault: &Fault| *fault != Fault::Unavailable || lane.kind == Kind::Nginx;
    let mut rows = Vec::new();
    for fault in FAULTS.into_iter().filter(possible) {
        rows.extend(lane.peers.iter().map(|peer| Row { lane, fault, peer, runs: Vec::new() }));
    }
    for round in 1..=rounds {
        for row in &mut rows {
            let figures = measure_one(&mut nodes, row.fault, row.peer).await?;
            eprintln!("{} {round}/{rounds}, {}: {}: {figures:?}", lane.name, row.fault.name(), row.peer.name);
            row.runs.push(figures);
        }
    }
    Ok(rows)
}

async fn measure_one(nodes: &mut Nodes, fault: Fault, peer: &Peer) -> Result<Figures, AnyError> {
    if fault == Fault::Close {
        nodes.fail(fault).await;
    }
    let load = Load::start((peer.open)(nodes.addresses(fault)).await?);
    sleep(WARM / 2).await;
    let warm = Instant::now();
    sleep(WARM / 2).await;
    let mut failed = Instant::now();
    match fault {
        // It has failed all along.
        Fault::Close => {}
        Fault::RestartIdle => {
            load.pause(true);
            sleep(Duration::from_secs(1)).await;
            nodes.fail(fault).await;
            sleep(Duration::from_millis(500)).await;
            load.pause(false);
            failed = Instant::now();
        }
        _ => {
            nodes.fail(fault).await;
            sleep(fault.lasts()).await;
            nodes.repair(fault).await;
        }
    }
    let repaired = Instant::now();
    let course = |ended| Course { warm, failed, repaired, ended, nodes: fault.nodes(), port: nodes.faulty_port(fault) };
    loop {
        sleep(Duration::from_millis(100)).await;
        let watched = repaired.elapsed();
        let back = watched >= WATCHED && back_after(&load.so_far(), &course(Instant::now())).is_some();
        if back || watched >= LIMIT + Duration::from_secs(1) {
            break;
        }
    }
    let ended = Instant::now();
    let records = load.stop().await;
    let figures = Figures::new(&records, &course(ended));
    if fault == Fault::Close {
        nodes.repair(fault).await;
    }
    Ok(figures)
}
