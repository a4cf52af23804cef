//! A picture on a terminal.

use super::line::{Line, Tone};
use super::picture::Picture;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Drawn, Span};
use ratatui::widgets::Widget;

/// Whether colours are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Some,
    None,
}

impl Colours {
    /// As `NO_COLOR` says.
    pub(super) fn wanted() -> Colours {
        let none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if none { Colours::None } else { Colours::Some }
    }

    fn style(self, tone: Tone) -> Style {
        let style = match tone {
            Tone::Title | Tone::Bad => Style::new().add_modifier(Modifier::BOLD),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Plain | Tone::Good | Tone::Busy | Tone::Warn => Style::new(),
        };
        match (self, tone) {
            (Colours::None, _) | (Colours::Some, Tone::Plain | Tone::Title | Tone::Dim) => style,
            (Colours::Some, Tone::Good) => style.fg(Color::Green),
            (Colours::Some, Tone::Busy) => style.fg(Color::Cyan),
            (Colours::Some, Tone::Warn) => style.fg(Color::Yellow),
            (Colours::Some, Tone::Bad) => style.fg(Color::Red),
        }
    }
}

/// Draws it over all of an area.
pub(super) fn draw(picture: &Picture, colours: Colours, area: Rect, buffer: &mut Buffer) {
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let header = picture.header.iter().enumerate().map(|(at, line)| (line, at == 0));
    let body = picture.body.iter().map(|row| (&row.line, row.selected));
    for (top, (line, stands_out)) in (area.y..area.bottom()).zip(header.chain(body)) {
        let style = if stands_out { reversed } else { Style::new() };
        row(line, colours, style, Rect { y: top, height: 1, ..area }, buffer);
    }
    if let Some(footer) = &picture.footer
        && area.height > 0
    {
        row(footer, colours, Style::new(), Rect { y: area.bottom() - 1, height: 1, ..area }, buffer);
    }
}

fn row(line: &Line, colours: Colours, style: Style, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() || !buffer.area.contains(Position::new(area.x, area.y)) {
        return;
    }
    buffer.set_style(area, style);
    let parts = line.parts().iter().map(|(tone, text)| Span::styled(&**text, colours.style(*tone)));
    Drawn::from(parts.collect::<Vec<_>>()).render(area, buffer);
}
