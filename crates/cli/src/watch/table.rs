//! Symbols as a table on a terminal that is drawn over and over, a few times a second.

use super::message::Tick;
use super::quote::{Quote, percentage, signed};
use super::request::Request;
use crate::args::ModeName;
use crate::terminal::{self, cut};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const DRAW_INTERVAL: Duration = Duration::from_millis(100);
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// The table.
pub(super) struct Table {
    title: String,
    /// Whose feed it is, or that there is none.
    note: String,
    /// What was told and is not drawn yet.
    news: Vec<String>,
    mode: ModeName,
    rows: Vec<Row>,
    by_name: HashMap<String, usize>,
    colours: bool,
    /// Lines on the terminal that are drawn over; none before the first time.
    drawn: usize,
    draw_at: Instant,
    /// Whether there is anything to draw but rates.
    changed: bool,
    rated_at: Instant,
}

struct Row {
    name: String,
    quote: Quote,
    first: Option<f64>,
    moved: Ordering,
    ticks: u64,
    /// In the latest second.
    rate: f64,
}

impl Table {
    pub(super) fn new(request: &Request) -> Table {
        let names = request.symbols.iter().map(|(exchange, symbol)| format!("{exchange}:{symbol}"));
        let rows: Vec<_> = names.map(Row::new).collect();
        let by_name = rows.iter().enumerate().map(|(at, row)| (row.name.clone(), at)).collect();
        let now = Instant::now();
        Table {
            title: request.address.to_string(),
            note: "connecting".to_owned(),
            news: Vec::new(),
            mode: request.mode,
            rows,
            by_name,
            colours: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            drawn: 0,
            draw_at: now,
            changed: false,
            rated_at: now,
        }
    }

    /// What stands beside the title from now on.
    pub(super) fn note(&mut self, note: String) {
        self.note = note;
        self.hurry();
    }

    /// What is told stays above the table.
    pub(super) fn tell(&mut self, news: String) {
        self.news.push(news);
        self.hurry();
    }

    pub(super) fn update(&mut self, tick: &Tick) {
        let Some(row) = self.by_name.get(&tick.name).map(|at| &mut self.rows[*at]) else { return };
        let quote = Quote::of(tick, row.first);
        row.first = row.first.or(quote.value);
        row.moved = match (row.quote.value, quote.value) {
            (Some(before), Some(now)) => now.partial_cmp(&before).unwrap_or(Ordering::Equal),
            _ => Ordering::Equal,
        };
        row.ticks += 1;
        row.quote = quote;
        self.changed = true;
    }

    pub(super) async fn due(&mut self) {
        sleep_until(if self.changed { self.draw_at } else { self.rated_at + RATE_INTERVAL }).await;
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.changed && self.draw_at <= Instant::now()
    }

    /// Whether any of it was drawn or should have been.
    pub(super) fn is_begun(&self) -> bool {
        self.changed || self.drawn > 0
    }

    /// What a terminal has to be told for the table to be on it. The cursor stays in sight, below: whatever ends or stops the
    /// program, the terminal is as it was.
    pub(super) fn draw(&mut self) -> String {
        let now = Instant::now();
        (self.draw_at, self.changed) = (now + DRAW_INTERVAL, false);
        let since = now - self.rated_at;
        if since >= RATE_INTERVAL {
            for row in &mut self.rows {
                (row.rate, row.ticks) = (row.ticks as f64 / since.as_secs_f64(), 0);
            }
            self.rated_at = now;
        }
        let (width, height) = terminal::size();
        let mut text = String::new();
        if self.drawn > 0 {
            let _ = write!(text, "\x1b[{}A", self.drawn);
        }
        text.push('\r');
        if !self.news.is_empty() {
            // They may be longer than the line that they are written over.
            text += "\x1b[J";
        }
        for news in self.news.drain(..) {
            let _ = writeln!(text, "{news}");
        }
        let lines = lines(&self.title, &self.note, self.mode, &self.rows, height);
        for (line, moved) in &lines {
            let (begin, end) = match (self.colours, moved) {
                (true, Ordering::Greater) => ("\x1b[32m", "\x1b[0m"),
                (true, Ordering::Less) => ("\x1b[31m", "\x1b[0m"),
                (false, _) | (true, Ordering::Equal) => ("", ""),
            };
            let _ = writeln!(text, "{begin}{}{end}\x1b[K", cut(line, width));
        }
        // A terminal that was made smaller may have more of it below.
        text += "\x1b[J";
        self.drawn = lines.len();
        text
    }

    /// This is not to wait for ticks.
    fn hurry(&mut self) {
        (self.changed, self.draw_at) = (true, Instant::now());
    }
}

impl Row {
    fn new(name: String) -> Row {
        Row { name, quote: Quote::default(), first: None, moved: Ordering::Equal, ticks: 0, rate: 0.0 }
    }
}

/// All lines, each with how its price moved; what does not fit is counted in the last one.
fn lines(title: &str, note: &str, mode: ModeName, rows: &[Row], height: usize) -> Vec<(String, Ordering)> {
    let widest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(8);
    // The title, the head, and the line that the cursor is on.
    let room = height.saturating_sub(3).max(1);
    let shown = if rows.len() > room { room.saturating_sub(1).max(1) } else { rows.len() };
    let extra = |volume: &str, bid: &str, ask: &str| match mode {
        ModeName::Ltp => String::new(),
        ModeName::Quote => format!(" {volume:>12}"),
        ModeName::Depth => format!(" {bid:>16} {ask:>16}"),
    };
    let mut lines = vec![
        (format!("{title}  {note}"), Ordering::Equal),
        (
            format!(
                "{:<widest$} {:>10} {:>9} {:>8} {:>12} {:>7}{}",
                "SYMBOL",
                "PRICE",
                "CHANGE",
                "%",
                "TIME (UTC)",
                "TICKS/S",
                extra("VOLUME", "BID", "ASK")
            ),
            Ordering::Equal,
        ),
    ];
    for row in &rows[..shown] {
        let quote = &row.quote;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        // The day is known to whoever looks.
        let time = quote.time.map(|time| time.to_string()).and_then(|time| Some(time.get(11..23)?.to_owned()));
        let extra = extra(&or_dash(quote.volume.clone()), &or_dash(quote.bid.clone()), &or_dash(quote.ask.clone()));
        let line = format!(
            "{:<widest$} {:>10} {:>9} {:>8} {:>12} {:>7.1}{extra}",
            row.name,
            or_dash(quote.price.clone()),
            or_dash(signed(quote.change)),
            or_dash(percentage(quote.percent)),
            or_dash(time),
            row.rate
        );
        lines.push((line, row.moved));
    }
    if shown < rows.len() {
        lines.push((format!("and {} more", rows.len() - shown), Ordering::Equal));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        (0..count).map(|n| Row::new(format!("NSE:S{n}"))).collect()
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let count = |rows: &[Row], height| lines("t", "n", ModeName::Ltp, rows, height).len();
        assert_eq!((count(&rows(5), 24), count(&rows(21), 24)), (7, 23));
        let cut = lines("t", "n", ModeName::Ltp, &rows(30), 24);
        assert_eq!((cut.len(), &*cut.last().unwrap().0), (23, "and 10 more"));
        for height in 0..6 {
            assert!(count(&rows(30), height) <= height.max(4), "{height}");
        }
    }

    #[test]
    fn columns_line_up() {
        let mut rows = rows(2);
        rows[0].quote.price = Some("812.05".to_owned());
        rows[0].quote.change = Some(1.2);
        for mode in [ModeName::Ltp, ModeName::Quote, ModeName::Depth] {
            let lines = lines("t", "n", mode, &rows, 24);
            let lengths: Vec<_> = lines[1..].iter().map(|(line, _)| line.len()).collect();
            assert_eq!(lengths, [lengths[0]; 3], "{lines:?}");
        }
    }
}
