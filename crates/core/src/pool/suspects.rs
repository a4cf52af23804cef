//! Suspect connections: when a connection breaks, its node may have crashed or restarted, and every connection that was opened
//! before may be broken as well.
//!
//! ```text
//!   a connection breaks --> the idle connections of its backend are suspect: not lent
//!     its check passes                          idle again
//!     a check fails                             all suspects of the backend close
//!     nothing is known of it                    it closes when a connect to the backend has succeeded
//!     a claim waits and there is no room        some suspect closes
//! ```
//!
//! A connection that is lent when another breaks is checked when it comes back.

use super::{Action, Machine};
use crate::slot::{Aside, Phase, Slot, SlotRef, State, Then};
use std::time::Instant;

impl Machine {
    /// The slot's connection has broken: it was reset, or failed in another way that its backend is to blame for. To be said before
    /// its end. The idle connections of the backend become suspect.
    pub fn handle_broken(&mut self, now: Instant, slot: SlotRef) {
        if self.is_current(slot) {
            self.slots[slot.index()].is_broken = true;
            self.suspect_siblings(now, slot.index);
        }
    }

    /// Nothing is known of the connection that was to be checked: its connector offers neither liveness nor a check. It passes,
    /// unless it is suspect.
    pub fn handle_unchecked(&mut self, now: Instant, slot: SlotRef) {
        let Some(found) = self.current(slot) else { return };
        let (backend, State::Checking { life, last_used, .. }) = (found.backend, found.state.clone()) else { return };
        if !self.backends.get(backend).is_suspect(life.checked) {
            self.handle_checked(now, slot, true);
            return;
        }
        self.make_suspect(
            slot.index,
            State::Checking { life, last_used, since: now, aside: Aside::Suspect { unknown: true } },
        );
        self.check_suspects(now, backend);
        self.plan_soon();
    }

    /// What has been idle until now is not lent before it has passed a check. A connection that was suspect itself says nothing
    /// about those that were opened since.
    pub(super) fn suspect_siblings(&mut self, now: Instant, index: u32) {
        let backend = self.slots[index as usize].backend;
        let Some(life) = self.slots[index as usize].state.life() else { return };
        let record = self.backends.get_mut(backend);
        if record.is_suspect(life.checked) {
            return;
        }
        record.broke_at = Some(now);
        for other in record.slots.clone() {
            if let State::Idle { life, last_used, .. } = self.slots[other as usize].state
                && other != index
            {
                let aside = Aside::Suspect { unknown: false };
                self.make_suspect(other, State::Checking { life, last_used, since: now, aside });
            }
        }
        self.check_suspects(now, backend);
        self.plan_soon();
    }

    pub(super) fn make_suspect(&mut self, index: u32, state: State) {
        let slot = self.enter(index, state);
        self.act(Action::Suspect { slot });
    }

    /// Checks suspects that wait for their turn, as many at a time as may connect.
    pub(super) fn check_suspects(&mut self, now: Instant, backend: u32) {
        let slots = self.backends.get(backend).slots.clone();
        let under_way = slots.iter().filter(|&&index| self.is_checked(index)).count();
        let mut left = self.options.connecting_per_backend.saturating_sub(under_way);
        for index in slots {
            if left == 0 {
                return;
            }
            if let State::Checking { life, last_used, aside: Aside::Suspect { unknown: false }, .. } =
                self.slots[index as usize].state
            {
                let aside = Aside::SuspectCheck;
                let slot = self.take_aside(now, index, State::Checking { life, last_used, since: now, aside });
                self.act(Action::Check { slot, suspect: true });
                left -= 1;
            }
        }
    }

    /// A suspect has failed its check, or the backend is dead: all other suspects of the backend close.
    pub(super) fn close_suspects(&mut self, now: Instant, backend: u32, ended: u32) {
        for index in self.backends.get(backend).slots.clone() {
            if self.slots[index as usize].state.is_suspect() && index != ended {
                self.close_suspect(now, index, false);
            }
        }
    }

    /// A connect to the backend has succeeded: suspects of which nothing is known are replaced.
    pub(super) fn replace_suspects(&mut self, now: Instant, backend: u32) {
        if self.backends.get(backend).counts.suspects() == 0 {
            return;
        }
        for index in self.backends.get(backend).slots.clone() {
            if let State::Checking { aside: Aside::Suspect { unknown: true }, .. } = self.slots[index as usize].state {
                self.close_suspect(now, index, true);
            }
        }
    }

    /// Suspects whose turn has come are checked. Those of which nothing is known wait for a connect to their backend; where none is
    /// under way, one of them closes: the connect that replaces it tells.
    pub(super) fn follow_suspects(&mut self, now: Instant) {
        if self.counts.suspects() == 0 {
            return;
        }
        for backend in self.backends.order().to_vec() {
            self.check_suspects(now, backend);
            let record = self.backends.get(backend);
            let is_unknown = |&&index: &&u32| {
                matches!(
                    self.slots[index as usize].state,
                    State::Checking { aside: Aside::Suspect { unknown: true }, .. }
                )
            };
            let unknown = record.slots.iter().find(is_unknown).copied();
            if let Some(index) = unknown.filter(|_| record.counts.pending() + record.counts.of(Phase::Closing) == 0) {
                self.close_suspect(now, index, true);
            }
        }
    }

    /// Closes suspects for claims that wait, where there is no room for further connects: those first that no check is under
    /// way for.
    pub(super) fn make_room_for_waiters(&mut self, now: Instant) {
        if self.counts.suspects() == 0 || self.waiters.len() == 0 {
            return;
        }
        let coming = self.counts.of(Phase::Connecting) + self.counts.of(Phase::Closing);
        let lacking = self.waiters.len().saturating_sub(coming);
        let above = (self.counts.total() + lacking).saturating_sub(self.options.maximum);
        let is_known = |slot: &Slot| !self.backends.get(slot.backend).health.is_removed();
        let suspects = (0..).zip(&self.slots).filter(|(_, slot)| slot.state.is_suspect() && is_known(slot));
        let mut suspects: Vec<u32> = suspects.map(|(index, _)| index).collect();
        suspects.sort_by_key(|&index| self.is_checked(index));
        suspects.truncate(above.min(lacking));
        for index in suspects {
            self.close_suspect(now, index, false);
        }
    }

    fn close_suspect(&mut self, now: Instant, index: u32, goodbye: bool) {
        if self.is_checked(index) {
            self.cut_short(now, self.slot_ref(index), Then::Gone, None);
        } else if goodbye {
            self.close_slot(now, index);
        } else {
            let slot = self.enter(index, State::Closing { then: Then::Gone, since: now });
            self.act(Action::Close { slot, goodbye });
        }
        self.plan_soon();
    }

    /// Whether the check of a suspect is under way.
    fn is_checked(&self, index: u32) -> bool {
        matches!(self.slots[index as usize].state, State::Checking { aside: Aside::SuspectCheck, .. })
    }
}
