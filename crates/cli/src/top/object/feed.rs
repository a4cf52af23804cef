//! A feed: how full it and each of its connections are.

use super::{Fact, Show, Urgency, counters, heading, if_any, pair, plural, toned};
use crate::top::line::{Line, Tone};
use crate::top::sight::{Sight, bar, count, number};
use carom::monitor::{Feed, FeedConnection, FeedConnectionState, Id, Idle, State};

/// What is to be said of a feed without an upstream.
const OUTSIDE: &str = "ticks are what other programs publish on the bus";

impl Show for Feed {
    fn state(&self) -> State {
        self.state
    }

    fn urgency(&self) -> Urgency {
        let waits = |connection: &FeedConnection| connection.state == FeedConnectionState::Waiting;
        if self.connections.iter().any(waits) {
            Urgency::Impaired
        } else if self.live < self.topics {
            Urgency::Strained
        } else {
            Urgency::Fine
        }
    }

    fn facts(&self, _: Sight<'_>) -> Vec<Fact> {
        let mut facts = Vec::new();
        if_any(&mut facts, Tone::Warn, self.waiting, "waiting");
        if_any(&mut facts, Tone::Warn, self.topics.saturating_sub(self.live), "not live");
        plural(&mut facts, Tone::Plain, self.topics, "topic");
        if !self.outside {
            plural(&mut facts, Tone::Plain, self.connections.len(), "connection");
        }
        facts
    }

    fn below(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        if self.outside {
            return vec![Line::new().add(Tone::Dim, OUTSIDE)];
        }
        let bar = bar(self.topics, self.capacity, 20);
        let mut lines = vec![Line::new().plain(format_args!("{bar} {} of {} topics", self.topics, self.capacity))];
        let connections = self.connections.iter().map(|connection| line_of(connection, self, sight));
        lines.extend(sight.listed(connections.collect(), 0));
        lines.extend(self.cause.as_ref().map(|cause| Line::new().add(Tone::Warn, "because: ").plain(cause)));
        lines
    }

    fn page(&self, _: Id, sight: Sight<'_>) -> Vec<Line> {
        if self.outside {
            let topics = [pair("topics", self.topics), pair("most there were", self.peak_topics)];
            return [Line::new().add(Tone::Dim, OUTSIDE)].into_iter().chain(topics).collect();
        }
        let mut lines = vec![
            pair(
                "topics",
                format_args!("{} {} of {}", bar(self.topics, self.capacity, 20), self.topics, self.capacity),
            ),
            pair("most there were", self.peak_topics),
            pair("on a connection", self.max_topics_per_connection),
            pair("connections", format_args!("{} of {} at most", self.connections.len(), self.max_connections)),
        ];
        lines.extend(self.cause.as_ref().map(|cause| toned("because", Tone::Warn, cause)));
        lines.extend([Line::new(), heading(count(self.connections.len(), "connection"))]);
        lines
            .extend(self.connections.iter().map(|connection| Line::indented(2).then(line_of(connection, self, sight))));
        lines.push(Line::new());
        let of = &self.counters;
        let bad = [("connects failed", of.connect_failures), ("lost", of.lost)];
        lines.extend(counters(&[("ticks", of.ticks), ("connects", of.connects)], &bad));
        if !self.passed_over.is_empty() {
            lines.extend([Line::new(), heading("Said by the upstream, and no ticks")]);
            lines.extend(self.passed_over.iter().map(|(what, count)| pair(what, number(*count))));
        }
        lines
    }
}

/// `#1 up [####......] 400 of 1000, heard 0.2 s ago`.
fn line_of(connection: &FeedConnection, of: &Feed, sight: Sight<'_>) -> Line {
    let (tone, state) = match connection.state {
        FeedConnectionState::Opening => (Tone::Warn, "opening"),
        FeedConnectionState::Up => (Tone::Good, "up"),
        FeedConnectionState::Waiting => (Tone::Bad, "WAITING"),
        FeedConnectionState::Closing => (Tone::Dim, "closing"),
        _ => (Tone::Plain, "other"),
    };
    let bar = bar(connection.topics, of.max_topics_per_connection, 10);
    let mut line = Line::new().plain(format_args!("#{} ", connection.index)).add(tone, format_args!("{state:<7}"));
    line.push(Tone::Plain, format_args!(" {bar} {} of {}", connection.topics, of.max_topics_per_connection));
    if connection.unwritten > 0 {
        line.push(Tone::Busy, format_args!(", {} to be written", connection.unwritten));
    }
    if let Some(ms) = connection.heard_ms {
        line.push(Tone::Plain, format_args!(", heard {} ago", sight.lasting(ms)));
    }
    if let Some(ms) = connection.next_attempt_ms {
        line.push(Tone::Plain, format_args!(", opened again {}", sight.left(ms)));
    }
    match connection.idle {
        Some(Idle::Marked) => line.add(Tone::Dim, ", marked as idle"),
        Some(Idle::BeforeRelease) => line.add(Tone::Warn, ", about to be released"),
        Some(Idle::Released) => line.add(Tone::Dim, ", released"),
        Some(_) | None => line,
    }
}
