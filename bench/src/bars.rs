//! What carom aims at, and by how much a figure misses it.

use crate::measure::Cut;
use crate::peers::PEERS;
use crate::report::Row;
use std::fmt;

pub struct Bar {
    pub what: String,
    /// None when a figure it needs was not measured.
    pub figure: Option<f64>,
    pub limit: Limit,
}

#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, limit) = match self.limit {
            Limit::AtMost(limit) => ("<=", limit),
            Limit::AtLeast(limit) => (">=", limit),
        };
        write!(f, "{:<48}", self.what)?;
        let Some(figure) = self.figure else {
            return write!(f, "{:>9}   bar {sign} {limit:<6}   not measured", "-");
        };
        write!(f, "{figure:>9.2}   bar {sign} {limit:<6}   ")?;
        let missing = match self.limit {
            Limit::AtMost(limit) => figure - limit,
            Limit::AtLeast(limit) => limit - figure,
        };
        if missing <= 0.0 { write!(f, "met") } else { write!(f, "not met by {missing:.2}") }
    }
}

/// The bars for claims: ratios of carom's figures to the others'.
pub fn of_claims(rows: &[Row]) -> Vec<Bar> {
    let carom = |figure: Figure| figure_of(rows, "carom", figure);
    let against = |what: &str, figure: Figure, other: Option<(&str, f64)>, limit| Bar {
        what: match other {
            Some((name, _)) => format!("{what}: carom / {name}"),
            None => format!("{what}: carom"),
        },
        figure: carom(figure).zip(other).map(|(own, (_, other))| own / other),
        limit,
    };
    let alone: Figure = |row| row.alone_ns;
    let spread: Figure = |row| row.spread_ops_s;
    let contended: Figure = |row| row.contended_ops_s;
    let wait_max: Figure = |row| row.wait_max_us;
    let one = |name, figure| figure_of(rows, name, figure).map(|value| (name, value));
    let least = peers(rows, alone).min_by(|a, b| a.1.total_cmp(&b.1));
    let most = |figure| peers(rows, figure).max_by(|a, b| a.1.total_cmp(&b.1));
    vec![
        against("alone, best peer", alone, least, Limit::AtMost(0.5)),
        against("alone", alone, one("floor", alone), Limit::AtMost(1.25)),
        against("spread, best peer", spread, most(spread), Limit::AtLeast(1.0)),
        against("contended, best peer", contended, most(contended), Limit::AtLeast(1.0)),
        against("longest wait", wait_max, one("deadpool", wait_max), Limit::AtMost(1.0)),
    ]
}

type Figure = fn(&Row) -> Result<f64, Cut>;

fn figure_of(rows: &[Row], name: &str, figure: Figure) -> Option<f64> {
    let row = rows.iter().find(|row| row.pool == name)?;
    figure(row).ok()
}

fn peers(rows: &[Row], figure: Figure) -> impl Iterator<Item = (&'static str, f64)> {
    PEERS.into_iter().filter_map(move |name| Some((name, figure_of(rows, name, figure)?)))
}
