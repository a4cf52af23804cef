//! Measures claims side by side with other pools, and what planning and idle connections cost.

mod args;
mod bars;
mod measure;
mod memory;
mod peers;
mod planning;
mod report;
mod waits;

use args::{Args, USAGE};
use measure::{Contended, Cut, Effort};
use peers::{ENTRIES, Entry};
use report::{Row, Series};
use std::env;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match Args::parse(env::args().skip(1)) {
        Ok(args) => args,
        Err(message) => return refuse(&message),
    };
    if args.memory {
        memory::count_and_print();
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&Entry> =
        ENTRIES.iter().filter(|entry| args.only.as_deref().is_none_or(|only| only == entry.name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = ENTRIES.iter().map(|entry| entry.name).collect();
        return refuse(&format!("--only takes one of {}", names.join(", ")));
    }
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    match run(&effort, &chosen, args.only.is_none()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("carom-bench: cannot keep the figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("carom-bench: {message}\n{USAGE}");
    ExitCode::from(2)
}

/// The bars, planning and memory are left out when only one pool was asked for.
fn run(effort: &Effort, chosen: &[&Entry], whole: bool) -> io::Result<()> {
    let rows = measure_in_rounds(effort, chosen);
    report::print_table(&rows);
    report::write_claims(&rows)?;
    if !whole {
        return Ok(());
    }
    println!();
    for bar in bars::of_claims(&rows) {
        println!("{bar}");
    }
    planning::report()?;
    memory::report()?;
    Ok(())
}

/// Every pool has its turn in every round, so that a disturbance from outside does not hit one of them alone.
fn measure_in_rounds(effort: &Effort, chosen: &[&Entry]) -> Vec<Row> {
    let mut alone: Vec<Series<f64>> = chosen.iter().map(|_| Ok(Vec::new())).collect();
    let mut spread: Vec<Series<f64>> = chosen.iter().map(|_| Ok(Vec::new())).collect();
    let mut contended: Vec<Series<Contended>> = chosen.iter().map(|_| Ok(Vec::new())).collect();
    for round in 1..=effort.rounds {
        eprintln!("round {round} of {}", effort.rounds);
        for (at, entry) in chosen.iter().enumerate() {
            extend(&mut alone[at], || (entry.alone)(effort));
            extend(&mut spread[at], || (entry.spread)(effort));
            extend(&mut contended[at], || (entry.contended)(effort));
        }
    }
    chosen.iter().enumerate().map(|(at, entry)| Row::new(entry.name, &alone[at], &spread[at], &contended[at])).collect()
}

/// A measurement that was cut once is not tried again.
fn extend<T>(series: &mut Series<T>, measurement: impl FnOnce() -> Result<T, Cut>) {
    if let Ok(rounds) = series {
        match measurement() {
            Ok(figures) => rounds.push(figures),
            Err(cut) => *series = Err(cut),
        }
    }
}
