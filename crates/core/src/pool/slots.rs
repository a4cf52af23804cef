//! What slots go through: dialling in turn, failing, dying, being checked, closing.

use super::backends::{Doubt, Health, Setback};
use super::{Action, Ending, Machine, State as PoolState};
use crate::recovery::Tries;
use crate::slot::{Aside, Life, Phase, SETTLED_AFTER, Slot, SlotRef, State, Then};
use std::time::{Duration, Instant};

/// Up to this share is taken off a connection's lifetime when it is born.
const LIFETIME_SPREAD: f64 = 0.2;

/// How long an attempt is waited for before its backend is doubted, and then each time until it is looked at again.
fn patience(timeout: Duration) -> Duration {
    (timeout / 4).max(Duration::from_millis(1))
}

impl Machine {
    /// Whether the slot is still in the stay it was named in. A driver asks before it brings a result.
    pub fn is_current(&self, slot: SlotRef) -> bool {
        self.slots.get(slot.index()).is_some_and(|found| found.epoch == slot.epoch)
    }

    /// What the connection of a lent slot has behind it.
    pub fn life(&self, slot: SlotRef) -> Option<Life> {
        match self.current(slot)?.state {
            State::Busy { life, .. } | State::Idle { life, .. } | State::Checking { life, .. } => Some(life),
            State::Gone
            | State::Held { .. }
            | State::Connecting { .. }
            | State::Backoff { .. }
            | State::Closing { .. } => None,
        }
    }

    /// The connect that was asked for has succeeded.
    pub fn handle_connected(&mut self, now: Instant, slot: SlotRef) {
        let Some(State::Connecting { tries, .. }) = self.current(slot).map(|found| &found.state) else { return };
        let (index, backend) = (slot.index, self.slots[slot.index()].backend);
        let failures =
            tries.failures(self.options.recovery.for_connect(self.backends.get(backend).health.has_worked()));
        if self.trust(backend) {
            self.start_afresh(backend);
        }
        let expires = self
            .options
            .max_lifetime
            .map(|lifetime| now + lifetime.mul_f64(1.0 - LIFETIME_SPREAD * self.random.fraction()));
        self.offer(now, index, Life { born: now, seen: now, expires, uses: 0, failures });
        self.give_turns(now, backend);
    }

    /// The connect that was asked for has failed.
    pub fn handle_connect_failed(&mut self, now: Instant, slot: SlotRef) {
        let Some(State::Connecting { tries, .. }) = self.current(slot).map(|found| found.state.clone()) else { return };
        let then = self.consume_attempt(now, slot.index, tries);
        self.follow(now, slot.index, then);
    }

    /// The check or reset that was asked for is over. A connection that did not pass has been dropped.
    pub fn handle_checked(&mut self, now: Instant, slot: SlotRef, passed: bool) {
        let Some(State::Checking { life, last_used, aside }) = self.current(slot).map(|found| found.state.clone())
        else {
            return;
        };
        let life = life.seen_at(now);
        if passed {
            match aside {
                Aside::Check => self.take_back(now, slot.index, life, last_used),
                Aside::Reset => self.offer(now, slot.index, life),
            }
        } else {
            let then = self.after_end(now, slot.index, life);
            self.follow(now, slot.index, then);
        }
    }

    /// An idle connection has ended by itself; it is for the driver to drop. Ignored if it is not idle any more.
    pub fn handle_ended(&mut self, now: Instant, slot: SlotRef, ending: Ending) {
        let Some(State::Idle { life, .. }) = self.current(slot).map(|found| found.state.clone()) else { return };
        let life = match ending {
            Ending::Seen => life.seen_at(now),
            Ending::Found => life,
        };
        let then = self.after_end(now, slot.index, life);
        let slot = self.enter(slot.index, State::Closing { then });
        self.act(Action::Close { slot, goodbye: false });
    }

    /// What was to be closed or cut short has really ended.
    pub fn handle_closed(&mut self, now: Instant, slot: SlotRef) {
        let Some(State::Closing { then }) = self.current(slot).map(|found| found.state.clone()) else { return };
        self.follow(now, slot.index, then);
    }

    pub(super) fn current(&self, slot: SlotRef) -> Option<&Slot> {
        self.slots.get(slot.index()).filter(|found| found.epoch == slot.epoch)
    }

    pub(super) fn slot_ref(&self, index: u32) -> SlotRef {
        SlotRef { index, epoch: self.slots[index as usize].epoch }
    }

    /// Adds a slot to a backend and dials, if it is its turn.
    pub(super) fn add_slot(&mut self, now: Instant, backend: u32) {
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot { epoch: 0, backend, standing: 0, state: State::Gone });
            (self.slots.len() - 1) as u32
        });
        let record = self.backends.get_mut(backend);
        let slot = &mut self.slots[index as usize];
        slot.backend = backend;
        slot.standing = record.slots.len() as u32;
        record.slots.push(index);
        let policy = self.options.recovery.for_connect(record.health.has_worked());
        let setback = record.setback.filter(|setback| now < setback.until + policy.longest_delay());
        let tries = match setback {
            _ if record.health.is_dead() => Tries::watching(policy),
            Some(setback) => Tries::resumed(policy, setback.failures),
            None => Tries::new(policy),
        };
        match setback {
            Some(Setback { until, .. }) if until > now && record.may_dial(self.options.connecting_per_backend) => {
                let slot = self.enter(index, State::Backoff { tries });
                self.set_timer(until, slot);
            }
            Some(_) | None => self.dial(now, index, tries),
        }
    }

    /// Moves a slot to another state, and counts it there. The warm path does the same by itself, for its two moves.
    pub(super) fn enter(&mut self, index: u32, state: State) -> SlotRef {
        let slot = &mut self.slots[index as usize];
        let record = self.backends.get_mut(slot.backend);
        let pool_counts = if record.health.is_removed() { &mut self.draining } else { &mut self.counts };
        if let Some(before) = slot.state.phase() {
            record.counts.leave(before);
            pool_counts.leave(before);
            if before == Phase::Idle {
                self.picker.remove(index);
            }
        }
        if let Some(after) = state.phase() {
            record.counts.enter(after);
            pool_counts.enter(after);
        }
        slot.state = state;
        slot.epoch += 1;
        SlotRef { index, epoch: slot.epoch }
    }

    /// The slot is no more.
    pub(super) fn vacate(&mut self, index: u32) {
        if matches!(self.slots[index as usize].state, State::Gone) {
            return;
        }
        let was_held = matches!(self.slots[index as usize].state, State::Held { .. });
        self.enter(index, State::Gone);
        let Slot { backend, standing, .. } = self.slots[index as usize];
        let record = self.backends.get_mut(backend);
        if was_held && !matches!(self.state, PoolState::Stopping | PoolState::Stopped) {
            record.held.retain(|&held| held != index);
        }
        record.slots.swap_remove(standing as usize);
        if let Some(&moved) = record.slots.get(standing as usize) {
            self.slots[moved as usize].standing = standing;
        }
        self.free_slots.push(index);
        self.backends.forget_if_empty(backend);
        self.notice_end();
    }

    /// Ends a slot that is not wanted, as soon as that can be: a lent one when it comes back.
    pub(super) fn stop(&mut self, now: Instant, index: u32) {
        let slot = self.slot_ref(index);
        match &mut self.slots[index as usize].state {
            State::Gone => {}
            State::Held { .. } | State::Backoff { .. } => self.vacate(index),
            State::Connecting { .. } | State::Checking { .. } => self.cut_short(slot, Then::Gone, None),
            State::Idle { .. } => self.close_slot(now, index),
            State::Busy { unwanted, .. } => *unwanted = true,
            State::Closing { then } => *then = Then::Gone,
        }
    }

    /// Says goodbye to a connection that is in the driver's hands.
    pub(super) fn close_slot(&mut self, now: Instant, index: u32) {
        let deadline = now + self.options.check_timeout;
        let slot = self.enter(index, State::Closing { then: Then::Gone });
        self.set_timer(deadline, slot);
        self.act(Action::Close { slot, goodbye: true });
        self.stale_plan = true;
    }

    /// A connection was of no use: an attempt has failed. If it lived so short that having made it proves nothing, it is one
    /// more of those that failed before.
    pub(super) fn blame(&mut self, now: Instant, index: u32, life: Life) -> Then {
        let record = self.backends.get(self.slots[index as usize].backend);
        let policy = self.options.recovery.for_connect(record.health.has_worked());
        let failures = if self.lived_short(life) { life.failures } else { 0 };
        self.consume_attempt(now, index, Tries::resumed(policy, failures))
    }

    /// What follows when a connection ended by itself, or did not pass a check or a reset: another is made if one is needed,
    /// and whether the backend is to blame is for that one to show. Only if nobody ever used it and it lived so short that
    /// this would be a tight loop, an attempt has failed.
    pub(super) fn after_end(&mut self, now: Instant, index: u32, life: Life) -> Then {
        if life.uses == 0 && self.lived_short(life) { self.blame(now, index, life) } else { Then::Gone }
    }

    /// A connection is in use or idle, and perhaps has lived long enough to prove something.
    pub(super) fn forget_setback(&mut self, index: u32, life: Life) {
        if !self.lived_short(life) {
            self.backends.get_mut(self.slots[index as usize].backend).setback = None;
        }
    }

    fn lived_short(&self, life: Life) -> bool {
        life.seen.saturating_duration_since(life.born) < self.options.recovery.for_connect(true).shortest_life()
    }

    /// Leaves a state in which nothing is open or under way.
    pub(super) fn follow(&mut self, now: Instant, index: u32, then: Then) {
        let backend = self.slots[index as usize].backend;
        let record = self.backends.get(backend);
        let over = self.is_closed() || record.health.is_removed();
        let left_out = record.service.ejected_until.is_some();
        match then {
            Then::Retry { tries, until } if !over && !left_out => {
                if until <= now {
                    self.dial(now, index, tries);
                } else {
                    let slot = self.enter(index, State::Backoff { tries });
                    self.set_timer(until, slot);
                }
                self.give_turns(now, backend);
            }
            Then::Retry { .. } | Then::Gone => {
                self.vacate(index);
                if !over {
                    self.plan_soon();
                    self.give_turns(now, backend);
                }
            }
        }
    }

    /// An attempt failed: says what follows for the slot, and what it means for the backend.
    fn consume_attempt(&mut self, now: Instant, index: u32, mut tries: Tries) -> Then {
        let Slot { backend, ref state, .. } = self.slots[index as usize];
        let itself = usize::from(matches!(state.phase(), Some(Phase::Idle | Phase::Busy | Phase::Checking)));
        let record = self.backends.get(backend);
        let others_work = record.counts.working() > itself;
        let has_worked = record.health.has_worked();
        let policy = self.options.recovery.for_connect(has_worked);
        match record.health {
            Health::Removed => Then::Gone,
            Health::Dead { .. } => {
                let until = now + policy.watch_delay(&mut self.random);
                let tries = Tries::watching(policy);
                self.backends.get_mut(backend).setback = Some(Setback { failures: tries.failures(policy), until });
                // Where not all that are dead can be watched at once, they take turns.
                let failed_with_many = self.state == PoolState::Failed && self.backends.known() > self.options.maximum;
                if failed_with_many || self.take_turns {
                    self.backends.demote(backend);
                    self.plan_soon();
                }
                Then::Retry { tries, until }
            }
            Health::Unproven { .. } | Health::Proven { .. } => {
                // That a connection fails does not say that others cannot be made, unless it was the last.
                let is_news = (itself == 0 || !others_work) && self.backends.doubt(backend, Doubt::Failing);
                let then = match tries.fail(policy, &mut self.random) {
                    Some(delay) => Then::Retry { tries, until: now + delay },
                    None => {
                        let until = now + policy.watch_delay(&mut self.random);
                        let tries = Tries::watching(policy);
                        if others_work {
                            // It works, but it will not have more of us: leave it alone for a while.
                            self.backends.rest(backend, until);
                            Then::Gone
                        } else {
                            self.bury(backend);
                            Then::Retry { tries, until }
                        }
                    }
                };
                // A connect that fails while others work says that there are enough of them: that is what resting is for.
                if let Then::Retry { tries, until } = &then
                    && (itself > 0 || !others_work)
                {
                    let failures = tries.failures(self.options.recovery.for_connect(has_worked));
                    self.backends.get_mut(backend).setback = Some(Setback { failures, until: *until });
                }
                // Others that fail at it meanwhile are not needed to see whether there is room.
                if is_news || itself > 0 || others_work {
                    self.plan_soon();
                }
                then
            }
        }
    }

    /// Cuts short what is under way for a slot. It counts until the driver says that it has ended.
    fn cut_short(&mut self, task: SlotRef, then: Then, timed_out: Option<Duration>) {
        let slot = self.enter(task.index, State::Closing { then });
        self.act(Action::Abandon { task, slot, timed_out });
    }

    fn dial(&mut self, now: Instant, index: u32, tries: Tries) {
        let backend = self.slots[index as usize].backend;
        // Out of its old phase first: it must not stand in its own way.
        self.enter(index, State::Held { tries: tries.clone() });
        let record = self.backends.get_mut(backend);
        if !record.may_dial(self.options.connecting_per_backend) {
            record.held.push_back(index);
            return;
        }
        let address = record.backend.clone();
        let timeout = tries.timeout();
        let slot = self.enter(index, State::Connecting { tries, deadline: now + timeout });
        self.set_timer(now + timeout, slot);
        self.set_timer(now + patience(timeout), slot);
        self.act(Action::Connect { slot, backend: address });
    }

    /// Lets held slots of a backend dial, as far as it is their turn.
    fn give_turns(&mut self, now: Instant, backend: u32) {
        loop {
            let record = self.backends.get_mut(backend);
            if !record.may_dial(self.options.connecting_per_backend) {
                return;
            }
            let Some(index) = record.held.pop_front() else { return };
            let slot = &self.slots[index as usize];
            if slot.backend == backend
                && let State::Held { tries } = &slot.state
            {
                let tries = tries.clone();
                self.dial(now, index, tries);
            }
        }
    }

    /// A backend works for the first time, or again: what the slots held back had left of their attempts is of no account.
    fn start_afresh(&mut self, backend: u32) {
        let fresh = Tries::new(self.options.recovery.for_connect(true));
        for &index in &self.backends.get(backend).held {
            if let State::Held { tries } = &mut self.slots[index as usize].state {
                *tries = fresh.clone();
            }
        }
    }

    pub(super) fn set_timer(&mut self, at: Instant, slot: SlotRef) {
        let slots = &self.slots;
        let alive = slots.len() - self.free_slots.len();
        self.timers.set(at, slot, alive, |slot| slots[slot.index()].epoch == slot.epoch);
        self.due(at);
    }

    pub(super) fn run_slot_timers(&mut self, now: Instant) {
        while let Some(slot) = self.timers.pop_due(now) {
            let Some(found) = self.current(slot) else { continue };
            match found.state.clone() {
                State::Connecting { tries, deadline } if deadline <= now => {
                    let timeout = tries.timeout();
                    let then = self.consume_attempt(now, slot.index, tries);
                    self.cut_short(slot, then, Some(timeout));
                }
                State::Connecting { tries, .. } => self.doubt(now, slot, tries.timeout()),
                State::Backoff { tries } => self.dial(now, slot.index, tries),
                State::Idle { life, looked_at, .. } => self.look_at_idle(now, slot, life, looked_at),
                State::Checking { life, .. } => {
                    let then = self.after_end(now, slot.index, life.seen_at(now));
                    self.cut_short(slot, then, Some(self.options.check_timeout));
                }
                State::Closing { .. } => {
                    let timed_out = Some(self.options.check_timeout);
                    self.act(Action::Abandon { task: slot, slot, timed_out });
                }
                State::Busy { .. } => self.act(Action::Overdue { slot }),
                State::Gone | State::Held { .. } => {}
            }
        }
    }

    /// An attempt has taken longer than most do. That is reason enough to try another backend, but not to give up this one
    /// when there is no other: it may only be slow.
    fn doubt(&mut self, now: Instant, slot: SlotRef, timeout: Duration) {
        let backend = self.slots[slot.index()].backend;
        let record = self.backends.get(backend);
        if record.health.doubt() != Some(Doubt::None) {
            return;
        }
        if self.backends.doubted(Doubt::None) > 1 {
            self.backends.doubt(backend, Doubt::Slow);
            self.plan_soon();
        } else {
            self.set_timer(now + patience(timeout), slot);
        }
    }

    /// An idle connection may be too old, or due for a check.
    fn look_at_idle(&mut self, now: Instant, slot: SlotRef, life: Life, looked_at: Instant) {
        if life.expires.is_some_and(|expires| expires <= now) {
            self.close_slot(now, slot.index);
        } else if self.options.check_after.is_some_and(|after| looked_at + after <= now) {
            let State::Idle { last_used, .. } = self.slots[slot.index()].state else { return };
            let slot = self.take_aside(now, slot.index, State::Checking { life, last_used, aside: Aside::Check });
            self.act(Action::Check { slot });
        }
    }

    /// A connection has been used, and is cleaned before anyone else gets it.
    pub(super) fn reset(&mut self, now: Instant, index: u32, life: Life) {
        let slot = self.take_aside(now, index, State::Checking { life, last_used: now, aside: Aside::Reset });
        self.act(Action::Reset { slot });
    }

    fn take_aside(&mut self, now: Instant, index: u32, state: State) -> SlotRef {
        let slot = self.enter(index, state);
        self.set_timer(now + self.options.check_timeout, slot);
        slot
    }

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
        let rested_by = std::mem::replace(&mut self.generation_began, now);
        for index in self.picker.begin_generation() {
            if let State::Idle { last_used, looked_at, .. } = &mut self.slots[index as usize].state {
                (*last_used, *looked_at) = (rested_by, rested_by);
            }
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
}
