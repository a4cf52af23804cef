//! What came of it all, in lines for people.

use super::histogram::Row;
use super::tally::{Failures, Tally};
use crate::output::who;
use crate::terminal::cut;
use crate::units;
use carom::Backend;
use std::fmt::Write as _;
use std::time::Duration;

/// Of the spread of latencies.
pub(super) const MOST_ROWS: usize = 16;
/// Lines for backends; those with the fewest answers are counted in the last.
const MOST_BACKENDS: usize = 20;
/// No bar is longer.
const BAR: usize = 40;

/// Everything there is to tell.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) url: String,
    pub(super) method: String,
    pub(super) connections: u16,
    pub(super) rate: Option<u32>,
    /// From the first request to the end of the last.
    pub(super) elapsed: Duration,
    /// Requests that were made and had no end when all was over.
    pub(super) unfinished: u64,
    /// Requests that were due, with a rate, and that nobody was free to make.
    pub(super) not_started: u64,
    pub(super) tally: Tally,
}

/// A name, and the latency that so many of 100 000 do not exceed.
pub(super) const PERCENTILES: [(&str, u32); 4] = [("p50", 50_000), ("p90", 90_000), ("p99", 99_000), ("p99.9", 99_900)];

impl Report {
    /// All that were made.
    pub(super) fn requests(&self) -> u64 {
        self.tally.answers() + self.tally.failure_count() + self.unfinished
    }

    /// Answers a second.
    pub(super) fn per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.tally.answers() as f64 / seconds } else { 0.0 }
    }

    /// Who answered, and how often; the busiest first.
    pub(super) fn backends(&self) -> Vec<(&Backend, u64)> {
        let mut backends: Vec<_> = self.tally.backends.iter().map(|(backend, count)| (backend, *count)).collect();
        backends.sort_by_key(|(backend, count)| (u64::MAX - count, backend.socket_addr(), backend.name()));
        backends
    }

    /// The lines, none longer than so many columns where that can be had.
    pub(super) fn text(&self, width: usize) -> String {
        let tally = &self.tally;
        let mut lines = Vec::new();
        let protocols: Vec<_> = tally.protocols.keys().copied().collect();
        let over = if protocols.is_empty() { String::new() } else { format!(" over {}", protocols.join(" and ")) };
        lines.push(format!("{} {}{over}", self.method, self.url));
        let most = [self.requests(), self.not_started].into_iter().max().unwrap_or(0).to_string().len();
        let count = |name: &str, count: u64, more: &str| {
            format!("{name:<11} {count:>most$}{}{more}", if more.is_empty() { "" } else { "  " })
        };
        lines.push(count("requests", self.requests(), &format!("in {}", units::time(self.elapsed))));
        let a_second = if tally.answers() > 0 { format!("{:.1} a second", self.per_second()) } else { String::new() };
        lines.push(count("answered", tally.answers(), &a_second));
        lines.extend(tally.statuses.iter().map(|(status, times)| count(&format!("  {status}"), *times, "")));
        lines.push(count("failed", tally.failure_count(), ""));
        let failures = tally.failures.iter();
        lines.extend(failures.map(|(step, Failures { count: times, .. })| count(&format!("  {step}"), *times, "")));
        let rarely = [
            ("unfinished", self.unfinished, "had no answer when time was up"),
            ("not started", self.not_started, "were due while all were busy"),
            ("retried", tally.retried, "took more than one attempt"),
        ];
        let seldom = rarely.iter().filter(|(_, times, _)| *times > 0);
        lines.extend(seldom.map(|(name, times, what)| count(name, *times, what)));
        if tally.body_bytes > 0 {
            let a_second = tally.body_bytes as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
            let (bytes, a_second) = (units::bytes(tally.body_bytes), units::bytes(a_second as u64));
            lines.push(format!("{:<11} {bytes}, {a_second} a second", "bodies"));
        }
        for (step, Failures { example, .. }) in &tally.failures {
            lines.push(format!("{step}: {example}"));
        }
        self.latencies(&mut lines, width);
        self.who_answered(&mut lines, width);
        lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    fn latencies(&self, lines: &mut Vec<String>, width: usize) {
        let latencies = &self.tally.latencies;
        if latencies.count() == 0 {
            return;
        }
        lines.extend([String::new(), "latency".to_owned()]);
        let percentiles = PERCENTILES.map(|(name, share)| (name, latencies.percentile(share)));
        let figures = [("min", latencies.min()), ("mean", latencies.mean())].into_iter();
        let figures = figures.chain(percentiles).chain([("max", latencies.max())]);
        lines.extend(figures.map(|(name, figure)| format!("  {name:<6} {:>9}", units::time(figure))));
        lines.extend([String::new(), "spread".to_owned()]);
        let rows = latencies.rows(MOST_ROWS);
        let most = rows.iter().map(|row| row.count).max().unwrap_or(0);
        let digits = most.to_string().len();
        // Before the bar: two blanks, the end of the row, a blank, the count, a blank.
        let room = width.saturating_sub(digits + 16).min(BAR);
        lines.extend(rows.iter().map(|Row { up_to, count }| {
            let bar = "#".repeat(length(*count, most, room));
            let line = format!("  <= {:>8} {count:>digits$} {bar}", units::time(*up_to));
            line.trim_end().to_owned()
        }));
    }

    fn who_answered(&self, lines: &mut Vec<String>, width: usize) {
        let backends = self.backends();
        let Some(digits) = backends.first().map(|(_, count)| count.to_string().len()) else { return };
        let answers = self.tally.answers().max(1) as f64;
        lines.extend([String::new(), "backends".to_owned()]);
        let shown = &backends[..backends.len().min(MOST_BACKENDS)];
        for (backend, count) in shown {
            let share = *count as f64 * 100.0 / answers;
            let line = format!("  {count:>digits$} {share:>5.1} % {}", who(backend));
            lines.push(cut(&line, width).to_owned());
        }
        let others: u64 = backends[shown.len()..].iter().map(|(_, count)| count).sum();
        let others = others + self.tally.other_backends;
        if others > 0 {
            lines.push(format!("  {others:>digits$} {:>5.1} % by others", others as f64 * 100.0 / answers));
        }
    }
}

/// Of a bar. What is there is seen, however little it is.
fn length(count: u64, most: u64, room: usize) -> usize {
    let length = (u128::from(count) * room as u128 / u128::from(most.max(1))) as usize;
    if count > 0 { length.max(1).min(room) } else { 0 }
}
