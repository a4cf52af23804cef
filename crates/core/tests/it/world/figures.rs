//! What has happened so far, counted once more: the machine's counters are held against it after every event.

use super::World;
use carom_core::pool::{Observation, Outcome, Refusal};
use carom_core::slot::Phase;

#[derive(Debug, Default)]
pub(super) struct Figures {
    claims: u64,
    /// Served, but with what was closed: they will be served again, or are refused.
    unserved: u64,
    pub(super) waited: u64,
    timeouts: u64,
    refused: u64,
    pub(super) given_up: u64,
    pub(super) connects: u64,
    pub(super) connect_failures: u64,
}

impl Figures {
    pub(super) fn served(&mut self) {
        match self.unserved.checked_sub(1) {
            Some(left) => self.unserved = left,
            None => self.claims += 1,
        }
    }

    pub(super) fn refused(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::TimedOut { .. } => self.timeouts += 1,
            Refusal::NoBackends
            | Refusal::Failed { .. }
            | Refusal::Shed
            | Refusal::Full
            | Refusal::Busy
            | Refusal::Closed => self.refused += 1,
        }
    }

    pub(super) fn came_back(&mut self, outcome: Outcome) {
        self.unserved += u64::from(outcome == Outcome::Ended);
    }
}

impl World {
    /// The monitor's figures agree with each other, and with what has happened.
    pub(super) fn figures_agree(&self, seen: &Observation) {
        for (backend, slots) in seen.backends() {
            for phase in Phase::ALL {
                let many = slots.iter().filter(|slot| slot.phase == phase).count();
                assert_eq!(many, backend.counts.of(phase) + backend.probes.of(phase), "{phase:?} of {backend:?}");
            }
            let backs_off = |at| slots.iter().any(|slot| slot.phase == Phase::Backoff && slot.at == Some(at));
            let of = |phase| backend.counts.of(phase) + backend.probes.of(phase);
            let tries = backend.counts.working() + of(Phase::Connecting) > 0;
            match backend.next_attempt {
                Some(at) => assert!(!tries && (backs_off(at) || of(Phase::Closing) > 0), "{backend:?}"),
                None => assert!(tries || of(Phase::Backoff) == 0, "{backend:?}"),
            }
        }
        assert_eq!(seen.backends().map(|(_, slots)| slots.len()).sum::<usize>(), {
            seen.figures.counts.total() + seen.figures.probes.total() + seen.figures.draining.total()
        });
        assert_eq!(seen.waiting_since.is_some(), seen.figures.waiting > 0);
        let (counters, own) = (seen.counters, &self.figures);
        let counted =
            (counters.claims, counters.timeouts, counters.refused, counters.connects, counters.connect_failures);
        assert_eq!(counted, (own.claims, own.timeouts, own.refused, own.connects, own.connect_failures));
        assert_eq!((counters.waited, counters.given_up), (own.waited, own.given_up), "waited, given up");
    }
}
