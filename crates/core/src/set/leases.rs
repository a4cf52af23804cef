//! Leases: who wants one, who waits for one, and who lets go.

use super::places::{Dial, Record, Taking};
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

    fn lease_any(&mut self, now: Instant, timeout: Duration) -> Leased {
        if let Some(&(.., connection)) = self.open.first() {
            self.grant(connection);
            return Leased::Granted(connection);
        }
        if self.order.is_empty() && self.resolver_failed {
            return Leased::Refused(Refusal::Failed { dead: 0, known: 0 });
        }
        if self.any.is_empty() {
            self.wave += 1;
        }
        let waiter = self.wait(now, timeout, true);
        self.any.insert(waiter);
        self.serve_any(now);
        Leased::Waiting(waiter)
    }

    fn wait(&mut self, now: Instant, timeout: Duration, takes_any: bool) -> WaiterId {
        let id = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        self.waiters.insert(id, Waiter { place: None, timeout, takes_any, tried: Vec::new() });
        self.set_timer(now + timeout, Timer::Waiter(id));
        id
    }

    fn wait_at(&mut self, now: Instant, waiter: WaiterId, backend: u32, place: u32) {
        if let Some(found) = self.waiters.get_mut(&waiter) {
            found.place = Some((backend, place));
            self.place(backend, place).waiters.insert(waiter);
            self.want_dial(now, backend, place);
        }
    }

    /// Those who take any backend get what there is, or a dial.
    pub(super) fn serve_any(&mut self, now: Instant) {
        while let (Some(&waiter), Some(&(.., connection))) = (self.any.first(), self.open.first()) {
            self.deliver(waiter, connection);
        }
        if self.options.per_backend == 0 {
            self.place_any(now);
        } else {
            self.dial_for_any(now);
        }
    }

    /// With a connection for each lease there is nothing to share: each gets a place at the backend that seems best.
    fn place_any(&mut self, now: Instant) {
        while let (Some(&waiter), Some(backend)) = (self.any.first(), self.best_backend(now, |_, _| true)) {
            self.any.remove(&waiter);
            let place = self.choose_place(backend);
            self.wait_at(now, waiter, backend, place);
        }
    }

    /// An attempt for one lease alone has failed: if it may be of any backend, and one fits that has not been tried for it,
    /// the next is made there.
    pub(super) fn go_elsewhere(&mut self, now: Instant, backend: u32, place: u32, fits: impl Fn(&Record) -> bool) {
        let found = self.place(backend, place);
        let Some(&waiter) = found.waiters.first().filter(|_| found.private) else { return };
        let Some(who) = self.waiters.get_mut(&waiter).filter(|waiter| waiter.takes_any) else { return };
        if !who.tried.contains(&backend) {
            who.tried.push(backend);
        }
        let tried = &self.waiters[&waiter].tried;
        if let Some(other) = self.best_backend(now, |id, record| !tried.contains(&id) && fits(record)) {
            self.place(backend, place).waiters.remove(&waiter);
            let place = self.choose_place(other);
            self.wait_at(now, waiter, other, place);
        }
    }

    /// The known backend to go to first: not dead, not waiting for its next attempt, most important, least used.
    fn best_backend(&self, now: Instant, fits: impl Fn(u32, &Record) -> bool) -> Option<u32> {
        let order = |id: &&u32| {
            let record = &self.records[id];
            (record.dead, record.must_wait(now), record.backend.priority(), record.alive)
        };
        self.order.iter().filter(|id| fits(**id, &self.records[id])).min_by_key(order).copied()
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
