//! Outages: every known backend is dead.
//!
//! While an outage lasts, claims wait for up to `outage_wait`, and every dead backend that has a slot is tried at least
//! once a second. A claim that arrives brings the next attempt forward. An attempt that hangs for a second does not keep
//! further ones from beginning beside it.

use super::membership::Record;
use super::{Machine, Refusal, State as PoolState};
use crate::slot::{State, Then};
use crate::waiters::{Place, WaiterId};
use std::time::{Duration, Instant};

/// An attempt that is older than this no longer counts as running.
const RUNNING: Duration = Duration::from_secs(1);

/// An outage that lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Instant,
    /// No waiting claim fails before this; `None` while none waits, or without `outage_wait`.
    fail_at: Option<Instant>,
    /// A claim has arrived: the next attempts are brought forward.
    hasten: bool,
    /// An attempt has failed since waiting claims were last looked at.
    has_failed: bool,
}

impl Machine {
    /// Begins or ends an outage when the backends say so. To be called when one died, was added or was removed.
    pub(super) fn note_outage(&mut self, now: Instant) {
        match self.outage {
            None if self.backends.all_dead() && !self.is_closed() => self.begin_outage(now),
            Some(_) if !self.backends.all_dead() => self.end_outage(now),
            None | Some(_) => {}
        }
    }

    fn begin_outage(&mut self, now: Instant) {
        self.state = PoolState::Failed;
        self.outage = Some(Outage { since: now, fail_at: None, hasten: false, has_failed: true });
        self.plan_soon();
        if self.waiters.len() > 0 {
            self.expect_failure(now);
        }
        // Backends that died while another served may not have been tried for long.
        self.bring_forward(now, |machine, worked| {
            machine.options.recovery.for_connect(worked).outage_delay(&mut machine.random)
        });
    }

    pub(super) fn end_outage(&mut self, now: Instant) {
        if self.outage.take().is_some() {
            self.outage_ended = Some(now);
        }
    }

    /// A claim arrives in an outage.
    pub(super) fn hasten_attempts(&mut self) {
        if let Some(outage) = &mut self.outage {
            outage.hasten = true;
            self.attention = true;
        }
    }

    /// A claim that arrived at `since` waits in an outage.
    pub(super) fn expect_failure(&mut self, since: Instant) {
        let wait = self.options.outage_wait;
        let Some(outage) = self.outage.as_mut().filter(|_| !wait.is_zero()) else { return };
        let at = outage.since.max(since) + wait;
        outage.fail_at = Some(outage.fail_at.map_or(at, |earlier| earlier.min(at)));
        self.due(at);
    }

    /// When a waiting claim may fail next.
    pub(super) fn next_failure(&self) -> Option<Instant> {
        self.outage?.fail_at
    }

    /// Why a claim fails that can wait no longer.
    pub(super) fn expired(&self, ahead: usize) -> Refusal {
        if self.outage.is_some() { self.failed() } else { Refusal::TimedOut { ahead } }
    }

    pub(super) fn failed(&self) -> Refusal {
        Refusal::Failed { dead: self.backends.dead(), known: self.backends.known() }
    }

    /// An attempt that began then has failed.
    pub(super) fn note_failed_attempt(&mut self, backend: u32, began: Option<Instant>) {
        let record = self.backends.get_mut(backend);
        record.tried = record.tried.max(began);
        if let Some(outage) = &mut self.outage {
            outage.has_failed = true;
            self.attention = true;
        }
    }

    /// Fails the claims that have waited for long enough.
    pub(super) fn fail_waiting(&mut self, now: Instant) {
        let wait = self.options.outage_wait;
        let Some(outage) = &mut self.outage else { return };
        let since = outage.since;
        if wait.is_zero() {
            if !std::mem::take(&mut outage.has_failed) || self.waiters.len() == 0 {
                return;
            }
            // The latest time after which an attempt began, and failed, at every known backend.
            let tried = self.backends.order().iter().map(|&index| self.backends.get(index).tried).min().flatten();
            self.fail_those(|place| tried.is_some_and(|tried| place.since <= tried));
        } else if outage.fail_at.is_some_and(|at| at <= now) {
            outage.fail_at = None;
            self.fail_those(|place| place.since.max(since) + wait <= now);
            if let Some(first) = self.waiters.in_line().map(|(_, place)| place.since).min() {
                self.expect_failure(first);
            }
        }
    }

    fn fail_those(&mut self, is_over: impl Fn(Place) -> bool) {
        let refusal = self.failed();
        let over: Vec<WaiterId> =
            self.waiters.in_line().filter(|(_, place)| is_over(*place)).map(|(waiter, _)| waiter).collect();
        for waiter in over {
            self.waiters.serve(waiter);
            self.refuse(waiter, refusal);
        }
    }

    /// Tries dead backends now, or `delay` after their last attempt, if a claim has arrived.
    pub(super) fn run_hastened(&mut self, now: Instant) {
        if self.outage.as_mut().is_some_and(|outage| std::mem::take(&mut outage.hasten)) {
            self.bring_forward(now, |machine, worked| machine.options.recovery.for_connect(worked).outage_gap());
        }
    }

    /// The next attempt at every dead backend is made this long after the last one failed, if it would be made later.
    fn bring_forward(&mut self, now: Instant, delay: impl Fn(&mut Machine, bool) -> Duration) {
        for index in self.backends.order().to_vec() {
            let delay = delay(self, self.backends.get(index).health.has_worked());
            let record = self.backends.get_mut(index);
            let Some(setback) = &mut record.setback else { continue };
            let earliest = setback.failed_at + delay;
            setback.until = setback.until.min(earliest);
            for slot in record.slots.clone() {
                match &mut self.slots[slot as usize].state {
                    State::Backoff { tries, until } if *until > earliest => {
                        let tries = tries.clone();
                        self.follow(now, slot, Then::Retry { tries, until: earliest });
                    }
                    State::Closing { then: Then::Retry { until, .. }, .. } => *until = earliest.min(*until),
                    State::Gone
                    | State::Held { .. }
                    | State::Connecting { .. }
                    | State::Backoff { .. }
                    | State::Idle { .. }
                    | State::Busy { .. }
                    | State::Checking { .. }
                    | State::Closing { then: Then::Gone, .. } => {}
                }
            }
        }
    }

    /// In an outage the plan gives a backend another slot for every attempt that hangs, as far as there is room.
    pub(super) fn try_beside_hanging(&mut self, now: Instant, order: &[u32], want: &mut [usize]) {
        if self.outage.is_none() {
            return;
        }
        let mut room = self.options.maximum.saturating_sub(want.iter().sum());
        for (want, &index) in want.iter_mut().zip(order) {
            let record = self.backends.get(index);
            let more = self.hanging(now, record).min(self.options.connecting_per_backend - 1).min(room);
            *want += more;
            room -= more;
            let running = record.slots.iter().filter_map(|&slot| self.slots[slot as usize].state.began());
            if let Some(began) = running.filter(|&began| now < began + RUNNING).min() {
                self.look_again(began + RUNNING);
            }
            self.give_turns(now, index);
        }
    }

    /// An attempt begins: in an outage it is looked at again when it no longer counts as running.
    pub(super) fn expect_hanging(&mut self, now: Instant) {
        if self.outage.is_some() {
            self.look_again(now + RUNNING);
        }
    }

    /// How many attempts at a backend hang: they began more than a second ago and no longer count as running.
    pub(super) fn hanging(&self, now: Instant, record: &Record) -> usize {
        let hangs = |&&slot: &&u32| self.slots[slot as usize].state.began().is_some_and(|began| began + RUNNING <= now);
        record.slots.iter().filter(hangs).count()
    }

    /// A dead backend is back: attempts that hang since before are given up, so that others take their place.
    pub(super) fn stop_hanging(&mut self, now: Instant, backend: u32, connected: u32) {
        for slot in self.backends.get(backend).slots.clone() {
            let hangs = self.slots[slot as usize].state.began().is_some_and(|began| began + RUNNING <= now);
            if hangs && slot != connected {
                self.stop(now, slot);
            }
        }
    }
}
