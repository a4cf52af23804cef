//! What everything is shown with: the view, how long ago it was taken, and how much room there is. Times and figures as people read them.

use super::line::{Line, Tone};
use crate::admin::view::{History, View};
use crate::units;
use carom::monitor::{Id, Seen};
use std::time::Duration;

/// How one looks at a view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight<'a> {
    pub(super) view: &'a View,
    /// Since it came, in milliseconds: what was to happen soon happens sooner by that.
    pub(super) since_ms: u64,
    pub(super) width: usize,
    /// Of things of which there may be many, so many are listed.
    pub(super) most: usize,
    /// What was said just above, which need not be said again.
    pub(super) said: Option<&'a str>,
}

impl<'a> Sight<'a> {
    pub(super) fn object(self, id: Id) -> Option<&'a Seen> {
        self.view.monitor.objects.iter().find(|seen| seen.id == id)
    }

    pub(super) fn history(self, id: Id) -> Option<&'a History> {
        self.view.history.get(&id)
    }

    /// Whether that was said just above.
    pub(super) fn has_said(self, text: &str) -> bool {
        self.said.is_some_and(|said| said.contains(text))
    }

    /// How long something will yet take that was to take so long.
    pub(super) fn left(self, ms: u64) -> String {
        match ms.saturating_sub(self.since_ms) {
            0 => "now".to_owned(),
            left => format!("in {}", span(left)),
        }
    }

    /// For how long something goes on that went on for so long.
    pub(super) fn lasting(self, ms: u64) -> String {
        span(ms.saturating_add(self.since_ms))
    }

    /// The lines of those that are listed, and how many more there are.
    pub(super) fn listed(self, lines: Vec<Line>, indent: usize) -> Vec<Line> {
        let more = lines.len().saturating_sub(self.most);
        // A line that says that there is one more could have been that one.
        if more < 2 {
            return lines;
        }
        let mut lines = lines;
        lines.truncate(self.most);
        lines.push(Line::indented(indent).add(Tone::Dim, format_args!("and {more} more")));
        lines
    }
}

/// `0.4 s`, `12 s`, `2 m 05 s`, `3 h 02 m`, `5 d 03 h`.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match seconds {
        _ if ms <= 900 => format!("0.{} s", ms.div_ceil(100)),
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Milliseconds, of which there may be few.
pub(super) fn short(ms: f64) -> String {
    units::time(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default())
}

/// With a mark between thousands: `1 234 567`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 client`, `2 clients`.
pub(super) fn count(of: usize, what: &str) -> String {
    let s = if of == 1 { "" } else { "s" };
    format!("{} {what}{s}", number(of as u64))
}

/// How full something is: `[####......]`.
pub(super) fn bar(have: usize, of: usize, width: usize) -> String {
    // Where there is a little, or a little room, one can see it.
    let cells = match (have, of) {
        (0, _) => 0,
        (have, of) if have >= of => width,
        (have, of) => (have * width / of).clamp(1, width.saturating_sub(1).max(1)),
    };
    format!("[{:.<width$}]", "#".repeat(cells))
}

/// The latest values as columns of eight heights, the highest as high as there is; a blank where there is none.
pub(super) fn spark(values: &[Option<f32>], width: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let latest = &values[values.len().saturating_sub(width)..];
    let highest = highest(latest).unwrap_or_default();
    let height = |value: &Option<f32>| {
        let Some(value) = value else { return ' ' };
        let share = if highest > 0.0 && value.is_finite() { (value / highest).clamp(0.0, 1.0) } else { 0.0 };
        // What is more than nothing is more than the lowest.
        let least = f32::from(u8::from(share > 0.0));
        HEIGHTS[(share * 7.0).max(least) as usize]
    };
    latest.iter().map(height).collect()
}

/// The highest of them, if there are any.
pub(super) fn highest(values: &[Option<f32>]) -> Option<f32> {
    values.iter().flatten().copied().filter(|value| value.is_finite()).reduce(f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_exact_as_one_needs_them() {
        let spans = [0, 1, 400, 900, 901, 1001, 59_000, 59_001, 3_599_000, 3_600_000, 90_000_000].map(span);
        let texts =
            ["0.0 s", "0.1 s", "0.4 s", "0.9 s", "1 s", "2 s", "59 s", "1 m 00 s", "59 m 59 s", "1 h 00 m", "1 d 01 h"];
        assert_eq!(spans, texts);
        assert_eq!(
            [short(0.087), short(12.34), short(f64::NAN), short(-1.0)],
            ["0.087 ms", "12.3 ms", "0.000 ms", "0.000 ms"]
        );
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!([number(7), number(1234), number(1_234_567)], ["7", "1 234", "1 234 567"]);
        assert_eq!([count(1, "client"), count(1000, "client")], ["1 client", "1 000 clients"]);
    }

    #[test]
    fn bars_show_a_little_and_a_little_room() {
        assert_eq!(
            [bar(0, 10, 4), bar(1, 1000, 4), bar(999, 1000, 4), bar(10, 10, 4)],
            ["[....]", "[#...]", "[###.]", "[####]"]
        );
        assert_eq!([bar(5, 0, 4), bar(0, 0, 4), bar(1, 2, 1), bar(1, 2, 0)], ["[####]", "[....]", "[#]", "[#]"]);
    }

    #[test]
    fn sparks_are_as_high_as_the_highest() {
        assert_eq!(spark(&[0.0, 0.01, 4.0, 8.0].map(Some), 10), "▁▂▄█");
        assert_eq!(spark(&[8.0, 1.0, 1.0].map(Some), 2), "██");
        let odd = [f32::NAN, f32::INFINITY, -1.0].map(Some);
        assert_eq!([spark(&[], 5), spark(&[Some(0.0)], 5), spark(&odd, 5)], ["", "▁", "▁▁▁"]);
    }

    #[test]
    fn where_there_is_no_value_there_is_a_gap() {
        assert_eq!(spark(&[Some(8.0), None, None, Some(1.0)], 10), "█  ▂");
        assert_eq!(spark(&[None, None], 10), "  ");
        assert_eq!((highest(&[None, Some(2.0), Some(f32::NAN)]), highest(&[None])), (Some(2.0), None));
    }
}
