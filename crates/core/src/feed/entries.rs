//! Entries: one for each instrument that is wanted, or still carried by some connection.

use super::lines::Line;
use super::told::{Pending, WaiterId};
use super::topic::{Instrument, Level};
use super::wants::Wants;
use super::{Due, Machine};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Names an entry; later ones are greater, and none is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId(pub(super) u64);

/// An instrument, and where it is at home.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) instrument: Instrument,
    pub(super) wants: Wants,
    pub(super) home: Home,
    pub(super) refused: Option<Refused>,
    /// Why the upstream does not carry it for now, though it has accepted it.
    pub(super) withheld: Option<Pending>,
    /// Who waits, by how much of it.
    pub(super) waiters: BTreeSet<(Level, WaiterId)>,
    /// When something of it has lingered, as it is on the agenda.
    linger_at: Option<Instant>,
    /// Until when it only lingers, as it is noted among those that do.
    lingers_until: Option<Instant>,
    /// Whether it is counted among those that are carried as they are wanted.
    live: bool,
    pub(super) last_tick: Option<Instant>,
}

/// Where an instrument is at home.
///
/// ```text
///           somebody wants it           room elsewhere
///  Nowhere ------------------> At ------------------------> Moving
///     ^                        ^ |                            | |
///     |                        | +---- nobody wants it ----+  | |
///     |                        +-- carried there for a ----|--+ |
///     |                            while, or the move has  |    |
///     |                            come to nothing         |    |
///     +----------------------------------------------------+----+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// Nobody wants it; some connection may still carry it.
    Nowhere,
    /// On this line.
    At(usize),
    /// On its way, and carried where it was until it is there. The new line has accepted it when `until` is known: it is
    /// carried twice until then.
    Moving { to: usize, from: usize, until: Option<Instant> },
}

impl Home {
    /// The line where it should be carried.
    pub(super) fn line(self) -> Option<usize> {
        match self {
            Home::Nowhere => None,
            Home::At(line) | Home::Moving { to: line, .. } => Some(line),
        }
    }

    /// The line whose ticks count.
    pub(super) fn source(self) -> Option<usize> {
        match self {
            Home::Nowhere => None,
            Home::At(line) | Home::Moving { from: line, .. } => Some(line),
        }
    }
}

/// What the upstream did not want of it, and when it may be asked again.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) level: Level,
    /// Whether more was carried, and less was not wanted instead.
    pub(super) downgrade: bool,
    pub(super) reason: Arc<str>,
    /// How often it was, each time after the delay.
    pub(super) times: u32,
    /// `None` when it is being tried again.
    pub(super) until: Option<Instant>,
}

/// Somebody who waits to hear of a topic.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) entry: EntryId,
    pub(super) level: Level,
    pub(super) already: bool,
    pub(super) deadline: Instant,
}

impl Entry {
    pub(super) fn new(instrument: Instrument) -> Entry {
        Entry {
            instrument,
            wants: Wants::default(),
            home: Home::Nowhere,
            refused: None,
            withheld: None,
            waiters: BTreeSet::new(),
            linger_at: None,
            lingers_until: None,
            live: false,
            last_tick: None,
        }
    }

    /// What its home is to carry of it, when it carries `held` so far: the most that is wanted and not refused.
    pub(super) fn target(&self, held: Option<Level>) -> Option<Level> {
        match &self.refused {
            // Too much is carried, and nobody gets less than it wants.
            Some(Refused { level, downgrade: true, until: Some(_), .. }) if held >= Some(*level) => held,
            Some(Refused { level, downgrade: false, until: Some(_), .. }) => self.wants.highest_below(*level).or(held),
            Some(Refused { .. }) | None => self.wants.highest(),
        }
    }
}

impl Entry {
    /// Those who wait for no more than this.
    pub(super) fn waiters_up_to(&self, level: Level) -> Vec<WaiterId> {
        self.waiters.range(..=(level, WaiterId(u64::MAX))).map(|(_, waiter)| *waiter).collect()
    }

    /// Those who wait for just this.
    pub(super) fn waiters_at(&self, level: Level) -> Vec<WaiterId> {
        let just = (level, WaiterId(0))..=(level, WaiterId(u64::MAX));
        self.waiters.range(just).map(|(_, waiter)| *waiter).collect()
    }
}

impl Machine {
    pub(super) fn entry_of(&mut self, instrument: &Instrument) -> EntryId {
        if let Some(id) = self.ids.get(instrument) {
            return *id;
        }
        let id = EntryId(self.next_entry);
        self.next_entry += 1;
        self.ids.insert(instrument.clone(), id);
        self.entries.insert(id, Entry::new(instrument.clone()));
        id
    }

    /// The one place where an entry's home changes.
    pub(super) fn rehome(&mut self, now: Instant, id: EntryId, home: Home) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let before = std::mem::replace(&mut entry.home, home);
        if let Some(line) = before.line() {
            self.lines[line].homes.remove(&id);
            self.lines[line].used(now);
        }
        if let Home::Moving { from, until, .. } = before {
            if let Some(until) = until {
                self.agenda.remove(&(until, Due::Arrival(id)));
            }
            self.lines[from].departing.remove(&id);
            self.lines[from].used(now);
        }
        if let Some(line) = home.line() {
            self.lines[line].homes.insert(id);
            self.lines[line].used(now);
        }
        if let Home::Moving { from, until, .. } = home {
            if let Some(until) = until {
                self.agenda.insert((until, Due::Arrival(id)));
            }
            self.lines[from].departing.insert(id);
        }
    }

    /// Puts an entry in order after anything about it has changed: what is carried of it and what should be is compared, and
    /// whoever waits is told.
    pub(super) fn settle(&mut self, now: Instant, id: EntryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.refused.as_ref().is_some_and(|refused| !entry.wants.contains(refused.level)) {
            self.forget_refusal(id);
        }
        let Some(entry) = self.entries.get(&id) else { return };
        if entry.wants.is_empty() {
            self.rehome(now, id, Home::Nowhere);
        } else if let Home::Moving { to, from, until: None } = entry.home
            && self.lines[to].carries(id).is_some()
        {
            let overlap = Some(self.options.overlap).filter(|overlap| !overlap.is_zero());
            let until = overlap.map(|overlap| now + overlap);
            self.rehome(now, id, if until.is_some() { Home::Moving { to, from, until } } else { Home::At(to) });
        }
        for line in 0..self.lines.len() {
            self.compare(line, id);
        }
        self.answer(id);
        self.note_lingering(id);
        self.note_live(id);
        let Some(entry) = self.entries.get(&id) else { return };
        if entry.wants.is_empty() && !self.lines.iter().any(|line| line.has_stream(id)) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: EntryId) {
        self.forget_refusal(id);
        self.withhold(id, None);
        let Some(entry) = self.entries.remove(&id) else { return };
        if let Some(at) = entry.linger_at {
            self.agenda.remove(&(at, Due::Linger(id)));
        }
        self.ids.remove(&entry.instrument);
    }

    /// Keeps it among those that only linger for as long as it does.
    pub(super) fn note_lingering(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let until = entry.wants.only_lingers_until();
        if entry.lingers_until != until {
            if let Some(before) = std::mem::replace(&mut entry.lingers_until, until) {
                self.lingering.remove(&(before, id));
            }
            self.lingering.extend(until.map(|until| (until, id)));
        }
    }

    fn note_live(&mut self, id: EntryId) {
        let live = self.entries.get(&id).is_some_and(|entry| self.is_live(id, entry));
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match (std::mem::replace(&mut entry.live, live), live) {
            (false, true) => self.live += 1,
            (true, false) => self.live -= 1,
            (false, false) | (true, true) => {}
        }
    }

    /// Forgets one that only lingers, the first to go, if its home will do. Whether there was one.
    pub(super) fn expire_one(&mut self, now: Instant, suits: impl Fn(&Line) -> bool) -> bool {
        let at = |id: &EntryId| self.entries.get(id).and_then(|entry| entry.home.line());
        let suits = |(_, id): &&(Instant, EntryId)| at(id).is_some_and(|line| suits(&self.lines[line]));
        let Some((_, id)) = self.lingering.iter().find(suits).copied() else { return false };
        self.expire(now, id);
        true
    }

    /// Forgets what only lingers of it.
    pub(super) fn expire(&mut self, now: Instant, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.wants.expire_all();
        }
        self.settle(now, id);
    }

    /// Sees to it that what lingers is looked at by then.
    pub(super) fn linger(&mut self, id: EntryId, until: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        // What lingers longer is found when the earlier one is looked at.
        if entry.linger_at.is_none() {
            entry.linger_at = Some(until);
            self.agenda.insert((until, Due::Linger(id)));
        }
    }

    pub(super) fn lingered(&mut self, now: Instant, id: EntryId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.linger_at = None;
        entry.wants.expire(now);
        if let Some(until) = entry.wants.lingers_until() {
            self.linger(id, until);
        }
        self.settle(now, id);
    }

    /// Something has been carried at its new home for long enough: the old one lets go.
    pub(super) fn arrived(&mut self, now: Instant, id: EntryId) {
        if let Some(Home::Moving { to, until: Some(_), .. }) = self.entries.get(&id).map(|entry| entry.home) {
            self.rehome(now, id, Home::At(to));
            self.settle(now, id);
        }
    }

    pub(super) fn retry(&mut self, now: Instant, id: EntryId) {
        if let Some(refused) = self.entries.get_mut(&id).and_then(|entry| entry.refused.as_mut()) {
            refused.until = None;
            self.settle(now, id);
        }
    }

    /// What was refused is asked again before its time, so that does not count; it is known all the same.
    pub(super) fn ask_again(&mut self, id: EntryId) {
        let Some(refused) = self.entries.get_mut(&id).and_then(|entry| entry.refused.as_mut()) else { return };
        if let Some(until) = refused.until.take() {
            refused.times -= 1;
            self.agenda.remove(&(until, Due::Retry(id)));
        }
    }

    /// What was refused may be asked again at once, and as if it had never been.
    pub(super) fn forget_refusal(&mut self, id: EntryId) {
        let refused = self.entries.get_mut(&id).and_then(|entry| entry.refused.take());
        if let Some(until) = refused.and_then(|refused| refused.until) {
            self.agenda.remove(&(until, Due::Retry(id)));
        }
    }
}
