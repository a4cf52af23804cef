//! A closer look than a snapshot: every backend by itself, and what has happened so far.

use super::places::{Dial, Record};
use super::snapshot::Snapshot;
use super::{Machine, Refusal};
use crate::backend::{Backend, BackendState};
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
    /// What is believed of it.
    pub state: BackendState,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// When it is, or may be, tried again, if nothing works and nothing is under way.
    pub next_attempt: Option<Instant>,
    /// Until when it is left out for having served badly, if it is; a dead one may be ejected as well.
    pub ejected_until: Option<Instant>,
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
        let known = self.order.iter().map(|id| &self.records[id]);
        let others = self.records.values().filter(|record| !record.known && record.is_in_use());
        Observation {
            figures: self.snapshot(),
            backends: known.chain(others).map(|record| record.glance()).collect(),
            planned_at: self.planned_at,
            counters: self.counters,
        }
    }

    /// What has happened so far: constant time.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl Record {
    /// There is a connection or a dial.
    fn is_in_use(&self) -> bool {
        self.alive > 0 || self.places.iter().any(|place| place.is_taken())
    }

    fn glance(&self) -> BackendGlance {
        BackendGlance {
            backend: Arc::clone(&self.backend),
            state: self.state(),
            dialling: self.places.iter().filter(|place| place.dial.is_under_way()).count(),
            next_attempt: self.next_attempt(),
            ejected_until: self.service.ejected_until,
        }
    }

    fn state(&self) -> BackendState {
        let works = self.places.iter().any(|place| place.connection.is_some());
        let hangs = |dial: &Dial| match dial {
            Dial::Connecting { doubted, .. } => *doubted,
            Dial::Nothing | Dial::Held { .. } | Dial::Backoff { .. } => false,
        };
        if self.dead {
            BackendState::Dead
        } else if self.is_ejected() {
            BackendState::Ejected
        } else if !self.known && !self.places.iter().any(|place| place.is_taken()) {
            BackendState::Removed
        } else if works {
            BackendState::Alive
        } else if self.setback.is_some() || self.places.iter().any(|place| hangs(&place.dial)) {
            BackendState::Doubted
        } else if self.worked {
            BackendState::Alive
        } else {
            BackendState::Unproven
        }
    }

    /// What waits for its time is tried then; what nobody wants now may be tried when the last failure is old enough.
    fn next_attempt(&self) -> Option<Instant> {
        let allowed = self.setback.map(|(_, until)| until);
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
