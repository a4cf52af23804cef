//! Outliers: backends that connect, but whose uses or active checks fail, get no leases of any backend for a while.

use super::{Action, Machine, State, Timer};
use crate::backend::Backend;
use crate::backends::CheckId;
use std::time::{Duration, Instant};

impl Machine {
    /// Records a failed use. Leases of any backend are of another, while there is one, if more than one use failed lately. The backend
    /// may be ejected by it: until that is over no lease of any backend is of it, and an eager set keeps no connection to it. Leases
    /// that are held stay, and a lease that names the backend is served.
    pub fn report_failure(&mut self, now: Instant, backend: &Backend) {
        let Some(id) = self.backends.find(backend) else { return };
        self.loads.fail(now, id, true);
        self.classify(id);
        if !self.backends.record_failed_use(now, id, self.options.ejection.as_ref()) {
            return;
        }
        self.expect_end_of_ejection(id);
        self.replan(now);
        self.abort_dials(now, id);
    }

    /// Records a successful use, and its latency if that is known.
    pub fn report_success(&mut self, now: Instant, backend: &Backend, latency: Option<Duration>) {
        let Some(id) = self.backends.find(backend) else { return };
        self.record(id).uses.record_success(now);
        if let Some(latency) = latency {
            self.loads.note_use_time(id, latency);
            self.loads.learn(now, id, latency);
        }
        if self.loads.has_failed(id) {
            self.loads.succeed(id);
            self.classify(id);
        }
    }

    /// A use is cut short after it has waited so long for its response: a latency penalty for its backend, and nothing else.
    pub fn report_cut_short(&mut self, now: Instant, backend: &Backend, waited: Duration) {
        if let Some(id) = self.backends.find(backend) {
            self.loads.learn(now, id, waited);
        }
    }

    /// A backend has stopped responding while others respond, or responds again. A stalled one gets no leases of any backend while
    /// another is connected; who names it gets one.
    pub fn set_stalled(&mut self, backend: &Backend, stalled: bool) {
        let Some(id) = self.backends.find(backend) else { return };
        if self.loads.set_stalled(id, stalled) {
            self.classify(id);
        }
    }

    fn expect_end_of_ejection(&mut self, id: u32) {
        if let Some(until) = self.backends.get(id).uses.ejected_until() {
            self.set_timer(until, Timer::Ejection(id));
        }
    }

    /// An ejection may be over.
    pub(super) fn end_ejections(&mut self, now: Instant) {
        self.replan(now);
        self.serve_any(now);
    }

    /// Whether the active health checks of a backend fail.
    pub fn is_unhealthy(&self, backend: &Backend) -> bool {
        self.backends.find(backend).is_some_and(|index| self.backends.get(index).is_unhealthy())
    }

    /// A health check has passed, or has failed: by its result or its timeout.
    pub fn handle_health_checked(&mut self, now: Instant, check: CheckId, passed: bool) {
        let Some(schedule) = self.options.health_check.as_ref().filter(|_| !self.is_closed()) else { return };
        if let Some(id) = self.backends.record_check(now, check, passed, schedule, &mut self.random) {
            if passed {
                self.loads.come_back(now, id);
                self.classify(id);
            }
            let was_outage = self.outage.is_some();
            self.replan(now);
            if was_outage && self.outage.is_none() {
                // A backend works, as its checks say.
                self.state = State::Running;
            }
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
        let back = self.backends.end_ejections(now, self.options.ejection.as_ref());
        back.iter().for_each(|&id| self.expect_end_of_ejection(id));
        self.backends.update_panic(self.options.ejection.as_ref());
        for &id in &back {
            if !self.backends.get(id).is_judged_out() {
                self.loads.come_back(now, id);
            }
        }
        for id in back.into_iter().chain(self.backends.judged_out()) {
            self.classify(id);
        }
    }
}
