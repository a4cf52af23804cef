//! Outliers: backends that connect but fail their users leave the plan for a while.

use super::Machine;
use std::time::Instant;

/// How a backend has served its users.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Service {
    /// Uses that failed since one succeeded.
    pub(crate) failures: u32,
    /// How often it has been ejected.
    ejections: u32,
    /// Until when it is out, if it is.
    pub(crate) ejected_until: Option<Instant>,
}

impl Machine {
    /// A use failed. One too many, and the backend is out, if enough others are left.
    pub(super) fn count_failure(&mut self, now: Instant, index: u32) {
        let Some(ejection) = &self.options.ejection else { return };
        let (known, dead, ejected) = (self.backends.known(), self.backends.dead(), self.backends.ejected());
        let record = self.backends.get_mut(index);
        record.service.failures += 1;
        let is_live = !record.health.is_dead() && !record.health.is_removed();
        if !is_live || record.service.ejected_until.is_some() || !ejection.is_too_much(record.service.failures) {
            return;
        }
        if ejection.allows_one_more(known, dead, ejected) {
            let times = record.service.ejections + 1;
            let until = now + ejection.lasts(times);
            record.service = Service { failures: 0, ejections: times, ejected_until: Some(until) };
            self.backends.count_ejected();
            self.plan_soon();
        }
    }

    /// Ends ejections whose time has come, or all of them when too few backends are healthy.
    pub(super) fn end_ejections(&mut self, now: Instant) {
        let Some(ejection) = self.options.ejection.clone() else { return };
        if self.backends.ejected() == 0 {
            return;
        }
        let panic = ejection.is_panic(self.backends.known(), self.backends.dead(), self.backends.ejected());
        for index in self.backends.order().to_vec() {
            match self.backends.get(index).service.ejected_until {
                Some(until) if panic || until <= now => self.backends.readmit(index),
                Some(until) => {
                    self.look_again(until);
                    for slot in self.backends.get(index).slots.clone() {
                        self.stop(now, slot);
                    }
                }
                None => {}
            }
        }
    }
}
