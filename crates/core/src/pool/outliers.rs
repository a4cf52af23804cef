//! Outliers: backends that connect but fail their users are left out for a while.

use super::Machine;
use crate::slot::State;
use std::time::Instant;

impl Machine {
    /// A use failed. One too many, and the backend is ejected, if enough others are left: true then, and it is to be
    /// [left out](Machine::leave_out).
    pub(super) fn count_failure(&mut self, now: Instant, index: u32) -> bool {
        let Some(ejection) = &self.options.ejection else { return false };
        let record = self.backends.get_mut(index);
        record.service.failures += 1;
        let is_live = !record.health.is_dead() && !record.health.is_removed();
        if !is_live || record.service.ejected_until.is_some() || !ejection.is_too_much(record.service.failures) {
            return false;
        }
        if !ejection.allows_one_more(self.backends.known(), self.backends.healthy()) {
            return false;
        }
        let mut service = self.backends.get(index).service;
        service.eject(ejection, now);
        self.backends.eject(index, service);
        self.plan_soon();
        true
    }

    /// Ends ejections whose time has come, or all of them when too few backends are healthy.
    pub(super) fn end_ejections(&mut self, now: Instant) {
        let Some(ejection) = self.options.ejection.clone() else { return };
        if self.backends.ejected() == 0 {
            return;
        }
        let panic = ejection.is_panic(self.backends.known(), self.backends.healthy());
        for index in self.backends.order().to_vec() {
            match self.backends.get(index).service.ejected_until {
                Some(until) if panic || until <= now => self.readmit(now, index),
                Some(until) => {
                    self.look_again(until);
                    // A plan may have taken back its own word about something lent.
                    self.leave_out(now, index);
                }
                None => {}
            }
        }
    }

    /// Nothing of an ejected backend is lent or connected to any more.
    pub(super) fn leave_out(&mut self, now: Instant, index: u32) {
        for slot in self.backends.get(index).slots.clone() {
            self.stop(now, slot);
        }
    }

    /// An ejected backend takes part again, with what is still lent of it.
    fn readmit(&mut self, now: Instant, index: u32) {
        self.backends.readmit(index);
        self.backends.get_mut(index).service.come_back(now);
        for &slot in &self.backends.get(index).slots {
            if let State::Busy { unwanted, .. } = &mut self.slots[slot as usize].state {
                *unwanted = false;
            }
        }
    }
}
