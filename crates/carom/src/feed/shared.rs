//! What a feed's users, its driver and its connections share: the machine, and those who wait.
//!
//! One lock around all of it, held for short steps and never while the upstream is spoken to; whoever is served by a step is
//! woken after it.

use super::adapter::{Adapter, Tick};
use super::lagging::Senders;
use super::withholding::{Unheard, Withholding};
use crate::clock;
use crate::quiet::drop_quietly;
use crate::sync::{Mutex, MutexGuard};
use carom_core::feed::{Action, ConnectionId, Delivery, Machine, Placement, Refusal, State, WaiterId};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

pub(super) type Failure = Arc<dyn Error + Send + Sync>;

pub(crate) struct Shared<A> {
    pub(crate) name: Arc<str>,
    pub(super) adapter: A,
    pub(super) heartbeat: Option<Duration>,
    pub(super) write_timeout: Duration,
    pub(super) pace: Duration,
    state: Mutex<Table>,
    /// Wakes the driver.
    pub(crate) wake: Notify,
    pub(crate) lifecycle: watch::Sender<State>,
    /// How often another credential was said to be at hand.
    pub(super) renewals: watch::Sender<u64>,
    pub(super) readers: Senders<(), Tick>,
}

/// What the lock protects.
pub(crate) struct Table {
    pub(crate) machine: Machine,
    callers: BTreeMap<WaiterId, Caller>,
    /// The last real error, until everything that is wanted is carried again.
    pub(super) cause: Option<Failure>,
    /// What the machine wants done, in order.
    pub(crate) actions: VecDeque<Action>,
}

/// Somebody who waits to hear of a topic.
enum Caller {
    Waiting(Waker),
    Told(Result<Placement, Refusal>),
}

impl<A: Adapter> Shared<A> {
    pub(super) fn new(name: Arc<str>, adapter: A, heartbeat: Option<Duration>, machine: Machine) -> Shared<A> {
        let lifecycle = watch::Sender::new(machine.state());
        let (write_timeout, pace) = (machine.options().write_timeout, machine.options().pace);
        let table = Table { machine, callers: BTreeMap::new(), cause: None, actions: VecDeque::new() };
        Shared {
            name,
            adapter,
            heartbeat,
            write_timeout,
            pace,
            state: Mutex::new(table),
            wake: Notify::new(),
            lifecycle,
            renewals: watch::Sender::new(0),
            readers: Senders::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step under the lock; then those it served are woken, and the driver if it has something to do or to tell.
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut Table) -> R) -> R {
        let (result, wakers, attention, outdated) = {
            let mut table = self.lock();
            let (before, state) = (table.machine.next_timeout(), table.machine.state());
            let result = step(&mut table);
            let wakers = table.settle();
            let sooner = match (table.machine.next_timeout(), before) {
                (Some(after), Some(before)) => after < before,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let attention = sooner || !table.actions.is_empty() || table.machine.state() != state;
            let outdated = if table.machine.is_whole() { table.cause.take() } else { None };
            (result, wakers, attention, outdated)
        };
        drop_quietly(&self.name, outdated);
        wakers.into_iter().for_each(Waker::wake);
        if attention {
            self.wake.notify_one();
        }
        result
    }

    /// What the upstream says of instruments that it has accepted on a connection, if it says anything.
    pub(super) fn withheld(&self, id: ConnectionId, withholding: Option<&Withholding>) {
        let Some(unheard) = withholding.map(Withholding::take).filter(|unheard| !unheard.is_empty()) else { return };
        let Unheard { said, cause } = unheard;
        let outdated = self.step(|table| {
            table.machine.handle_withheld(clock::now(), id, said);
            cause.and_then(|cause| table.cause.replace(cause))
        });
        drop_quietly(&self.name, outdated);
    }

    /// A connection said something. Ticks that count go to all who read them; the others came for nobody, or a second time.
    pub(super) fn heard(&self, now: Instant, id: ConnectionId, ticks: &mut Vec<Tick>) {
        let mut admitted = 0;
        {
            // Nothing that the machine wants done comes of it, and a timeout only moves further away.
            let machine = &mut self.lock().machine;
            if let Some(line) = machine.handle_heard(now, id) {
                // Those that count go to the front, in order; the others are dropped when the lock has been let go.
                for at in 0..ticks.len() {
                    if machine.admit(now, line, &ticks[at].instrument) {
                        ticks.swap(admitted, at);
                        admitted += 1;
                    }
                }
            }
        }
        ticks.truncate(admitted);
        if !ticks.is_empty() {
            self.readers.send(ticks, |()| true);
        }
    }
}

impl Table {
    /// Takes what the machine has to say. Those who are to be woken.
    fn settle(&mut self) -> Vec<Waker> {
        self.actions.extend(std::iter::from_fn(|| self.machine.poll_action()));
        let mut wakers = Vec::new();
        while let Some(delivery) = self.machine.poll_delivery() {
            let (waiter, told) = match delivery {
                Delivery::Placed { waiter, placement } => (waiter, Ok(placement)),
                Delivery::Refused { waiter, refusal } => (waiter, Err(refusal)),
            };
            if let Some(caller) = self.callers.get_mut(&waiter)
                && let Caller::Waiting(waker) = std::mem::replace(caller, Caller::Told(told))
            {
                wakers.push(waker);
            }
        }
        wakers
    }

    /// Takes every interest back: also of those who were told that they have one, and have not looked yet. They would give up
    /// somebody else's otherwise.
    pub(super) fn unsubscribe_all(&mut self, now: Instant) -> usize {
        for caller in self.callers.values_mut() {
            if let Caller::Told(told @ Ok(_)) = caller {
                *told = Err(Refusal::Unsubscribed);
            }
        }
        self.machine.unsubscribe_all(now)
    }

    pub(super) fn wait(&mut self, waiter: WaiterId, waker: Waker) {
        self.callers.insert(waiter, Caller::Waiting(waker));
    }

    /// What somebody who waits is told, if anything by now. The waker that is not needed any more is returned, to be dropped
    /// when the lock has been let go.
    pub(super) fn collect(
        &mut self,
        waiter: WaiterId,
        waker: &Waker,
    ) -> (Option<Result<Placement, Refusal>>, Option<Waker>) {
        match self.callers.remove(&waiter) {
            Some(Caller::Told(told)) => (Some(told), None),
            Some(Caller::Waiting(old)) => {
                let same = old.will_wake(waker);
                let (kept, dropped) = if same { (old, None) } else { (waker.clone(), Some(old)) };
                self.callers.insert(waiter, Caller::Waiting(kept));
                (None, dropped)
            }
            None => (Some(Err(Refusal::Closed)), None),
        }
    }

    /// Somebody who waited is gone. What it had been told, if it was; and its waker, to be dropped later.
    pub(super) fn withdraw(&mut self, waiter: WaiterId) -> (Option<Result<Placement, Refusal>>, Option<Waker>) {
        match self.callers.remove(&waiter) {
            Some(Caller::Told(told)) => (Some(told), None),
            Some(Caller::Waiting(waker)) => (None, Some(waker)),
            None => (None, None),
        }
    }
}
