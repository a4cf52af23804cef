//! What a set's users and its driver share: the machine, the connections, those who wait.
//!
//! One lock around all of it, held for short steps; whoever is served by a step is woken after it.

use super::Share;
use crate::cause::{Cause, Causes, Reason};
use crate::clock;
use crate::monitor::Id;
use crate::quiet::drop_quietly;
use crate::ready::{Readies, Unready};
use crate::sync::{Mutex, MutexGuard};
use carom_core::backend::Backend;
use carom_core::idle::Idleness;
use carom_core::set::{Action, ConnectionId, Delivery, Glance, Machine, Readiness, Refusal, State, WaiterId};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;
use tokio::sync::{Notify, watch};

/// The part of a set that outlives its handles for as long as something is leased.
pub(crate) struct Shared<S: Share> {
    pub(crate) name: Arc<str>,
    pub(crate) connector: S,
    /// Who says who serves, to the monitor.
    pub(super) resolver: Option<Id>,
    state: Mutex<Table<S>>,
    /// Wakes the driver.
    pub(crate) wake: Notify,
    /// Notified after each turn of the driver.
    pub(super) turned: Notify,
    pub(crate) lifecycle: watch::Sender<State>,
    /// Counts the times that connections came or went.
    pub(crate) turnover: watch::Sender<u64>,
}

/// What the lock protects.
pub(crate) struct Table<S: Share> {
    pub(crate) machine: Machine,
    /// By the small number of a connection.
    cells: Vec<Option<Held<S>>>,
    callers: BTreeMap<WaiterId, Caller<S>>,
    pub(crate) causes: Causes,
    /// What the machine wants done, in order.
    pub(crate) actions: VecDeque<Action>,
}

struct Held<S: Share> {
    id: ConnectionId,
    cell: Arc<Cell<S>>,
    roles: BTreeMap<Arc<str>, usize>,
}

/// A connection as all who hold it share it.
pub(crate) struct Cell<S: Share> {
    pub(crate) id: ConnectionId,
    pub(crate) backend: Arc<Backend>,
    /// Which of the backend's connections it is: known as soon as the machine has accepted it.
    pub(crate) place: OnceLock<usize>,
    pub(crate) connection: S::Connection,
    pub(crate) standing: watch::Sender<Standing>,
}

/// How a connection stands with those who hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    Up,
    Draining,
    Closed,
}

/// Somebody who waits for a lease.
enum Caller<S: Share> {
    Waiting { waker: Waker, role: Option<Arc<str>> },
    Granted(Arc<Cell<S>>),
    Refused(Refusal),
}

/// What somebody who waits finds.
pub(crate) enum Collected<S: Share> {
    Nothing(#[allow(dead_code, reason = "dropped after the lock is let go")] Option<Waker>),
    Granted(Arc<Cell<S>>),
    Refused(Refusal),
}

/// A connection of a set at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionSnapshot {
    /// Its name within the set; never used again.
    pub id: ConnectionId,
    /// Where it leads.
    pub backend: Arc<Backend>,
    /// Which of the backend's connections it is.
    pub place: usize,
    /// How far it is on its way out for want of use.
    pub idleness: Idleness,
    /// Whether it takes no more leases.
    pub draining: bool,
    /// Whether an eager set keeps it, used or not.
    pub kept: bool,
    /// When it was connected.
    pub created: Instant,
    /// Since when nobody has held it; `None` while somebody does.
    pub idle_since: Option<Instant>,
    /// When its last lease ended; when it was made, if it has had none.
    pub last_used: Instant,
    /// Leases that are out.
    pub leases: usize,
    /// Of these, those with a role, by role.
    pub roles: BTreeMap<Arc<str>, usize>,
}

impl<S: Share> Shared<S> {
    pub(crate) fn new(name: Arc<str>, connector: S, machine: Machine, resolver: Option<Id>) -> Shared<S> {
        let lifecycle = watch::Sender::new(machine.state());
        let table = Table {
            machine,
            cells: Vec::new(),
            callers: BTreeMap::new(),
            causes: Causes::default(),
            actions: VecDeque::new(),
        };
        Shared {
            name,
            connector,
            resolver,
            state: Mutex::new(table),
            wake: Notify::new(),
            turned: Notify::new(),
            lifecycle,
            turnover: watch::Sender::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Table<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step under the lock; then those it served are woken, and the driver if it has something to do or to tell.
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut Table<S>) -> R) -> R {
        let (result, wakers, attention) = {
            let mut table = self.lock();
            let (before, state) = (table.machine.next_timeout(), table.machine.state());
            let result = step(&mut table);
            let wakers = table.settle();
            let sooner = clock::is_sooner(table.machine.next_timeout(), before);
            let news = !table.actions.is_empty() || table.machine.has_news() || table.machine.state() != state;
            (result, wakers, sooner || news)
        };
        wakers.into_iter().for_each(Waker::wake);
        if attention {
            self.wake.notify_one();
        }
        result
    }

    /// A dial has brought a connection. It is in the table before the machine hears of it, so that whoever waits is served
    /// in the same step. False when nobody wants it any more.
    pub(crate) fn arrived(&self, now: Instant, cell: &Arc<Cell<S>>) -> bool {
        let (accepted, outdated) = self.step(|table| {
            table.put(Arc::clone(cell));
            table.machine.handle_connected(now, cell.id);
            let accepted = match table.machine.glance(cell.id) {
                Some(glance) => cell.place.set(glance.place).is_ok(),
                None => {
                    table.take(cell.id);
                    false
                }
            };
            (accepted, table.causes.worked(&cell.backend))
        });
        drop_quietly(&self.name, outdated);
        accepted
    }

    /// A use of a backend failed while it may be connected.
    pub(super) fn use_failed(&self, backend: Arc<Backend>, error: Reason) {
        let outdated = self.step(|table| {
            table.machine.report_failure(clock::now(), &backend);
            let outdated = table.causes.use_failed(backend, error);
            (outdated, table.forget_causes())
        });
        drop_quietly(&self.name, outdated);
    }

    /// A connection has ended by itself; who holds it is told.
    pub(crate) fn ended(&self, now: Instant, id: ConnectionId) {
        let cell = self.step(|table| {
            table.machine.handle_ended(now, id);
            table.take(id)
        });
        if let Some(cell) = cell {
            tracing::debug!(set = &*self.name, backend = %cell.backend, "a connection has ended");
            cell.worsen(Standing::Closed);
            drop_quietly(&self.name, cell);
        }
    }

    /// Ends a connection that the machine has given up, for all who hold it, and tells them.
    pub(crate) fn shut(&self, id: ConnectionId) {
        let cell = self.lock().take(id);
        if let Some(cell) = cell {
            self.end(cell);
        }
    }

    pub(crate) fn end(&self, cell: Arc<Cell<S>>) {
        tracing::debug!(set = &*self.name, backend = %cell.backend, "closing a connection");
        self.shut_quietly(&cell.backend, &cell.connection);
        cell.worsen(Standing::Closed);
        drop_quietly(&self.name, cell);
    }

    /// Calls the user's `shut`, whose panic goes no further.
    pub(crate) fn shut_quietly(&self, backend: &Backend, connection: &S::Connection) {
        if catch_unwind(AssertUnwindSafe(|| self.connector.shut(connection))).is_err() {
            tracing::warn!(set = &*self.name, %backend, "shutting a connection panicked");
        }
    }
}

impl<S: Share> Cell<S> {
    /// Tells those who hold a connection how it stands; it never gets better.
    pub(crate) fn worsen(&self, to: Standing) {
        self.standing.send_if_modified(|standing| {
            let worse = *standing < to;
            *standing = (*standing).max(to);
            worse
        });
    }
}

impl<S: Share> Table<S> {
    /// Collects what the machine wants done, and puts what it delivers into the hands of those who wait for it.
    fn settle(&mut self) -> Vec<Waker> {
        self.actions.extend(std::iter::from_fn(|| self.machine.poll_action()));
        let mut wakers = Vec::new();
        while let Some(delivery) = self.machine.poll_delivery() {
            let (waiter, outcome) = match delivery {
                Delivery::Granted { waiter, connection } => match self.cell(connection) {
                    Some(cell) => (waiter, Caller::Granted(cell)),
                    // A connection is in the table before the machine hears of it.
                    None => (waiter, Caller::Refused(Refusal::Closed)),
                },
                Delivery::Refused { waiter, refusal } => (waiter, Caller::Refused(refusal)),
            };
            if let Some(caller) = self.callers.get_mut(&waiter)
                && let Caller::Waiting { waker, role } = std::mem::replace(caller, outcome)
            {
                if let Caller::Granted(cell) = caller {
                    let id = cell.id;
                    self.count_role(id, role.as_ref(), 1);
                }
                wakers.push(waker);
            }
        }
        wakers
    }

    /// The connection of this name, if it is there.
    pub(crate) fn cell(&self, id: ConnectionId) -> Option<Arc<Cell<S>>> {
        let held = self.cells.get(id.index())?.as_ref().filter(|held| held.id == id)?;
        Some(Arc::clone(&held.cell))
    }

    fn put(&mut self, cell: Arc<Cell<S>>) {
        let index = cell.id.index();
        if self.cells.len() <= index {
            self.cells.resize_with(index + 1, || None);
        }
        self.cells[index] = Some(Held { id: cell.id, cell, roles: BTreeMap::new() });
    }

    /// Takes out the very connection, never another that has its number by now.
    fn take(&mut self, id: ConnectionId) -> Option<Arc<Cell<S>>> {
        let held = self.cells.get_mut(id.index())?.take_if(|held| held.id == id)?;
        Some(held.cell)
    }

    pub(crate) fn count_role(&mut self, id: ConnectionId, role: Option<&Arc<str>>, by: isize) {
        let Some(role) = role else { return };
        let Some(Some(held)) = self.cells.get_mut(id.index()) else { return };
        if held.id != id {
            return;
        }
        let count = held.roles.entry(Arc::clone(role)).or_default();
        *count = count.saturating_add_signed(by);
        if *count == 0 {
            held.roles.remove(role);
        }
    }

    pub(crate) fn wait(&mut self, waiter: WaiterId, waker: Waker, role: Option<Arc<str>>) {
        self.callers.insert(waiter, Caller::Waiting { waker, role });
    }

    pub(crate) fn collect(&mut self, waiter: WaiterId, waker: &Waker) -> Collected<S> {
        match self.callers.remove(&waiter) {
            Some(Caller::Granted(cell)) => Collected::Granted(cell),
            Some(Caller::Refused(refusal)) => Collected::Refused(refusal),
            Some(Caller::Waiting { waker: old, role }) => {
                let same = old.will_wake(waker);
                let (kept, dropped) = if same { (old, None) } else { (waker.clone(), Some(old)) };
                self.callers.insert(waiter, Caller::Waiting { waker: kept, role });
                Collected::Nothing(dropped)
            }
            None => Collected::Refused(Refusal::Closed),
        }
    }

    /// Somebody who waited is gone; what was already theirs is returned.
    pub(crate) fn withdraw(&mut self, now: Instant, waiter: WaiterId) -> (Option<Arc<Cell<S>>>, Option<Waker>) {
        self.machine.forget_waiter(now, waiter);
        match self.callers.remove(&waiter) {
            Some(Caller::Granted(cell)) => (Some(cell), None),
            Some(Caller::Waiting { waker, .. }) => (None, Some(waker)),
            Some(Caller::Refused(_)) | None => (None, None),
        }
    }

    /// What the leases of a connection are for, as far as was said.
    pub(super) fn roles(&self, id: ConnectionId) -> Option<&BTreeMap<Arc<str>, usize>> {
        self.cells.get(id.index())?.as_ref().map(|held| &held.roles)
    }

    pub(crate) fn connections(&self) -> Vec<ConnectionSnapshot> {
        self.machine.snapshot().connections.into_iter().map(|glance| self.describe(glance)).collect()
    }

    fn describe(&self, glance: Glance) -> ConnectionSnapshot {
        let roles = self.roles(glance.connection).cloned().unwrap_or_default();
        ConnectionSnapshot {
            id: glance.connection,
            backend: glance.backend,
            place: glance.place,
            idleness: glance.idleness,
            draining: glance.draining,
            kept: glance.kept,
            created: glance.created,
            idle_since: (glance.leases == 0).then_some(glance.last_used),
            last_used: glance.last_used,
            leases: glance.leases,
            roles,
        }
    }
}

impl<S: Share> Readies for Shared<S> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn turned(&self) -> &Notify {
        &self.turned
    }

    fn expect_ready(&self, n: usize) {
        self.step(|table| table.machine.expect_ready(clock::now(), n));
    }

    fn forget_ready(&self, n: usize) {
        self.step(|table| table.machine.forget_ready(clock::now(), n));
    }

    fn readiness(&self) -> Option<Readiness> {
        let machine = &self.lock().machine;
        match machine.state() {
            State::Starting | State::Running | State::Failed => Some(machine.readiness()),
            State::Stopping | State::Stopped => None,
        }
    }

    fn unready(&self) -> (Vec<Unready>, Option<Cause>) {
        let table = self.lock();
        let unready = table.machine.unready().into_iter();
        let unready = unready.map(|(backend, state)| Unready { cause: table.causes.cause(&backend), backend, state });
        (unready.collect(), table.cause(None))
    }
}
