//! Readiness of a set: dialling further backends until as many are ready as a caller waits for.
//!
//! These connections are leased and released like any other. An eager set that has as many connections as its `maximum` closes them
//! at once, and so does a set with a connection for each lease: their backends are ready all the same.

use super::places::{Dial, Place};
use super::{ConnectionId, Machine, Readiness};
use crate::backend::{Backend, BackendState};
use crate::backends::{Missing, Part};
use std::sync::Arc;
use std::time::Instant;

/// Dials that run at a time until enough backends are ready.
const MOST_RUNNING: usize = 16;

impl Machine {
    /// A caller waits until `n` backends are [ready](Readiness). It must call [`forget_ready`](Machine::forget_ready) at the end.
    pub fn expect_ready(&mut self, now: Instant, n: usize) {
        self.backends.expect_ready(n);
        self.dial_until_ready(now);
    }

    /// A caller that waited until `n` backends are ready does so no more.
    pub fn forget_ready(&mut self, now: Instant, n: usize) {
        self.backends.forget_ready(n);
        self.dial_until_ready(now);
    }

    /// How many backends are ready. Linear in backends.
    pub fn readiness(&self) -> Readiness {
        self.backends.readiness()
    }

    /// The known backends that are not ready, and their state.
    pub fn unready(&self) -> Vec<(Arc<Backend>, BackendState)> {
        self.backends.unready()
    }

    /// Dials backends that are not ready until enough are dialled. One that fails counts for nothing, so that another is dialled
    /// beside it.
    pub(super) fn dial_until_ready(&mut self, now: Instant) {
        let missing = self.backends.missing().filter(|_| !self.is_closed());
        if missing.is_none() && self.expected.is_empty() {
            return;
        }
        let before = std::mem::take(&mut self.expected);
        let Missing { mut many, candidates } = missing.unwrap_or(Missing { many: 0, candidates: Vec::new() });
        let is_running = |place: &&Place| matches!(place.dial, Dial::Connecting { .. });
        let running = self.backends.known_records().flat_map(|record| &record.places).filter(is_running).count();
        let mut room = MOST_RUNNING.saturating_sub(running);
        for id in candidates {
            if many == 0 {
                break;
            }
            self.expected.push(id);
            many -= usize::from(self.backends.is_untried(id));
            if room > 0 {
                room -= usize::from(self.dial_once(now, id));
            }
        }
        for id in before.into_iter().filter(|id| !self.expected.contains(id)).collect::<Vec<_>>() {
            self.abort_dials(now, id);
        }
    }

    /// An eager set is connected to no more backends than its `maximum` for the sake of readiness.
    pub(super) fn shut_beyond_maximum(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connection(id).filter(|connection| connection.leases == 0) else { return };
        let backend = connection.backend;
        let Some(maximum) = self.options.maximum.filter(|_| self.expected.contains(&backend)) else { return };
        let connected = self.backends.known_records().filter(|record| record.works()).count();
        if connected > maximum && !self.backends.get(backend).wanted {
            self.shut(now, id);
        }
    }
}
