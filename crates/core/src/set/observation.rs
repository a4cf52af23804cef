//! A closer look than a snapshot: every backend by itself, and what has happened so far.

use super::places::{Dial, Place, Record};
use super::snapshot::Snapshot;
use super::{Machine, Refusal};
use crate::backend::{Backend, BackendState};
use crate::backends::CheckCounts;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A set at one moment, backend by backend.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Observation {
    /// Its figures, and every connection. The backend of a connection is the very one that `backends` has.
    pub figures: Snapshot,
    /// Each known backend, most preferred first, then others that there is a connection or a dial to.
    pub backends: Vec<BackendGlance>,
    /// When it last planned; only an eager one does.
    pub planned_at: Option<Instant>,
    /// What has happened so far.
    pub counters: Counters,
}

/// A backend of a set at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendGlance {
    /// Who it is.
    pub backend: Arc<Backend>,
    /// Its health.
    pub state: BackendState,
    /// It is ejected or unhealthy, and no panic brings it back: it gets no lease that may be of any backend.
    pub is_out: bool,
    /// The last attempt to connect failed or hangs, and no connection works.
    pub is_failing: bool,
    /// It is stalled: it gets no lease that may be of any backend while another is connected.
    pub stalled: bool,
    /// Its share of the leases still grows: it is new, or is back.
    pub starts_slowly: bool,
    /// More than one of its uses failed lately: leases of any backend are of another while there is one as good. If its last 5 uses
    /// failed, it gets one lease a second.
    pub unreliable: bool,
    /// The latency of its uses lately, if any was reported.
    pub typical_use: Option<Duration>,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// When it is, or may be, tried again, if nothing works and nothing is under way.
    pub next_attempt: Option<Instant>,
    /// Until when it is ejected, if it is; a dead one may be ejected as well.
    pub ejected_until: Option<Instant>,
    /// When a use of it last succeeded.
    pub last_success: Option<Instant>,
    /// Its active checks.
    pub checks: CheckCounts,
}

/// What has happened to a set so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Leases that were given.
    pub leases: u64,
    /// Of these, those that had to wait.
    pub waited: u64,
    /// How long these waited in all.
    pub waited_for: Duration,
    /// Leases that timed out.
    pub timeouts: u64,
    /// Leases that were refused for another reason.
    pub refused: u64,
    /// Leases whose callers stopped waiting of their own accord.
    pub given_up: u64,
    /// Dials that have begun.
    pub connects: u64,
    /// Of these, those that failed.
    pub connect_failures: u64,
    /// Connections that were released because nobody used them.
    pub released: u64,
}

impl Counters {
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::TimedOut { .. } => self.timeouts += 1,
            Refusal::Unreachable(_) | Refusal::Failed { .. } | Refusal::NoSuchPlace { .. } | Refusal::Closed => {
                self.refused += 1;
            }
        }
    }
}

impl Machine {
    /// Copies the state of every backend and connection. Linear in both.
    pub fn observe(&self) -> Observation {
        let known = self.backends.order().iter().copied();
        let others = self.backends.all().filter(|(_, record)| !record.known && record.is_in_use()).map(|(id, _)| id);
        Observation {
            figures: self.snapshot(),
            backends: known.chain(others).map(|id| self.glance_at(id)).collect(),
            planned_at: self.planned_at,
            counters: self.counters,
        }
    }

    /// What has happened so far: constant time.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn glance_at(&self, id: u32) -> BackendGlance {
        let record = self.backends.get(id);
        let is_left = !record.known && !record.places.iter().any(|place| place.is_taken());
        BackendGlance {
            backend: Arc::clone(&record.backend),
            state: if is_left { BackendState::Removed } else { record.state() },
            is_out: self.is_out(id),
            is_failing: record.is_failing(),
            stalled: self.loads.is_stalled(id),
            starts_slowly: self.loads.starts_slowly(id),
            unreliable: self.loads.is_unreliable(id) || self.loads.is_failing(id),
            typical_use: self.loads.typical_use(id),
            dialling: record.places.iter().map(Place::dialling).sum(),
            next_attempt: record.next_attempt(),
            ejected_until: record.uses.ejected_until(),
            last_success: record.uses.last_success(),
            checks: record.checks.counts(),
        }
    }
}

impl Record {
    /// There is a connection or a dial.
    fn is_in_use(&self) -> bool {
        self.alive > 0 || self.places.iter().any(|place| place.is_taken())
    }

    /// What waits for its time is tried then; what nobody wants now may be tried when the last failure is old enough.
    fn next_attempt(&self) -> Option<Instant> {
        let allowed = self.setback.map(|setback| setback.until);
        let mut next = None::<Instant>;
        for place in &self.places {
            match place.dial {
                Dial::Nothing if place.connection.is_none() => {}
                Dial::Nothing | Dial::Connecting { .. } => return None,
                Dial::Held { .. } => {}
                Dial::Backoff { until, .. } => next = Some(next.map_or(until, |next| next.min(until))),
            }
        }
        next.or(allowed)
    }
}
