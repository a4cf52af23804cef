//! A closer look than a snapshot: every slot by itself, and what has happened so far.

use super::membership::Record;
use super::snapshot::{BackendSnapshot, Snapshot};
use super::{Machine, Refusal};
use crate::slot::{Phase, Slot, State, Then};
use std::time::{Duration, Instant};

/// A pool at one moment, slot by slot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Observation {
    /// Its figures.
    pub figures: Snapshot,
    /// Since when the first in line has waited.
    pub waiting_since: Option<Instant>,
    /// When it last planned.
    pub planned_at: Option<Instant>,
    /// What has happened so far.
    pub counters: Counters,
    /// The slots of all backends, one backend's after the other's.
    slots: Vec<SlotGlance>,
}

/// A slot at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGlance {
    /// What it is doing.
    pub phase: Phase,
    /// Since when, roughly, of what is lent or rests; until when, of backoff. `None` where nobody knows.
    pub at: Option<Instant>,
}

/// What has happened to a pool so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Claims that were served. One that has to ask again because what it got was closed counts once.
    pub claims: u64,
    /// Of these, those that had to wait.
    pub waited: u64,
    /// How long these waited in all, until they came for what they were granted; see [`Machine::note_wait`].
    pub waited_for: Duration,
    /// Claims that timed out.
    pub timeouts: u64,
    /// Claims that were refused for another reason.
    pub refused: u64,
    /// Claims whose callers stopped waiting of their own accord.
    pub given_up: u64,
    /// Attempts to connect that have begun.
    pub connects: u64,
    /// Of these, those that failed or took too long. What was cut short because nobody wants it any more did not fail.
    pub connect_failures: u64,
    /// Plans that were made.
    pub plans: u64,
}

impl Observation {
    /// Each backend with its slots and probes, most preferred first, then the removed ones that still drain.
    pub fn backends(&self) -> impl Iterator<Item = (&BackendSnapshot, &[SlotGlance])> {
        let mut rest = &self.slots[..];
        self.figures.backends.iter().map(move |backend| {
            let (own, others) = rest.split_at(backend.counts.total() + backend.probes.total());
            rest = others;
            (backend, own)
        })
    }
}

impl Counters {
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
}

impl Machine {
    /// Copies the state of every slot. Linear in backends and slots.
    pub fn observe(&self) -> Observation {
        let mut slots = Vec::with_capacity(self.slots.len() - self.free_slots.len());
        for (_, record) in self.shown() {
            slots.extend(record.slots.iter().filter_map(|&slot| self.slots[slot as usize].glance()));
        }
        Observation {
            figures: self.snapshot(),
            waiting_since: self.waiters.in_line().next().map(|(_, place)| place.since),
            planned_at: self.planned_at,
            counters: self.counters,
            slots,
        }
    }

    /// What has happened so far: constant time.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// When a backend is tried again, if nothing of it works and nothing is under way.
    pub(super) fn next_attempt(&self, record: &Record) -> Option<Instant> {
        if record.counts.working() + record.counts.of(Phase::Connecting) + record.probes.of(Phase::Connecting) > 0 {
            return None;
        }
        let attempt = |&slot: &u32| match self.slots[slot as usize].state {
            State::Backoff { until, .. } | State::Closing { then: Then::Retry { until, .. }, .. } => Some(until),
            State::Gone
            | State::Held { .. }
            | State::Connecting { .. }
            | State::Idle { .. }
            | State::Busy { .. }
            | State::Checking { .. }
            | State::Closing { then: Then::Gone, .. } => None,
        };
        record.slots.iter().filter_map(attempt).min()
    }
}

impl Slot {
    fn glance(&self) -> Option<SlotGlance> {
        let at = match &self.state {
            State::Gone | State::Held { .. } => None,
            State::Connecting { .. } => self.state.began(),
            State::Backoff { until, .. } => Some(*until),
            State::Idle { last_used, .. } => Some(*last_used),
            State::Busy { since, .. } | State::Checking { since, .. } | State::Closing { since, .. } => Some(*since),
        };
        Some(SlotGlance { phase: self.state.phase()?, at })
    }
}
