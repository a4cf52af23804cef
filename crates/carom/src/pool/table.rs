//! What a pool's lock protects: the machine, the connections by slot, the callers by waiter.

use super::callers::{Callers, Collected, Wakers, Withdrawn};
use super::checks::Checks;
use super::error::{ClaimError, Summary};
use crate::cause::Causes;
use crate::clock;
use crate::connect::Connect;
use crate::meter::Timer;
use carom_core::backend::Backend;
use carom_core::pool::{Blame, Claimed, Delivery, Machine, Outcome, Refusal, Request};
use carom_core::slot::{Phase, SlotRef};
use carom_core::waiters::{Place, WaiterId};
use std::panic::Location;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// The machine, and whom and what it names.
pub(crate) struct Table<C: Connect> {
    pub(crate) machine: Machine,
    entries: Vec<Entry<C>>,
    callers: Callers<C>,
    pub(crate) causes: Causes,
    /// Outcomes of checks and recycles.
    pub(crate) checks: Checks,
    /// What the hint outside the lock says.
    pub(super) crowded: bool,
    /// Claims that were held for too long so far.
    pub(crate) overdue: u64,
}

/// What is kept for a slot.
struct Entry<C: Connect> {
    /// The connection, while it is nobody else's.
    held: Option<Box<Held<C>>>,
    /// Ends the watcher of this idling.
    watcher: Option<AbortHandle>,
    /// Where it was claimed, while it is lent.
    site: Option<&'static Location<'static>>,
}

/// A connection and where it belongs. It is boxed once, when connected, so that lending it moves a pointer.
pub(crate) struct Held<C: Connect> {
    pub(crate) connection: C::Connection,
    pub(crate) backend: Arc<Backend>,
    pub(crate) slot: SlotRef,
    pub(crate) timer: Timer,
}

/// How a claim begins, or goes on.
pub(crate) enum Begun<C: Connect> {
    Granted(Granted<C>),
    Waiting(WaiterId),
    Refused(ClaimError),
}

pub(crate) struct Granted<C: Connect> {
    pub(crate) held: Box<Held<C>>,
    pub(crate) place: Place,
    pub(crate) watcher: Option<AbortHandle>,
}

/// What a claim carries along until it ends.
pub(crate) struct Asking {
    pub(crate) timeout: Duration,
    pub(crate) error_on_empty: bool,
    pub(crate) avoid: Option<Backend>,
    pub(crate) site: &'static Location<'static>,
}

impl<C: Connect> Table<C> {
    pub(super) fn new(machine: Machine) -> Table<C> {
        let (entries, callers, causes) = (Vec::new(), Callers::new(), Causes::default());
        Table { machine, entries, callers, causes, checks: Checks::default(), crowded: false, overdue: 0 }
    }

    /// Begins a claim, or goes on with one whose connection turned out closed.
    pub(crate) fn begin(
        &mut self,
        now: Instant,
        asking: &Asking,
        again: Option<Place>,
        waker: &Waker,
        name: &Arc<str>,
    ) -> Begun<C> {
        let request = Request {
            timeout: asking.timeout,
            error_on_empty: asking.error_on_empty,
            avoid: asking.avoid.as_ref().and_then(|backend| self.machine.find(backend)),
        };
        let claimed = match again {
            None => self.machine.claim(now, request),
            Some(place) => self.machine.claim_again(now, place, request),
        };
        match claimed {
            Claimed::Granted { slot, place } => Begun::Granted(self.lend(slot, place, asking.site)),
            Claimed::Waiting(waiter) => {
                self.callers.wait(waiter, waker.clone(), asking.site);
                Begun::Waiting(waiter)
            }
            Claimed::Refused(refusal) => {
                let waited = again.map_or(Duration::ZERO, |place| now.saturating_duration_since(place.since()));
                Begun::Refused(self.explain(refusal, waited, name))
            }
        }
    }

    /// Takes an idle connection without waiting.
    pub(crate) fn try_begin(
        &mut self,
        now: Instant,
        site: &'static Location<'static>,
        name: &Arc<str>,
    ) -> Result<Granted<C>, ClaimError> {
        match self.machine.try_claim(now) {
            Claimed::Granted { slot, place } => Ok(self.lend(slot, place, site)),
            Claimed::Refused(refusal) => Err(self.explain(refusal, Duration::ZERO, name)),
            Claimed::Waiting(_) => unreachable!("try_claim does not wait"),
        }
    }

    /// Takes an idle connection of this backend without waiting, stalled or not.
    #[cfg(feature = "http")]
    pub(crate) fn try_begin_at(
        &mut self,
        now: Instant,
        backend: &Backend,
        site: &'static Location<'static>,
    ) -> Option<Granted<C>> {
        match self.machine.try_claim_of(now, self.machine.find(backend)?) {
            Claimed::Granted { slot, place } => Some(self.lend(slot, place, site)),
            Claimed::Refused(_) | Claimed::Waiting(_) => None,
        }
    }

    /// What a caller who has waited for so long was given; if nothing yet, it is woken again through `waker`.
    pub(crate) fn collect(&mut self, waiter: WaiterId, waited: Duration, waker: &Waker) -> Collected<C> {
        let collected = self.callers.collect(waiter, waker);
        if !matches!(collected, Collected::Nothing(_)) {
            self.machine.forget_waiter(waiter);
        }
        if matches!(collected, Collected::Granted(_)) {
            self.machine.note_wait(waited);
        }
        collected
    }

    /// A caller gives up. If a connection had been handed to it already, that is to be given back.
    pub(crate) fn withdraw(&mut self, waiter: WaiterId) -> Withdrawn<C> {
        self.machine.forget_waiter(waiter);
        self.callers.withdraw(waiter)
    }

    /// A connection comes back into the table, for the machine to decide about.
    #[inline]
    pub(crate) fn give_back(&mut self, held: Box<Held<C>>, outcome: Outcome) -> Option<Box<Held<C>>> {
        let slot = held.slot;
        if !self.machine.is_current(slot) {
            // The driver has ended meanwhile: nobody else would close it.
            return Some(held);
        }
        let now = self.machine.time_for_release(slot).filter(|_| outcome == Outcome::Open).unwrap_or_else(clock::now);
        let entry = &mut self.entries[slot.index()];
        entry.site = None;
        entry.held = Some(held);
        self.machine.release(now, slot, outcome);
        None
    }

    /// A connection that was lent is no more. Returns what that counts as.
    pub(crate) fn give_up(&mut self, now: Instant, slot: SlotRef, outcome: Outcome) -> Blame {
        if !self.machine.is_current(slot) {
            return Blame::None;
        }
        self.entries[slot.index()].site = None;
        self.machine.release(now, slot, outcome)
    }

    /// Puts a slot's connection into the table, before the machine is told about it. It is returned if the slot has moved
    /// on: a caller may have closed the pool while the driver was on its way here.
    #[must_use = "what is not taken must be dropped after the lock is let go"]
    pub(crate) fn put(&mut self, slot: SlotRef, held: Box<Held<C>>) -> Option<Box<Held<C>>> {
        if !self.machine.is_current(slot) {
            return Some(held);
        }
        if self.entries.len() <= slot.index() {
            self.entries.resize_with(slot.index() + 1, || Entry { held: None, watcher: None, site: None });
        }
        self.entries[slot.index()].held = Some(held);
        None
    }

    /// Takes a slot's connection, and ends whoever watches it.
    pub(crate) fn take(&mut self, slot: SlotRef) -> (Option<Box<Held<C>>>, Option<AbortHandle>) {
        match self.entries.get_mut(slot.index()) {
            Some(entry) => (entry.held.take(), entry.watcher.take()),
            None => (None, None),
        }
    }

    /// Takes all connections that are nobody else's.
    pub(super) fn take_all(&mut self) -> Vec<Box<Held<C>>> {
        self.entries.iter_mut().filter_map(|entry| entry.held.take()).collect()
    }

    /// Where a slot's connection was claimed, while it is lent.
    pub(super) fn site(&self, slot: SlotRef) -> Option<&'static Location<'static>> {
        self.entries.get(slot.index())?.site
    }

    /// A look at an idle slot's connection.
    pub(crate) fn look(&self, slot: SlotRef) -> Option<&C::Connection> {
        self.idling(slot).map(|held| &held.connection)
    }

    /// The same, to ask it something.
    pub(crate) fn look_mut(&mut self, slot: SlotRef) -> Option<&mut C::Connection> {
        let entry = self.entries.get_mut(slot.index()).filter(|_| self.machine.is_current(slot))?;
        entry.held.as_deref_mut().map(|held| &mut held.connection)
    }

    /// Where an idle slot's connection leads.
    pub(crate) fn backend_of(&self, slot: SlotRef) -> Option<Arc<Backend>> {
        self.idling(slot).map(|held| Arc::clone(&held.backend))
    }

    fn idling(&self, slot: SlotRef) -> Option<&Held<C>> {
        self.entries.get(slot.index()).filter(|_| self.machine.is_current(slot))?.held.as_deref()
    }

    /// An idle slot's connection is not watched any more.
    pub(crate) fn take_watcher(&mut self, slot: SlotRef) -> Option<AbortHandle> {
        self.entries.get_mut(slot.index())?.watcher.take()
    }

    /// Notes who watches an idle slot's connection.
    pub(crate) fn set_watcher(&mut self, slot: SlotRef, watcher: AbortHandle) {
        self.entries[slot.index()].watcher = Some(watcher);
    }

    pub(crate) fn explain(&self, refusal: Refusal, waited: Duration, name: &Arc<str>) -> ClaimError {
        let summary = |ahead| Box::new(self.summary(ahead, name));
        match refusal {
            Refusal::TimedOut { ahead } => ClaimError::TimedOut { waited, summary: summary(ahead) },
            Refusal::NoBackends => ClaimError::NoBackends { summary: summary(0) },
            Refusal::Failed { dead, known } => {
                let count = |backends| u16::try_from(backends).unwrap_or(u16::MAX);
                ClaimError::Failed { waited, dead: count(dead), known: count(known), summary: summary(0) }
            }
            Refusal::Shed => ClaimError::Shed { waited, summary: summary(0) },
            Refusal::Full => ClaimError::Full { summary: summary(self.machine.waiting()) },
            Refusal::Busy => ClaimError::Busy { pool: Arc::clone(name) },
            Refusal::Closed => ClaimError::Closed { pool: Arc::clone(name) },
        }
    }

    fn summary(&self, ahead: usize, name: &Arc<str>) -> Summary {
        let counts = self.machine.counts();
        let (dead, known) = self.machine.dead_of_known();
        Summary {
            pool: Arc::clone(name),
            total: counts.total(),
            idle: counts.of(Phase::Idle),
            busy: counts.of(Phase::Busy),
            connecting: counts.pending() + self.machine.probes().pending(),
            maximum: self.machine.options().maximum,
            waiting: self.machine.waiting(),
            ahead,
            dead,
            known,
            cause: self.causes.latest(),
        }
    }

    fn lend(&mut self, slot: SlotRef, place: Place, site: &'static Location<'static>) -> Granted<C> {
        let entry = &mut self.entries[slot.index()];
        let mut held = entry.held.take().expect("an idle slot has its connection in the table");
        held.slot = slot;
        entry.site = Some(site);
        Granted { held, place, watcher: entry.watcher.take() }
    }

    /// Puts what the machine delivers into the hands of those who wait for it.
    #[inline]
    pub(super) fn deliver(&mut self) -> Wakers {
        let mut wakers = Wakers::default();
        while let Some(delivery) = self.machine.poll_delivery() {
            let waker = match delivery {
                Delivery::Grant { waiter, slot } => {
                    let held = self.entries[slot.index()].held.take();
                    let mut held = held.expect("a granted slot has its connection in the table");
                    held.slot = slot;
                    self.hand(waiter, held)
                }
                Delivery::Refuse { waiter, refusal } => self.callers.refuse(waiter, refusal),
            };
            wakers.extend(waker);
        }
        wakers
    }

    /// Puts a connection into the hands of a waiting caller, who is to be woken.
    pub(super) fn hand(&mut self, waiter: WaiterId, held: Box<Held<C>>) -> Option<Waker> {
        if let Some(site) = self.callers.site(waiter) {
            self.entries[held.slot.index()].site = Some(site);
        }
        self.callers.grant(waiter, held)
    }
}
