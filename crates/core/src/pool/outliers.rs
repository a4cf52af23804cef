//! Outliers: backends that connect, but whose uses or active checks fail, get no traffic for a while.

use super::{Action, Machine, State as PoolState};
use crate::backend::Backend;
use crate::backends::CheckId;
use crate::slot::State;
use std::time::Instant;

impl Machine {
    /// Counts a failed use. True if the backend is ejected by it, and is to be [left out](Machine::leave_out): not in a panic.
    pub(super) fn count_failure(&mut self, now: Instant, index: u32) -> bool {
        let ejected = self.backends.record_failed_use(now, index, self.options.ejection.as_ref());
        if ejected {
            self.plan_soon();
        }
        ejected && self.is_out(index)
    }

    /// Whether a backend is out of rotation.
    pub(super) fn is_out(&self, index: u32) -> bool {
        self.backends.is_out(index)
    }

    /// Follows ejections that end, and a panic that begins or ends: backends that are out have nothing that is lent again, and
    /// those that are back keep what is still lent of them.
    pub(super) fn rotate(&mut self, now: Instant) {
        for index in self.backends.end_ejections(now, self.options.ejection.as_ref()) {
            if !self.backends.get(index).is_judged_out() {
                self.picker.loads.start_slowly(now, index);
                self.keep_lent(index);
            }
        }
        if let Some(until) = self.backends.next_reinstatement() {
            self.look_again(until);
        }
        self.backends.update_panic(self.options.ejection.as_ref());
        for index in self.backends.judged_out() {
            if self.is_out(index) {
                // A plan may have taken back its own word about something lent.
                self.leave_out(now, index);
            } else {
                self.keep_lent(index);
            }
        }
    }

    /// Nothing of a backend that is out of rotation is lent or connected to any more.
    pub(super) fn leave_out(&mut self, now: Instant, index: u32) {
        for slot in self.backends.get(index).slots.clone() {
            self.stop(now, slot);
        }
    }

    pub(super) fn start_health_checks(&mut self, now: Instant) {
        if self.is_closed() {
            return;
        }
        for (check, backend) in self.backends.start_checks(now) {
            self.act(Action::HealthCheck { check, backend });
        }
    }

    pub(super) fn next_health_check(&self) -> Option<Instant> {
        self.backends.next_check().filter(|_| !self.is_closed())
    }

    /// Whether the active health checks of a backend fail.
    pub fn is_unhealthy(&self, backend: &Backend) -> bool {
        self.backends.find(backend).is_some_and(|index| self.backends.get(index).is_unhealthy())
    }

    /// A health check has passed, or has failed: by its result or its timeout.
    pub fn handle_health_checked(&mut self, now: Instant, check: CheckId, passed: bool) {
        let Some(schedule) = self.options.health_check.as_ref().filter(|_| !self.is_closed()) else { return };
        let changed = self.backends.record_check(now, check, passed, schedule, &mut self.random);
        self.attention = true;
        if let Some(index) = changed {
            if passed {
                self.picker.loads.start_slowly(now, index);
            }
            self.rotate(now);
            let was_outage = self.outage.is_some();
            self.note_outage(now);
            if was_outage && self.outage.is_none() {
                // A backend works, as its checks say.
                (self.state, self.has_run) = (PoolState::Running, true);
            }
            self.plan_soon();
        }
    }

    fn keep_lent(&mut self, index: u32) {
        for &slot in &self.backends.get(index).slots {
            if let State::Busy { unwanted, .. } = &mut self.slots[slot as usize].state {
                *unwanted = false;
            }
        }
    }
}
