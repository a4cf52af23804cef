//! What each optional part of carom costs on the way of a claim.

use crate::measure::{Cut, Effort};
use crate::peers::{Entry, OPTIONS};
use crate::report::{self, Row, cell};
use crate::rounds::{self, Rounds, share};
use serde_json::{Value, json};
use std::io;

/// A row's figures as shares of plain carom's.
struct Shares {
    alone: Result<f64, Cut>,
    spread: Result<f64, Cut>,
    contended: Result<f64, Cut>,
}

/// Prints and keeps each option's figures, as they are and as shares of plain carom's.
pub fn report(effort: &Effort) -> io::Result<()> {
    let entries: Vec<&Entry> = OPTIONS.iter().collect();
    let all = rounds::measure(effort, &entries);
    println!(
        "\n{:<20} {:>9} {:>9} {:>13} {:>9} {:>16} {:>9}",
        "options", "alone ns", "of plain", "spread ops/s", "of plain", "contended ops/s", "of plain",
    );
    let mut rows = Vec::new();
    for rounds in &all {
        let (row, shares) = (Row::new(rounds), Shares::new(rounds, &all[0]));
        println!(
            "{:<20} {:>9} {:>9} {:>13} {:>9} {:>16} {:>9}",
            row.pool,
            cell(row.alone_ns, 1),
            cell(shares.alone, 2),
            cell(row.spread_ops_s, 0),
            cell(shares.spread, 2),
            cell(row.contended_ops_s, 0),
            cell(shares.contended, 2),
        );
        rows.push(to_json(&row, &shares));
    }
    report::write("options.json", rows)
}

fn to_json(row: &Row, shares: &Shares) -> Value {
    let mut value = row.to_json();
    value["of_plain"] = json!({
        "alone_ns": shares.alone.ok(),
        "spread_ops_s": shares.spread.ok(),
        "contended_ops_s": shares.contended.ok(),
    });
    value
}

impl Shares {
    fn new(rounds: &Rounds, plain: &Rounds) -> Self {
        Self {
            alone: share(&rounds.alone, &plain.alone, |ns| *ns),
            spread: share(&rounds.spread, &plain.spread, |ops_s| *ops_s),
            contended: share(&rounds.contended, &plain.contended, |round| round.ops_s),
        }
    }
}
