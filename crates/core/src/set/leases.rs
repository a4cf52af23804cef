//! Leases: who wants one, who waits for one, and who lets go.

use super::places::{Dial, Taking};
use super::{Action, ConnectionId, Delivery, Machine, Refusal, State, Timer, WaiterId};
use crate::backend::Backend;
use crate::recovery::DAY;
use std::time::{Duration, Instant};

/// What somebody wants a lease of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The backend; `None` is any of those known.
    pub backend: Option<Backend>,
    /// The place among those of the backend, for somebody who had it before; `None` lets the set choose.
    pub place: Option<usize>,
    /// How long it may take; `None` is the set's `lease_timeout`.
    pub timeout: Option<Duration>,
}

impl Want {
    /// Any backend.
    pub fn any() -> Want {
        Want { backend: None, place: None, timeout: None }
    }

    /// This backend, known or not.
    pub fn of(backend: Backend) -> Want {
        Want { backend: Some(backend), place: None, timeout: None }
    }
}

/// What became of asking for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leased {
    /// Here it is.
    Granted(ConnectionId),
    /// It is being connected: a [`Delivery`] says what came of it.
    Waiting(WaiterId),
    /// No.
    Refused(Refusal),
}

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    /// For which place; `None` is any backend.
    pub(super) place: Option<(u32, u32)>,
    pub(super) timeout: Duration,
    /// Whether another backend would do as well.
    pub(super) takes_any: bool,
    /// Where an attempt for it alone has failed.
    pub(super) tried: Vec<u32>,
}

impl Machine {
    /// Somebody wants a lease.
    pub fn lease(&mut self, now: Instant, want: Want) -> Leased {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return Leased::Refused(Refusal::Closed),
        }
        // What is meant as for ever must not be more than the clock can say.
        let timeout = want.timeout.unwrap_or(self.options.lease_timeout).min(365 * DAY);
        match want.backend {
            Some(backend) => self.lease_of(now, &backend, want.place, timeout),
            None => self.lease_any(now, timeout),
        }
    }

    /// A lease is over. Whether it was still of something is the machine's business.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        let (leases, taking, place) =
            (connection.leases - 1, connection.taking, (connection.backend, connection.place));
        connection.leases = leases;
        connection.last_used = now;
        let rank = connection.rank;
        if self.open.remove(&(rank, leases + 1, id)) {
            self.open.insert((rank, leases, id));
        }
        if leases > 0 {
            return;
        }
        match taking {
            Taking::NoMore => self.shut(now, id),
            Taking::Leases if self.place(place.0, place.1).private => {
                self.leave_place(id);
                self.shut(now, id);
            }
            Taking::Leases => self.start_looking(now),
        }
    }

    /// A waiter is gone, of its own accord. Whether it was waiting.
    pub fn forget_waiter(&mut self, now: Instant, waiter: WaiterId) -> bool {
        let Some(found) = self.waiters.remove(&waiter) else { return false };
        self.any.remove(&waiter);
        match found.place {
            Some((backend, place)) => {
                self.place(backend, place).waiters.remove(&waiter);
                self.abort_if_unneeded(now, backend, place);
            }
            None => self.abort_unneeded(now),
        }
        true
    }

    fn lease_of(&mut self, now: Instant, backend: &Backend, place: Option<usize>, timeout: Duration) -> Leased {
        let id = self.record_of(backend);
        let place = match place {
            Some(place) if place < self.options.per_backend => place as u32,
            Some(_) | None => self.choose_place(id),
        };
        if let Some(connection) = self.place(id, place).connection {
            self.grant(connection);
            return Leased::Granted(connection);
        }
        let waiter = self.wait(now, timeout, false);
        self.wait_at(now, waiter, id, place);
        Leased::Waiting(waiter)
    }

    pub(super) fn wait(&mut self, now: Instant, timeout: Duration, takes_any: bool) -> WaiterId {
        let id = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        self.waiters.insert(id, Waiter { place: None, timeout, takes_any, tried: Vec::new() });
        self.set_timer(now + timeout, Timer::Waiter(id));
        id
    }

    pub(super) fn wait_at(&mut self, now: Instant, waiter: WaiterId, backend: u32, place: u32) {
        if let Some(found) = self.waiters.get_mut(&waiter) {
            found.place = Some((backend, place));
            self.place(backend, place).waiters.insert(waiter);
            self.want_dial(now, backend, place);
        }
    }

    /// Counts a lease. It is in use from here on, before whoever asked has heard of it.
    pub(super) fn grant(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        let leases = connection.leases + 1;
        connection.leases = leases;
        connection.idleness.use_again();
        let rank = connection.rank;
        if self.open.remove(&(rank, leases - 1, id)) {
            self.open.insert((rank, leases, id));
        }
    }

    pub(super) fn deliver(&mut self, waiter: WaiterId, id: ConnectionId) {
        if self.waiters.remove(&waiter).is_some() {
            self.any.remove(&waiter);
            self.grant(id);
            self.deliveries.push_back(Delivery::Granted { waiter, connection: id });
        }
    }

    pub(super) fn refuse(&mut self, waiter: WaiterId, refusal: Refusal) {
        if self.waiters.remove(&waiter).is_some() {
            self.any.remove(&waiter);
            self.deliveries.push_back(Delivery::Refused { waiter, refusal });
        }
    }

    pub(super) fn time_out(&mut self, now: Instant, waiter: WaiterId) {
        let Some(after) = self.waiters.get(&waiter).map(|waiter| waiter.timeout) else { return };
        self.forget_waiter(now, waiter);
        self.deliveries.push_back(Delivery::Refused { waiter, refusal: Refusal::TimedOut { after } });
    }

    /// Ends the dial of a place that nobody wants the outcome of.
    pub(super) fn abort_if_unneeded(&mut self, now: Instant, backend: u32, place: u32) {
        self.abort_dial(backend, place);
        self.give_turns(now, backend);
        self.forget_if_unused(now, backend);
    }

    /// The same for all places, when nobody waits for just any backend any more.
    pub(super) fn abort_unneeded(&mut self, now: Instant) {
        if !self.any.is_empty() {
            return;
        }
        for backend in self.order.clone() {
            let places = self.records[&backend].places.len() as u32;
            (0..places).for_each(|place| self.abort_dial(backend, place));
            self.give_turns(now, backend);
        }
    }

    /// Without giving its turn to another, for when more may be ended.
    pub(super) fn abort_dial(&mut self, backend: u32, place: u32) {
        let serves_any = !self.any.is_empty() && self.records[&backend].known;
        let record = self.record(backend);
        let found = &mut record.places[place as usize];
        let wanted = (record.wanted && place == 0) || serves_any || !found.waiters.is_empty();
        match found.dial {
            Dial::Connecting { .. } | Dial::Held { .. } | Dial::Backoff { .. } if wanted => {}
            Dial::Nothing => {}
            Dial::Backoff { .. } => found.vacate(),
            Dial::Held { .. } => {
                found.vacate();
                record.held.retain(|held| *held != place);
            }
            Dial::Connecting { id, .. } => {
                found.vacate();
                record.connecting -= 1;
                self.actions.push_back(Action::Abort(id));
                self.free_entry(id);
            }
        }
    }
}
