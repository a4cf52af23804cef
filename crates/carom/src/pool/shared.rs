//! What a pool's callers and its driver share: a table, and the one lock around it, held for short steps.
//!
//! A step calls the machine, and whatever that delivers to waiting callers is put into their hands before the lock is let go; they
//! are woken after.

use super::table::Table;
use crate::cause::{Cause, Chain};
use crate::clock;
use crate::connect::Connect;
use crate::monitor::Id;
use crate::quiet::{drop_quietly, text_of};
use crate::ready::{Readies, Unready};
use crate::sync::{Mutex, MutexGuard};
use carom_core::backend::Backend;
use carom_core::pool::{Lent, Machine, Readiness, State};
use carom_core::slot::SlotRef;
use std::error::Error;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// The part of a pool that outlives its handles for as long as something is lent.
pub(crate) struct Shared<C: Connect> {
    pub(crate) name: Arc<str>,
    pub(crate) connector: C,
    pub(crate) claim_timeout: Duration,
    /// Who says who serves, to the monitor.
    pub(super) resolver: Option<Id>,
    state: Mutex<Table<C>>,
    /// Wakes the driver.
    pub(crate) wake: Notify,
    /// Notified after each turn of the driver.
    pub(super) turned: Notify,
    pub(crate) lifecycle: watch::Sender<State>,
    /// A hint, outside the lock, that somebody waits.
    crowded: AtomicBool,
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
    pub(crate) fn new(
        name: Arc<str>,
        connector: C,
        machine: Machine,
        claim_timeout: Duration,
        resolver: Option<Id>,
    ) -> Shared<C> {
        let lifecycle = watch::Sender::new(machine.state());
        Shared {
            name,
            connector,
            claim_timeout,
            resolver,
            state: Mutex::new(Table::new(machine)),
            wake: Notify::new(),
            turned: Notify::new(),
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

    /// A connection broke: the others of its backend are suspect.
    #[cold]
    pub(super) fn broken(&self, backend: &Backend, slot: SlotRef, cause: &(dyn Error + 'static)) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(pool = &*self.name, %backend, error = text_of(&Chain(cause)), "a connection broke");
        }
        let now = clock::now();
        self.step(|table| table.machine.handle_broken(now, slot));
    }

    /// The driver has ended: whatever is left is dropped, whoever waits is told.
    pub(crate) fn abandon(&self) {
        let left = self.driver_step(|table| {
            table.machine.abandon();
            table.take_all()
        });
        for held in left {
            drop_quietly(&self.name, held);
        }
        self.lifecycle.send_replace(State::Stopped);
        self.turned.notify_waiters();
    }

    /// Who holds this slot's connection, if it is still lent; it is counted as overdue.
    pub(crate) fn overdue(&self, slot: SlotRef, now: Instant) -> Option<Outstanding> {
        self.driver_step(|table| {
            let lent = table.machine.lent().find(|lent| lent.slot == slot)?;
            let site = table.site(slot)?;
            table.overdue += 1;
            Some(Outstanding { backend: lent.backend, site, lent_for: now.saturating_duration_since(lent.since) })
        })
    }

    pub(crate) fn outstanding(&self, now: Instant) -> Vec<Outstanding> {
        self.step(|table| {
            let describe = |lent: Lent| {
                let site = table.site(lent.slot)?;
                let lent_for = now.saturating_duration_since(lent.since);
                Some(Outstanding { backend: lent.backend, site, lent_for })
            };
            table.machine.lent().filter_map(describe).collect()
        })
    }
}

impl<C: Connect> Readies for Shared<C> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn turned(&self) -> &Notify {
        &self.turned
    }

    fn expect_ready(&self, n: usize) {
        self.step(|table| table.machine.expect_ready(n));
    }

    fn forget_ready(&self, n: usize) {
        self.step(|table| table.machine.forget_ready(n));
    }

    fn readiness(&self) -> Option<Readiness> {
        let machine = &self.lock().machine;
        match machine.state() {
            State::Starting | State::Running | State::Failed => Some(machine.readiness()),
            _ => None,
        }
    }

    fn unready(&self) -> (Vec<Unready>, Option<Cause>) {
        let table = self.lock();
        let unready = table.machine.unready().into_iter();
        let unready = unready.map(|(backend, state)| Unready { cause: table.causes.cause(&backend), backend, state });
        (unready.collect(), table.causes.latest())
    }
}
