//! Outages: every known backend is dead or unhealthy, and no connection works.
//!
//! While an outage lasts, claims wait for up to `outage_wait`, and every dead backend is tried at least once a second. A claim that arrives brings the next attempt forward. An attempt that hangs for a second does not keep
//! further ones from beginning beside it.

use super::{Machine, Refusal, State as PoolState};
use crate::backends::{Doubt, Outage, RUNNING};
use crate::slot::{State, Then};
use crate::waiters::{Place, WaiterId};
use std::time::{Duration, Instant};

impl Machine {
    /// Begins or ends an outage when the backends say so. To be called when one died, was checked, was added or was
    /// removed, or has lost a connection.
    pub(super) fn note_outage(&mut self, now: Instant) {
        match self.outage {
            None if self.backends.is_outage() && !self.is_closed() => self.begin_outage(now),
            Some(_) if !self.backends.is_outage() => self.end_outage(now),
            None | Some(_) => {}
        }
    }

    fn begin_outage(&mut self, now: Instant) {
        self.state = PoolState::Failed;
        self.outage = Some(Outage::new(now, self.options.outage_wait));
        self.hasten = false;
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
        if self.outage.is_some() {
            (self.hasten, self.attention) = (true, true);
        }
    }

    /// A claim that arrived at `since` waits in an outage.
    pub(super) fn expect_failure(&mut self, since: Instant) {
        if let Some(at) = self.outage.as_mut().and_then(|outage| outage.expect_failure(since)) {
            self.due(at);
        }
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
        self.end_hold_off(backend);
        self.backends.note_failed_attempt(backend, began, self.outage.as_mut());
        self.attention |= self.outage.is_some();
    }

    /// Fails the claims that have waited for long enough.
    pub(super) fn fail_waiting(&mut self, now: Instant) {
        let Some(outage) = &mut self.outage else { return };
        let Some(latest) = outage.take_failure(now, || self.backends.tried()) else { return };
        let is_over = |(waiter, place): (WaiterId, Place)| (place.since <= latest).then_some(waiter);
        for waiter in self.waiters.in_line().filter_map(is_over).collect::<Vec<WaiterId>>() {
            self.waiters.serve(waiter);
            self.refuse(waiter, self.failed());
        }
        if let Some(first) = self.waiters.in_line().map(|(_, place)| place.since).min() {
            self.expect_failure(first);
        }
    }

    /// Tries the backends now, or `delay` after their last attempt, if a claim has arrived.
    pub(super) fn run_hastened(&mut self, now: Instant) {
        if std::mem::take(&mut self.hasten) && self.outage.is_some() {
            self.bring_forward(now, |machine, worked| machine.options.recovery.for_connect(worked).outage_gap());
        }
    }

    /// The next attempt at every backend is made this long after the last one failed, if it would be made later.
    fn bring_forward(&mut self, now: Instant, delay: impl Fn(&mut Machine, bool) -> Duration) {
        for index in self.backends.order().to_vec() {
            let delay = delay(self, self.backends.get(index).health.has_worked());
            let record = self.backends.get_mut(index);
            let earliest = record.bring_forward(delay).unwrap_or(now + delay);
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

    /// In an outage a backend at which an attempt hangs is doubted: the attempt goes on as a probe, and a further one begins beside it.
    pub(super) fn doubt_hanging(&mut self, now: Instant, order: &[u32]) {
        if self.outage.is_none() {
            return;
        }
        for &index in order {
            let slots = self.backends.get(index).slots.iter();
            let began: Vec<Instant> = slots.filter_map(|&slot| self.slots[slot as usize].state.began()).collect();
            if began.iter().any(|&began| began + RUNNING <= now) {
                self.backends.doubt(index, Doubt::Slow);
            }
            if let Some(&began) = began.iter().filter(|&&began| now < began + RUNNING).min() {
                self.look_again(began + RUNNING);
            }
        }
    }

    /// An attempt begins: in an outage it is looked at again when it no longer counts as running.
    pub(super) fn expect_hanging(&mut self, now: Instant) {
        if self.outage.is_some() {
            self.look_again(now + RUNNING);
        }
    }

    fn hangs(&self, now: Instant, slot: u32) -> bool {
        self.slots[slot as usize].state.began().is_some_and(|began| began + RUNNING <= now)
    }

    /// Whether an attempt in an outage hangs, and further ones have begun beside it or are due.
    pub(super) fn hangs_beside_others(&self, now: Instant, slot: u32) -> bool {
        let probes = self.backends.get(self.slots[slot as usize].backend).probes;
        self.outage.is_some() && self.hangs(now, slot) && probes.total() > 1
    }

    /// A dead backend is back: attempts that hang since before are given up, so that others take their place.
    pub(super) fn stop_hanging(&mut self, now: Instant, backend: u32, connected: u32) {
        for slot in self.backends.get(backend).slots.clone() {
            if slot != connected && self.hangs(now, slot) {
                self.stop(now, slot);
            }
        }
    }
}
