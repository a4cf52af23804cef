//! Probes: attempts at backends that cannot be connected to at present. They have no slot, so claims can use the whole maximum
//! however many backends are dead or hang.
//!
//! A backend cannot be connected to while no connection to it works and its last attempt failed or hangs, until it is dead and
//! after that. It is probed, unless a better tier than its own serves and there is no outage. So are all backends of better tiers than the one that serves,
//! all backends while no tier serves, and untried ones while a caller waits until they are [ready](super::ready). At most
//! `min(maximum, 16)` probes run at a time; the others wait for their turn. In an outage an attempt that hangs for a second does not
//! count as running.
//!
//! ```text
//!   Backoff --delay over--> Held --its turn--> Connecting --failed--> Backoff
//!                                                  | connected
//!                                                  +-- there is room: the connection takes a slot
//!                                                  +-- there is none: it closes; the backend is healthy
//! ```
//!
//! When a backend is probed that was planned for, its attempts under way go on as probes. When the plan gives a slot to a backend
//! that was probed, a probe that is connecting takes it.

use super::Machine;
use super::membership::BackendSlots;
use super::tiers::Tier;
use crate::backends::{MOST_RUNNING, RUNNING};
use crate::slot::{Phase, Slot, State, Then};
use std::time::Instant;

impl Machine {
    /// Whether a backend in rotation is probed while this tier serves.
    pub(super) fn is_probed(&self, index: u32, serving: Option<Tier>) -> bool {
        let record = self.backends.get(index);
        let priority = record.backend.priority();
        let is_down = record.health.is_dead() || record.is_failing();
        let is_needed = |tier: Tier| priority == tier.priority || self.outage.is_some();
        serving.is_none_or(|tier| priority < tier.priority || is_down && is_needed(tier))
    }

    /// Sees to it that each of these backends has a probe.
    pub(super) fn arrange_probes(&mut self, now: Instant, probed: &[u32]) {
        for &index in probed {
            for slot in self.backends.get(index).slots.clone() {
                if is_slot_connecting(&self.slots[slot as usize]) && self.may_probe(now) {
                    self.set_probe(slot, true);
                }
            }
            let goes_on = |slot: &Slot| slot.probe && !matches!(slot.state, State::Closing { then: Then::Gone, .. });
            let slots = self.backends.get(index).slots.iter().map(|&slot| &self.slots[slot as usize]);
            let began: Vec<Option<Instant>> =
                slots.filter(|slot| goes_on(slot)).map(|slot| slot.state.began()).collect();
            let hangs = |began: &&Instant| self.outage.is_some() && **began + RUNNING <= now;
            let hanging = began.iter().flatten().filter(hangs).count();
            if began.len() == hanging && hanging < self.options.connecting_per_backend && !self.is_held_off(now, index)
            {
                self.add_slot(now, index, true);
            }
        }
        self.give_probes_turns(now);
    }

    /// Lets probes dial that wait, as far as it is their turn.
    pub(super) fn give_probes_turns(&mut self, now: Instant) {
        while !self.held_probes.is_empty() && self.may_probe(now) {
            let Some(index) = self.held_probes.pop_front() else { return };
            if let Slot { probe: true, state: State::Held { tries }, .. } = &self.slots[index as usize] {
                let tries = tries.clone();
                self.connect(now, index, tries);
            }
        }
    }

    /// Whether one more probe may run.
    fn may_probe(&self, now: Instant) -> bool {
        let most = self.options.maximum.min(MOST_RUNNING);
        let under_way = self.probes.of(Phase::Connecting) + self.probes.of(Phase::Closing);
        let hangs = |slot: &&Slot| slot.probe && slot.state.began().is_some_and(|began| began + RUNNING <= now);
        under_way < most || self.outage.is_some() && under_way - self.slots.iter().filter(hangs).count() < most
    }

    /// A probe has connected: its connection takes a slot if there is room. False if there is none.
    pub(super) fn take_slot(&mut self, now: Instant, index: u32) -> bool {
        let slots = self.counts.total();
        let is_needed = self.waiters.len() > 0 || self.counts.working() == 0;
        if slots > self.options.maximum || slots == self.options.maximum && !is_needed {
            return false;
        }
        let takes = self.may_change(now, self.slots[index as usize].backend)
            && (slots < self.options.maximum || self.give_up_slot(now));
        if takes {
            self.set_probe(index, false);
        }
        takes
    }

    /// Ends a slot without a connection that works, if there is one. What is still to be closed of it counts as a probe.
    fn give_up_slot(&mut self, now: Instant) -> bool {
        let rank = |slot: &Slot| match slot.state {
            _ if slot.probe || self.backends.get(slot.backend).health.is_removed() => None,
            State::Held { .. } | State::Backoff { .. } => Some(0),
            State::Connecting { .. } => Some(1),
            State::Closing { .. } => Some(2),
            State::Checking { .. } => slot.state.is_suspect().then_some(3),
            State::Gone | State::Idle { .. } | State::Busy { .. } => None,
        };
        let ranks = (0..).zip(&self.slots).filter(|(_, slot)| !matches!(slot.state, State::Gone));
        let found = ranks.filter_map(|(index, slot)| Some((rank(slot)?, index))).min();
        let Some((_, index)) = found else { return false };
        self.stop(now, index);
        if !matches!(self.slots[index as usize].state, State::Gone) {
            self.set_probe(index, true);
        }
        self.plan_soon();
        true
    }

    /// The plan gives a slot to a backend: a probe of it that is connecting takes the slot. False if there is none.
    pub(super) fn turn_probe_into_slot(&mut self, backend: u32) -> bool {
        let record = self.backends.get(backend);
        if record.probes.of(Phase::Connecting) == 0 {
            return false;
        }
        let is_connecting = |&&slot: &&u32| {
            let Slot { probe, state, .. } = &self.slots[slot as usize];
            *probe && matches!(state, State::Connecting { .. })
        };
        let found = record.slots.iter().find(is_connecting).copied();
        found.inspect(|&slot| self.set_probe(slot, false)).is_some()
    }

    /// Stops the probes of a backend that is not probed any more.
    pub(super) fn stop_probes(&mut self, now: Instant, backend: u32) {
        if self.backends.get(backend).probes.total() == 0 {
            return;
        }
        for index in self.backends.get(backend).slots.clone() {
            if self.slots[index as usize].probe {
                self.stop(now, index);
            }
        }
    }

    /// From now on this is a probe, or a slot.
    pub(super) fn set_probe(&mut self, index: u32, probe: bool) {
        let slot = &mut self.slots[index as usize];
        let record: &mut BackendSlots = self.backends.get_mut(slot.backend);
        slot.probe = probe;
        let Some(phase) = slot.state.phase() else { return };
        for (slots, probes) in [(&mut record.counts, &mut record.probes), (&mut self.counts, &mut self.probes)] {
            let (from, to) = if probe { (slots, probes) } else { (probes, slots) };
            from.leave(phase);
            to.enter(phase);
        }
    }
}

fn is_slot_connecting(slot: &Slot) -> bool {
    !slot.probe && matches!(slot.state, State::Connecting { .. })
}
