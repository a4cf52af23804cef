//! The table of claims, and the files that keep the figures.

use crate::measure::{Cut, median};
use crate::rounds::{Rounds, Series};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;

/// One pool's figures, each the median over the rounds.
pub struct Row {
    pub pool: &'static str,
    pub alone_ns: Result<f64, Cut>,
    /// Over three backends; as alone for a pool that knows of one at most.
    pub alone_of_three_ns: Result<f64, Cut>,
    pub spread_ops_s: Result<f64, Cut>,
    pub contended_ops_s: Result<f64, Cut>,
    pub wait_p50_us: Result<f64, Cut>,
    pub wait_p99_us: Result<f64, Cut>,
    pub wait_max_us: Result<f64, Cut>,
}

impl Row {
    pub fn new(rounds: &Rounds) -> Self {
        let Rounds { pool, alone, alone_of_three, spread, contended } = rounds;
        Self {
            pool,
            alone_ns: middle(alone, |ns| *ns),
            alone_of_three_ns: middle(alone_of_three, |ns| *ns),
            spread_ops_s: middle(spread, |ops_s| *ops_s),
            contended_ops_s: middle(contended, |round| round.ops_s),
            wait_p50_us: middle(contended, |round| round.wait_p50_us),
            wait_p99_us: middle(contended, |round| round.wait_p99_us),
            wait_max_us: middle(contended, |round| round.wait_max_us),
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "pool": self.pool,
            "alone_ns": self.alone_ns.ok(),
            "alone_of_three_ns": self.alone_of_three_ns.ok(),
            "spread_ops_s": self.spread_ops_s.ok(),
            "contended_ops_s": self.contended_ops_s.ok(),
            "wait_p50_us": self.wait_p50_us.ok(),
            "wait_p99_us": self.wait_p99_us.ok(),
            "wait_max_us": self.wait_max_us.ok(),
        })
    }
}

pub fn print_table(rows: &[Row]) {
    println!(
        "{:<9} {:>9} {:>14} {:>13} {:>16} {:>12} {:>12} {:>12}",
        "pool",
        "alone ns",
        "3 backends ns",
        "spread ops/s",
        "contended ops/s",
        "wait p50 us",
        "wait p99 us",
        "wait max us",
    );
    for row in rows {
        println!(
            "{:<9} {:>9} {:>14} {:>13} {:>16} {:>12} {:>12} {:>12}",
            row.pool,
            cell(row.alone_ns, 1),
            cell(row.alone_of_three_ns, 1),
            cell(row.spread_ops_s, 0),
            cell(row.contended_ops_s, 0),
            cell(row.wait_p50_us, 1),
            cell(row.wait_p99_us, 1),
            cell(row.wait_max_us, 0),
        );
    }
}

pub fn write_claims(rows: &[Row]) -> io::Result<()> {
    write("claim.json", rows.iter().map(Row::to_json).collect())
}

/// Writes the rows to the named file in `target/bench` of the workspace.
pub fn write(file: &str, rows: Vec<Value>) -> io::Result<()> {
    write_text(file, &format!("{:#}\n", Value::Array(rows)))
}

pub fn write_text(file: &str, text: &str) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(file), text)
}

pub fn middle<T>(series: &Series<T>, figure: fn(&T) -> f64) -> Result<f64, Cut> {
    let rounds = series.as_ref().map_err(|cut| *cut)?;
    Ok(median(rounds.iter().map(figure).collect()))
}

pub fn cell(figure: Result<f64, Cut>, decimals: usize) -> String {
    match figure {
        Ok(value) => format!("{value:.decimals$}"),
        Err(cut) => cut.to_string(),
    }
}
