//! A set: its connections as a strip, with how far each is on its way out for want of use.

use super::backend::{self, Standing};
use super::{
    Fact, Show, Urgency, average_wait, counters, heading, if_any, in_line, last_plan, lately, named, pair, plural,
    toned, waits,
};
use crate::top::line::{Line, Tone};
use crate::top::sight::{Sight, count, span};
use crate::top::strip::{self, Cell};
use carom::monitor::{Id, Set, SetBackend, SetConnection, State};

impl Show for Set {
    fn state(&self) -> State {
        self.state
    }

    fn urgency(&self) -> Urgency {
        backend::urgency(self.backends.iter().map(Standing::from), self.dead, self.waiting)
    }

    fn facts(&self, sight: Sight<'_>) -> Vec<Fact> {
        let mut facts = Vec::new();
        if_any(&mut facts, Tone::Bad, self.dead, "dead");
        in_line(&mut facts, self.waiting, None, sight);
        plural(&mut facts, Tone::Plain, self.leases, "lease");
        let cells: Vec<Cell> = self.backends.iter().flat_map(cells).collect();
        for (cell, count) in strip::counts(&cells) {
            if_any(&mut facts, Tone::Plain, count, cell.word);
        }
        plural(&mut facts, Tone::Plain, self.backends.len(), "backend");
        facts
    }

    fn below(&self, id: Id, sight: Sight<'_>) -> Vec<Line> {
        let groups: Vec<Vec<Cell>> = self.backends.iter().map(cells).collect();
        let strip = strip::line(&groups, sight.width.saturating_sub(6));
        let mut lines: Vec<Line> = (strip.width() > 0).then_some(strip).into_iter().collect();
        lines.extend(waits(id, sight));
        lines.extend(backend::troubles(self.backends.iter().map(Standing::from), self.cause.as_deref(), sight));
        lines
    }

    fn page(&self, id: Id, sight: Sight<'_>) -> Vec<Line> {
        let options = &self.options;
        let or_dash = |value: Option<usize>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let mut lines = vec![
            pair("per backend", options.per_backend),
            pair("kept", or_dash(options.target)),
            pair("at most", or_dash(options.maximum)),
            pair("released after", options.max_idle_ms.map_or_else(|| "-".to_owned(), span)),
            pair("resolver", named(self.resolver, sight)),
            last_plan(self.last_plan_ms, sight),
        ];
        lines.extend(self.cause.as_ref().map(|cause| toned("because", Tone::Warn, cause)));
        lines.push(Line::new());
        lines.extend(lately(id, sight));
        lines.push(heading(count(self.backends.len(), "backend")));
        for backend in &self.backends {
            lines.push(Standing::from(backend).line(sight));
            lines.extend(backend.connections.iter().map(|connection| line_of(connection, sight)));
            if backend.dialling > 0 {
                lines.push(Line::indented(4).add(Tone::Warn, format_args!("C {} dialling", backend.dialling)));
            }
        }
        lines.push(Line::new());
        let of = &self.counters;
        lines.extend(counters(
            &[("leases", of.leases), ("of these waited", of.waited), ("dials", of.connects), ("released", of.released)],
            &[("dials failed", of.connect_failures), ("leases timed out", of.timeouts), ("leases refused", of.refused)],
        ));
        lines.push(average_wait(of.waited_ms, of.waited));
        lines
    }

    fn words(&self) -> Vec<&str> {
        self.backends.iter().flat_map(|seen| backend::words(&seen.backend)).collect()
    }
}

fn cells(backend: &SetBackend) -> Vec<Cell> {
    let dials = std::iter::repeat_n(strip::of_dial(), backend.dialling.min(1000));
    backend.connections.iter().map(strip::of_connection).chain(dials).collect()
}

fn line_of(connection: &SetConnection, sight: Sight<'_>) -> Line {
    let cell = strip::of_connection(connection);
    let line = Line::indented(4).add(cell.tone, cell.letter).plain(format_args!(
        " #{} {}, {}, up for {}",
        connection.place,
        cell.word,
        count(connection.leases, "lease"),
        sight.lasting(connection.age_ms)
    ));
    let line = match connection.idle_ms {
        Some(ms) => line.plain(format_args!(", unused for {}", sight.lasting(ms))),
        None => line,
    };
    let line = if connection.kept { line.plain(", kept") } else { line };
    connection.roles.iter().fold(line, |line, (role, count)| line.plain(format_args!(", {count} as {role}")))
}
