//! What a pool's callers and its driver share: the machine, the connections by slot, the callers by waiter.
//!
//! One lock around all of it, held for short steps. A step calls the machine, and whatever that delivers to waiting
//! callers is put into their hands before the lock is let go; they are woken after.

use super::error::{ClaimError, Summary};
use crate::cause::Causes;
use crate::clock;
use crate::connect::Connect;
use crate::quiet::drop_quietly;
use crate::sync::{Mutex, MutexGuard};
use carom_core::backend::Backend;
use carom_core::pool::{Claimed, Delivery, Lent, Machine, Outcome, Refusal, Request, Returned, State};
use carom_core::slot::{Phase, SlotRef};
use carom_core::waiters::{Place, WaiterId};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// The part of a pool that outlives its handles for as long as something is lent.
pub(crate) struct Shared<C: Connect> {
    pub(crate) name: Arc<str>,
    pub(crate) connector: C,
    state: Mutex<Table<C>>,
    /// Wakes the driver.
    pub(crate) wake: Notify,
    pub(crate) lifecycle: watch::Sender<State>,
    /// A hint, outside the lock, that somebody waits.
    crowded: AtomicBool,
}

/// What the lock protects.
pub(crate) struct Table<C: Connect> {
    pub(crate) machine: Machine,
    entries: Vec<Entry<C>>,
    callers: Vec<Caller<C>>,
    pub(crate) causes: Causes,
    /// What the hint says.
    crowded: bool,
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
}

/// A waiting caller.
enum Caller<C: Connect> {
    Nobody,
    Waiting { waker: Waker, site: &'static Location<'static> },
    Granted(Box<Held<C>>),
    Refused(Refusal),
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
    pub(crate) ask: bool,
    pub(crate) watcher: Option<AbortHandle>,
}

/// What a waiting caller finds. Wakers are handed out: dropping one may run code that is not ours, not under the lock.
pub(crate) enum Collected<C: Connect> {
    Nothing(#[allow(dead_code, reason = "dropped after the lock is let go")] Option<Waker>),
    Granted(Box<Held<C>>),
    Refused(Refusal),
}

/// What a caller who gives up leaves behind.
pub(crate) enum Withdrawn<C: Connect> {
    Nothing,
    Waiting(#[allow(dead_code, reason = "dropped after the lock is let go")] Waker),
    Granted(Box<Held<C>>),
}

/// What a claim carries along until it ends.
pub(crate) struct Asking {
    pub(crate) timeout: Duration,
    pub(crate) error_on_empty: bool,
    pub(crate) avoid: Option<Backend>,
    pub(crate) site: &'static Location<'static>,
}

/// Something lent when a pool was looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outstanding {
    /// The backend it is connected to.
    pub backend: Arc<Backend>,
    /// Where in the program it was claimed.
    pub site: &'static Location<'static>,
    /// For how long it has been lent.
    pub lent_for: Duration,
}

impl<C: Connect> Shared<C> {
    pub(crate) fn new(name: Arc<str>, connector: C, machine: Machine) -> Shared<C> {
        let lifecycle = watch::Sender::new(machine.state());
        let table = Table {
            machine,
            entries: Vec::new(),
            callers: Vec::new(),
            causes: Causes::default(),
            crowded: false,
            overdue: 0,
        };
        Shared {
            name,
            connector,
            state: Mutex::new(table),
            wake: Notify::new(),
            lifecycle,
            crowded: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Table<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step under the lock.
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut Table<C>) -> R) -> R {
        let mut table = self.lock();
        let result = step(&mut table);
        self.unlock(table);
        result
    }

    /// Ends a step: callers it served are woken, and the driver if it has something to do.
    #[inline]
    pub(crate) fn unlock(&self, mut table: MutexGuard<'_, Table<C>>) {
        let wakers = table.machine.has_deliveries().then(|| table.deliver());
        let attention = table.machine.take_attention();
        self.note_crowd(&mut table);
        drop(table);
        if let Some(wakers) = wakers {
            wakers.wake();
        }
        if attention {
            self.wake.notify_one();
        }
    }

    /// Takes a connection back that was lent a moment ago, if there is little to decide; otherwise it is returned.
    #[inline]
    pub(crate) fn release_warm(&self, mut held: Box<Held<C>>) -> Option<Box<Held<C>>> {
        let mut table = self.lock();
        match table.machine.release_warm(held.slot) {
            Returned::Rests => {
                let entry = &mut table.entries[held.slot.index()];
                entry.site = None;
                entry.held = Some(held);
                None
            }
            Returned::Passed { waiter, slot } => {
                held.slot = slot;
                let waker = table.hand(waiter, held);
                self.note_crowd(&mut table);
                drop(table);
                if let Some(waker) = waker {
                    waker.wake();
                }
                None
            }
            Returned::Declined => Some(held),
        }
    }

    /// The time, if somebody waits: then a claim will need it, and had better not ask for it while it holds the lock.
    #[inline]
    pub(crate) fn now_if_crowded(&self) -> Option<Instant> {
        self.crowded.load(Ordering::Relaxed).then(clock::now)
    }

    #[inline]
    fn note_crowd(&self, table: &mut Table<C>) {
        let crowded = table.machine.waiting() > 0;
        if crowded != table.crowded {
            table.crowded = crowded;
            self.crowded.store(crowded, Ordering::Relaxed);
        }
    }

    /// A step of the driver, which need not wake itself.
    pub(crate) fn driver_step<R>(&self, step: impl FnOnce(&mut Table<C>) -> R) -> R {
        let (result, wakers) = {
            let mut table = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let result = step(&mut table);
            (result, table.deliver())
        };
        wakers.wake();
        result
    }

    /// The driver has ended: whatever is left is dropped, whoever waits is told.
    pub(crate) fn abandon(&self) {
        let left = self.driver_step(|table| {
            table.machine.abandon();
            let held: Vec<_> = table.entries.iter_mut().filter_map(|entry| entry.held.take()).collect();
            held
        });
        for held in left {
            drop_quietly(&self.name, held);
        }
        self.lifecycle.send_replace(State::Stopped);
    }

    /// Who holds this slot's connection, if it is still lent; it is counted as overdue.
    pub(crate) fn overdue(&self, slot: SlotRef, now: Instant) -> Option<Outstanding> {
        self.driver_step(|table| {
            let lent = table.machine.lent().find(|lent| lent.slot == slot)?;
            let site = table.entries.get(slot.index())?.site?;
            table.overdue += 1;
            Some(Outstanding { backend: lent.backend, site, lent_for: now.saturating_duration_since(lent.since) })
        })
    }

    pub(crate) fn outstanding(&self, now: Instant) -> Vec<Outstanding> {
        self.step(|table| {
            let describe = |lent: Lent| {
                let site = table.entries.get(lent.slot.index())?.site?;
                let lent_for = now.saturating_duration_since(lent.since);
                Some(Outstanding { backend: lent.backend, site, lent_for })
            };
            table.machine.lent().filter_map(describe).collect()
        })
    }
}

impl<C: Connect> Table<C> {
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
            Claimed::Granted { slot, place, ask } => Begun::Granted(self.lend(slot, place, ask, asking.site)),
            Claimed::Waiting(waiter) => {
                if self.callers.len() <= waiter.index() {
                    self.callers.resize_with(waiter.index() + 1, || Caller::Nobody);
                }
                self.callers[waiter.index()] = Caller::Waiting { waker: waker.clone(), site: asking.site };
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
            Claimed::Granted { slot, place, ask } => Ok(self.lend(slot, place, ask, site)),
            Claimed::Refused(refusal) => Err(self.explain(refusal, Duration::ZERO, name)),
            Claimed::Waiting(_) => unreachable!("try_claim does not wait"),
        }
    }

    /// What a waiting caller was given; if nothing yet, it is woken again through `waker`.
    pub(crate) fn collect(&mut self, waiter: WaiterId, waker: &Waker) -> Collected<C> {
        let caller = &mut self.callers[waiter.index()];
        match caller {
            Caller::Waiting { waker: before, .. } if before.will_wake(waker) => Collected::Nothing(None),
            Caller::Waiting { waker: before, .. } => Collected::Nothing(Some(std::mem::replace(before, waker.clone()))),
            Caller::Granted(_) | Caller::Refused(_) | Caller::Nobody => {
                self.machine.forget_waiter(waiter);
                match std::mem::replace(caller, Caller::Nobody) {
                    Caller::Granted(held) => Collected::Granted(held),
                    Caller::Refused(refusal) => Collected::Refused(refusal),
                    Caller::Waiting { .. } | Caller::Nobody => unreachable!("a caller collects once"),
                }
            }
        }
    }

    /// A caller gives up. If a connection had been handed to it already, that is to be given back.
    pub(crate) fn withdraw(&mut self, waiter: WaiterId) -> Withdrawn<C> {
        self.machine.forget_waiter(waiter);
        match std::mem::replace(&mut self.callers[waiter.index()], Caller::Nobody) {
            Caller::Granted(held) => Withdrawn::Granted(held),
            Caller::Waiting { waker, .. } => Withdrawn::Waiting(waker),
            Caller::Nobody | Caller::Refused(_) => Withdrawn::Nothing,
        }
    }

    /// A connection comes back into the table, for the machine to decide about.
    pub(crate) fn give_back(&mut self, now: Instant, held: Box<Held<C>>, outcome: Outcome) -> Option<Box<Held<C>>> {
        let slot = held.slot;
        if !self.machine.is_current(slot) {
            // The driver has ended meanwhile: nobody else would close it.
            return Some(held);
        }
        let entry = &mut self.entries[slot.index()];
        entry.site = None;
        entry.held = Some(held);
        self.machine.release(now, slot, outcome);
        None
    }

    /// A connection that was lent is no more.
    pub(crate) fn give_up(&mut self, now: Instant, slot: SlotRef, outcome: Outcome) {
        if self.machine.is_current(slot) {
            self.entries[slot.index()].site = None;
            self.machine.release(now, slot, outcome);
        }
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

    /// A look at an idle slot's connection.
    pub(crate) fn look(&self, slot: SlotRef) -> Option<&C::Connection> {
        let entry = self.entries.get(slot.index()).filter(|_| self.machine.is_current(slot))?;
        entry.held.as_ref().map(|held| &held.connection)
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
            Refusal::Failed { dead, known } => ClaimError::Failed { dead, known, summary: summary(0) },
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
            connecting: counts.pending(),
            maximum: self.machine.options().maximum,
            waiting: self.machine.waiting(),
            ahead,
            dead,
            known,
            cause: self.causes.latest(),
        }
    }

    fn lend(&mut self, slot: SlotRef, place: Place, ask: bool, site: &'static Location<'static>) -> Granted<C> {
        let entry = &mut self.entries[slot.index()];
        let mut held = entry.held.take().expect("an idle slot has its connection in the table");
        held.slot = slot;
        entry.site = Some(site);
        Granted { held, place, ask, watcher: entry.watcher.take() }
    }

    /// Takes a connection that was used a moment ago, if there is nothing to decide.
    #[inline]
    pub(crate) fn claim_warm(&mut self, site: &'static Location<'static>) -> Option<Box<Held<C>>> {
        let slot = self.machine.claim_warm()?;
        let entry = &mut self.entries[slot.index()];
        let mut held = entry.held.take()?;
        held.slot = slot;
        entry.site = Some(site);
        Some(held)
    }

    /// Puts what the machine delivers into the hands of those who wait for it.
    #[inline]
    fn deliver(&mut self) -> Wakers {
        let mut wakers = Wakers::default();
        while let Some(delivery) = self.machine.poll_delivery() {
            let waker = match delivery {
                Delivery::Grant { waiter, slot } => {
                    let held = self.entries[slot.index()].held.take();
                    let mut held = held.expect("a granted slot has its connection in the table");
                    held.slot = slot;
                    self.hand(waiter, held)
                }
                Delivery::Refuse { waiter, refusal } => self.answer(waiter, Caller::Refused(refusal)),
            };
            wakers.extend(waker);
        }
        wakers
    }

    /// Puts a connection into the hands of a waiting caller, who is to be woken.
    fn hand(&mut self, waiter: WaiterId, held: Box<Held<C>>) -> Option<Waker> {
        if let Caller::Waiting { site, .. } = &self.callers[waiter.index()] {
            self.entries[held.slot.index()].site = Some(site);
        }
        self.answer(waiter, Caller::Granted(held))
    }

    fn answer(&mut self, waiter: WaiterId, outcome: Caller<C>) -> Option<Waker> {
        match std::mem::replace(&mut self.callers[waiter.index()], outcome) {
            Caller::Waiting { waker, .. } => Some(waker),
            Caller::Nobody | Caller::Granted(_) | Caller::Refused(_) => None,
        }
    }
}

/// Callers to be woken after the lock is let go: nearly always none or one, which costs no allocation.
#[derive(Default)]
struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    #[inline]
    fn extend(&mut self, waker: Option<Waker>) {
        if self.first.is_none() {
            self.first = waker;
        } else {
            self.others.extend(waker);
        }
    }

    #[inline]
    fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
            self.others.into_iter().for_each(Waker::wake);
        }
    }
}
