//! A copy of a pool's state for people: its figures agree, because they were taken together.

use super::membership::Record;
use super::{Machine, State};
use crate::backend::{Backend, BackendState};
use crate::backends::CheckCounts;
use crate::slot::{Counts, SlotRef, State as SlotState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pool at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Where it is in its life.
    pub state: State,
    /// Spares in force.
    pub spares: usize,
    /// Maximum in force.
    pub maximum: usize,
    /// Slots the present load asks for.
    pub target: usize,
    /// Slots of known backends by phase.
    pub counts: Counts,
    /// Slots of removed backends by phase: what still drains.
    pub draining: Counts,
    /// Probes of dead backends by phase. They do not count against the maximum.
    pub probes: Counts,
    /// Callers in line.
    pub waiting: usize,
    /// How many backends are dead.
    pub dead: usize,
    /// How many backends are known.
    pub known: usize,
    /// So few backends are healthy that those that are ejected or unhealthy are used as well.
    pub is_panic: bool,
    /// How many plans have been made.
    pub plans: u64,
    /// Each backend, most preferred first, then the removed ones that still drain.
    pub backends: Vec<BackendSnapshot>,
}

/// A backend at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackendSnapshot {
    /// Who it is.
    pub backend: Arc<Backend>,
    /// Its health.
    pub state: BackendState,
    /// It is ejected or unhealthy, and no panic brings it back: it gets no traffic.
    pub is_out: bool,
    /// Its active checks fail. A dead backend may be unhealthy as well.
    pub is_unhealthy: bool,
    /// The last attempt to connect failed or hangs, and no connection works.
    pub is_failing: bool,
    /// Its slots by phase.
    pub counts: Counts,
    /// Its probes by phase, while it is dead. They are not among its slots.
    pub probes: Counts,
    /// Until when it is left out for having failed its users, if it is; a dead one may be ejected as well.
    pub ejected_until: Option<Instant>,
    /// Until when it gets connections for waiting claims only, if it closed an unused connection; may be over. See
    /// [`Options::replace_unused_after`](super::Options::replace_unused_after).
    pub held_off_until: Option<Instant>,
    /// When a use of it last succeeded, to within a few hundred milliseconds.
    pub last_success: Option<Instant>,
    /// Its active checks.
    pub checks: CheckCounts,
    /// Whether it is stalled, and gets no claims while another backend can serve.
    pub stalled: bool,
    /// Its share of the claims still grows: it is new, or is back.
    pub starts_slowly: bool,
    /// When it is tried again, if nothing works and nothing is under way.
    pub next_attempt: Option<Instant>,
    /// The latency of its uses lately, if there were any.
    pub typical_use: Option<Duration>,
    /// Its last 5 uses failed: with [`Pick::LeastLoaded`](crate::pick::Pick::LeastLoaded) it gets one use a second while another
    /// can serve.
    pub failing: bool,
    /// More than one of its uses failed lately: with [`Pick::LeastLoaded`](crate::pick::Pick::LeastLoaded) it gets one use a second
    /// while a connection of another comes back soon.
    pub unreliable: bool,
}

/// Something lent.
#[derive(Clone, Debug)]
pub struct Lent {
    /// The slot whose connection it is.
    pub slot: SlotRef,
    /// Which backend it is connected to.
    pub backend: Arc<Backend>,
    /// Since when it has been lent.
    pub since: Instant,
}

impl Machine {
    /// Copies the state. Linear in backends, and in the slots of those that do not work.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: self.state,
            spares: self.options.spares,
            maximum: self.options.maximum,
            target: self.target(),
            counts: self.counts,
            draining: self.draining,
            probes: self.probes,
            waiting: self.waiters.len(),
            dead: self.backends.dead(),
            known: self.backends.known(),
            is_panic: self.backends.is_panic(),
            plans: self.counters.plans,
            backends: self.shown().map(|(index, record)| self.describe(index, record)).collect(),
        }
    }

    /// The counts alone: constant time.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Probes by phase: constant time.
    pub fn probes(&self) -> Counts {
        self.probes
    }

    /// Callers in line: constant time.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// How many backends are dead, of how many known: constant time.
    pub fn dead_of_known(&self) -> (usize, usize) {
        (self.backends.dead(), self.backends.known())
    }

    /// What is lent at present, removed backends included. Linear in slots.
    pub fn lent(&self) -> impl Iterator<Item = Lent> + '_ {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match slot.state {
            SlotState::Busy { since, .. } => {
                let backend = Arc::clone(&self.backends.get(slot.backend).backend);
                Some(Lent { slot: self.slot_ref(index as u32), backend, since })
            }
            SlotState::Gone
            | SlotState::Held { .. }
            | SlotState::Connecting { .. }
            | SlotState::Backoff { .. }
            | SlotState::Idle { .. }
            | SlotState::Checking { .. }
            | SlotState::Closing { .. } => None,
        })
    }

    /// Known backends, most preferred first, then the removed ones that still drain.
    pub(super) fn shown(&self) -> impl Iterator<Item = (u32, &Record)> {
        let known = self.backends.order().iter().map(|&index| (index, self.backends.get(index)));
        known.chain(self.backends.all().filter(|(_, record)| record.health.is_removed()))
    }

    fn describe(&self, index: u32, record: &Record) -> BackendSnapshot {
        BackendSnapshot {
            backend: Arc::clone(&record.backend),
            state: record.state(),
            is_out: self.is_out(index),
            is_unhealthy: record.is_unhealthy(),
            is_failing: record.is_failing(),
            counts: record.counts,
            probes: record.probes,
            ejected_until: record.uses.ejected_until(),
            held_off_until: record.held_off_until,
            last_success: record.uses.last_success(),
            checks: record.checks.counts(),
            stalled: self.picker.loads.is_stalled(index),
            starts_slowly: self.picker.loads.starts_slowly(index),
            next_attempt: self.next_attempt(record),
            typical_use: self.picker.loads.typical_use(index),
            failing: self.picker.is_failing(index),
            unreliable: self.picker.is_unreliable(index),
        }
    }
}
