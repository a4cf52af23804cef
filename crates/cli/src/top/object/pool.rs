//! A pool: its slots as a strip, by backend; who waits, and how long claims have waited.

use super::backend::{self, Standing};
use super::{
    Fact, Show, Urgency, average_wait, counters, heading, if_any, in_line, last_plan, lately, named, pair, plural,
    toned, waits,
};
use crate::top::line::{Line, Tone};
use crate::top::sight::{Sight, count, short, span};
use crate::top::strip::{self, Cell};
use carom::monitor::{Id, Pool, PoolBackend, State};

impl Show for Pool {
    fn state(&self) -> State {
        self.state
    }

    fn urgency(&self) -> Urgency {
        backend::urgency(self.backends.iter().map(Standing::from), self.dead, self.waiting)
    }

    fn facts(&self, sight: Sight<'_>) -> Vec<Fact> {
        let mut facts = Vec::new();
        if_any(&mut facts, Tone::Bad, self.dead, "dead");
        in_line(&mut facts, self.waiting, self.longest_wait_ms, sight);
        let cells: Vec<Cell> = self.backends.iter().flat_map(cells).collect();
        for (cell, count) in strip::counts(&cells) {
            if_any(&mut facts, Tone::Plain, count, cell.word);
        }
        plural(&mut facts, Tone::Plain, self.backends.len(), "backend");
        facts
    }

    fn below(&self, id: Id, sight: Sight<'_>) -> Vec<Line> {
        let groups: Vec<Vec<Cell>> = self.backends.iter().map(cells).collect();
        let waits = waits(id, sight);
        // What is beside the strip takes its room, where there is enough for both.
        let beside = waits.as_ref().map_or(0, |waits| waits.width() + 2);
        let room = sight.width.saturating_sub(6);
        let strip = if room >= beside + 20 { strip::line(&groups, room - beside) } else { strip::line(&groups, room) };
        let mut lines = match waits {
            Some(waits) if strip.width() == 0 => vec![waits],
            Some(waits) if room >= beside + 20 => vec![strip.plain("  ").then(waits)],
            Some(waits) => vec![strip, waits],
            None if strip.width() == 0 => Vec::new(),
            None => vec![strip],
        };
        lines.extend(backend::troubles(self.backends.iter().map(Standing::from), self.cause.as_deref(), sight));
        lines
    }

    fn page(&self, id: Id, sight: Sight<'_>) -> Vec<Line> {
        let slots: usize = self.backends.iter().map(|backend| backend.slots.len()).sum();
        let options = &self.options;
        let mut lines = vec![
            pair("slots", format_args!("{slots} of {} at most, {} wanted", options.maximum, self.target)),
            pair("spares", options.spares),
            pair("claim timeout", span(options.claim_timeout_ms)),
            pair("resolver", named(self.resolver, sight)),
            last_plan(self.last_plan_ms, sight),
        ];
        lines.extend(self.cause.as_ref().map(|cause| toned("because", Tone::Warn, cause)));
        lines.extend(self.check_cause.as_ref().map(|cause| toned("last failed check", Tone::Warn, cause)));
        lines.push(Line::new());
        lines.extend(lately(id, sight));
        let of = &self.counters;
        lines.push(heading(count(self.backends.len(), "backend")));
        for backend in &self.backends {
            lines.extend(page_of(backend, sight));
        }
        lines.push(Line::new());
        lines.extend(counters(
            &[("claims", of.claims), ("of these waited", of.waited), ("connects", of.connects), ("plans", of.plans)],
            &[
                ("connects failed", of.connect_failures),
                ("claims timed out", of.timeouts),
                ("claims refused", of.refused),
                ("held too long", of.overdue),
                ("checks failed", of.check_failures),
            ],
        ));
        lines.push(average_wait(of.waited_ms, of.waited));
        lines
    }

    fn words(&self) -> Vec<&str> {
        self.backends.iter().flat_map(|seen| backend::words(&seen.backend)).collect()
    }
}

fn cells(backend: &PoolBackend) -> Vec<Cell> {
    let mut cells: Vec<Cell> = backend.slots.iter().map(|slot| strip::of_slot(slot.phase)).collect();
    // One sees how many there are of each, not which came first.
    cells.sort_by_key(|cell| strip::SLOTS.iter().position(|known| known == cell));
    cells
}

fn page_of(backend: &PoolBackend, sight: Sight<'_>) -> Vec<Line> {
    let mut first = Standing::from(backend).line(sight);
    if let Some(us) = backend.typical_use_us {
        first.push(Tone::Dim, format_args!("  typical use {}", short(us as f64 / 1000.0)));
    }
    if backend.backend.priority > 0 || backend.backend.weight > 0 {
        let (priority, weight) = (backend.backend.priority, backend.backend.weight);
        first.push(Tone::Dim, format_args!("  priority {priority}, weight {weight}"));
    }
    let mut lines = vec![first];
    let cells = cells(backend);
    lines.extend(strip::lines(&cells, sight.width, 4));
    for (cell, count) in strip::counts(&cells) {
        let longest =
            backend.slots.iter().filter(|slot| strip::of_slot(slot.phase) == cell).filter_map(|slot| slot.ms).max();
        let longest = longest.map_or_else(String::new, |ms| match cell.letter {
            'W' if count == 1 => format!(", tried again {}", sight.left(ms)),
            'W' => format!(", the last one tried again {}", sight.left(ms)),
            _ => format!(", the longest for {}", sight.lasting(ms)),
        });
        lines.push(Line::indented(4).add(Tone::Dim, format_args!("{count} {}{longest}", cell.word)));
    }
    lines
}
