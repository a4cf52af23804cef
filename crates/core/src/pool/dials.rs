//! Attempts to connect: dialled in turn, doubted, failed, and what that means for their backend.

use super::{Action, Machine};
use crate::backends::{Doubt, Health, Rest, Setback};
use crate::recovery::{SHORTEST_DELAY, Tries, YOUNG};
use crate::slot::{Life, Phase, Slot, SlotRef, State, Then};
use std::time::{Duration, Instant};

impl Machine {
    /// Adds a slot to a backend, or a probe, and dials, if it is its turn.
    pub(super) fn add_slot(&mut self, now: Instant, backend: u32, probe: bool) {
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                epoch: 0,
                backend,
                standing: 0,
                dialled_at: now,
                probe,
                has_unread: false,
                is_broken: false,
                recycles: false,
                state: State::Gone,
            });
            (self.slots.len() - 1) as u32
        });
        let record = self.backends.get_mut(backend);
        let slot = &mut self.slots[index as usize];
        (slot.backend, slot.probe) = (backend, probe);
        slot.standing = record.slots.len() as u32;
        record.slots.push(index);
        let policy = self.options.recovery.for_connect(record.health.has_worked());
        // A hold-off does not make up for failures: they count until it is over.
        let counts_until = |setback: &Setback| record.held_off_until.map_or(setback.until, |at| at.max(setback.until));
        let setback = record.setback.filter(|setback| now < counts_until(setback) + policy.longest_delay());
        let tries = match setback {
            _ if record.health.is_dead() => Tries::watching(policy),
            Some(setback) => Tries::resumed(policy, setback.failures),
            None => Tries::new(policy),
        };
        let until = match setback {
            Some(Setback { until, .. }) if until > now && (probe || self.may_dial(backend)) => Some(until),
            Some(_) | None => None,
        };
        match until.max(self.take_pause(now, backend)) {
            Some(until) => {
                let slot = self.enter(index, State::Backoff { tries, until });
                self.set_timer(until, slot);
            }
            None => self.dial(now, index, tries),
        }
    }

    /// A connection of the backend ended: the slot that takes its place waits until then.
    pub(super) fn pause(&mut self, now: Instant, backend: u32, until: Instant) {
        let pauses = &mut self.backends.get_mut(backend).pauses;
        pauses.retain(|pause| *pause > now);
        if until > now {
            pauses.push_back(until);
        }
    }

    /// Until when a slot that is added waits for the one whose place it takes.
    fn take_pause(&mut self, now: Instant, backend: u32) -> Option<Instant> {
        let pauses = &mut self.backends.get_mut(backend).pauses;
        pauses.retain(|pause| *pause > now);
        pauses.pop_front()
    }

    pub(super) fn dial(&mut self, now: Instant, index: u32, tries: Tries) {
        let backend = self.slots[index as usize].backend;
        // Out of its old phase first: it must not stand in its own way.
        self.enter(index, State::Held { tries: tries.clone() });
        if self.slots[index as usize].probe {
            self.held_probes.push_back(index);
            self.give_probes_turns(now);
        } else if self.may_dial(backend) {
            self.connect(now, index, tries);
        } else {
            self.backends.get_mut(backend).held.push_back(index);
        }
    }

    /// Begins an attempt.
    pub(super) fn connect(&mut self, now: Instant, index: u32, tries: Tries) {
        let backend = self.slots[index as usize].backend;
        let address = self.backends.get(backend).backend.clone();
        let timeout = tries.timeout();
        let slot = self.enter(index, State::Connecting { tries, deadline: now + timeout });
        let dialled = &mut self.slots[index as usize];
        (dialled.dialled_at, dialled.has_unread, dialled.is_broken) = (now, false, false);
        self.set_timer(now + timeout, slot);
        self.set_timer(now + patience(timeout), slot);
        self.expect_hanging(now);
        self.counters.connects += 1;
        self.act(Action::Connect { slot, backend: address });
    }

    /// Lets held slots of a backend dial, as far as it is their turn.
    pub(super) fn give_turns(&mut self, now: Instant, backend: u32) {
        loop {
            if !self.may_dial(backend) {
                return;
            }
            let Some(index) = self.backends.get_mut(backend).held.pop_front() else { return };
            let slot = &self.slots[index as usize];
            if slot.backend == backend
                && let State::Held { tries } = &slot.state
            {
                let tries = tries.clone();
                self.dial(now, index, tries);
            }
        }
    }

    /// Whether one more slot of a backend may dial.
    fn may_dial(&self, backend: u32) -> bool {
        self.backends.get(backend).may_dial(self.options.connecting_per_backend)
    }

    /// A backend works for the first time, or again: its slots have all attempts.
    pub(super) fn start_afresh(&mut self, backend: u32) {
        self.backends.get_mut(backend).setback = None;
        let fresh = Tries::new(self.options.recovery.for_connect(true));
        for &index in &self.backends.get(backend).held {
            if let State::Held { tries } = &mut self.slots[index as usize].state {
                *tries = fresh.clone();
            }
        }
    }

    /// An attempt has taken longer than most do. That is reason enough to try another backend, but not to give up this one
    /// when there is no other: it may only be slow.
    pub(super) fn doubt(&mut self, now: Instant, slot: SlotRef, timeout: Duration) {
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

    /// An attempt failed: says what follows for the slot, and what it means for the backend.
    pub(super) fn consume_attempt(&mut self, now: Instant, index: u32, mut tries: Tries) -> Then {
        let Slot { backend, probe, ref state, .. } = self.slots[index as usize];
        let itself = usize::from(state.life().is_some());
        let record = self.backends.get(backend);
        let others_work = record.counts.working() > itself - usize::from(state.is_suspect());
        let has_worked = record.health.has_worked();
        let is_only_probe = probe && record.probes.total() == 1;
        let policy = self.options.recovery.for_connect(has_worked);
        let failures = match state.life() {
            Some(life) => life.failures,
            None => record.setback.map_or(0, |setback| setback.failures).max(tries.failures(policy)),
        };
        // If no connection has lasted since the backend was dead, the delays go on growing.
        let failures = failures.max(record.failed_probes) + 1;
        match record.health {
            Health::Removed => Then::Gone,
            Health::Dead { .. } if probe && self.hangs_beside_others(now, index) => {
                let record = self.backends.get_mut(backend);
                record.fail_hanging(now, failures);
                record.failed_probes = failures;
                self.plan_soon();
                Then::Gone
            }
            Health::Dead { .. } => {
                let tries = Tries::watching(policy);
                let until = now + self.probe_delay(has_worked, failures);
                let record = self.backends.get_mut(backend);
                record.setback = Some(Setback { failures, failed_at: now, until });
                record.failed_probes = failures;
                if is_only_probe { Then::Retry { tries, until } } else { Then::Gone }
            }
            // It is not probed any more.
            Health::Unproven { .. } | Health::Proven { .. } if probe && others_work => Then::Gone,
            Health::Unproven { .. } | Health::Proven { .. } => {
                // That a connection fails does not say that others cannot be made, unless it was the last.
                let is_news = (itself == 0 || !others_work) && self.backends.doubt(backend, Doubt::Failing);
                let then = match tries.fail(policy, &mut self.random) {
                    Some(delay) => Then::Retry { tries, until: now + self.cap_in_outage(has_worked, delay) },
                    None if others_work => {
                        // It works, but it will not have more of us: leave it alone for a while.
                        let until = now + policy.watch_delay(&mut self.random);
                        self.rest(backend, until);
                        Then::Gone
                    }
                    None => {
                        let until = now + self.probe_delay(has_worked, failures);
                        let record = self.backends.get_mut(backend);
                        record.setback = Some(Setback { failures, failed_at: now, until });
                        record.failed_probes = failures;
                        self.bury(now, backend);
                        Then::Gone
                    }
                };
                // A connect that fails while others work says that there are enough of them: that is what resting is for.
                if let Then::Retry { tries, until } = &then
                    && (itself > 0 || !others_work)
                {
                    let failures = tries.failures(self.options.recovery.for_connect(has_worked));
                    self.backends.get_mut(backend).setback = Some(Setback { failures, failed_at: now, until: *until });
                }
                // Others that fail at it meanwhile are not needed to see whether there is room.
                if is_news || itself > 0 || others_work {
                    self.plan_soon();
                }
                // Where nothing works, a probe makes the next attempt.
                if others_work || is_only_probe { then } else { Then::Gone }
            }
        }
    }

    /// Leaves a backend that works with what it has or is connecting until then, the slot that was given up aside.
    fn rest(&mut self, index: u32, until: Instant) {
        let record = self.backends.get(index);
        let most = record.counts.working() + record.counts.of(Phase::Connecting) - 1;
        let doubt = record.health.doubt().unwrap_or(Doubt::None);
        self.backends.set_health(index, Health::Proven { doubt, rest: Some(Rest { until, most }) });
    }

    /// The delay until a dead backend is tried again, after so many failures in a row.
    fn probe_delay(&mut self, has_worked: bool, failures: u32) -> Duration {
        let policy = self.options.recovery.for_connect(has_worked);
        let delay = policy.delay_after(failures, &mut self.random);
        self.cap_in_outage(has_worked, delay)
    }

    /// In an outage the next attempt is made within a second.
    fn cap_in_outage(&mut self, has_worked: bool, delay: Duration) -> Duration {
        let policy = self.options.recovery.for_connect(has_worked);
        if self.outage.is_some() { delay.min(policy.outage_delay(&mut self.random)) } else { delay }
    }

    /// What follows when a connection ended by itself, did not pass a check or recycle, or `failed` in a use:
    ///
    /// ```text
    ///   unused, or failed in its first use, younger than a second     an attempt has failed
    ///   unused, older                                                 replaced after the policy's delay, or at once if a claim waits
    ///   used                                                          replaced at once
    /// ```
    ///
    /// At once is a millisecond after the slot's last connect, at the earliest. First uses count because a server that accepts
    /// connections, and refuses every client afterwards, would be connected to without a delay.
    pub(super) fn after_end(&mut self, now: Instant, index: u32, life: Life, failed: bool) -> Then {
        let Slot { backend, dialled_at, .. } = self.slots[index as usize];
        let policy = self.options.recovery.for_connect(self.backends.get(backend).health.has_worked());
        if is_failed_attempt(life, failed) {
            return self.consume_attempt(now, index, Tries::resumed(policy, life.failures));
        }
        let delayed = if life.uses == 0 && self.waiters.len() == 0 { now + policy.first_delay() } else { now };
        self.pause(now, backend, delayed.max(dialled_at + SHORTEST_DELAY));
        Then::Gone
    }

    /// A connection is in use or idle, and perhaps has lived long enough to prove something.
    pub(super) fn forget_setback(&mut self, index: u32, life: Life) {
        let proof = if life.uses == 0 { YOUNG } else { self.options.recovery.for_connect(true).first_delay() };
        if lived(life) >= proof {
            let record = self.backends.get_mut(self.slots[index as usize].backend);
            (record.setback, record.failed_probes) = (None, 0);
        }
    }
}

/// Whether a connection that has ended is a failed attempt: it was young, and unused but for a use that `failed`.
pub(super) fn is_failed_attempt(life: Life, failed: bool) -> bool {
    life.uses <= u64::from(failed) && lived(life) < YOUNG
}

/// How long a connection is known to have lived.
fn lived(life: Life) -> Duration {
    life.seen.saturating_duration_since(life.born)
}

/// How long an attempt is waited for before its backend is doubted, and then each time until it is looked at again.
fn patience(timeout: Duration) -> Duration {
    (timeout / 4).max(Duration::from_millis(1))
}
