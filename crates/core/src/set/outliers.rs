//! Outliers: backends that connect, but whose uses or active checks fail, get no leases of any backend for a while.

use super::{Action, ConnectionId, Machine, State, Timer};
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
        self.expect_end_of_ejection(id);
        self.replan(now);
        let places = self.backends.get(id).places.len() as u32;
        (0..places).for_each(|place| self.abort_dial(id, place));
        self.give_turns(now, id);
    }

    /// Records a successful use.
    pub fn report_success(&mut self, now: Instant, backend: &Backend) {
        if let Some(id) = self.backends.find(backend) {
            self.record(id).uses.record_success(now);
        }
    }

    /// A backend has stopped responding while others respond, or responds again. A stalled one gets no leases of any backend while
    /// another is connected; who names it gets one.
    pub fn set_stalled(&mut self, backend: &Backend, stalled: bool) {
        let Some(id) = self.backends.find(backend) else { return };
        self.stalled.retain(|other| *other != id);
        if stalled {
            self.stalled.push(id);
        }
    }

    /// The connection to be leased next of those whose backend is not stalled, rather not of the one to be avoided, full or not.
    pub(super) fn responding(&self, avoid: Option<&Backend>) -> Option<ConnectionId> {
        let avoid = avoid.and_then(|avoid| self.backends.find(avoid));
        let backend = |id: ConnectionId| self.connection(id).map(|connection| connection.backend);
        let responds = |id| backend(id).is_some_and(|backend| !self.stalled.contains(&backend));
        let other = self.open.least_that(|id| responds(id) && backend(id) != avoid);
        other.or_else(|| self.open.least_that(responds))
    }

    pub(super) fn is_stalled(&self, record: &super::places::Record) -> bool {
        let id = self.backends.find(&record.backend);
        id.is_some_and(|id| self.stalled.contains(&id))
    }

    pub(super) fn stalled(&self) -> impl Iterator<Item = Arc<Backend>> {
        let known = self.stalled.iter().map(|&id| self.backends.get(id)).filter(|record| record.known);
        known.map(|record| Arc::clone(&record.backend))
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

    /// A health check has passed, or has failed: by its result or its timeout.
    pub fn handle_health_checked(&mut self, now: Instant, check: CheckId, passed: bool) {
        let Some(schedule) = self.options.health_check.as_ref().filter(|_| !self.is_closed()) else { return };
        if self.backends.record_check(now, check, passed, schedule, &mut self.random).is_some() {
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
