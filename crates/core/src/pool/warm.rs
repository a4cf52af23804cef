//! The warm path: a connection that was used a moment ago is lent again, and comes back, with nothing else to decide.
//!
//! This is what nearly every claim of a busy pool does, so it does without a clock, which would cost more than all the
//! rest together. It declines whenever there is more to it (a waiter, growth, a sample to take, a connection too old),
//! and the caller takes the long way, which knows the time.

use super::Machine;
use crate::idle::Idleness;
use crate::slot::{Life, Phase, Report, SlotRef, State};
use crate::waiters::WaiterId;

/// One in so many uses takes the long way, to learn how long uses take.
pub(super) const TIMED_USES: u64 = 16;

impl Machine {
    /// Lends a warm connection, or declines: then [`Machine::claim`] is to be asked.
    #[inline]
    pub fn claim_warm(&mut self) -> Option<SlotRef> {
        // Idle connections mean that the pool is open and that nobody waits who would take them; who waits all the same
        // is for the long way.
        if self.options.leak_after.is_some() || self.waiters.len() > 0 || !self.stalled.is_empty() {
            return None;
        }
        // Each use is timed: one that was very short may have failed.
        if self.options.validate_every.is_some() {
            return None;
        }
        let load = self.counts.of(Phase::Busy) + 1 + self.options.spares;
        if load.min(self.options.maximum) > self.planned || self.sample_at.is_none() {
            return None;
        }
        if self.arrivals >= self.time_at && self.picker.is_curious() {
            return None;
        }
        let index = self.picker.choose_warm(&mut self.random)?;
        let slot = &self.slots[index as usize];
        if self.picker.has_settled(index) || slot.recycles || self.picker.is_unreliable(slot.backend) {
            return None;
        }
        self.arrivals += 1;
        self.counters.claims += 1;
        self.picker.remove(index);
        let slot = &mut self.slots[index as usize];
        let State::Idle { life, .. } = slot.state else { unreachable!("the picker holds idle slots only") };
        let life = Life { uses: life.uses + 1, ..life };
        slot.state = State::Busy { life, since: self.latest, timed: false, unwanted: false, report: Report::None };
        slot.epoch += 1;
        let (lent, backend) = (SlotRef { index, epoch: slot.epoch }, slot.backend);
        self.picker.loads.begin_use(backend);
        self.backends.get_mut(backend).counts.shift(Phase::Idle, Phase::Busy);
        self.counts.shift(Phase::Idle, Phase::Busy);
        Some(lent)
    }

    /// Takes a connection back: passes it to whoever waits first, or lets it rest, or declines: then [`Machine::release`]
    /// is to be told.
    #[inline]
    pub fn release_warm(&mut self, slot: SlotRef) -> Returned {
        let Some(found) = self.slots.get_mut(slot.index()).filter(|found| found.epoch == slot.epoch) else {
            return Returned::Declined;
        };
        let State::Busy { life, timed: false, unwanted: false, report, .. } = found.state else {
            return Returned::Declined;
        };
        let record = self.backends.get_mut(found.backend);
        if found.recycles
            || !report.allows_success()
            || self.picker.is_failing(found.backend)
            || self.picker.is_unreliable(found.backend)
            || record.is_suspect(life.checked)
            || record.health.is_removed()
            || life.expires.is_some_and(|expires| expires <= self.latest)
            || self.options.max_uses.is_some_and(|most| life.uses >= most)
        {
            return Returned::Declined;
        }
        if self.waiters.len() > 0 {
            let is_timed = self.picker.is_curious() && found.epoch.is_multiple_of(TIMED_USES);
            let is_plain = self.options.target_delay.is_none() && self.options.leak_after.is_none();
            if is_timed || !is_plain || !self.stalled.is_empty() {
                return Returned::Declined;
            }
            let Some((waiter, place)) = self.waiters.in_line().next() else { return Returned::Declined };
            if place.avoid.is_some() {
                return Returned::Declined;
            }
            self.waiters.serve(waiter);
            self.counters.claims += 1;
            self.counters.waited += 1;
            record.forgive();
            self.picker.loads.succeed(found.backend);
            self.picker.loads.note_pick(found.backend);
            let life = Life { uses: life.uses + 1, failures: 0, ..life };
            found.state = State::Busy { life, since: self.latest, timed: false, unwanted: false, report: Report::None };
            found.epoch += 1;
            return Returned::Passed { waiter, slot: SlotRef { epoch: found.epoch, ..slot } };
        }
        if self.sample_at.is_none() || self.settle_at.is_none() {
            return Returned::Declined;
        }
        record.forgive();
        record.counts.shift(Phase::Busy, Phase::Idle);
        self.counts.shift(Phase::Busy, Phase::Idle);
        let at = self.latest;
        let life = Life { failures: 0, ..life.seen_at(at) };
        found.state = State::Idle { life, last_used: at, looked_at: at, idleness: Idleness::Using };
        found.epoch += 1;
        self.picker.loads.end_good_use(found.backend);
        self.picker.rest(slot.index, found.backend);
        Returned::Rests
    }
}

/// What became of a connection that came back warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It rests, for the next claim.
    Rests,
    /// It has another user already.
    Passed {
        /// Who waited for it.
        waiter: WaiterId,
        /// The slot as its new user names it.
        slot: SlotRef,
    },
    /// Nothing yet: there is more to decide.
    Declined,
}
