//! Who serves: following the resolver, and the preference order.

use super::{Machine, State};
use crate::backend::Backend;
use crate::backends::{self, Doubt, Health, Part};
use crate::list::NONE;
use crate::slot::{Counts, Phase};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(super) type Record = backends::Record<BackendSlots>;

/// For so long the connections of a backend are distrusted after one of them broke, or a connect failed.
const DISTRUST: Duration = Duration::from_secs(10);

/// What a pool has of a backend.
#[derive(Debug, Default)]
pub(super) struct BackendSlots {
    pub(super) slots: Vec<u32>,
    /// Slots that wait for their turn to connect, oldest first; some may have moved on.
    pub(super) held: VecDeque<u32>,
    pub(super) counts: Counts,
    /// Those of `slots` that are probes, by phase. They are not among `counts`.
    pub(super) probes: Counts,
    /// The backend closed an unused connection: until then only waiting claims are connected. May be over.
    pub(super) held_off_until: Option<Instant>,
    /// Of each connection that ended: when its place may be dialled again.
    pub(super) pauses: VecDeque<Instant>,
    /// When a connection was last seen to have broken: those that were opened before are not trusted until they pass a check.
    pub(super) broke_at: Option<Instant>,
    /// When a use that failed with its connection was last counted: those that were opened before may have ended together with it.
    pub(super) blamed_at: Option<Instant>,
    /// When a connection was last added or taken away, where that is limited.
    pub(super) changed_at: Option<Instant>,
}

impl Part for BackendSlots {
    fn works(&self) -> bool {
        self.counts.working() > 0
    }
}

impl Record {
    /// Whether a connection that was last known to work then may have ended together with one that broke.
    #[inline]
    pub(super) fn is_suspect(&self, checked: Instant) -> bool {
        self.broke_at.is_some_and(|broke_at| checked < broke_at)
    }

    /// Whether a connection broke or a connect failed lately: connections are validated after every use.
    pub(super) fn is_distrusted(&self, now: Instant) -> bool {
        self.broke_at.max(self.tried).is_some_and(|at| now < at + DISTRUST)
    }

    /// Whether one more of its slots may dial. Until a backend has worked, one at a time; none while it is probed instead.
    pub(super) fn may_dial(&self, limit: usize) -> bool {
        match self.health {
            Health::Unproven { doubt: Doubt::None } => {
                let dialling = [Phase::Connecting, Phase::Backoff, Phase::Closing];
                dialling.into_iter().all(|phase| self.counts.of(phase) == 0)
            }
            Health::Proven { .. } if !self.is_failing() => self.counts.of(Phase::Connecting) < limit,
            Health::Unproven { .. } | Health::Proven { .. } | Health::Dead { .. } | Health::Removed => false,
        }
    }
}

impl Machine {
    /// The resolver's whole current set. What is new is planned for, what is missing drains, what has another priority or
    /// weight is planned for anew; of duplicates the first counts. A set without news costs no plan.
    pub fn handle_backends(&mut self, now: Instant, current: &[Backend]) {
        if self.is_closed() {
            return;
        }
        let diff = self.backends.update(current, BackendSlots::default, &mut self.random);
        for &index in &diff.removed {
            self.drop_backend(now, index);
        }
        for &index in &diff.added {
            self.picker.add_backend(index);
        }
        if let Some(schedule) = &self.options.health_check {
            self.backends.schedule_checks(now, &diff.added, schedule, &mut self.random);
        }
        if !diff.is_empty() {
            for &index in self.backends.order() {
                self.picker.loads.set_weight(now, index, self.backends.get(index).backend.weight());
            }
            self.picker.loads.compare();
            self.plan_soon();
            self.arrange_decoherence(now);
        }
        self.note_outage(now);
        self.recover_if_none_known();
    }

    /// The resolver cannot say who serves. Only a pool that never knew a backend minds.
    pub fn handle_resolver_failed(&mut self) {
        if self.state == State::Starting && self.backends.known() == 0 {
            self.fail();
        }
    }

    pub(super) fn arrange_decoherence(&mut self, now: Instant) {
        if self.decohere_at.is_none() && self.backends.known() > 1 {
            let at = now + self.options.decoherence;
            self.decohere_at = Some(at);
            self.due(at);
        }
    }

    pub(super) fn decohere(&mut self, now: Instant) {
        if self.decohere_at.is_none_or(|at| at > now) {
            return;
        }
        self.decohere_at = None;
        if self.backends.decohere(&mut self.random) {
            self.stale_plan = true;
        }
        self.arrange_decoherence(now);
    }

    fn drop_backend(&mut self, now: Instant, index: u32) {
        for slot in self.backends.get(index).slots.clone() {
            if self.slots[slot as usize].probe {
                self.set_probe(slot, false);
            }
        }
        // Its slots stop counting against the maximum: what is in use drains.
        let counts = self.backends.get(index).counts;
        for phase in Phase::ALL {
            for _ in 0..counts.of(phase) {
                self.counts.leave(phase);
                self.draining.enter(phase);
            }
        }
        self.counts.note_suspects(counts.suspects(), 0);
        self.draining.note_suspects(0, counts.suspects());
        self.backends.remove(index);
        // It has no part in what is typical any more.
        self.picker.loads.begin_anew(index);
        self.waiters.forget_backend(index);
        self.picker.loads.set_stalled(index, false);
        let slots = self.backends.get(index).slots.clone();
        if slots.is_empty() {
            self.forget_if_empty(index);
        }
        for slot in slots {
            self.stop(now, slot);
        }
        self.plan_soon();
        // What drains is no load of this pool any more.
        self.note_load(now);
    }

    /// Drops the record of a removed backend without slots.
    pub(super) fn forget_if_empty(&mut self, index: u32) {
        let record = self.backends.get(index);
        if record.health.is_removed() && record.slots.is_empty() {
            self.backends.forget(index);
        }
    }

    /// Notes that the plan is stale and that the driver should make a new one.
    pub(super) fn plan_soon(&mut self) {
        self.stale_plan = true;
        self.attention = true;
    }

    /// Declares a backend dead.
    pub(super) fn bury(&mut self, now: Instant, index: u32) {
        let worked = self.backends.get(index).health.has_worked();
        self.backends.set_health(index, Health::Dead { worked });
        self.end_hold_off(index);
        self.close_suspects(now, index, NONE);
        self.plan_soon();
        self.note_outage(now);
    }

    /// A connection to the backend was made: whatever was believed, it works. True if it was not known to.
    pub(super) fn trust(&mut self, now: Instant, index: u32) -> bool {
        let before = self.backends.get(index).health;
        if before.is_dead() {
            self.backends.revive(index);
        }
        // That what was lost could be replaced does not say that there is room for more.
        let working = self.backends.get(index).counts.working();
        let is_cut_off = working == 0 && self.backends.get(index).counts.suspects() == 0;
        if is_cut_off || before.doubt() != Some(Doubt::None) {
            // How long uses took, and that they failed, was before it went.
            self.picker.loads.begin_anew(index);
            self.picker.loads.try_at_once(index);
        }
        if working == 0 && !(before.has_worked() && before.doubt() == Some(Doubt::None)) {
            self.picker.loads.start_slowly(now, index);
        }
        let rest = before.rest().filter(|rest| working < rest.most);
        // With the first connection its tier may serve.
        let is_first = self.has_tiers && working == 0;
        let is_expected = self.backends.expects_ready();
        if before.doubt() != Some(Doubt::None) || rest != before.rest() || is_first || is_expected {
            self.plan_soon();
        }
        self.backends.set_health(index, Health::Proven { doubt: Doubt::None, rest });
        self.end_outage(now);
        self.has_run = true;
        match self.state {
            State::Starting | State::Failed => {
                self.state = State::Running;
                // A failed pool wants a slot even without load; a running one does not.
                self.plan_soon();
            }
            State::Running | State::Stopping | State::Stopped => {}
        }
        before.is_dead() || !before.has_worked()
    }
}
