//! Dials: one for each place at a time, tried again as the recovery policy says.

use super::anyone::patience;
use super::places::{Connection, Dial, Entry, Place, Taking, What};
use super::{Action, ConnectionId, Machine, Refusal, State, Timer};
use crate::backend::Backend;
use crate::backends::{Doubt, Health, Part, RUNNING, Setback};
use crate::idle::Idleness;
use crate::recovery::{Policy, SHORTEST_DELAY, Tries, YOUNG};
use std::time::{Duration, Instant};

impl Machine {
    /// A dial has succeeded. A driver that is told too late that nobody wants it any more ends the connection itself.
    pub fn handle_connected(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id) else { return };
        let policy = self.policy(backend).clone();
        let record = self.record(backend);
        let (before, worked) = (record.health, record.works());
        record.connecting -= 1;
        record.accused = None;
        let failures = record.setback.take().map_or(0, |setback| setback.failures);
        let tried = record.places[place as usize].dial.tries().map_or(0, |tries| tries.failures(&policy));
        self.stop_dials(backend, place, Some(id));
        if self.backends.get(backend).health.is_dead() {
            self.backends.revive(backend);
        }
        self.backends.set_health(backend, Health::Proven { doubt: Doubt::None, rest: None });
        if !worked && (before.doubt() != Some(Doubt::None) || !before.has_worked()) {
            self.loads.come_back(now, backend);
        }
        self.rotate(now);
        let connection = Connection {
            backend,
            place,
            leases: 0,
            capacity: usize::MAX,
            turn: 0,
            served: false,
            idleness: Idleness::Using,
            created: now,
            last_used: now,
            failures: failures.max(tried),
            taking: Taking::Leases,
        };
        self.place(backend, place).connection = Some(id);
        self.note_outage(now);
        self.entries[id.index()].what = What::Connection(connection);
        self.classify(backend);
        self.connected += 1;
        // What somebody asked for by name says nothing about those that the set knows.
        if self.backends.get(backend).known || self.state == State::Starting {
            self.state = State::Running;
        }
        self.actions.push_back(Action::Added(id));
        for waiter in std::mem::take(&mut self.place(backend, place).waiters) {
            self.deliver(now, waiter, id);
        }
        if self.place(backend, place).private && self.connection(id).is_some_and(|connection| connection.leases == 0) {
            // It was dialled in an outage, for nobody in particular.
            match self.any.first() {
                Some(&waiter) => self.deliver(now, waiter, id),
                None => self.shut(now, id),
            }
            self.abort_unneeded(now);
        }
        self.shut_beyond_maximum(now, id);
        self.serve_any(now);
        self.start_looking(now);
        self.give_turns(now, backend);
        self.replan(now);
    }

    /// A dial has failed.
    pub fn handle_failed(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id) else { return };
        self.counters.connect_failures += 1;
        self.free_entry(id);
        let policy = self.policy(backend).clone();
        let record = self.record(backend);
        record.connecting -= 1;
        let found = &mut record.places[place as usize];
        let hung = found.hanging.iter().position(|hanging| hanging.id == id).map(|at| found.hanging.remove(at));
        let began = hung.map_or(found.dialled_at, |hanging| Some(hanging.began));
        let dial = found.dial.clone();
        self.backends.note_failed_attempt(backend, began, self.outage.as_mut());
        match dial {
            Dial::Connecting { mut tries, .. } if hung.is_none() => match tries.fail(&policy, &mut self.random) {
                Some(delay) => self.back_off(now, backend, place, tries, delay.max(SHORTEST_DELAY)),
                None => self.exhausted(now, backend, place, &policy),
            },
            Dial::Connecting { id: beside, .. } => {
                self.fail_hanging(now, backend);
                self.dial_beside(now, beside);
            }
            Dial::Nothing | Dial::Held { .. } | Dial::Backoff { .. } => {
                self.fail_hanging(now, backend);
                self.abort_if_unneeded(now, backend, place);
            }
        }
        self.give_turns(now, backend);
        self.fail_waiting(now);
        self.serve_any(now);
    }

    /// A connection has ended by itself: the driver has told its holders. If it was used, that is no failure: servers close
    /// connections after a number of requests.
    pub fn handle_ended(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection(id) else { return };
        let (backend, taking, served) = (connection.backend, connection.taking, connection.served);
        if taking == Taking::Leases {
            if !served {
                self.set_back_if_young(now, id, YOUNG);
            }
            self.leave_place(id);
            self.actions.push_back(Action::Removed(id));
        }
        self.connected -= 1;
        self.free_entry(id);
        self.stop_when_empty();
        self.replan(now);
        self.forget_if_unused(now, backend);
    }

    /// A use of a connection to this backend succeeded. The report may arrive after the connection has ended or was retired;
    /// if that was taken for a failure, the backoff is cancelled.
    pub fn handle_served(&mut self, now: Instant, backend: &Backend, id: ConnectionId) {
        if let Some(connection) = self.connection_mut(id) {
            connection.served = true;
        }
        let Some(backend) = self.backends.find(backend) else { return };
        let record = self.record(backend);
        if record.accused != Some(id) {
            return;
        }
        (record.setback, record.accused) = (None, None);
        self.backends.trust(backend);
        let record = self.backends.get(backend);
        let waits = |(place, found): (u32, &Place)| matches!(found.dial, Dial::Backoff { .. }).then_some(place);
        let waiting: Vec<u32> = (0..).zip(&record.places).filter_map(waits).collect();
        let tries = Tries::new(self.policy(backend));
        for place in waiting {
            self.connect_when_allowed(now, backend, place, tries.clone());
        }
        self.serve_any(now);
    }

    /// Whether [`handle_served`](Machine::handle_served) would change anything.
    pub fn is_unproven(&self, backend: &Backend, id: ConnectionId) -> bool {
        match self.connection(id) {
            Some(connection) if !connection.served => true,
            Some(_) | None => {
                let record = self.backends.find(backend).map(|backend| self.backends.get(backend));
                record.is_some_and(|record| record.accused == Some(id))
            }
        }
    }

    /// A connection that goes as soon as it is there is as good as none: its backend is not dialled again in a tight loop.
    pub(super) fn set_back_if_young(&mut self, now: Instant, id: ConnectionId, young: Duration) {
        let Some(&Connection { backend, created, failures, .. }) = self.connection(id) else { return };
        let policy = self.policy(backend).clone();
        if now.saturating_duration_since(created) < young {
            let delay = policy.delay_after(failures, &mut self.random);
            let record = self.record(backend);
            // A failed dial may have set one already; a report of use does not cancel that.
            record.accused = (!record.must_wait(now)).then_some(id);
            record.setback = Some(Setback { failures: failures + 1, failed_at: now, until: now + delay });
            self.backends.doubt(backend, Doubt::Failing);
        }
    }

    /// Makes sure that a place is on its way to a connection.
    pub(super) fn want_dial(&mut self, now: Instant, backend: u32, place: u32) {
        let policy = self.policy(backend).clone();
        let record = self.record(backend);
        let setback = record.setback;
        let dead = record.health.is_dead();
        let found = &mut record.places[place as usize];
        match &found.dial {
            Dial::Held { .. } | Dial::Connecting { .. } => {}
            // One that is given up is watched at long intervals; somebody who waits is worth an attempt as soon as one is
            // allowed.
            Dial::Backoff { tries, until } if setback.is_none_or(|setback| setback.until < *until) => {
                let tries = tries.clone();
                self.connect_when_allowed(now, backend, place, tries);
            }
            Dial::Backoff { .. } => {}
            Dial::Nothing => {
                let tries = match setback {
                    _ if dead => Tries::watching(&policy),
                    Some(setback) => Tries::resumed(&policy, setback.failures),
                    None => Tries::new(&policy),
                };
                self.connect_when_allowed(now, backend, place, tries);
            }
        }
    }

    /// Makes sure that a backend is dialled. True if a dial runs from now on that did not.
    pub(super) fn dial_once(&mut self, now: Instant, backend: u32) -> bool {
        let places = &self.backends.get(backend).places;
        let dials = places.iter().position(|place| place.dial != Dial::Nothing);
        if dials.is_some_and(|at| places[at].dial.is_under_way()) {
            return false;
        }
        let place = dials.map_or_else(|| self.choose_place(backend), |place| place as u32);
        self.want_dial(now, backend, place);
        matches!(self.place(backend, place).dial, Dial::Connecting { .. })
    }

    pub(super) fn back_off_over(&mut self, now: Instant, backend: u32, serial: u64, place: u32, stay: u64) {
        let record = self.backends.lookup(backend).filter(|record| record.serial == serial);
        let Some(found) = record.and_then(|record| record.places.get(place as usize)) else {
            return;
        };
        if let (Dial::Backoff { tries, .. }, true) = (&found.dial, found.stay == stay) {
            let tries = tries.clone();
            self.connect_when_allowed(now, backend, place, tries);
        }
    }

    /// Lets places dial that waited for their turn.
    pub(super) fn give_turns(&mut self, now: Instant, backend: u32) {
        loop {
            let limit = self.options.connecting_per_backend;
            if self.backends.lookup(backend).is_none() {
                return;
            }
            let record = self.record(backend);
            if record.connecting >= limit {
                return;
            }
            let Some(place) = record.held.pop_front() else { return };
            if let Dial::Held { tries } = &record.places[place as usize].dial {
                let tries = tries.clone();
                self.connect_when_allowed(now, backend, place, tries);
            }
        }
    }

    /// Why nobody can be connected to.
    pub(super) fn failure(&self) -> Refusal {
        Refusal::Failed { dead: self.backends.dead(), known: self.backends.known() }
    }

    pub(super) fn policy(&self, backend: u32) -> &Policy {
        self.options.recovery.for_connect(self.backends.get(backend).health.has_worked())
    }

    pub(super) fn dialled(&self, id: ConnectionId) -> Option<(u32, u32)> {
        match self.entries.get(id.index()) {
            Some(Entry { epoch, what: What::Dial { backend, place } }) if *epoch == id.epoch => {
                Some((*backend, *place))
            }
            Some(_) | None => None,
        }
    }

    pub(super) fn connect_when_allowed(&mut self, now: Instant, backend: u32, place: u32, tries: Tries) {
        let record = self.record(backend);
        let found = &record.places[place as usize];
        // A private place belongs to one lease, so the callers set its pace.
        let again = found.dialled_at.filter(|_| !found.private).map(|at| at + SHORTEST_DELAY);
        match record.setback.map(|setback| setback.until).max(again) {
            Some(until) if until > now => self.wait_until(until, backend, place, tries),
            Some(_) | None => self.connect(now, backend, place, tries),
        }
    }

    fn connect(&mut self, now: Instant, backend: u32, place: u32, tries: Tries) {
        let limit = self.options.connecting_per_backend;
        let record = self.record(backend);
        if record.connecting >= limit {
            record.held.push_back(place);
            record.places[place as usize].enter(Dial::Held { tries });
            return;
        }
        record.connecting += 1;
        let to = std::sync::Arc::clone(&record.backend);
        let timeout = tries.timeout();
        let id = self.new_entry(backend, place);
        let found = self.place(backend, place);
        found.dialled_at = Some(now);
        found.enter(Dial::Connecting { id, tries, doubted: false });
        self.counters.connects += 1;
        self.actions.push_back(Action::Dial { connection: id, backend: to, timeout });
        self.set_timer(now + patience(timeout), Timer::Doubt(id));
        if self.outage.is_some() {
            self.set_timer(now + RUNNING, Timer::Hanging(id));
        }
    }

    fn back_off(&mut self, now: Instant, backend: u32, place: u32, tries: Tries, delay: Duration) {
        let policy = self.policy(backend);
        let failures = tries.failures(policy);
        self.backends.doubt(backend, Doubt::Failing);
        let delay = self.cap_in_outage(backend, delay);
        let record = self.record(backend);
        let setback = Setback { failures, failed_at: now, until: now + delay };
        (record.setback, record.accused) = (Some(setback), None);
        self.wait_until(now + delay, backend, place, tries);
        self.go_elsewhere(now, backend, place, |record| !record.health.is_dead() && !record.must_wait(now));
        self.abort_if_unneeded(now, backend, place);
    }

    fn wait_until(&mut self, at: Instant, backend: u32, place: u32, tries: Tries) {
        let record = self.record(backend);
        let serial = record.serial;
        let found = &mut record.places[place as usize];
        found.enter(Dial::Backoff { tries, until: at });
        let stay = found.stay;
        self.set_timer(at, Timer::Backoff { backend, serial, place, stay });
    }

    /// The attempts of a place ran out. Nothing of that is kept but when the next attempt may be made.
    fn exhausted(&mut self, now: Instant, backend: u32, place: u32, policy: &Policy) {
        self.set_back(now, backend, policy);
        let wave = self.wave;
        let record = self.backends.get_mut(backend);
        record.failed_in = wave;
        let worked = record.health.has_worked();
        // One that works is not dead: it would not have more connections.
        let dead = !record.works();
        let unreachable = Refusal::Unreachable(std::sync::Arc::clone(&record.backend));
        let found = &mut record.places[place as usize];
        found.enter(Dial::Nothing);
        found.planned = false;
        if dead {
            self.backends.set_health(backend, Health::Dead { worked });
        }
        // Before it is told that nobody is left: somebody who was left out may be.
        self.rotate(now);
        self.note_outage(now);
        // Whoever waits at another place for its turn or for the next attempt gets the same outcome.
        let concerned = |(i, other): (usize, &Place)| match other.dial {
            Dial::Nothing => i == place as usize,
            Dial::Held { .. } | Dial::Backoff { .. } => dead,
            Dial::Connecting { .. } => false,
        };
        let concerned: Vec<bool> = self.backends.get(backend).places.iter().enumerate().map(concerned).collect();
        for at in (0..).zip(concerned).filter_map(|(at, concerned)| concerned.then_some(at)) {
            self.go_elsewhere(now, backend, at, |record| !record.health.is_dead());
            for waiter in std::mem::take(&mut self.place(backend, at).waiters) {
                let takes_any = self.waiters.get(&waiter).is_some_and(|waiter| waiter.takes_any);
                let refusal = if takes_any { self.failure() } else { unreachable.clone() };
                self.refuse(waiter, refusal);
            }
            self.abort_dial(backend, at);
        }
        self.watch(now, backend, place);
        self.replan(now);
        self.forget_if_unused(now, backend);
    }

    /// An eager set tries a backend again and again, a dead one with growing delays.
    fn watch(&mut self, now: Instant, backend: u32, place: u32) {
        if !self.backends.get(backend).wanted || place != 0 {
            return;
        }
        let policy = self.policy(backend).clone();
        let record = self.backends.get(backend);
        let until = match record.setback.filter(|_| record.health.is_dead()) {
            Some(setback) => setback.until,
            // It works, and would not have more connections.
            None => now + policy.watch_delay(&mut self.random),
        };
        self.wait_until(until, backend, place, Tries::watching(&policy));
    }

    /// Another attempt has failed of a backend of which none was left.
    fn set_back(&mut self, now: Instant, backend: u32, policy: &Policy) {
        let failures = self.failures(backend) + 1;
        let delay = policy.delay_after(failures, &mut self.random);
        let until = now + self.cap_in_outage(backend, delay);
        let record = self.record(backend);
        record.setback = Some(Setback { failures, failed_at: now, until });
        record.accused = None;
    }

    fn fail_hanging(&mut self, now: Instant, backend: u32) {
        let failures = self.failures(backend) + 1;
        self.record(backend).fail_hanging(now, failures);
    }

    /// Attempts in a row that have failed.
    fn failures(&self, backend: u32) -> u32 {
        self.backends.get(backend).setback.map_or(0, |setback| setback.failures)
    }

    /// In an outage the next attempt is made within a second.
    fn cap_in_outage(&mut self, backend: u32, delay: Duration) -> Duration {
        if self.outage.is_none() {
            return delay;
        }
        delay.min(self.policy(backend).clone().outage_delay(&mut self.random))
    }
}
