//! A line of text whose parts have tones; what others say cannot enter it but made harmless.

use crate::output::printable;
use ratatui::text::Span;
use std::fmt::Display;

/// More than this of one text is not shown: it may be anything that others say.
const LONGEST: usize = 1000;

/// How a part of a line is meant. Nothing is told by it that the text does not tell as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Title,
    Dim,
    Good,
    Busy,
    Warn,
    Bad,
}

/// A line; made part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    parts: Vec<(Tone, String)>,
}

impl Line {
    pub(super) fn new() -> Line {
        Line::default()
    }

    /// One that begins with so many blanks.
    pub(super) fn indented(by: usize) -> Line {
        Line::new().plain(" ".repeat(by))
    }

    pub(super) fn add(mut self, tone: Tone, text: impl Display) -> Line {
        self.push(tone, text);
        self
    }

    pub(super) fn plain(self, text: impl Display) -> Line {
        self.add(Tone::Plain, text)
    }

    /// What this line says, behind it.
    pub(super) fn then(mut self, line: Line) -> Line {
        self.parts.extend(line.parts);
        self
    }

    /// Blanks up to a column; at least one, if there is anything before.
    pub(super) fn padded_to(self, column: usize) -> Line {
        let blanks = column.saturating_sub(self.width()).max(usize::from(!self.parts.is_empty()));
        self.plain(" ".repeat(blanks))
    }

    pub(super) fn push(&mut self, tone: Tone, text: impl Display) {
        let text = harmless(text.to_string());
        if !text.is_empty() {
            self.parts.push((tone, text));
        }
    }

    pub(super) fn parts(&self) -> &[(Tone, String)] {
        &self.parts
    }

    pub(super) fn text(&self) -> String {
        self.parts.iter().map(|(_, text)| &**text).collect()
    }

    /// In columns.
    pub(super) fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| width(text)).sum()
    }

    /// What fits into so many columns; where something is missing it ends with an ellipsis.
    pub(super) fn cut(mut self, columns: usize) -> Line {
        if self.width() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        for (_, text) in &mut self.parts {
            let fits = fitting(text, room).len();
            room = if fits < text.len() { 0 } else { room - width(text) };
            text.truncate(fits);
        }
        if columns > 0 {
            self.parts.push((Tone::Dim, "…".to_owned()));
        }
        self
    }
}

/// How many columns it takes. A wide character takes two, a mark on another one none.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The longest beginning that fits into so many columns.
pub(super) fn fitting(text: &str, columns: usize) -> &str {
    if text.is_ascii() {
        return &text[..columns.min(text.len())];
    }
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| width(&text[..*end]) <= columns).last();
    &text[..end.unwrap_or(0)]
}

fn harmless(text: String) -> String {
    if text.len() <= LONGEST && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text;
    }
    let mut shown = printable(&text.chars().take(LONGEST).collect::<String>());
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_columns_and_say_so() {
        let line = Line::new().plain("ab").add(Tone::Bad, "股票c");
        assert_eq!((line.width(), line.text()), (7, "ab股票c".to_owned()));
        let cut = |columns| line.clone().cut(columns).text();
        assert_eq!([cut(7), cut(6), cut(5), cut(4), cut(1), cut(0)], ["ab股票c", "ab股…", "ab股…", "ab…", "…", ""]);
        assert!((0..9).all(|columns| line.clone().cut(columns).width() <= columns));
        assert_eq!(Line::new().plain("name").padded_to(8).plain("x").text(), "name    x");
        assert_eq!(Line::new().plain("a longer name").padded_to(8).plain("x").text(), "a longer name x");
    }

    #[test]
    fn nothing_in_it_is_obeyed_by_a_terminal() {
        let line = Line::new().plain("a\u{1b}]0;title\u{7}b\n").add(Tone::Bad, "\u{9b}2J\u{202e}x");
        assert_eq!(line.text(), "a\\u{1b}]0;title\\u{7}b\\n\\u{9b}2J\\u{202e}x");
        assert_eq!(Line::new().plain("x".repeat(5000)).text().chars().count(), LONGEST + 1);
    }
}
