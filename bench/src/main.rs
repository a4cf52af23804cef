//! Measures carom side by side with others: what a claim and a lease cost, what overload and faults do, what planning and idle
//! connections cost, what windows spare and cost, what producing to Pulsar costs, what fanning out costs, what a broker's packets
//! cost, what HTTP costs, and what looking and metrics cost.

mod args;
mod bars;
mod buses;
mod discovery;
mod fanout;
#[cfg(feature = "faults")]
mod faults;
mod hazards;
mod http;
mod kite;
mod ledger;
mod measure;
mod memory;
mod metrics;
mod monitor;
mod options;
mod overload;
mod peers;
mod planning;
mod process;
#[cfg(feature = "pulsar")]
mod producing;
mod report;
mod rounds;
mod set;
mod waits;
mod window;

use args::{Args, Serve, USAGE};
use measure::Effort;
use overload::Load;
use peers::{ENTRIES, Entry};
use report::Row;
use std::env;
use std::io;
use std::process::ExitCode;

/// What one run prints and keeps, by the name that `--part` takes.
struct Part {
    name: &'static str,
    run: fn(&Extent) -> io::Result<()>,
}

/// How much time a run spends on what it repeats.
struct Extent {
    effort: Effort,
    load: Load,
    fanout: fanout::Extent,
    http: http::Extent,
    #[cfg(feature = "faults")]
    faults: faults::Extent,
}

impl Extent {
    fn new(args: &Args) -> Self {
        let quick = args.quick;
        Self {
            effort: if quick { Effort::QUICK } else { Effort::FULL },
            load: if quick { Load::QUICK } else { Load::FULL },
            fanout: if quick { fanout::Extent::QUICK } else { fanout::Extent::FULL },
            http: if quick { http::Extent::QUICK } else { http::Extent::FULL },
            #[cfg(feature = "faults")]
            faults: faults::Extent {
                rounds: args.rounds.unwrap_or(if quick { 1 } else { 5 }),
                only: args.only.clone(),
                fault: args.fault.clone(),
                docs: args.docs,
            },
        }
    }
}

/// Runs when it is named, and then alone: a quarter of an hour of servers that fail.
#[cfg(feature = "faults")]
const FAULTS: &str = "faults";

/// In the order of the run.
const PARTS: &[Part] = &[
    Part { name: "claims", run: |extent| claims(&extent.effort) },
    Part { name: "options", run: |extent| options::report(&extent.effort.fewer_rounds()) },
    Part { name: "set", run: |extent| set::report(&extent.effort.fewer_rounds()) },
    #[cfg(feature = "pulsar")]
    Part { name: "pulsar", run: |extent| producing::report(&extent.effort.fewer_rounds()) },
    Part { name: "overload", run: |extent| overload::report(&extent.load) },
    Part { name: "hazards", run: |_| hazards::report() },
    Part { name: "planning", run: |_| planning::report() },
    Part { name: "discovery", run: |_| discovery::report() },
    Part { name: "window", run: |_| window::report() },
    Part { name: "ledger", run: |extent| ledger::report(&extent.effort.fewer_rounds()) },
    Part { name: "fanout", run: |extent| fanout::report(&extent.fanout) },
    Part { name: "buses", run: |extent| buses::report(&extent.fanout) },
    Part { name: "kite", run: |extent| kite::report(&extent.effort.fewer_rounds()) },
    Part { name: "http", run: |extent| http::report(&extent.http) },
    Part { name: "sidecar", run: |extent| http::report_proxies(&extent.http) },
    Part { name: "monitor", run: |_| monitor::report() },
    Part { name: "metrics", run: |extent| metrics::report(&extent.effort.fewer_rounds()) },
    Part { name: "memory", run: |_| memory::report() },
];

fn main() -> ExitCode {
    let args = match Args::parse(env::args().skip(1)) {
        Ok(args) => args,
        Err(message) => return refuse(&message),
    };
    if args.memory {
        memory::count_and_print();
        return ExitCode::SUCCESS;
    }
    if let Some(kind) = args.serve {
        return ended(match kind {
            Serve::Fanout(kind) => fanout::serve(kind),
            Serve::Bus(role) => buses::serve(role),
            Serve::Http(address) => http::serve(address),
        });
    }
    let extent = Extent::new(&args);
    #[cfg(feature = "faults")]
    if args.part.as_deref() == Some(FAULTS) {
        return ended(faults::report(&extent.faults));
    }
    let picked = pick(&args.only, "--only", ENTRIES, |entry| entry.name)
        .and_then(|entries| Ok((entries, pick(&args.part, "--part", PARTS, |part| part.name)?)));
    let (entries, parts) = match picked {
        Ok(picked) => picked,
        Err(message) => return refuse(&message),
    };
    let outcome = if args.only.is_some() {
        claims_of(&extent.effort, &entries).map(drop)
    } else {
        parts.iter().try_for_each(|part| (part.run)(&extent))
    };
    ended(outcome)
}

fn ended(outcome: io::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("carom-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("carom-bench: {message}\n{USAGE}");
    ExitCode::from(2)
}

/// The one that was asked for, or all.
fn pick<T>(
    wanted: &Option<String>,
    option: &str,
    all: &'static [T],
    name: fn(&T) -> &str,
) -> Result<Vec<&'static T>, String> {
    let picked: Vec<&T> = all.iter().filter(|one| wanted.as_deref().is_none_or(|wanted| wanted == name(one))).collect();
    if picked.is_empty() {
        let names: Vec<_> = all.iter().map(name).collect();
        return Err(format!("{option} takes one of {}", names.join(", ")));
    }
    Ok(picked)
}

fn claims(effort: &Effort) -> io::Result<()> {
    let entries: Vec<&Entry> = ENTRIES.iter().collect();
    let rows = claims_of(effort, &entries)?;
    println!();
    for bar in bars::of_claims(&rows) {
        println!("{bar}");
    }
    Ok(())
}

fn claims_of(effort: &Effort, entries: &[&Entry]) -> io::Result<Vec<Row>> {
    let rows: Vec<Row> = rounds::measure(effort, entries).iter().map(Row::new).collect();
    report::print_table(&rows);
    report::write_claims(&rows)?;
    Ok(rows)
}
