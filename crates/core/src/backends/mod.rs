//! The backends of a pool or a set: who they are, how healthy they are, and in which order they are preferred.
//!
//! A machine keeps its own part of each backend, such as its slots, as the `T` of a [`Record`]. It reports what happened to a
//! backend here, and asks here which backends are in rotation. A backend is *known* while the resolver names it. A set also
//! keeps backends that are not known: somebody asked for one by name.

mod checks;
mod health;
mod outage;
mod ready;
pub mod stall;

pub use checks::CheckId;
pub use health::CheckCounts;
pub(crate) use health::{Checks, Doubt, Health, Rest, Uses};
pub(crate) use outage::{MOST_RUNNING, Outage, RUNNING};
pub(crate) use ready::Missing;
pub use ready::Readiness;

use crate::backend::{Backend, BackendState};
use crate::ejection::Ejection;
use crate::news::{News, Turn, Untold};
use crate::random::Random;
use crate::timers::Timers;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

/// The share of the backends that may be out of rotation where no [`Ejection`] says otherwise.
const MAX_OUT: f64 = 0.5;

/// A backend: its health, and what the machine keeps of it.
#[derive(Debug)]
pub(crate) struct Record<T> {
    pub(crate) backend: Arc<Backend>,
    /// Tells this backend from an earlier one with the same index.
    pub(crate) serial: u64,
    /// The resolver names it.
    pub(crate) known: bool,
    /// The last of the resolver's publications that named it.
    mentioned: u64,
    /// What connects have shown.
    pub(crate) health: Health,
    /// What uses have shown.
    pub(crate) uses: Uses,
    /// What active checks have shown.
    pub(crate) checks: Checks,
    pub(crate) setback: Option<Setback>,
    /// Attempts in a row that had failed when the backend was last dead, until a connection serves or lasts.
    pub(crate) failed_probes: u32,
    /// When the latest of the attempts that have failed began.
    pub(crate) tried: Option<Instant>,
    part: T,
}

/// What a machine keeps of a backend.
pub(crate) trait Part {
    /// Whether a connection to the backend works, as far as is known.
    fn works(&self) -> bool;
}

/// The machine's part is at hand without a word.
impl<T> Deref for Record<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> DerefMut for Record<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.part
    }
}

/// The last failed attempt, for attempts yet to come: the plan may take one slot away and add another, and that one goes on
/// where the other stopped. Forgotten when a connection has lived for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setback {
    /// Attempts in a row that have failed.
    pub(crate) failures: u32,
    /// When that failure was seen.
    pub(crate) failed_at: Instant,
    /// When the next attempt may be made.
    pub(crate) until: Instant,
}

/// Names a known backend to the machine, for as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendId(pub(crate) u32);

impl<T> Record<T> {
    /// Forgets failed uses and failed attempts, after a successful use. `at` may be a few hundred milliseconds old.
    #[inline]
    pub(crate) fn forgive(&mut self, at: Instant) {
        self.uses.record_success(at);
        (self.setback, self.failed_probes) = (None, 0);
    }

    /// Whether the next attempt must not be made yet.
    pub(crate) fn must_wait(&self, now: Instant) -> bool {
        self.setback.is_some_and(|setback| setback.until > now)
    }

    pub(crate) fn is_unhealthy(&self) -> bool {
        self.checks.is_unhealthy()
    }

    /// Whether uses or active checks speak against the backend.
    pub(crate) fn is_judged_out(&self) -> bool {
        self.uses.ejected_until().is_some() || self.checks.is_unhealthy()
    }

    /// The state that is shown.
    pub(crate) fn state(&self) -> BackendState {
        match self.health {
            Health::Removed => BackendState::Removed,
            Health::Dead { .. } => BackendState::Dead,
            Health::Unproven { .. } | Health::Proven { .. } if self.checks.is_unhealthy() => BackendState::Unhealthy,
            Health::Unproven { .. } | Health::Proven { .. } if self.uses.ejected_until().is_some() => {
                BackendState::Ejected
            }
            Health::Unproven { .. } => BackendState::Unknown,
            Health::Proven { .. } => BackendState::Healthy,
        }
    }

    /// How it counts among the known backends.
    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        if !self.known {
            return tally;
        }
        tally.judged_out = usize::from(self.is_judged_out());
        tally.down = usize::from(self.health.is_dead() || self.checks.is_unhealthy());
        match self.health.doubt() {
            Some(doubt) => {
                tally.doubted[doubt as usize] = 1;
                tally.healthy = usize::from(!self.is_judged_out());
            }
            None => tally.dead = 1,
        }
        tally
    }
}

impl<T: Part> Record<T> {
    /// Whether the last attempt failed or hangs, and no connection works.
    pub(crate) fn is_failing(&self) -> bool {
        self.health.doubt().is_some_and(|doubt| doubt > Doubt::None) && !self.works()
    }
}

/// How many of the known backends are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    dead: usize,
    /// Dead or unhealthy.
    down: usize,
    /// Ejected or unhealthy, dead or not.
    judged_out: usize,
    /// Neither dead, ejected nor unhealthy.
    healthy: usize,
    /// Those that are not dead, by doubt.
    doubted: [usize; 3],
}

impl Tally {
    fn replace(&mut self, before: Tally, after: Tally) {
        let replace = |count: &mut usize, before, after| *count = *count - before + after;
        replace(&mut self.dead, before.dead, after.dead);
        replace(&mut self.down, before.down, after.down);
        replace(&mut self.judged_out, before.judged_out, after.judged_out);
        replace(&mut self.healthy, before.healthy, after.healthy);
        for (count, (before, after)) in self.doubted.iter_mut().zip(before.doubted.into_iter().zip(after.doubted)) {
            replace(count, before, after);
        }
    }
}

/// What a publication of the resolver has changed.
#[derive(Debug, Default)]
pub(crate) struct Diff {
    /// Backends that are known from now on, in the resolver's order.
    pub(crate) added: Vec<u32>,
    /// Known backends with another priority or weight.
    pub(crate) changed: Vec<u32>,
    /// Backends that are not known any more. They have left the order.
    pub(crate) removed: Vec<u32>,
}

impl Diff {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// All records, and which of them are known at present.
#[derive(Debug)]
pub(crate) struct Backends<T> {
    /// Boxed, since a record is large and is moved when others come.
    records: Vec<Option<Box<Record<T>>>>,
    free: Vec<u32>,
    by_key: BTreeMap<(SocketAddr, Arc<str>), u32>,
    /// Known backends, most preferred first.
    order: Vec<u32>,
    /// How many sets the resolver has published.
    publications: u64,
    next_serial: u64,
    tally: Tally,
    /// So few backends are healthy that those that are ejected or unhealthy are used as well.
    panic: bool,
    check_timers: Timers<CheckId>,
    /// Callers that wait until backends are ready.
    expected: ready::Expected,
    news: Untold,
}

impl<T> Default for Backends<T> {
    fn default() -> Backends<T> {
        Backends {
            records: Vec::new(),
            free: Vec::new(),
            by_key: BTreeMap::new(),
            order: Vec::new(),
            publications: 0,
            next_serial: 0,
            tally: Tally::default(),
            panic: false,
            check_timers: Timers::new(),
            expected: ready::Expected::default(),
            news: Untold::default(),
        }
    }
}

impl<T> Backends<T> {
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Record<T> {
        self.records[index as usize].as_ref().expect("a record outlives what names it")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Record<T> {
        self.records[index as usize].as_mut().expect("a record outlives what names it")
    }

    /// The record with this index, if there is one.
    pub(crate) fn lookup(&self, index: u32) -> Option<&Record<T>> {
        self.records.get(index as usize)?.as_deref()
    }

    fn lookup_mut(&mut self, index: u32) -> Option<&mut Record<T>> {
        self.records.get_mut(index as usize)?.as_deref_mut()
    }

    /// Known backends, most preferred first.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The records of known backends, most preferred first.
    pub(crate) fn known_records(&self) -> impl Iterator<Item = &Record<T>> {
        self.order.iter().map(|&index| self.get(index))
    }

    pub(crate) fn known(&self) -> usize {
        self.order.len()
    }

    /// How many records there are, those of backends that are not known included.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(crate) fn dead(&self) -> usize {
        self.tally.dead
    }

    /// How many known backends are doubted just so much, and not dead.
    pub(crate) fn doubted(&self, doubt: Doubt) -> usize {
        self.tally.doubted[doubt as usize]
    }

    pub(crate) fn find(&self, backend: &Backend) -> Option<u32> {
        self.by_key.get(&backend.key()).copied()
    }

    /// Every record, known or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Record<T>)> {
        self.records.iter().enumerate().filter_map(|(index, record)| Some((index as u32, record.as_deref()?)))
    }

    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Follows the resolver's whole current set; of duplicates the first counts. A new backend enters the order at a random place.
    pub(crate) fn update(&mut self, current: &[Backend], part: impl Fn() -> T, random: &mut Random) -> Diff {
        self.publications += 1;
        let publication = self.publications;
        let (mut diff, mut new, mut still_known) = (Diff::default(), Vec::new(), 0);
        for backend in current {
            let index = self.find(backend);
            let Some((index, record)) = index.map(|index| (index, self.get_mut(index))) else {
                new.push(backend);
                continue;
            };
            if std::mem::replace(&mut record.mentioned, publication) == publication {
                continue;
            }
            if (record.backend.priority(), record.backend.weight()) != (backend.priority(), backend.weight()) {
                record.backend = Arc::new(backend.clone());
                diff.changed.push(index);
            }
            if record.known {
                still_known += 1;
            } else {
                new.push(backend);
            }
        }
        if still_known < self.known() {
            diff.removed =
                self.order.iter().copied().filter(|&index| self.get(index).mentioned != publication).collect();
            let removed: BTreeSet<u32> = diff.removed.iter().copied().collect();
            self.order.retain(|index| !removed.contains(index));
            removed.into_iter().for_each(|index| self.change(index, |record| record.known = false));
        }
        // In the resolver's order, so that chance alone decides the preference.
        for backend in new {
            let index = self.find_or_insert(backend, &part);
            if !self.get(index).known {
                self.get_mut(index).mentioned = publication;
                self.order.insert(random.below(self.order.len() + 1), index);
                self.change(index, |record| record.known = true);
                diff.added.push(index);
            }
        }
        diff
    }

    /// The index of a backend, which has a record from now on, known or not.
    pub(crate) fn find_or_insert(&mut self, backend: &Backend, part: impl FnOnce() -> T) -> u32 {
        if let Some(index) = self.find(backend) {
            return index;
        }
        self.next_serial += 1;
        let record = Some(Box::new(Record {
            backend: Arc::new(backend.clone()),
            serial: self.next_serial,
            known: false,
            mentioned: 0,
            health: Health::Unproven { doubt: Doubt::None },
            uses: Uses::default(),
            checks: Checks::default(),
            setback: None,
            failed_probes: 0,
            tried: None,
            part: part(),
        }));
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = record;
                index
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        self.by_key.insert(backend.key(), index);
        index
    }

    /// No backend is known any more; the records stay.
    pub(crate) fn forget_order(&mut self) {
        for index in std::mem::take(&mut self.order) {
            self.change(index, |record| record.known = false);
        }
    }

    /// Drops a record that is not known.
    pub(crate) fn forget(&mut self, index: u32) {
        debug_assert!(!self.get(index).known, "known backends have a record");
        let key = self.get(index).backend.key();
        if self.by_key.get(&key) == Some(&index) {
            self.by_key.remove(&key);
        }
        self.records[index as usize] = None;
        self.free.push(index);
    }

    /// The least preferred backend moves to a random place; false when there is nothing to move.
    pub(crate) fn decohere(&mut self, random: &mut Random) -> bool {
        if self.order.len() < 2 {
            return false;
        }
        let Some(last) = self.order.pop() else { return false };
        self.order.insert(random.below(self.order.len() + 1), last);
        true
    }

    /// Changes a record and keeps the counts right.
    fn change<R>(&mut self, index: u32, change: impl FnOnce(&mut Record<T>) -> R) -> R {
        let record = self.records[index as usize].as_mut().expect("a record outlives what names it");
        let before = record.tally();
        let result = change(record);
        self.tally.replace(before, record.tally());
        result
    }

    /// For logs. Backends that are not known are the business of whoever asked for them.
    fn note(&mut self, index: u32, turn: Turn) {
        let record = self.records[index as usize].as_ref().expect("a record outlives what names it");
        if record.known {
            self.news.note(News::Backend { backend: Arc::clone(&record.backend), turn });
        }
    }
}

/// Rotation: which backends get traffic.
impl<T> Backends<T> {
    /// Counts a failed use. True if the backend is ejected by it. A panic may begin with that; see [`Backends::is_out`].
    pub(crate) fn record_failed_use(&mut self, now: Instant, index: u32, ejection: Option<&Ejection>) -> bool {
        let Some(ejection) = ejection else { return false };
        let record = self.get_mut(index);
        record.uses.record_failure();
        let is_judged = !record.known || record.health.is_dead() || record.uses.ejected_until().is_some();
        if is_judged || !ejection.is_too_much(record.uses.failures()) {
            return false;
        }
        self.eject(now, index, ejection);
        self.update_panic(Some(ejection));
        true
    }

    fn eject(&mut self, now: Instant, index: u32, ejection: &Ejection) {
        let until = self.change(index, |record| {
            record.checks.restart();
            record.uses.eject(ejection, now)
        });
        self.note(index, Turn::Ejected { until });
    }

    /// Ends the ejections whose time is over, and returns whose. In a panic ejected backends are used: one that goes on failing is
    /// among them, ejected anew.
    pub(crate) fn end_ejections(&mut self, now: Instant, ejection: Option<&Ejection>) -> Vec<u32> {
        let Some(ejection) = ejection.filter(|_| self.tally.judged_out > 0) else { return Vec::new() };
        let is_over = |&index: &u32| self.get(index).uses.ejected_until().is_some_and(|until| until <= now);
        let over: Vec<u32> = self.order.iter().copied().filter(is_over).collect();
        for &index in &over {
            if self.panic && ejection.is_too_much(self.get(index).uses.failures()) {
                self.eject(now, index, ejection);
            } else {
                self.change(index, |record| record.uses.reinstate(now));
                self.note(index, Turn::Returned);
            }
        }
        over
    }

    /// When the next ejection ends.
    pub(crate) fn next_reinstatement(&self) -> Option<Instant> {
        if self.tally.judged_out == 0 {
            return None;
        }
        self.known_records().filter_map(|record| record.uses.ejected_until()).min()
    }

    /// Begins or ends a panic: whether so few backends are healthy that those that are ejected or unhealthy are used as well.
    pub(crate) fn update_panic(&mut self, ejection: Option<&Ejection>) {
        let begins = self.needs_panic(ejection);
        if std::mem::replace(&mut self.panic, begins) != begins {
            self.news.note(News::Panic { begins, healthy: self.tally.healthy, known: self.known() });
        }
    }

    /// Whether [`update_panic`](Backends::update_panic) would change anything.
    pub(crate) fn panic_is_stale(&self, ejection: Option<&Ejection>) -> bool {
        self.panic != self.needs_panic(ejection)
    }

    fn needs_panic(&self, ejection: Option<&Ejection>) -> bool {
        let default = Ejection::default().max_ejected(MAX_OUT);
        self.tally.judged_out > 0 && ejection.unwrap_or(&default).is_panic(self.known(), self.tally.healthy)
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.panic
    }

    /// Whether a backend is out of rotation: it is ejected or unhealthy, and there is no panic. Dead ones are not in rotation
    /// either, but that is for the machine to see to: it tries to connect to them.
    pub(crate) fn is_out(&self, index: u32) -> bool {
        self.get(index).is_judged_out() && !self.panic
    }

    /// A dead backend works again. An ejection was for what it did before it died.
    pub(crate) fn revive(&mut self, index: u32) {
        let was_ejected = self.change(index, |record| {
            record.setback = None;
            record.uses.revive()
        });
        if was_ejected {
            self.note(index, Turn::Returned);
        }
    }

    /// Known backends that are ejected or unhealthy, out of rotation or not.
    pub(crate) fn judged_out(&self) -> Vec<u32> {
        if self.tally.judged_out == 0 {
            return Vec::new();
        }
        self.order.iter().copied().filter(|&index| self.get(index).is_judged_out()).collect()
    }
}

/// What connects have shown.
impl<T: Part> Backends<T> {
    pub(crate) fn set_health(&mut self, index: u32, health: Health) {
        let works = self.get(index).works();
        let before = self.change(index, |record| std::mem::replace(&mut record.health, health));
        if let Some(turn) = before.turn_to(health, works) {
            self.note(index, turn);
        }
    }

    /// What was doubted of a backend has turned out to be no failure.
    pub(crate) fn trust(&mut self, index: u32) {
        let health = self.get(index).health;
        if health.doubt().is_some() {
            self.set_health(index, health.doubted(Doubt::None));
        }
    }

    /// Doubts a backend at least so much; true when it was doubted less.
    pub(crate) fn doubt(&mut self, index: u32, doubt: Doubt) -> bool {
        let health = self.get(index).health;
        let is_more = health.doubt().is_some_and(|before| before < doubt);
        if is_more {
            self.set_health(index, health.doubted(doubt));
        }
        is_more
    }

    /// A dead backend that is not needed is not tried. What it was is no reason to call it dead.
    pub(crate) fn forgive(&mut self, index: u32) {
        if let Health::Dead { worked } = self.get(index).health {
            let doubt = Doubt::Failing;
            let health = if worked { Health::Proven { doubt, rest: None } } else { Health::Unproven { doubt } };
            self.set_health(index, health);
        }
    }

    /// A backend that is not known any more is removed for good: one of the same name is another from now on.
    pub(crate) fn remove(&mut self, index: u32) {
        let key = self.get(index).backend.key();
        self.by_key.remove(&key);
        self.set_health(index, Health::Removed);
        self.change(index, |record| (record.uses, record.checks) = (Uses::default(), Checks::default()));
    }
}
