//! What slots go through: what becomes of what was asked for, from state to state, until they are no more.

use super::membership::BackendSlots;
use super::{Action, Ending, Machine, State as PoolState};
use crate::backends::{Doubt, Setback};
use crate::recovery::SHORTEST_DELAY;
use crate::slot::{Aside, Life, Phase, Report, Slot, SlotRef, State, Then};
use std::time::{Duration, Instant};

/// Up to this share is taken off a connection's lifetime when it is born.
const LIFETIME_SPREAD: f64 = 0.2;

/// A connection that has ended fails its check within this time; one to a node that hangs does not.
const AT_ONCE: Duration = Duration::from_millis(100);

impl Machine {
    /// Whether the slot is still in the stay it was named in. A driver asks before it brings a result.
    pub fn is_current(&self, slot: SlotRef) -> bool {
        self.slots.get(slot.index()).is_some_and(|found| found.epoch == slot.epoch)
    }

    /// What the connection of a lent slot has behind it.
    pub fn life(&self, slot: SlotRef) -> Option<Life> {
        self.current(slot)?.state.life()
    }

    /// The connect that was asked for has succeeded. If the connection `recycles`, it is cleaned after each use.
    pub fn handle_connected(&mut self, now: Instant, slot: SlotRef, recycles: bool) {
        let Some(State::Connecting { tries, .. }) = self.current(slot).map(|found| &found.state) else { return };
        let (index, backend) = (slot.index, self.slots[slot.index()].backend);
        let failures =
            tries.failures(self.options.recovery.for_connect(self.backends.get(backend).health.has_worked()));
        self.slots[slot.index()].recycles = recycles;
        self.recycles |= recycles;
        let ends_outage = self.outage.is_some();
        let setback = self.backends.get(backend).setback;
        if self.trust(now, backend) {
            self.start_afresh(backend);
        }
        if ends_outage {
            self.stop_hanging(now, backend, index);
        }
        let expires = self
            .options
            .max_lifetime
            .map(|lifetime| now + lifetime.mul_f64(1.0 - LIFETIME_SPREAD * self.random.fraction()));
        self.replace_suspects(now, backend);
        if self.slots[slot.index()].probe {
            self.plan_soon();
            let takes_slot = self.take_slot(now, index);
            self.give_probes_turns(now);
            if !takes_slot {
                // A connection that closes at once does not make up for failures.
                self.backends.get_mut(backend).setback = setback.map(|setback| Setback { until: now, ..setback });
                return self.close_slot(now, index);
            }
        }
        self.offer(now, index, Life { born: now, seen: now, checked: now, expires, uses: 0, failures });
        self.give_turns(now, backend);
    }

    /// The connect that was asked for has failed.
    pub fn handle_connect_failed(&mut self, now: Instant, slot: SlotRef) {
        let Some(found) = self.current(slot) else { return };
        let (backend, began) = (found.backend, found.state.began());
        let State::Connecting { tries, .. } = found.state.clone() else { return };
        self.counters.connect_failures += 1;
        self.note_failed_attempt(backend, began);
        let then = self.consume_attempt(now, slot.index, tries);
        self.follow(now, slot.index, then);
    }

    /// The check or recycle that was asked for is over. A connection that did not pass has been dropped. True if that counts as a
    /// failed use.
    pub fn handle_checked(&mut self, now: Instant, slot: SlotRef, passed: bool) -> bool {
        let Some(State::Checking { life, last_used, since, aside }) =
            self.current(slot).map(|found| found.state.clone())
        else {
            return false;
        };
        let life = life.seen_at(now);
        let backend = self.slots[slot.index()].backend;
        if !passed {
            let failed = self.is_failed_use(now, life, aside, since);
            let (then, ejected) = self.not_passed(now, slot.index, life, aside, since);
            self.follow(now, slot.index, then);
            if ejected {
                self.leave_out(now, backend);
            }
            return failed;
        }
        let life = Life { checked: since, ..life };
        if let Aside::AfterUse { report, .. } = aside
            && report.allows_success()
        {
            self.succeed(now, backend);
        }
        if self.backends.get(backend).is_suspect(since) {
            // Another connection of the backend broke meanwhile.
            let aside = Aside::Suspect { unknown: false };
            self.make_suspect(slot.index, State::Checking { life, last_used, since: now, aside });
            self.check_suspects(now, backend);
            return false;
        }
        match aside {
            Aside::Check => self.take_back(now, slot.index, life, last_used),
            Aside::Suspect { .. } | Aside::SuspectCheck => {
                self.take_back(now, slot.index, life, last_used);
                self.check_suspects(now, backend);
                // The plan may have taken the backend for one that does not work.
                self.plan_soon();
            }
            Aside::AfterUse { .. } => self.offer(now, slot.index, life),
        }
        false
    }

    /// Whether a failed check or recycle that began then is a failed use: after a use, unless its user has reported one already, or
    /// the connection had served others and is simply gone: then its server may have closed it after this use.
    fn is_failed_use(&self, now: Instant, life: Life, aside: Aside, since: Instant) -> bool {
        let is_gone = life.uses > 1 && now < since + AT_ONCE.min(self.options.check_timeout);
        match aside {
            Aside::AfterUse { report: Report::None | Report::Success | Report::Neutral, was_short } => {
                was_short || !is_gone
            }
            Aside::AfterUse { .. } | Aside::Check | Aside::Suspect { .. } | Aside::SuspectCheck => false,
        }
    }

    /// What follows when a connection has not passed a check or recycle that began then; and whether its backend is ejected now.
    fn not_passed(&mut self, now: Instant, index: u32, life: Life, aside: Aside, since: Instant) -> (Then, bool) {
        let backend = self.slots[index as usize].backend;
        let failed = self.is_failed_use(now, life, aside, since);
        if failed {
            self.fail_with(now, backend, life);
        }
        let ejected = failed && self.count_failure(now, backend);
        let then = match aside {
            Aside::AfterUse { .. } | Aside::Check => {
                self.suspect_siblings(now, index);
                self.after_end(now, index, life, false)
            }
            Aside::Suspect { .. } | Aside::SuspectCheck => {
                self.close_suspects(now, backend, index);
                self.pause(now, backend, self.slots[index as usize].dialled_at + SHORTEST_DELAY);
                Then::Gone
            }
        };
        (then, ejected)
    }

    /// An idle connection has ended by itself; it is for the driver to drop. Ignored if it is not idle any more. True if it
    /// was so young and unused that an attempt to connect has failed.
    pub fn handle_ended(&mut self, now: Instant, slot: SlotRef, ending: Ending) -> bool {
        let Some(State::Idle { life, .. }) = self.current(slot).map(|found| found.state.clone()) else { return false };
        let life = match ending {
            Ending::Seen => life.seen_at(now),
            Ending::Found => life,
        };
        let (then, in_vain) = self.after_close(now, slot.index, life);
        let slot = self.enter(slot.index, State::Closing { then, since: now });
        self.act(Action::Close { slot, goodbye: false });
        in_vain
    }

    /// What was to be closed or cut short has really ended.
    pub fn handle_closed(&mut self, now: Instant, slot: SlotRef) {
        let Some(State::Closing { then, .. }) = self.current(slot).map(|found| found.state.clone()) else { return };
        self.follow(now, slot.index, then);
    }

    pub(super) fn current(&self, slot: SlotRef) -> Option<&Slot> {
        self.slots.get(slot.index()).filter(|found| found.epoch == slot.epoch)
    }

    pub(super) fn slot_ref(&self, index: u32) -> SlotRef {
        SlotRef { index, epoch: self.slots[index as usize].epoch }
    }

    /// Moves a slot to another state, and counts it there.
    pub(super) fn enter(&mut self, index: u32, state: State) -> SlotRef {
        let slot = &mut self.slots[index as usize];
        let record = self.backends.get_mut(slot.backend);
        let (is_removed, did_work) = (record.health.is_removed(), record.counts.working() > 0);
        let is_doubted = record.health.doubt().is_some_and(|doubt| doubt > Doubt::None);
        let record: &mut BackendSlots = record;
        let (counts, pool_counts) = if slot.probe {
            (&mut record.probes, &mut self.probes)
        } else if is_removed {
            (&mut record.counts, &mut self.draining)
        } else {
            (&mut record.counts, &mut self.counts)
        };
        if let Some(before) = slot.state.phase() {
            counts.leave(before);
            pool_counts.leave(before);
            if before == Phase::Idle {
                self.picker.remove(index);
            }
        }
        if let Some(after) = state.phase() {
            counts.enter(after);
            pool_counts.enter(after);
        }
        let (was_suspect, is_suspect) = (slot.state.is_suspect(), state.is_suspect());
        if was_suspect != is_suspect {
            counts.note_suspects(usize::from(was_suspect), usize::from(is_suspect));
            pool_counts.note_suspects(usize::from(was_suspect), usize::from(is_suspect));
        }
        slot.state = state;
        slot.epoch += 1;
        let slot = SlotRef { index, epoch: slot.epoch };
        if is_doubted && did_work && record.counts.working() == 0 {
            // From now on it is probed.
            self.plan_soon();
        }
        slot
    }

    /// The slot is no more.
    pub(super) fn vacate(&mut self, index: u32) {
        if matches!(self.slots[index as usize].state, State::Gone) {
            return;
        }
        let was_held = matches!(self.slots[index as usize].state, State::Held { .. });
        self.enter(index, State::Gone);
        let Slot { backend, standing, probe, .. } = self.slots[index as usize];
        let record = self.backends.get_mut(backend);
        if was_held && !matches!(self.state, PoolState::Stopping | PoolState::Stopped) {
            let held = if probe { &mut self.held_probes } else { &mut record.held };
            held.retain(|&held| held != index);
        }
        record.slots.swap_remove(standing as usize);
        if let Some(&moved) = record.slots.get(standing as usize) {
            self.slots[moved as usize].standing = standing;
        }
        self.free_slots.push(index);
        self.forget_if_empty(backend);
        self.notice_end();
    }

    /// Ends a slot that is not wanted, as soon as that can be: a lent one when it comes back.
    pub(super) fn stop(&mut self, now: Instant, index: u32) {
        let slot = self.slot_ref(index);
        match &mut self.slots[index as usize].state {
            State::Gone => {}
            State::Held { .. } | State::Backoff { .. } => self.vacate(index),
            State::Idle { .. } | State::Checking { aside: Aside::Suspect { .. }, .. } => self.close_slot(now, index),
            State::Connecting { .. } | State::Checking { .. } => self.cut_short(now, slot, Then::Gone, None),
            State::Busy { unwanted, .. } => *unwanted = true,
            State::Closing { then, .. } => *then = Then::Gone,
        }
    }

    /// Says goodbye to a connection that is in the driver's hands.
    pub(super) fn close_slot(&mut self, now: Instant, index: u32) {
        let deadline = now + self.options.check_timeout;
        let slot = self.enter(index, State::Closing { then: Then::Gone, since: now });
        self.set_timer(deadline, slot);
        self.act(Action::Close { slot, goodbye: true });
        self.stale_plan = true;
    }

    /// Leaves a state in which nothing is open or under way.
    pub(super) fn follow(&mut self, now: Instant, index: u32, then: Then) {
        let backend = self.slots[index as usize].backend;
        let record = self.backends.get(backend);
        let over = self.is_closed() || record.health.is_removed();
        let left_out = self.is_out(backend);
        match then {
            Then::Retry { tries, until } if !over && !left_out && !self.is_held_off(now, backend) => {
                if until <= now {
                    self.dial(now, index, tries);
                } else {
                    let slot = self.enter(index, State::Backoff { tries, until });
                    self.set_timer(until, slot);
                }
                self.give_turns(now, backend);
                self.give_probes_turns(now);
            }
            Then::Retry { .. } | Then::Gone => {
                self.vacate(index);
                if !over {
                    self.plan_soon();
                    self.give_turns(now, backend);
                    self.give_probes_turns(now);
                }
            }
        }
    }

    /// Cuts short what is under way for a slot. It counts until the driver says that it has ended.
    pub(super) fn cut_short(&mut self, now: Instant, task: SlotRef, then: Then, timed_out: Option<Duration>) {
        let slot = self.enter(task.index, State::Closing { then, since: now });
        self.act(Action::Abandon { task, slot, timed_out });
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
                    let (timeout, backend, began) = (tries.timeout(), found.backend, found.state.began());
                    self.counters.connect_failures += 1;
                    self.note_failed_attempt(backend, began);
                    let then = self.consume_attempt(now, slot.index, tries);
                    self.cut_short(now, slot, then, Some(timeout));
                }
                State::Connecting { tries, .. } => self.doubt(now, slot, tries.timeout()),
                State::Backoff { tries, .. } => self.dial(now, slot.index, tries),
                State::Idle { life, looked_at, .. } => self.look_at_idle(now, slot, life, looked_at),
                State::Checking { life, aside, since, .. } => {
                    let backend = found.backend;
                    let (then, ejected) = self.not_passed(now, slot.index, life.seen_at(now), aside, since);
                    self.cut_short(now, slot, then, Some(self.options.check_timeout));
                    if ejected {
                        self.leave_out(now, backend);
                    }
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
}
