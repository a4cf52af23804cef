//! Dials: one for each place at a time, tried again as the recovery policy says.

use super::places::{Connection, Dial, Entry, Taking, What};
use super::{Action, ConnectionId, Machine, Refusal, State, Timer};
use crate::idle::Idleness;
use crate::recovery::{Policy, Tries};
use std::time::{Duration, Instant};

impl Machine {
    /// A dial has succeeded. A driver that is told too late that nobody wants it any more ends the connection itself.
    pub fn handle_connected(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id) else { return };
        let policy = self.policy(backend).clone();
        let record = self.record(backend);
        record.connecting -= 1;
        (record.worked, record.dead) = (true, false);
        let failures = match record.setback.take() {
            Some((failures, _)) => failures,
            None => 0,
        };
        let found = &mut record.places[place as usize];
        if let Dial::Connecting { tries, .. } = &found.dial {
            let failures = failures.max(tries.failures(&policy));
            let connection = Connection {
                backend,
                place,
                leases: 0,
                idleness: Idleness::Using,
                created: now,
                last_used: now,
                failures,
                taking: Taking::Leases,
            };
            found.enter(Dial::Nothing);
            found.connection = Some(id);
            self.entries[id.index()].what = What::Connection(connection);
        }
        let (known, private) = (self.records[&backend].known, self.place(backend, place).private);
        if known && !private {
            self.open.insert((0, id));
        }
        self.connected += 1;
        self.state = State::Running;
        self.actions.push_back(Action::Added(id));
        for waiter in std::mem::take(&mut self.place(backend, place).waiters) {
            self.deliver(waiter, id);
        }
        if known && !private {
            for waiter in std::mem::take(&mut self.any) {
                self.deliver(waiter, id);
            }
            self.abort_unneeded(now);
        }
        self.start_looking(now);
        self.give_turns(now, backend);
        self.replan(now);
    }

    /// A dial has failed.
    pub fn handle_failed(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id) else { return };
        self.free_entry(id);
        let policy = self.policy(backend).clone();
        let record = self.record(backend);
        record.connecting -= 1;
        let found = &mut record.places[place as usize];
        let Dial::Connecting { tries, .. } = &found.dial else { return };
        let mut tries = tries.clone();
        match tries.fail(&policy, &mut self.random) {
            Some(delay) => self.back_off(now, backend, place, tries, delay),
            None => self.exhausted(now, backend, place, &policy),
        }
        self.give_turns(now, backend);
        self.dial_for_any(now);
    }

    /// A connection has ended by itself: the driver has told its holders.
    pub fn handle_ended(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection(id) else { return };
        let (backend, place, taking) = (connection.backend, connection.place, connection.taking);
        let (created, failures) = (connection.created, connection.failures);
        if taking == Taking::Leases {
            self.leave_place(id);
            self.actions.push_back(Action::Removed(id));
        }
        self.connected -= 1;
        self.free_entry(id);
        let policy = self.policy(backend).clone();
        if now.saturating_duration_since(created) < policy.shortest_life() {
            // One that ends as soon as it is there is as good as none: it is not dialled again in a tight loop.
            let delay = policy.delay_after(failures, &mut self.random);
            self.record(backend).setback = Some((failures + 1, now + delay));
        }
        self.stop_when_empty();
        self.want_if_planned(now, backend, place);
        self.replan(now);
        self.forget_if_unused(now, backend);
    }

    /// Makes sure that a place is on its way to a connection.
    pub(super) fn want_dial(&mut self, now: Instant, backend: u32, place: u32) {
        let policy = self.policy(backend).clone();
        let record = self.record(backend);
        let setback = record.setback;
        let dead = record.dead;
        let found = &mut record.places[place as usize];
        match &found.dial {
            Dial::Held { .. } | Dial::Connecting { .. } => {}
            // A dead one is watched at long intervals; somebody who waits is worth an attempt as soon as one is allowed.
            Dial::Backoff { tries } if dead && !found.waiters.is_empty() => {
                let tries = tries.clone();
                match setback {
                    Some((_, until)) if until > now => self.wait_until(until, backend, place, tries),
                    Some(_) | None => self.connect(now, backend, place, tries),
                }
            }
            Dial::Backoff { .. } => {}
            Dial::Nothing => {
                let tries = match setback {
                    _ if dead => Tries::watching(&policy),
                    Some((failures, _)) => Tries::resumed(&policy, failures),
                    None => Tries::new(&policy),
                };
                match setback {
                    Some((_, until)) if until > now => self.wait_until(until, backend, place, tries),
                    Some(_) | None => self.connect(now, backend, place, tries),
                }
            }
        }
    }

    /// Dials for those who take any backend: the most preferred that is not being tried, if no fresh attempt is under way.
    pub(super) fn dial_for_any(&mut self, now: Instant) {
        if self.any.is_empty() {
            return;
        }
        if self.options.per_backend == 0 {
            return self.dial_for_each(now);
        }
        let dials = |id: &u32| self.records[id].places.iter().map(|place| &place.dial);
        let fresh = |dial: &Dial| matches!(dial, Dial::Connecting { doubted: false, .. });
        if self.order.iter().any(|id| dials(id).any(fresh)) {
            return;
        }
        let untried =
            |id: &&u32| self.records[id].failed_in != self.wave && dials(id).all(|dial| *dial == Dial::Nothing);
        let waits = |record: &super::Record| record.setback.is_some_and(|(_, until)| until > now);
        let order = |id: &&u32| (self.records[id].dead, waits(&self.records[id]), self.records[id].backend.priority());
        if let Some(&next) = self.order.iter().filter(untried).min_by_key(order) {
            let place = self.choose_place(next);
            self.want_dial(now, next, place);
            // One that must wait for its turn is no attempt: the next is tried as well.
            if !matches!(self.place(next, place).dial, Dial::Connecting { .. }) {
                self.dial_for_any(now);
            }
            return;
        }
        let under_way = self.order.iter().any(|id| dials(id).any(|dial| *dial != Dial::Nothing));
        let watched_only = self.order.iter().all(|id| self.records[id].dead);
        if self.order.is_empty() || (under_way && !watched_only) {
            return;
        }
        let refusal = self.failure();
        for waiter in std::mem::take(&mut self.any) {
            self.refuse(waiter, refusal.clone());
        }
    }

    /// Where each lease has a connection of its own, nobody is served by another's: those who waited for the resolver are given
    /// a place each.
    fn dial_for_each(&mut self, now: Instant) {
        let live = self.order.iter().find(|id| !self.records[id].dead).or(self.order.first());
        let Some(&backend) = live else { return };
        for waiter in std::mem::take(&mut self.any) {
            let place = self.choose_place(backend);
            if let Some(found) = self.waiters.get_mut(&waiter) {
                found.place = Some((backend, place));
                self.place(backend, place).waiters.insert(waiter);
                self.want_dial(now, backend, place);
            }
        }
    }

    /// A dial takes long.
    pub(super) fn doubt(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id) else { return };
        if let Dial::Connecting { doubted, .. } = &mut self.place(backend, place).dial {
            *doubted = true;
        }
        self.dial_for_any(now);
    }

    pub(super) fn back_off_over(&mut self, now: Instant, backend: u32, place: u32, stay: u64) {
        let Some(found) = self.records.get(&backend).and_then(|record| record.places.get(place as usize)) else {
            return;
        };
        if let (Dial::Backoff { tries }, true) = (&found.dial, found.stay == stay) {
            let tries = tries.clone();
            self.connect(now, backend, place, tries);
        }
    }

    /// Lets places dial that waited for their turn.
    pub(super) fn give_turns(&mut self, now: Instant, backend: u32) {
        loop {
            let limit = self.options.connecting_per_backend;
            let Some(record) = self.records.get_mut(&backend) else { return };
            if record.connecting >= limit {
                return;
            }
            let Some(place) = record.held.pop_front() else { return };
            if let Dial::Held { tries } = &record.places[place as usize].dial {
                let tries = tries.clone();
                self.connect(now, backend, place, tries);
            }
        }
    }

    /// Why nobody can be connected to.
    pub(super) fn failure(&self) -> Refusal {
        let dead = self.order.iter().filter(|id| self.records[id].dead).count();
        Refusal::Failed { dead, known: self.order.len() }
    }

    pub(super) fn policy(&self, backend: u32) -> &Policy {
        self.options.recovery.for_connect(self.records[&backend].worked)
    }

    fn dialled(&self, id: ConnectionId) -> Option<(u32, u32)> {
        match self.entries.get(id.index()) {
            Some(Entry { epoch, what: What::Dial { backend, place } }) if *epoch == id.epoch => {
                Some((*backend, *place))
            }
            Some(_) | None => None,
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
        self.place(backend, place).enter(Dial::Connecting { id, tries, doubted: false });
        self.actions.push_back(Action::Dial { connection: id, backend: to, timeout });
        self.set_timer(now + patience(timeout), Timer::Doubt(id));
    }

    fn back_off(&mut self, now: Instant, backend: u32, place: u32, tries: Tries, delay: Duration) {
        let policy = self.policy(backend);
        let failures = tries.failures(policy);
        self.record(backend).setback = Some((failures, now + delay));
        self.wait_until(now + delay, backend, place, tries);
    }

    fn wait_until(&mut self, at: Instant, backend: u32, place: u32, tries: Tries) {
        let found = self.place(backend, place);
        found.enter(Dial::Backoff { tries });
        let stay = found.stay;
        self.set_timer(at, Timer::Backoff { backend, place, stay });
    }

    /// The attempts of a place ran out. Nothing of that is kept but when the next attempt may be made.
    fn exhausted(&mut self, now: Instant, backend: u32, place: u32, policy: &Policy) {
        let (wave, random) = (self.wave, &mut self.random);
        let record = self.records.get_mut(&backend).expect("records outlive what names them");
        let failures = record.setback.map_or(0, |(failures, _)| failures) + 1;
        record.setback = Some((failures, now + policy.delay_after(failures, random)));
        record.failed_in = wave;
        // One that works is not dead: it would not have more connections.
        record.dead = !record.places.iter().any(|place| place.connection.is_some());
        let refusal = Refusal::Unreachable(std::sync::Arc::clone(&record.backend));
        let found = &mut record.places[place as usize];
        found.enter(Dial::Nothing);
        for waiter in std::mem::take(&mut found.waiters) {
            self.refuse(waiter, refusal.clone());
        }
        self.fail_if_all_dead();
        if self.records[&backend].dead {
            self.watch(now, backend, place);
        } else {
            self.want_if_planned(now, backend, place);
        }
        self.replan(now);
        self.forget_if_unused(now, backend);
    }

    /// An eager set tries a dead backend again and again, at long intervals.
    fn watch(&mut self, now: Instant, backend: u32, place: u32) {
        if !self.records[&backend].wanted || place != 0 {
            return;
        }
        let policy = self.policy(backend).clone();
        let delay = policy.watch_delay(&mut self.random);
        self.wait_until(now + delay, backend, place, Tries::watching(&policy));
    }

    pub(super) fn fail_if_all_dead(&mut self) {
        let all_dead = !self.order.is_empty() && self.order.iter().all(|id| self.records[id].dead);
        match self.state {
            State::Starting | State::Running if all_dead => self.state = State::Failed,
            State::Starting | State::Running | State::Failed | State::Stopping | State::Stopped => {}
        }
    }
}

/// How long a dial is waited for before another backend is tried beside it.
fn patience(timeout: Duration) -> Duration {
    (timeout / 4).max(Duration::from_millis(1))
}
