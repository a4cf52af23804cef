//! Outliers: backends that connect but serve badly are left out for a while.

use super::{Machine, Timer, Turn};
use crate::backend::Backend;
use std::sync::Arc;
use std::time::Instant;

impl Machine {
    /// Somebody was served badly. Once too often in a row, and the backend is ejected, if enough others are left: until its time
    /// is over no lease of any backend is of it, and an eager set keeps no connection to it. Who has a lease keeps that, and who
    /// names it gets one.
    pub fn complain(&mut self, now: Instant, backend: &Backend) {
        let (Some(ejection), Some(&id)) = (self.options.ejection.clone(), self.ids.get(&backend.key())) else { return };
        let record = self.record(id);
        record.service.failures = record.service.failures.saturating_add(1);
        let is_live = record.known && !record.dead && !record.is_ejected();
        let is_too_much = ejection.is_too_much(record.service.failures);
        if !is_live || !is_too_much || !ejection.allows_one_more(self.order.len(), self.healthy()) {
            return;
        }
        let until = self.record(id).service.eject(&ejection, now);
        self.set_timer(until, Timer::Ejection(id));
        self.note(id, Turn::Ejected { until });
        self.reopen_all(id);
        self.replan(now);
        let places = self.records[&id].places.len() as u32;
        (0..places).for_each(|place| self.abort_dial(id, place));
        self.give_turns(now, id);
    }

    /// Somebody was served well: what failed before was not in a row.
    pub fn commend(&mut self, backend: &Backend) {
        if let Some(&id) = self.ids.get(&backend.key()) {
            self.record(id).service.failures = 0;
        }
    }

    pub(super) fn end_ejections(&mut self, now: Instant) {
        if self.readmit(now) {
            self.replan(now);
            self.serve_any(now);
        }
    }

    /// Those take part again whose time is over, or all of them when too few others are healthy. Whether there were any.
    pub(super) fn readmit(&mut self, now: Instant) -> bool {
        let Some(ejection) = &self.options.ejection else { return false };
        let panic = ejection.is_panic(self.order.len(), self.healthy());
        let is_over = |id: &u32| self.records[id].service.ejected_until.is_some_and(|until| panic || until <= now);
        let back: Vec<u32> = self.order.iter().copied().filter(is_over).collect();
        for &id in &back {
            self.record(id).service.come_back(now);
            self.note(id, Turn::Returned);
            self.reopen_all(id);
        }
        !back.is_empty()
    }

    /// Known backends that are left out, and until when.
    pub(super) fn ejected(&self) -> impl Iterator<Item = (Arc<Backend>, Instant)> {
        let records = self.order.iter().map(|id| &self.records[id]);
        records.filter_map(|record| Some((Arc::clone(&record.backend), record.service.ejected_until?)))
    }

    /// Known backends that are neither dead nor ejected.
    fn healthy(&self) -> usize {
        let is_healthy = |id: &&u32| !self.records[id].dead && !self.records[id].is_ejected();
        self.order.iter().filter(is_healthy).count()
    }
}
