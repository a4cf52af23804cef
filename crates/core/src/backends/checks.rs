//! Active health checks of the known backends: when each is due, and what its results mean.

use super::health::Checks;
use super::{Backends, Turn};
use crate::backend::Backend;
use crate::health_check::Schedule;
use crate::random::Random;
use std::sync::Arc;
use std::time::Instant;

/// Names a health check that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckId {
    index: u32,
    serial: u64,
}

impl<T> Backends<T> {
    /// Schedules the first check of backends that the resolver has added.
    pub(crate) fn schedule_checks(&mut self, now: Instant, added: &[u32], schedule: &Schedule, random: &mut Random) {
        for &index in added {
            let record = self.get_mut(index);
            if record.checks.begin() {
                let check = CheckId { index, serial: record.serial };
                self.set_check_timer(now + schedule.first_delay(random), check);
            }
        }
    }

    /// The checks that are due. Each runs until [`record_check`](Backends::record_check).
    pub(crate) fn start_checks(&mut self, now: Instant) -> Vec<(CheckId, Arc<Backend>)> {
        let mut due = Vec::new();
        while let Some(check) = self.check_timers.pop_due(now) {
            let Some(record) = self.lookup_mut(check.index).filter(|record| record.serial == check.serial) else {
                continue;
            };
            if record.known {
                due.push((check, Arc::clone(&record.backend)));
            } else {
                record.checks.end();
            }
        }
        due
    }

    /// When the next check is due.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.check_timers.next()
    }

    /// Records the result of a check, and schedules the next one. Returns the backend whose state it has changed.
    pub(crate) fn record_check(
        &mut self,
        now: Instant,
        check: CheckId,
        passed: bool,
        schedule: &Schedule,
        random: &mut Random,
    ) -> Option<u32> {
        let CheckId { index, serial } = check;
        let record = self.lookup_mut(index).filter(|record| record.serial == serial)?;
        if !record.known {
            record.checks.end();
            return None;
        }
        self.set_check_timer(now + schedule.next_delay(random), check);
        let decides = self.get_mut(index).checks.record(passed, schedule.threshold(passed));
        if !decides {
            return None;
        }
        let was_unhealthy = self.change(index, |record| record.checks.set_unhealthy(!passed));
        let is_back = passed && self.change(index, |record| record.uses.end_ejection(now));
        match (was_unhealthy, passed) {
            (false, false) => self.note(index, Turn::Unhealthy),
            (true, true) => self.note(index, Turn::ChecksPass),
            (false, true) if is_back => self.note(index, Turn::Returned),
            (false, true) | (true, false) => return None,
        }
        Some(index)
    }

    fn set_check_timer(&mut self, at: Instant, check: CheckId) {
        let alive = self.len();
        let Backends { check_timers, records, .. } = self;
        let is_current = |check: CheckId| {
            let record = records.get(check.index as usize).and_then(Option::as_deref);
            record.is_some_and(|record| record.serial == check.serial)
        };
        check_timers.set(at, check, alive, is_current);
    }
}

impl Checks {
    /// Checks begin. False if they have begun before.
    fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.scheduled, true)
    }

    /// The backend is not known any more: no check is scheduled.
    fn end(&mut self) {
        *self = Checks::default();
    }

    /// Counts a result. True if there are enough equal ones in a row.
    pub(crate) fn record(&mut self, passed: bool, threshold: u32) -> bool {
        *(if passed { &mut self.counts.passed } else { &mut self.counts.failed }) += 1;
        self.in_a_row = if self.last_passed == passed { self.in_a_row.saturating_add(1) } else { 1 };
        self.last_passed = passed;
        self.in_a_row >= threshold
    }

    /// Returns whether it was unhealthy.
    pub(crate) fn set_unhealthy(&mut self, unhealthy: bool) -> bool {
        std::mem::replace(&mut self.unhealthy, unhealthy)
    }
}
