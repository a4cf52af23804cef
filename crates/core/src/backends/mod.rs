//! The backends a pool knows: their health, their slots, and the order in which they are preferred.

use crate::backend::Backend;
use crate::ejection::Service;
use crate::news::{Turn, Untold};
use crate::random::Random;
use crate::slot::{Counts, Phase};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// What is believed of a backend.
///
/// ```text
///              first success                        attempts ran out with nothing working
///   Unproven ----------------> Proven <---------+   +--------------------------------+
///      |                         |              |   |                                |
///      |                         +--------------|---+------> Dead <------------------+
///      +--- attempts ran out ----------------------------->   |   |  tried at max_delay by one slot; every second if all are
///                                               +-- success --+   |
///   any ---- no longer resolved ----> Removed <-------------------+
/// ```
///
/// A dead backend whose tier is not needed, because a better one serves, is not watched and so not called dead for ever: it
/// goes back to where it came from, doubted.
///
/// As long as another backend is doubted less, the plan treats a doubted one with nothing working like a dead one: it keeps
/// one slot at most, and the others go where claims can be served. One that has something working keeps that, and gets
/// little more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Never connected to.
    Unproven { doubt: Doubt },
    /// Has worked. While it rests (it works, but further connects fail), it gets no more slots than it had; after that one
    /// more, until a connect beyond those succeeds.
    Proven { doubt: Doubt, rest: Option<Rest> },
    /// Attempts ran out.
    Dead { worked: bool },
    /// No longer known; it goes when its last slot does.
    Removed,
}

/// How much it is doubted that a backend can be connected to. A success ends all doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    None,
    /// An attempt took so long that another backend was tried instead. It may only be slow.
    Slow,
    /// The last attempt failed.
    Failing,
}

/// A backend that works would not have more connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) until: Instant,
    /// The connections it had, with those under way. One that it loses leaves a place, which may be taken again.
    pub(crate) most: usize,
}

impl Health {
    pub(crate) fn is_dead(self) -> bool {
        matches!(self, Health::Dead { .. })
    }

    pub(crate) fn is_removed(self) -> bool {
        matches!(self, Health::Removed)
    }

    pub(crate) fn has_worked(self) -> bool {
        match self {
            Health::Proven { .. } => true,
            Health::Dead { worked } => worked,
            Health::Unproven { .. } | Health::Removed => false,
        }
    }

    /// `None` for what is dead or removed: there is nothing to doubt.
    pub(crate) fn doubt(self) -> Option<Doubt> {
        match self {
            Health::Unproven { doubt } | Health::Proven { doubt, .. } => Some(doubt),
            Health::Dead { .. } | Health::Removed => None,
        }
    }

    pub(crate) fn rest(self) -> Option<Rest> {
        match self {
            Health::Proven { rest, .. } => rest,
            Health::Unproven { .. } | Health::Dead { .. } | Health::Removed => None,
        }
    }

    /// What there is to tell when this becomes that; `works` while it has connections.
    fn turn_to(self, after: Health, works: bool) -> Option<Turn> {
        let doubts = |health: Health| health.doubt().is_some_and(|doubt| doubt > Doubt::None);
        match (self, after) {
            (_, Health::Removed) => None,
            (Health::Dead { .. }, Health::Dead { .. }) => None,
            (_, Health::Dead { .. }) => Some(Turn::Dead),
            // One that nobody watches any more is not back for that.
            (Health::Dead { .. }, after) => (!doubts(after)).then_some(Turn::Back),
            (before, after) if doubts(after) => (!doubts(before) && !works).then_some(Turn::Doubted),
            (Health::Unproven { .. }, _) => Some(Turn::Alive),
            (before, _) => doubts(before).then_some(Turn::Alive),
        }
    }

    fn doubted(self, doubt: Doubt) -> Health {
        match self {
            Health::Unproven { .. } => Health::Unproven { doubt },
            Health::Proven { rest, .. } => Health::Proven { doubt, rest },
            Health::Dead { .. } | Health::Removed => self,
        }
    }
}

/// A backend and what the pool has of it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) backend: Arc<Backend>,
    /// The last of the resolver's publications that named it.
    mentioned: u64,
    pub(crate) health: Health,
    pub(crate) slots: Vec<u32>,
    /// Slots that wait for their turn to dial, oldest first; some may have moved on.
    pub(crate) held: VecDeque<u32>,
    pub(crate) counts: Counts,
    pub(crate) service: Service,
    pub(crate) setback: Option<Setback>,
    /// It closed an unused connection: until then only waiting claims are connected.
    pub(crate) held_off_until: Option<Instant>,
    /// Of each connection that was closed right after its connect: when its place may be dialled again.
    pub(crate) pauses: VecDeque<Instant>,
    /// When the latest attempt began that failed.
    pub(crate) tried: Option<Instant>,
    /// When a connection was last added or taken away, where that is limited.
    pub(crate) changed_at: Option<Instant>,
}

/// What the last failure taught, for slots yet to come: the plan may take one away and add another, and that one goes on
/// where the other stopped. Forgotten when a connection has lived for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setback {
    pub(crate) failures: u32,
    /// When that failure was seen.
    pub(crate) failed_at: Instant,
    /// When the next attempt may be made.
    pub(crate) until: Instant,
}

/// What the resolver's current set says about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mention {
    Unknown,
    /// It is known, with this priority and weight.
    Unchanged,
    /// It is known, but had another priority or weight.
    Changed,
    /// This set has named it before.
    Again,
}

/// Names a known backend to the machine, for as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendId(pub(crate) u32);

impl Record {
    /// It has served well: what its users and attempts to connect had against it is of no account any more.
    #[inline]
    pub(crate) fn forgive(&mut self) {
        self.service.failures = 0;
        self.setback = None;
    }

    /// Whether one more of its slots may dial. Until a backend has worked, and while it is dead, one at a time; the attempts
    /// that hang do not count then.
    pub(crate) fn may_dial(&self, hanging: usize, limit: usize) -> bool {
        match self.health {
            Health::Proven { .. } => self.counts.of(Phase::Connecting) < limit,
            Health::Unproven { .. } | Health::Dead { .. } => {
                let dialling = [Phase::Connecting, Phase::Backoff, Phase::Closing];
                let dialling: usize = dialling.into_iter().map(|phase| self.counts.of(phase)).sum();
                dialling == hanging && hanging < limit
            }
            Health::Removed => false,
        }
    }
}

/// All records, and which of them are known at present.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    records: Vec<Option<Record>>,
    free: Vec<u32>,
    by_backend: BTreeMap<Backend, u32>,
    /// Known backends, most preferred first.
    order: Vec<u32>,
    dead: usize,
    ejected: usize,
    /// How many of the others are doubted how much.
    doubted: [usize; 3],
    pub(crate) news: Untold,
}

impl Backends {
    pub(crate) fn get(&self, index: u32) -> &Record {
        self.records[index as usize].as_ref().expect("a slot's backend stays as long as the slot")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Record {
        self.records[index as usize].as_mut().expect("a slot's backend stays as long as the slot")
    }

    /// Known backends, most preferred first.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    pub(crate) fn known(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn dead(&self) -> usize {
        self.dead
    }

    pub(crate) fn ejected(&self) -> usize {
        self.ejected
    }

    /// Known backends that are neither dead nor ejected. Linear in backends.
    pub(crate) fn healthy(&self) -> usize {
        let is_healthy = |record: &Record| !record.health.is_dead() && record.service.ejected_until.is_none();
        self.order.iter().filter(|&&index| is_healthy(self.get(index))).count()
    }

    /// A backend is out.
    pub(crate) fn eject(&mut self, index: u32, service: Service) {
        let record = self.records[index as usize].as_mut().expect("who is ejected is known");
        record.service = service;
        self.ejected += 1;
        if let Some(until) = service.ejected_until {
            self.news.note(&record.backend, Turn::Ejected { until });
        }
    }

    /// An ejected backend takes part again.
    pub(crate) fn readmit(&mut self, index: u32) {
        if self.end_ejection(index) {
            let backend = Arc::clone(&self.get(index).backend);
            self.news.note(&backend, Turn::Returned);
        }
    }

    fn end_ejection(&mut self, index: u32) -> bool {
        let was_out = self.get_mut(index).service.ejected_until.take().is_some();
        self.ejected -= usize::from(was_out);
        was_out
    }

    pub(crate) fn find(&self, backend: &Backend) -> Option<u32> {
        self.by_backend.get(backend).copied()
    }

    pub(crate) fn all_dead(&self) -> bool {
        self.dead == self.known() && self.known() > 0
    }

    /// How many backends are doubted just so much, and not dead.
    pub(crate) fn doubted(&self, doubt: Doubt) -> usize {
        self.doubted[doubt as usize]
    }

    /// Every record, those of removed backends included.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.records.iter().enumerate().filter_map(|(index, record)| Some((index as u32, record.as_ref()?)))
    }

    /// Notes that the resolver's current set names a backend, and its priority and weight there. The first mention counts.
    pub(crate) fn mention(&mut self, publication: u64, backend: &Backend) -> Mention {
        let Some(&index) = self.by_backend.get(backend) else { return Mention::Unknown };
        let record = self.get_mut(index);
        if std::mem::replace(&mut record.mentioned, publication) == publication {
            return Mention::Again;
        }
        if (record.backend.priority(), record.backend.weight()) == (backend.priority(), backend.weight()) {
            return Mention::Unchanged;
        }
        record.backend = Arc::new(backend.clone());
        Mention::Changed
    }

    /// The known backends that were not mentioned.
    pub(crate) fn vanished(&self, publication: u64) -> Vec<u32> {
        self.by_backend.values().copied().filter(|&index| self.get(index).mentioned != publication).collect()
    }

    /// Adds a backend at a random place in the preference order.
    pub(crate) fn insert(&mut self, backend: &Backend, publication: u64, random: &mut Random) -> u32 {
        let record = Record {
            backend: Arc::new(backend.clone()),
            mentioned: publication,
            health: Health::Unproven { doubt: Doubt::None },
            slots: Vec::new(),
            held: VecDeque::new(),
            counts: Counts::default(),
            service: Service::default(),
            setback: None,
            held_off_until: None,
            pauses: VecDeque::new(),
            tried: None,
            changed_at: None,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = Some(record);
                index
            }
            None => {
                self.records.push(Some(record));
                (self.records.len() - 1) as u32
            }
        };
        self.doubted[Doubt::None as usize] += 1;
        self.by_backend.insert(backend.clone(), index);
        self.order.insert(random.below(self.order.len() + 1), index);
        index
    }

    /// These are known no more: all of them leave the order at once, and are then to be removed one by one.
    pub(crate) fn leave_order(&mut self, vanished: &[u32]) {
        let vanished: BTreeSet<u32> = vanished.iter().copied().collect();
        self.order.retain(|index| !vanished.contains(index));
    }

    /// A backend that has left the order is removed; [`Backends::forget_if_empty`] drops its record when its last slot has
    /// gone.
    pub(crate) fn remove(&mut self, index: u32) {
        self.end_ejection(index);
        self.set_health(index, Health::Removed);
        let backend = Arc::clone(&self.get(index).backend);
        self.by_backend.remove(&*backend);
    }

    /// Drops the record of a removed backend without slots.
    pub(crate) fn forget_if_empty(&mut self, index: u32) {
        let record = self.get(index);
        if record.health.is_removed() && record.slots.is_empty() {
            self.records[index as usize] = None;
            self.free.push(index);
        }
    }

    pub(crate) fn set_health(&mut self, index: u32, health: Health) {
        let record = self.records[index as usize].as_mut().expect("a slot's backend stays as long as the slot");
        let before = std::mem::replace(&mut record.health, health);
        if let Some(turn) = before.turn_to(health, record.counts.working() > 0) {
            self.news.note(&record.backend, turn);
        }
        self.dead += usize::from(health.is_dead());
        self.dead -= usize::from(before.is_dead());
        if let Some(doubt) = health.doubt() {
            self.doubted[doubt as usize] += 1;
        }
        if let Some(doubt) = before.doubt() {
            self.doubted[doubt as usize] -= 1;
        }
    }

    /// Doubts a backend at least so much; true when that is news.
    pub(crate) fn doubt(&mut self, index: u32, doubt: Doubt) -> bool {
        let health = self.get(index).health;
        let is_news = health.doubt().is_some_and(|before| before < doubt);
        if is_news {
            self.set_health(index, health.doubted(doubt));
        }
        is_news
    }

    /// Leaves a backend that works with what it has or is connecting until then, the slot that was given up aside.
    pub(crate) fn rest(&mut self, index: u32, until: Instant) {
        let record = self.get(index);
        let most = record.counts.working() + record.counts.of(Phase::Connecting) - 1;
        let doubt = record.health.doubt().unwrap_or(Doubt::None);
        self.set_health(index, Health::Proven { doubt, rest: Some(Rest { until, most }) });
    }

    /// Nobody watches a backend that is not needed: what it was is no reason to call it dead.
    pub(crate) fn forgive(&mut self, index: u32) {
        if let Health::Dead { worked } = self.get(index).health {
            let doubt = Doubt::Failing;
            let health = if worked { Health::Proven { doubt, rest: None } } else { Health::Unproven { doubt } };
            self.set_health(index, health);
        }
    }

    /// A backend becomes the least preferred.
    pub(crate) fn demote(&mut self, index: u32) {
        self.order.retain(|&known| known != index);
        self.order.push(index);
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
}
