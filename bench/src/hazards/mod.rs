//! Hazards: what each pool does when something goes wrong, seen by making it go wrong.
//!
//! Every cell of the table comes from a run, in real time, on one thread, so that what happens first is decided by the pool
//! and not by chance. A test for each row holds carom to its word, and the README to the truth about the others.

mod cause;
mod cut_check;
mod dead_node;
mod deadline;
mod end;
mod given_up;
mod moved;
mod order;
mod outside;
mod pools;
mod resize;
mod service;

use crate::report;
use std::fmt;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// In the order of the table.
const HAZARDS: &[Hazard] = &[
    cause::HAZARD,
    cut_check::HAZARD,
    given_up::HAZARD,
    deadline::CHECKS_FAIL,
    deadline::SERVICE_HANGS,
    order::HAZARD,
    dead_node::HAZARD,
    moved::HAZARD,
    resize::HAZARD,
    outside::HAZARD,
    end::HAZARD,
];

/// What a run may take.
const LIMIT: Duration = Duration::from_secs(6);

/// Something that goes wrong, and how to see what each pool makes of it.
struct Hazard {
    /// Goes on from "What happens when ...".
    when: &'static str,
    carom: fn() -> Cell,
    bb8: fn() -> Cell,
    deadpool: fn() -> Cell,
    qorb: fn() -> Cell,
    mobc: fn() -> Cell,
}

/// What was seen.
struct Cell {
    verdict: Verdict,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Right,
    Wrong,
    /// The pool has no such thing.
    Absent,
}

/// Prints the table in Markdown, and keeps it.
pub fn report() -> io::Result<()> {
    outside::silence_panics();
    let mut table = format!("| what happens when | {} |\n|---|", pools::VERSIONS.join(" | "));
    table.push_str(&"---|".repeat(pools::VERSIONS.len()));
    table.push('\n');
    for hazard in HAZARDS {
        eprintln!("hazard: {}", hazard.when);
        table.push_str(&format!("{}\n", Line(hazard, &hazard.cells())));
    }
    print!("\n{table}");
    report::write_text("hazards.md", &table)
}

impl Hazard {
    /// In the order of the columns. The runs wait more than they work, so they run side by side.
    fn cells(&self) -> [Cell; 5] {
        let runs = [self.carom, self.bb8, self.deadpool, self.qorb, self.mobc];
        runs.map(thread::spawn).map(|run| run.join().unwrap_or_else(|_| Cell::wrong("panicked")))
    }
}

impl Cell {
    fn right(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Right, text: text.into() }
    }

    fn wrong(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Wrong, text: text.into() }
    }

    fn absent(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Absent, text: text.into() }
    }

    fn judged(right: bool, text: impl Into<String>) -> Self {
        if right { Self::right(text) } else { Self::wrong(text) }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.verdict {
            Verdict::Right => "✓",
            Verdict::Wrong => "✗",
            Verdict::Absent => "–",
        };
        write!(f, "{sign} {}", self.text)
    }
}

/// One line of the table.
struct Line<'a>(&'a Hazard, &'a [Cell; 5]);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.0.when)?;
        self.1.iter().try_for_each(|cell| write!(f, " {cell} |"))
    }
}

/// Runs the situation on a runtime of its own. One that hangs is cut, even if it never gives its thread back.
fn observe<F: Future<Output = Cell> + 'static>(situation: fn() -> F) -> Cell {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("the runtime starts");
        let seen = runtime.block_on(async { timeout(LIMIT, situation()).await });
        let _ = sender.send(seen.unwrap_or_else(|_| Cell::wrong("hung")));
    });
    let seen = receiver.recv_timeout(LIMIT + Duration::from_secs(1));
    seen.unwrap_or_else(|error| match error {
        mpsc::RecvTimeoutError::Timeout => Cell::wrong("hung"),
        mpsc::RecvTimeoutError::Disconnected => Cell::wrong("panicked"),
    })
}

/// For the columns of pools that know one node only.
fn one_node() -> Cell {
    Cell::absent("one node")
}

fn after(taken: Duration) -> String {
    if taken < Duration::from_millis(10) { "at once".to_string() } else { format!("after {}", rounded(taken)) }
}

fn rounded(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
impl Hazard {
    /// carom must do right, and those that the README names must still do wrong; the others are only printed.
    fn holds(&self, wrong: &[&str]) {
        let cells = self.cells();
        println!("{}", Line(self, &cells));
        assert_eq!(cells[0].verdict, Verdict::Right, "carom: {}", cells[0]);
        for (version, cell) in pools::VERSIONS.iter().zip(&cells) {
            let named = wrong.iter().any(|name| version.starts_with(name));
            assert!(!named || cell.verdict == Verdict::Wrong, "{version} does right now: {cell}");
        }
    }
}
