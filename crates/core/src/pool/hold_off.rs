//! Hold-off: a backend that closes an unused connection, on which it has sent nothing, gets no new spares for a while.
//!
//! A server that shuts down closes its connections and then waits for those that are opened meanwhile: PostgreSQL starts a process
//! for each, which waits a minute for the client's first packet. Replacing a closed spare at once would keep the server from
//! stopping. So during the hold-off, the pool connects to the backend for waiting claims only. A server that greets its clients, and
//! closes a connection whose client does not answer, is not shutting down: its connection is replaced.
//!
//! Nor is a server that is gone. An orderly shutdown does not reset a connection on which nothing was sent, and until it ends,
//! the server can be connected to. So an unused connection that is reset begins no hold-off, and ends one, as does a connect
//! that fails: the backend is tried with the delays of its recovery policy, and is dead when its attempts run out.
//! A used connection that is reset says nothing: a server that shuts down resets those whose clients sent something it had not read.

use super::Machine;
use super::dials::is_failed_attempt;
use crate::backends::Health;
use crate::slot::{Life, Slot, SlotRef, State, Then};
use std::time::Instant;

impl Machine {
    /// The backend has sent bytes on this connection that no user has read. To be said before the connection has ended.
    pub fn handle_unread(&mut self, slot: SlotRef) {
        if self.is_current(slot) {
            self.slots[slot.index()].has_unread = true;
        }
    }

    /// The backend has closed a connection: what follows for the slot, and whether that was a failed attempt. If the connection
    /// was never used, nothing was sent on it and it was not reset, the hold-off begins (see [`Options::replace_unused_after`]), and
    /// the slot is given up.
    ///
    /// [`Options::replace_unused_after`]: super::Options::replace_unused_after
    pub(super) fn after_close(&mut self, now: Instant, index: u32, life: Life) -> (Then, bool) {
        let Slot { backend, has_unread, is_broken, .. } = self.slots[index as usize];
        if life.uses == 0 && is_broken {
            self.end_hold_off(backend);
        }
        let holds_off = life.uses == 0 && !has_unread && !is_broken && self.begin_hold_off(now, index);
        let then = self.after_end(now, index, life, false);
        (if holds_off { Then::Gone } else { then }, is_failed_attempt(life, false))
    }

    /// No spares for the slot's backend for a while. Its other unused connections close: they would only wait for the same end.
    fn begin_hold_off(&mut self, now: Instant, index: u32) -> bool {
        let Some(delay) = self.options.replace_unused_after else { return false };
        let backend = self.slots[index as usize].backend;
        let record = self.backends.get_mut(backend);
        match record.health {
            Health::Dead { .. } | Health::Removed => return false,
            Health::Unproven { .. } | Health::Proven { .. } => {}
        }
        let until = now + delay;
        record.held_off_until = Some(until);
        self.held_off_until = Some(until);
        let no_claim_waits = self.waiters.len() == 0;
        for other in self.backends.get(backend).slots.clone() {
            let is_spare = match &self.slots[other as usize].state {
                State::Idle { life, .. } => life.uses == 0,
                State::Held { .. } | State::Connecting { .. } | State::Backoff { .. } => no_claim_waits,
                State::Gone | State::Busy { .. } | State::Checking { .. } | State::Closing { .. } => false,
            };
            if other != index && is_spare {
                self.stop(now, other);
            }
        }
        self.plan_soon();
        true
    }

    /// The backend is gone, or its attempts ran out: it is not shutting down.
    pub(super) fn end_hold_off(&mut self, backend: u32) {
        if self.backends.get_mut(backend).held_off_until.take().is_some() {
            self.plan_soon();
        }
    }

    /// Whether a backend gets no further connection now: its hold-off lasts, and as many as claims wait are under way already. In an
    /// outage every backend is tried.
    pub(super) fn is_held_off(&mut self, now: Instant, backend: u32) -> bool {
        let record = self.backends.get(backend);
        let Some(until) = record.held_off_until.filter(|until| *until > now) else { return false };
        let under_way = record.counts.pending() + record.probes.pending();
        if under_way < self.waiters.len() || self.outage.is_some() {
            return false;
        }
        self.look_again(until);
        true
    }

    /// A claim has begun to wait: the plan may have left out connections that it needs now.
    pub(super) fn connect_for_waiter(&mut self, now: Instant) {
        if self.held_off_until.is_some_and(|until| until > now) || self.counts.suspects() > 0 {
            self.plan_soon();
        }
    }
}
