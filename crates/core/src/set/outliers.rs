//! Outliers: backends that connect, but whose uses or active checks fail, get no leases of any backend for a while.

use super::{Action, Machine, State, Timer};
use crate::backend::Backend;
use crate::backends::CheckId;
use std::sync::Arc;
use std::time::Instant;

impl Machine {
    /// Records a failed use. The backend may be ejected by it: until that is over no lease of any backend is of it, and an eager set
    /// keeps no connection to it. Leases that are held stay, and a lease that names the backend is served.
    pub fn report_failure(&mut self, now: Instant, backend: &Backend) {
        let Some(id) = self.backends.find(backend) else { return };
        if !self.backends.record_failed_use(now, id, self.options.ejection.as_ref()) {
            return;
        }
        if let Some(until) = self.backends.get(id).uses.ejected_until() {
            self.set_timer(until, Timer::Ejection(id));
        }
        self.replan(now);
        let places = self.backends.get(id).places.len() as u32;
        (0..places).for_each(|place| self.abort_dial(id, place));
        self.give_turns(now, id);
    }

    /// Records a successful use.
    pub fn report_success(&mut self, backend: &Backend) {
        if let Some(id) = self.backends.find(backend) {
            self.record(id).uses.record_success();
        }
    }

    /// An ejection may be over.
    pub(super) fn end_ejections(&mut self, now: Instant) {
        self.replan(now);
        self.serve_any(now);
    }

    /// A health check has passed, or has failed: by its result or its timeout.
    pub fn handle_health_checked(&mut self, now: Instant, check: CheckId, passed: bool) {
        let Some(schedule) = self.options.health_check.as_ref().filter(|_| !self.is_closed()) else { return };
        if self.backends.record_check(now, check, passed, schedule, &mut self.random).is_some() {
            self.replan(now);
            self.serve_any(now);
        }
    }

    pub(super) fn start_health_checks(&mut self, now: Instant) {
        if self.is_closed() {
            return;
        }
        for (check, backend) in self.backends.start_checks(now) {
            self.actions.push_back(Action::HealthCheck { check, backend });
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Stopping | State::Stopped)
    }

    /// Whether a backend is out of rotation.
    pub(super) fn is_out(&self, id: u32) -> bool {
        self.backends.is_out(id)
    }

    /// Follows ejections that end, and a panic that begins or ends.
    pub(super) fn rotate(&mut self, now: Instant) {
        let back = self.backends.end_ejections(now);
        self.backends.update_panic(self.options.ejection.as_ref());
        for id in back.into_iter().chain(self.backends.judged_out()) {
            self.reopen_all(id);
        }
    }

    /// Known backends that are ejected, and until when.
    pub(super) fn ejected(&self) -> impl Iterator<Item = (Arc<Backend>, Instant)> {
        let ejected =
            |record: &super::places::Record| Some((Arc::clone(&record.backend), record.uses.ejected_until()?));
        self.backends.known_records().filter_map(ejected)
    }
}
