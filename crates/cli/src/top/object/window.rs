//! A requester: its windows, how full each is, and for how long it takes requests.

use super::{Fact, Show, Urgency, counters, heading, if_any, pair, plural};
use crate::top::line::{Line, Tone};
use crate::top::sight::{Sight, bar, count, span};
use carom::monitor::{Id, OpenWindow, State, Window};

impl Show for Window {
    fn state(&self) -> State {
        self.state
    }

    fn urgency(&self) -> Urgency {
        if self.in_line > 0 { Urgency::Strained } else { Urgency::Fine }
    }

    fn facts(&self, _: Sight<'_>) -> Vec<Fact> {
        let mut facts = Vec::new();
        if_any(&mut facts, Tone::Warn, self.in_line, "in line");
        plural(&mut facts, Tone::Plain, self.nodes.len(), "node");
        if_any(&mut facts, Tone::Warn, self.unresponsive.len(), "unresponsive");
        if_any(&mut facts, Tone::Warn, self.unhealthy.len(), "unhealthy");
        plural(&mut facts, Tone::Plain, self.windows.len(), "window");
        if_any(&mut facts, Tone::Busy, self.asking, "asking");
        facts
    }

    fn below(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        let windows = self.windows.iter().map(|window| line_of(window, self.options.request_limit, sight));
        sight.listed(windows.collect(), 0)
    }

    fn page(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        let options = &self.options;
        let most = options.max_windows.map_or_else(|| "-".to_owned(), |most| most.to_string());
        let mut lines = vec![
            pair(
                "a window takes",
                format_args!("{} requests, for {}", options.request_limit, span(options.active_for_ms)),
            ),
            pair("at a time at most", most),
            Line::new(),
            heading(count(self.windows.len(), "window")),
        ];
        for window in &self.windows {
            lines.push(Line::indented(2).then(line_of(window, options.request_limit, sight)));
            lines.extend(window.sockets.iter().map(|socket| {
                let waiting = if socket.waiting > 0 { Tone::Busy } else { Tone::Dim };
                Line::indented(6)
                    .plain(&socket.node)
                    .plain("  ")
                    .add(waiting, format_args!("{} waiting", socket.waiting))
            }));
        }
        lines.extend([Line::new(), heading(count(self.nodes.len(), "node"))]);
        lines.extend(self.nodes.iter().map(|node| Line::indented(2).plain(node)));
        lines.push(Line::new());
        let of = &self.counters;
        let good =
            [("requests", of.requests), ("answered", of.answered), ("windows", of.windows), ("sockets", of.sockets)];
        lines.extend(counters(&good, &[("failed", of.failed)]));
        lines
    }

    fn words(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| &**node).collect()
    }
}

/// `#12 [####......] 4 of 10 requests, 2 asking, takes more for 3 s, 5 sockets`.
fn line_of(window: &OpenWindow, limit: usize, sight: Sight<'_>) -> Line {
    let line = Line::new().plain(format_args!("#{} {} ", window.id, bar(window.started, limit, 10)));
    let line = line.plain(format_args!("{} of {limit} requests, {} asking, ", window.started, window.asking));
    let line = match window.active_ms {
        Some(ms) if ms > sight.since_ms => {
            line.add(Tone::Good, format_args!("takes more for {}", span(ms - sight.since_ms)))
        }
        Some(_) | None => line.add(Tone::Dim, "takes no more"),
    };
    line.plain(format_args!(", {}, open for {}", count(window.sockets.len(), "socket"), sight.lasting(window.age_ms)))
}
