//! Connections at rest: settled when nobody has taken them for a while, then watched, timed and checked.

use super::{Action, Machine};
use crate::slot::{Aside, Life, SETTLED_AFTER, SlotRef, State};
use std::time::{Duration, Instant};

impl Machine {
    /// A connection comes to rest after use. When it has settled it is worth watching and timing.
    pub(super) fn expect_settling(&mut self, now: Instant) {
        if self.settle_at.is_none() {
            let at = now + self.settling_time();
            self.settle_at = Some(at);
            self.due(at);
        }
    }

    /// Begins the next generation of resting connections.
    pub(super) fn settle_idle(&mut self, now: Instant) {
        if self.settle_at.is_none_or(|at| at > now) {
            return;
        }
        for index in self.picker.begin_generation() {
            self.attend_idle(index);
        }
        self.settle_at = self.picker.has_unsettled().then_some(now + self.settling_time());
    }

    /// Short enough for an early check to be in time.
    fn settling_time(&self) -> Duration {
        self.options.check_after.map_or(SETTLED_AFTER, |after| SETTLED_AFTER.min(after / 2))
    }

    /// Watches and times an idle connection.
    pub(super) fn attend_idle(&mut self, index: u32) {
        let State::Idle { life, looked_at, .. } = self.slots[index as usize].state else { return };
        self.forget_setback(index, life);
        let slot = self.slot_ref(index);
        self.act(Action::Watch { slot });
        let check_at = self.options.check_after.map(|after| looked_at + after);
        for at in [life.expires, check_at].into_iter().flatten() {
            self.set_timer(at, slot);
        }
    }

    /// An idle connection may be too old, or due for a check.
    pub(super) fn look_at_idle(&mut self, now: Instant, slot: SlotRef, life: Life, looked_at: Instant) {
        if life.expires.is_some_and(|expires| expires <= now) {
            self.close_slot(now, slot.index);
        } else if self.options.check_after.is_some_and(|after| looked_at + after <= now) {
            let State::Idle { last_used, .. } = self.slots[slot.index()].state else { return };
            let aside = State::Checking { life, last_used, since: now, aside: Aside::Check };
            let slot = self.take_aside(now, slot.index, aside);
            self.act(Action::Check { slot, suspect: false });
        }
    }

    /// A connection has been used, and is cleaned before it is lent again.
    pub(super) fn recycle(&mut self, now: Instant, index: u32, life: Life, aside: Aside) {
        let slot = self.take_aside(now, index, State::Checking { life, last_used: now, since: now, aside });
        self.act(Action::Recycle { slot });
    }

    /// A connection has been used, and may not work any more.
    pub(super) fn validate(&mut self, now: Instant, index: u32, life: Life, aside: Aside) {
        let suspect = self.backends.get(self.slots[index as usize].backend).is_suspect(life.checked);
        let slot = self.take_aside(now, index, State::Checking { life, last_used: now, since: now, aside });
        self.act(Action::Check { slot, suspect });
    }

    /// Whether a connection is to be checked after use: another connection of the backend broke since the last check, or
    /// connections are validated, and the check was long ago, the backend is distrusted, or the use may have failed at once.
    pub(super) fn must_validate(&self, now: Instant, backend: u32, life: Life, was_short: bool) -> bool {
        let record = self.backends.get(backend);
        let is_due = |every| was_short || record.is_distrusted(now) || life.checked + every <= now;
        self.options.validate_every.is_some_and(is_due) || record.is_suspect(life.checked)
    }

    pub(super) fn take_aside(&mut self, now: Instant, index: u32, state: State) -> SlotRef {
        let slot = self.enter(index, state);
        self.set_timer(now + self.options.check_timeout, slot);
        slot
    }
}
