//! Leases: who wants one, who waits for one, and who lets go.

use super::places::{BackendPlaces, Dial, Taking};
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
    /// Of those that are up, rather not one of this backend; if none other is, it may be.
    pub avoid: Option<Backend>,
    /// How long it may take; `None` is the set's `lease_timeout`.
    pub timeout: Option<Duration>,
}

impl Want {
    /// Any backend.
    pub fn any() -> Want {
        Want { backend: None, place: None, avoid: None, timeout: None }
    }

    /// This backend, known or not.
    pub fn of(backend: Backend) -> Want {
        Want { backend: Some(backend), ..Want::any() }
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
    pub(super) since: Instant,
    pub(super) timeout: Duration,
    /// Whether another backend would do as well.
    pub(super) takes_any: bool,
    /// The serials of the backends at which an attempt for it alone has failed.
    pub(super) tried: Vec<u64>,
}

impl Machine {
    /// Somebody wants a lease.
    pub fn lease(&mut self, now: Instant, want: Want) -> Leased {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return self.refused(Refusal::Closed),
        }
        self.loads.pass(now);
        if let Some(refusal) = self.misplaced(&want) {
            return self.refused(refusal);
        }
        if let Some(connection) = self.lease_warm(want.backend.as_ref(), want.place, want.avoid.as_ref()) {
            return Leased::Granted(connection);
        }
        // What is meant as for ever must not be more than the clock can say.
        let timeout = want.timeout.unwrap_or(self.options.lease_timeout).min(365 * DAY);
        match want.backend {
            Some(backend) => self.lease_of(now, &backend, want.place, timeout),
            None => self.lease_any(now, timeout),
        }
    }

    /// A lease of a connection that is up, after which there is nothing to do and nobody to tell; or declines: then
    /// [`Machine::lease`] is to be asked. It needs no time: what depends on it is as of the last lease that ended, or the last report.
    pub fn lease_warm(
        &mut self,
        backend: Option<&Backend>,
        place: Option<usize>,
        avoid: Option<&Backend>,
    ) -> Option<ConnectionId> {
        let connection = match (backend, place) {
            (None, None) => {
                let avoid = avoid.and_then(|avoid| self.backends.find(avoid));
                self.choose_open(avoid)?
            }
            (None, Some(_)) => return None,
            (Some(_), Some(place)) if place >= self.options.per_backend => return None,
            (Some(_), None) if self.options.per_backend == 0 => return None,
            (Some(backend), place) => {
                let id = self.backends.find(backend)?;
                let place = place.map_or_else(|| self.choose_place(id), |place| place as u32);
                self.place(id, place).connection?
            }
        };
        self.grant(connection);
        Some(connection)
    }

    /// A lease is over. Whether it was still of something is the machine's business.
    pub fn release(&mut self, now: Instant, id: ConnectionId) {
        if self.release_warm(now, id) {
            return;
        }
        self.count_back(now, id);
        match self.connection(id).map(|connection| connection.taking) {
            Some(Taking::Leases) if self.options.per_backend > 0 => self.start_looking(now),
            Some(Taking::Leases | Taking::NoMore) => self.shut(now, id),
            None => {}
        }
    }

    /// A lease is over, and nothing follows from that; or declines: then [`Machine::release`] is to be told.
    pub fn release_warm(&mut self, now: Instant, id: ConnectionId) -> bool {
        let Some(connection) = self.connection(id) else { return true };
        let is_last = connection.leases == 1;
        let stays = connection.taking == Taking::Leases && self.options.per_backend > 0;
        let is_looked_at = self.look_at.is_some() || self.options.looks().is_none();
        let nothing_follows = !is_last || (stays && is_looked_at);
        if nothing_follows {
            self.count_back(now, id);
        }
        nothing_follows
    }

    /// Somebody who has a lease says that the connection takes no more: nobody else gets it, whoever comes next gets another,
    /// and it ends with its last lease, however long that takes. Nobody is blamed; but one that served nobody and is as young
    /// as that was as good as none, and is not dialled again in a tight loop.
    pub fn retire(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection(id).filter(|connection| connection.taking == Taking::Leases) else {
            return;
        };
        if !connection.served {
            let young = self.policy(connection.backend).first_delay();
            self.set_back_if_young(now, id, young);
        }
        self.drain(now, id, None);
        self.replan(now);
    }

    /// Somebody who has a lease says how many the far side serves at a time: further leases of any backend go elsewhere while
    /// there is room.
    pub fn set_capacity(&mut self, id: ConnectionId, capacity: usize) {
        let Some(connection) = self.connection_mut(id) else { return };
        connection.capacity = capacity;
        let backend = connection.backend;
        self.classify(backend);
    }

    /// A waiter is gone, of its own accord. Whether it was waiting.
    pub fn forget_waiter(&mut self, now: Instant, waiter: WaiterId) -> bool {
        let gives_up = self.leave_line(now, waiter);
        self.counters.given_up += u64::from(gives_up);
        gives_up
    }

    /// Whether it was waiting.
    fn leave_line(&mut self, now: Instant, waiter: WaiterId) -> bool {
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

    /// A place is one of a named backend's. With a fresh connection for each lease there is none to come back to, and any will do.
    fn misplaced(&self, want: &Want) -> Option<Refusal> {
        let place = want.place?;
        let places = match (&want.backend, self.options.per_backend) {
            (None, _) => 0,
            (Some(_), 0) => return None,
            (Some(_), places) => places,
        };
        (place >= places).then_some(Refusal::NoSuchPlace { place, places })
    }

    /// When nothing is up that this lease may be of.
    fn lease_of(&mut self, now: Instant, backend: &Backend, place: Option<usize>, timeout: Duration) -> Leased {
        let id = self.record_of(now, backend);
        let place = match place {
            Some(place) if place < self.options.per_backend => place as u32,
            Some(_) | None => self.choose_place(id),
        };
        let waiter = self.wait(now, timeout, false);
        self.wait_at(now, waiter, id, place);
        Leased::Waiting(waiter)
    }

    pub(super) fn wait(&mut self, now: Instant, timeout: Duration, takes_any: bool) -> WaiterId {
        let id = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        self.waiters.insert(id, Waiter { place: None, since: now, timeout, takes_any, tried: Vec::new() });
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
        self.counters.leases += 1;
        let turn = self.counters.leases;
        let Some(connection) = self.connection_mut(id) else { return };
        connection.leases += 1;
        connection.turn = turn;
        connection.idleness.use_again();
        let (backend, fills) = (connection.backend, connection.leases == connection.capacity);
        self.loads.begin_use(backend);
        if fills {
            self.classify(backend);
        }
    }

    fn count_back(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        (connection.leases, connection.last_used) = (connection.leases - 1, now);
        connection.served |= connection.taking == Taking::Leases;
        let (backend, had_room) = (connection.backend, connection.leases + 1 < connection.capacity);
        self.loads.pass(now);
        self.loads.end_use(backend);
        if !had_room {
            self.classify(backend);
        }
    }

    pub(super) fn deliver(&mut self, now: Instant, waiter: WaiterId, id: ConnectionId) {
        if let Some(Waiter { since, .. }) = self.waiters.remove(&waiter) {
            self.any.remove(&waiter);
            self.counters.waited += 1;
            self.counters.waited_for += now.saturating_duration_since(since);
            self.grant(id);
            self.deliveries.push_back(Delivery::Granted { waiter, connection: id });
        }
    }

    pub(super) fn refuse(&mut self, waiter: WaiterId, refusal: Refusal) {
        if self.waiters.remove(&waiter).is_some() {
            self.any.remove(&waiter);
            self.tell_refused(waiter, refusal);
        }
    }

    /// Whoever asks is refused before it has begun to wait.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Leased {
        self.counters.refused(&refusal);
        Leased::Refused(refusal)
    }

    /// Somebody who waited, and does not any more, is told so.
    pub(super) fn tell_refused(&mut self, waiter: WaiterId, refusal: Refusal) {
        self.counters.refused(&refusal);
        self.deliveries.push_back(Delivery::Refused { waiter, refusal });
    }

    pub(super) fn time_out(&mut self, now: Instant, waiter: WaiterId) {
        let Some(&Waiter { timeout: after, takes_any, .. }) = self.waiters.get(&waiter) else { return };
        self.leave_line(now, waiter);
        let in_outage = takes_any && self.outage.is_some();
        self.tell_refused(waiter, if in_outage { self.failure() } else { Refusal::TimedOut { after } });
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
        for backend in self.backends.order().to_vec() {
            self.abort_dials(now, backend);
        }
    }

    /// Ends the dials of a backend that nobody wants the outcome of.
    pub(super) fn abort_dials(&mut self, now: Instant, backend: u32) {
        let places = self.backends.get(backend).places.len() as u32;
        (0..places).for_each(|place| self.abort_dial(backend, place));
        self.give_turns(now, backend);
    }

    /// Without giving its turn to another, for when more may be ended.
    pub(super) fn abort_dial(&mut self, backend: u32, place: u32) {
        let serves_any = !self.any.is_empty() && self.backends.get(backend).known && !self.is_out(backend);
        let is_expected = self.expected.contains(&backend);
        let record = self.record(backend);
        let is_kept = is_expected || record.wanted && place == 0;
        let found = &mut record.places[place as usize];
        let wanted = is_kept || serves_any || !found.waiters.is_empty();
        if found.connection.is_none() && found.is_taken() && !wanted {
            found.planned = false;
            self.stop_dials(backend, place, None);
        }
    }

    /// Ends what a place dials, but for this one.
    pub(super) fn stop_dials(&mut self, backend: u32, place: u32, but: Option<ConnectionId>) {
        let record: &mut BackendPlaces = self.record(backend);
        let found = &mut record.places[place as usize];
        let current = match found.dial {
            Dial::Connecting { id, .. } => Some(id),
            Dial::Held { .. } => {
                record.held.retain(|held| *held != place);
                None
            }
            Dial::Nothing | Dial::Backoff { .. } => None,
        };
        let hanging = std::mem::take(&mut found.hanging).into_iter().map(|hanging| hanging.id);
        found.enter(Dial::Nothing);
        for id in hanging.chain(current).filter(|id| Some(*id) != but) {
            self.record(backend).connecting -= 1;
            self.actions.push_back(Action::Abort(id));
            self.free_entry(id);
        }
    }
}
