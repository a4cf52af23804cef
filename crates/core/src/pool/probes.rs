//! Probes: attempts at dead backends. They have no slot, so claims can use the whole maximum however many backends are dead.
//!
//! Every dead backend of the tier that serves, or of a better one, has a probe; in an outage every dead backend. At most
//! `min(maximum, 16)` run at a time; the others wait for their turn. In an outage an attempt that hangs for a second does not
//! count as running.
//!
//! ```text
//!   Backoff --delay over--> Held --its turn--> Connecting --failed--> Backoff
//!                                                  | connected
//!                                                  +-- there is room: the connection takes a slot
//!                                                  +-- there is none: it closes; the backend is healthy
//! ```

use super::Machine;
use super::membership::BackendSlots;
use super::tiers::Tier;
use crate::backends::{MOST_RUNNING, RUNNING};
use crate::list::NONE;
use crate::slot::{Phase, Slot, State, Then};
use std::time::Instant;

impl Machine {
    /// Sees to it that the dead backends have a probe each, and no others.
    pub(super) fn arrange_probes(&mut self, now: Instant, order: &[u32], serving: Option<Tier>) {
        for &index in order {
            let record = self.backends.get(index);
            let is_no_worse = serving.is_none_or(|tier| record.backend.priority() <= tier.priority);
            let may_serve = is_no_worse || self.outage.is_some();
            if !record.health.is_dead() || !may_serve {
                self.stop_probes(now, index, NONE);
                continue;
            }
            let goes_on =
                |&&slot: &&u32| !matches!(self.slots[slot as usize].state, State::Closing { then: Then::Gone, .. });
            let probes = record.slots.iter().filter(goes_on).count();
            if self.outage.is_none() && probes > 1 {
                // One is enough while others serve.
                self.stop_probes(now, index, self.latest_probe(index));
                continue;
            }
            let hanging = if self.outage.is_some() { self.hanging(now, record) } else { 0 };
            let running = record.slots.iter().filter_map(|&slot| self.slots[slot as usize].state.began());
            let hangs_at = running.map(|began| began + RUNNING).filter(|&at| now < at).min();
            if probes == hanging && probes < self.options.connecting_per_backend {
                self.add_slot(now, index, true);
            }
            if let Some(at) = hangs_at.filter(|_| self.outage.is_some()) {
                self.look_again(at);
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
    pub(super) fn may_probe(&self, now: Instant) -> bool {
        let most = self.options.maximum.min(MOST_RUNNING);
        let under_way = self.probes.of(Phase::Connecting) + self.probes.of(Phase::Closing);
        let hangs = |slot: &&Slot| slot.probe && slot.state.began().is_some_and(|began| began + RUNNING <= now);
        under_way < most || self.outage.is_some() && under_way - self.slots.iter().filter(hangs).count() < most
    }

    /// A probe has connected: its connection takes a slot if there is room. False if there is none.
    pub(super) fn take_slot(&mut self, now: Instant, index: u32) -> bool {
        let has_room = self.counts.total() < self.options.maximum || self.waiters.len() > 0 && self.vacate_untried();
        let takes = has_room && self.may_change(now, self.slots[index as usize].backend);
        if takes {
            self.set_probe(index, false);
        }
        takes
    }

    /// Gives up a slot that has no connection and for which none is under way, if there is one.
    fn vacate_untried(&mut self) -> bool {
        let is_untried = |slot: &Slot| !slot.probe && matches!(slot.state, State::Held { .. } | State::Backoff { .. });
        let untried = self.slots.iter().position(is_untried);
        if let Some(index) = untried {
            self.vacate(index as u32);
            self.plan_soon();
        }
        untried.is_some()
    }

    /// The probe of a backend whose attempt began last.
    fn latest_probe(&self, backend: u32) -> u32 {
        let slots = self.backends.get(backend).slots.iter().copied();
        let probes = slots.filter(|&slot| self.slots[slot as usize].probe);
        probes.max_by_key(|&slot| self.slots[slot as usize].state.began()).unwrap_or(NONE)
    }

    /// Stops the probes of a backend, but for this one.
    pub(super) fn stop_probes(&mut self, now: Instant, backend: u32, kept: u32) {
        if self.backends.get(backend).probes.total() == 0 {
            return;
        }
        for index in self.backends.get(backend).slots.clone() {
            if self.slots[index as usize].probe && index != kept {
                self.stop(now, index);
            }
        }
    }

    /// A backend has died: one of its attempts under way becomes its probe, and its slots end. `failed` has just been of no use.
    pub(super) fn begin_probing(&mut self, now: Instant, backend: u32, failed: u32) {
        let mut is_probed = false;
        for index in self.backends.get(backend).slots.clone() {
            match self.slots[index as usize].state {
                _ if index == failed => {}
                State::Connecting { .. } if !is_probed && self.may_probe(now) => {
                    self.set_probe(index, true);
                    is_probed = true;
                }
                State::Held { .. } | State::Backoff { .. } | State::Connecting { .. } | State::Closing { .. } => {
                    self.stop(now, index);
                }
                State::Gone | State::Idle { .. } | State::Busy { .. } | State::Checking { .. } => {}
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
