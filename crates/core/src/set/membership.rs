//! Membership: who the resolver says serves, and what becomes of who does not any more.

use super::places::{Dial, Taking};
use super::{Action, ConnectionId, Machine, State, Timer};
use crate::backend::Backend;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

impl Machine {
    /// The resolver has spoken: these serve, and no others.
    pub fn handle_backends(&mut self, now: Instant, current: &[Backend]) {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return,
        }
        self.resolver_failed = false;
        let mut listed = BTreeSet::new();
        let mut news = false;
        for backend in current {
            let id = self.record_of(backend);
            listed.insert(id);
            let record = self.record(id);
            if (record.backend.priority(), record.backend.weight()) != (backend.priority(), backend.weight()) {
                news = true;
                let fresh = Arc::new(backend.clone());
                record.backend = Arc::clone(&fresh);
                self.ids.remove(backend);
                self.ids.insert(fresh, id);
            }
            if !self.records[&id].known {
                news = true;
                self.welcome(id);
            }
        }
        let gone: Vec<u32> = self.order.iter().copied().filter(|id| !listed.contains(id)).collect();
        if !gone.is_empty() {
            self.order.retain(|id| listed.contains(id));
        }
        for id in &gone {
            self.give_up(now, *id, Some(now + self.options.drain_timeout));
        }
        if news || !gone.is_empty() {
            self.fail_if_all_dead();
            self.replan(now);
            self.dial_for_any(now);
        }
    }

    /// The resolver cannot say who serves, and never could.
    pub fn handle_resolver_failed(&mut self) {
        self.resolver_failed = true;
        if self.state == State::Starting && self.order.is_empty() {
            self.state = State::Failed;
        }
        if self.order.is_empty() {
            let refusal = self.failure();
            for waiter in std::mem::take(&mut self.any) {
                self.refuse(waiter, refusal.clone());
            }
        }
    }

    /// A backend takes part: its connections, if somebody asked for it before, are for everybody now.
    fn welcome(&mut self, id: u32) {
        let at = self.random.below(self.order.len() + 1);
        self.order.insert(at, id);
        let record = self.record(id);
        record.known = true;
        let connections: Vec<_> =
            record.places.iter().filter(|place| !place.private).filter_map(|place| place.connection).collect();
        for connection in connections {
            let leases = self.connection(connection).map_or(0, |connection| connection.leases);
            self.open.insert((leases, connection));
        }
    }

    /// A backend does not take part any more. Dials that somebody waits for go on; connections are drained.
    pub(super) fn give_up(&mut self, now: Instant, id: u32, until: Option<Instant>) {
        let record = self.record(id);
        (record.known, record.wanted) = (false, false);
        for place in 0..self.records[&id].places.len() as u32 {
            let found = self.place(id, place);
            let connection = found.connection;
            if found.dial != Dial::Nothing {
                self.abort_if_unneeded(now, id, place);
            }
            if let Some(connection) = connection {
                self.drain(now, connection, until);
            }
            if !self.records.contains_key(&id) {
                return;
            }
        }
        self.forget_if_unused(now, id);
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
        let (backend, place, leases) = (connection.backend, connection.place, connection.leases);
        self.open.remove(&(leases, id));
        let found = self.place(backend, place);
        if found.connection == Some(id) {
            found.connection = None;
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
