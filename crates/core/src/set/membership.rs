//! Membership: who the resolver says serves, and what becomes of who does not any more.

use super::places::{BackendPlaces, Taking};
use super::{Action, ConnectionId, Machine, State, Timer};
use crate::backend::Backend;
use crate::backends::Part;
use std::time::Instant;

impl Machine {
    /// The resolver has spoken: these serve, and no others.
    pub fn handle_backends(&mut self, now: Instant, current: &[Backend]) {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return,
        }
        self.resolver_failed = false;
        let places = self.options.per_backend;
        let diff = self.backends.update(current, || BackendPlaces::new(places), &mut self.random);
        for &id in diff.changed.iter().chain(&diff.added) {
            self.weigh(now, id);
            self.classify(id);
        }
        for &id in &diff.removed {
            self.give_up(now, id, Some(now + self.options.drain_timeout));
        }
        if let Some(schedule) = &self.options.health_check {
            self.backends.schedule_checks(now, &diff.added, schedule, &mut self.random);
        }
        if diff.is_empty() {
            return;
        }
        self.loads.compare();
        let works = |id: &u32| self.backends.get(*id).works();
        if self.state == State::Failed && diff.added.iter().any(works) {
            self.state = State::Running;
        }
        self.note_outage(now);
        self.replan(now);
        self.serve_any(now);
    }

    /// The resolver cannot say who serves, and never could.
    pub fn handle_resolver_failed(&mut self) {
        self.resolver_failed = true;
        if self.state == State::Starting && self.backends.known() == 0 {
            self.state = State::Failed;
        }
        if self.backends.known() == 0 {
            let refusal = self.failure();
            for waiter in std::mem::take(&mut self.any) {
                self.refuse(waiter, refusal.clone());
            }
        }
    }

    /// A backend does not take part any more. Dials that somebody waits for go on; connections are drained.
    pub(super) fn give_up(&mut self, now: Instant, id: u32, until: Option<Instant>) {
        let record = self.record(id);
        record.wanted = false;
        self.expected.retain(|expected| *expected != id);
        self.call_back(id);
        self.abort_dials(now, id);
        let connections: Vec<_> = self.backends.get(id).places.iter().filter_map(|place| place.connection).collect();
        for connection in connections {
            self.drain(now, connection, until);
        }
        self.forget_if_unused(now, id);
    }

    /// Those who wait at this backend and would take any other do not wait for this one.
    pub(super) fn call_back(&mut self, id: u32) {
        let Machine { backends, waiters, any, .. } = self;
        for place in &mut backends.get_mut(id).places {
            place.waiters.retain(|id| {
                let Some(waiter) = waiters.get_mut(id).filter(|waiter| waiter.takes_any) else { return true };
                waiter.place = None;
                any.insert(*id);
                false
            });
        }
    }

    /// No new leases; the holders are told, and have until then.
    pub(super) fn drain(&mut self, now: Instant, id: ConnectionId, until: Option<Instant>) {
        let Some(connection) = self.connection(id) else { return };
        if connection.taking == Taking::NoMore {
            return;
        }
        let unused = connection.leases == 0;
        self.leave_place(id);
        if let Some(connection) = self.connection_mut(id) {
            connection.taking = Taking::NoMore;
        }
        self.actions.push_back(Action::Removed(id));
        if unused {
            self.shut(now, id);
            return;
        }
        self.actions.push_back(Action::Drain(id));
        if let Some(until) = until {
            self.set_timer(until, Timer::Drain(id));
        }
    }

    pub(super) fn drain_over(&mut self, now: Instant, id: ConnectionId) {
        self.shut(now, id);
    }

    /// Its place is free for another.
    pub(super) fn leave_place(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection(id) else { return };
        let (backend, place) = (connection.backend, connection.place);
        let found = self.place(backend, place);
        if found.connection == Some(id) {
            found.vacate();
            self.classify(backend);
        }
    }

    /// Ends a connection for everybody.
    pub(super) fn shut(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection(id) else { return };
        let (backend, taking) = (connection.backend, connection.taking);
        self.leave_place(id);
        if taking == Taking::Leases {
            self.actions.push_back(Action::Removed(id));
        }
        self.actions.push_back(Action::Shut(id));
        self.connected -= 1;
        self.free_entry(id);
        self.stop_when_empty();
        self.forget_if_unused(now, backend);
    }
}
