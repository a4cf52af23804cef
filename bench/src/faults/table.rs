//! The figures as Markdown for people and as JSON for programs.

use super::figures::{Figures, Medians, number};
use super::load::{DEADLINE, RATE};
use super::peers::proxies::HAPROXY;
use super::{CONNECTIONS, LIMIT, Row, WORK};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::io;
use std::process::Command;

/// The conditions of a run.
pub struct Conditions {
    rounds: usize,
    load_average: f64,
    versions: String,
}

/// A machine with more load than this before the run is noisy.
const NOISY: f64 = 1.0;

impl Conditions {
    /// Fails if a server is missing.
    pub fn new(rounds: usize) -> io::Result<Conditions> {
        let average = fs::read_to_string("/proc/loadavg")?;
        let load_average = average.split(' ').next().and_then(|average| average.parse().ok()).unwrap_or_default();
        let postgres = carom_live::postgres::programs().join("postgres").display().to_string();
        let servers = [(postgres.as_str(), "-V"), ("redis-server", "-v"), ("/usr/sbin/nginx", "-v"), (HAPROXY, "-v")]
            .map(version);
        let servers = servers.into_iter().collect::<io::Result<Vec<_>>>()?.join("; ");
        let versions = format!(
            "carom {}, bb8 0.9.1, deadpool 0.13.1, sqlx 0.8.6, tokio-postgres 0.7, redis 1.8, hyper-util 0.1.21, reqwest 0.13.5; {servers}",
            env!("CARGO_PKG_VERSION")
        );
        Ok(Conditions { rounds, load_average, versions })
    }

    fn noisy(&self) -> bool {
        self.load_average > NOISY
    }
}

/// The first line of what a program says of itself, as far as it is a version.
fn version((program, option): (&str, &str)) -> io::Result<String> {
    let output =
        Command::new(program).arg(option).output().map_err(|error| io::Error::other(format!("{program}: {error}")))?;
    let said = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
    Ok(line.split(" sha=").next().unwrap_or_default().split(" - ").next().unwrap_or_default().to_owned())
}

const HEAD: &str = "# Faults

The figures behind [What happens when a node fails](node-failure.md), written by `make bench PART=faults ARGS=--docs`.
";

fn notes(conditions: &Conditions) -> String {
    let noise = if conditions.noisy() {
        format!(
            "**Noisy machine**: the load average before the run was {:.1}, so the figures are a first indication only.\n\n",
            conditions.load_average
        )
    } else {
        String::new()
    };
    let runs = match conditions.rounds {
        1 => "one run".to_owned(),
        rounds => format!("the median of {rounds} runs"),
    };
    format!(
        "{noise}All peers run at the same time, each with servers and a runtime of its own. The same fault begins at the same moment for all,
so that all have the same noise.

Each cell: **failed requests / late requests / seconds until the node has its share again**, {runs}. The load is
{RATE} requests a second at a fixed rate, whatever happens to earlier ones; a node works {} ms on each. A request without a response
within {} s has failed; a response after more than 1 s is late; every request counts once. Counted are requests that end after the
beginning of the fault, until the node has its share, for 3 s at least and {} s at most after the repair. The node has its share when it
responds to nine tenths of its fair share (arrivals divided by nodes) over 1 s; the time runs from the repair to the beginning of
that second. It is 0 where the node never lost its share.

**Defect** marks where carom is worse than the best peer by more than 10 % and 2 requests, or 10 % and half a second. A request that
fails at once is not late, so late requests are compared together with failed ones. Times are compared with peers that have no more
failed, late or slow requests (over 100 ms; in faults.json): a peer that goes on using a faulty node never takes its share away. A run
of a peer is compared if the node responded to at least 0.8 of its fair share before the fault: a peer whose connections lead to other
nodes loses nothing when it fails. \"2 of 5\" in a cell says how many runs those are. A peer that leaves a faulty node for good
(\"over {}\") has fewer failures there; this is not taken into account.

Default options, with these exceptions. bb8, deadpool and sqlx know one address. For three PostgreSQL nodes bb8 and deadpool get
tokio-postgres's config with three hosts and `load_balance_hosts=random`; sqlx gets a pool for each node, used in turn, and the next
one when a pool gives no connection. For three Redis nodes bb8 and deadpool get a manager that connects to the addresses in turn, and to
the next one when that fails. deadpool's pools have {CONNECTIONS} connections, as bb8's and sqlx's: its default depends on the number of cores.
\"carom, tokio-postgres\" is a connector with `liveness` (`Client::is_closed`), without `check`, and with `Claim::fail` for a query that
failed. hyper-util and reqwest have a resolver that returns the addresses in turn. nginx has `keepalive 16`, HTTP/1.1 to nodes, and HAProxy has `check`, as their documentation shows. 503
and slow responses of an nginx node come from the application behind it; a relay before the node delays requests to PostgreSQL and
Redis, closes their connections, and resets requests. nginx nodes close connections with `keepalive_requests`.

{}.\n",
        WORK.as_millis(),
        DEADLINE.as_secs(),
        LIMIT.as_secs(),
        LIMIT.as_secs(),
        conditions.versions,
    )
}

pub fn markdown(rows: &[Row], conditions: &Conditions) -> String {
    let mut text = format!("{HEAD}\n{}{}", notes(conditions), tables(rows));
    let mut defects = String::new();
    for line in lines(rows) {
        for row in line {
            for defect in defects_of(row, line) {
                let _ = writeln!(defects, "- {}, {}, {}: {defect}", row.lane.name, row.fault.name(), row.peer.name);
            }
        }
    }
    if !defects.is_empty() {
        let _ = write!(text, "\n## Defects\n\ncarom, then the best peer.\n\n{defects}");
    }
    text
}

/// A table for each lane.
pub fn tables(rows: &[Row]) -> String {
    let (mut text, mut lane) = (String::new(), "");
    for line in lines(rows) {
        if line[0].lane.name != lane {
            lane = line[0].lane.name;
            let peers: Vec<_> = line.iter().map(|row| row.peer.name).collect();
            let rule = "---|".repeat(peers.len());
            let _ = write!(text, "\n## {}\n\n| fault | {} |\n|---|{rule}\n", line[0].lane.title, peers.join(" | "));
        }
        let _ = write!(text, "| {} |", line[0].fault.name());
        for row in line {
            let Medians { failed, late, back, .. } = Medians::new(&row.runs);
            let mark = if defects_of(row, line).is_empty() { "" } else { " **defect**" };
            let _ = write!(text, " {} / {} / {}{}{mark} |", number(failed), number(late), number(back), compared(row));
        }
        text.push('\n');
    }
    text
}

/// How many runs of a peer are compared, if not all.
fn compared(row: &Row) -> String {
    let exposed = row.runs.iter().filter(|run| run.is_exposed()).count();
    let is_compared = row.peer.is_carom || exposed == row.runs.len();
    if is_compared { String::new() } else { format!(" ({exposed} of {})", row.runs.len()) }
}

/// All peers under one fault.
fn lines(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| a.lane.name == b.lane.name && a.fault == b.fault)
}

/// The page with these tables in the place that it has for them, if it has one.
pub fn insert(page: &str, tables: &str) -> Option<String> {
    const BEGIN: &str = "<!-- faults: begin -->\n";
    const END: &str = "<!-- faults: end -->";
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    // Below the heading of the page.
    let tables = tables.replace("\n## ", "\n### ");
    Some(format!("{before}{BEGIN}{tables}\n{END}{after}"))
}

fn defects_of(row: &Row, line: &[Row]) -> Vec<String> {
    if !row.peer.is_carom {
        return Vec::new();
    }
    let others = line.iter().filter(|other| !other.peer.is_carom);
    let exposed = |other: &Row| Some((other.peer.name, Medians::of_exposed(&other.runs)?));
    let others: Vec<_> = others.filter_map(exposed).collect();
    Medians::new(&row.runs).defects(&others)
}

pub fn json(rows: &[Row], conditions: &Conditions) -> Value {
    let mut cells = Vec::new();
    for line in lines(rows) {
        for row in line {
            let medians = Medians::new(&row.runs);
            cells.push(json!({
                "system": row.lane.name,
                "fault": row.fault.name(),
                "peer": row.peer.name,
                "failed": medians.failed,
                "late": medians.late,
                "slow": medians.slow,
                "seconds_until_share": Some(medians.back).filter(|back| back.is_finite()),
                "defects": defects_of(row, line),
                "runs": row.runs.iter().map(run).collect::<Vec<_>>(),
            }));
        }
    }
    json!({
        "rounds": conditions.rounds,
        "load_average": conditions.load_average,
        "noisy": conditions.noisy(),
        "versions": conditions.versions,
        "rows": cells,
    })
}

fn run(figures: &Figures) -> Value {
    json!({
        "requests": figures.requests,
        "failed": figures.failed,
        "late": figures.late,
        "slow": figures.slow,
        "seconds_until_share": figures.back,
        "share_before": figures.share_before,
        "reason": figures.reason,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_take_the_place_of_those_before() {
        let page = super::insert("a\n<!-- faults: begin -->\nold\n<!-- faults: end -->\nb\n", "\n## New\n").unwrap();
        assert_eq!(page, "a\n<!-- faults: begin -->\n\n### New\n\n<!-- faults: end -->\nb\n");
        assert_eq!(super::insert("a\n", ""), None);
    }
}
