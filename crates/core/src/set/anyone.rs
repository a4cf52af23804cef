//! Leases of any backend: who serves them, who is dialled for them, and who is tried next.
//!
//! The most preferred backend is dialled first, and the next when it fails or takes long, until one works or all are dead: see
//! `outage.rs`.

use super::leases::Leased;
use super::places::{Dial, Record};
use super::{ConnectionId, Machine, Refusal};
use crate::backends::Doubt;
use std::time::{Duration, Instant};

impl Machine {
    /// When nothing is up that any lease may be of.
    pub(super) fn lease_any(&mut self, now: Instant, timeout: Duration) -> Leased {
        if self.backends.known() == 0 && self.resolver_failed {
            return self.refused(Refusal::Failed { dead: 0, known: 0 });
        }
        if self.any.is_empty() {
            self.wave += 1;
        }
        let waiter = self.wait(now, timeout, true);
        self.any.insert(waiter);
        self.note_outage(now);
        self.hasten_attempts(now);
        self.serve_any(now);
        Leased::Waiting(waiter)
    }

    /// Those who take any backend get what there is, or a dial.
    pub(super) fn serve_any(&mut self, now: Instant) {
        while let Some(&waiter) = self.any.first() {
            let Some(connection) = self.choose_open(None) else { break };
            self.deliver(now, waiter, connection);
            self.abort_unneeded(now);
        }
        if self.outage.is_some() {
            self.dial_in_outage(now);
        } else if self.options.per_backend == 0 {
            self.place_any(now);
        } else {
            self.dial_for_any(now);
        }
        self.dial_until_ready(now);
    }

    /// With a connection for each lease there is nothing to share: each gets a place at the backend that seems best.
    fn place_any(&mut self, now: Instant) {
        if self.any.is_empty() {
            return;
        }
        while let (Some(&waiter), Some(backend)) = (self.any.first(), self.best_backend(now, |_, _| true)) {
            self.any.remove(&waiter);
            let place = self.choose_place(backend);
            self.wait_at(now, waiter, backend, place);
        }
        // Dials that began in an outage are for nobody in particular.
        self.abort_unneeded(now);
    }

    /// An attempt for one lease alone has failed: if it may be of any backend, and one fits that has not been tried for it,
    /// the next is made there.
    pub(super) fn go_elsewhere(&mut self, now: Instant, backend: u32, place: u32, fits: impl Fn(&Record) -> bool) {
        let found = self.place(backend, place);
        let Some(&waiter) = found.waiters.first().filter(|_| found.private) else { return };
        let Some(who) = self.waiters.get_mut(&waiter).filter(|waiter| waiter.takes_any) else { return };
        let serial = self.backends.get(backend).serial;
        if !who.tried.contains(&serial) {
            who.tried.push(serial);
        }
        let tried = &self.waiters[&waiter].tried;
        if let Some(other) = self.best_backend(now, |_, record| !tried.contains(&record.serial) && fits(record)) {
            self.place(backend, place).waiters.remove(&waiter);
            let place = self.choose_place(other);
            self.wait_at(now, waiter, other, place);
        }
    }

    /// The known backend to go to first, of those that are not ejected: not dead, not waiting for its next attempt, responding,
    /// not failing, most important, least used.
    fn best_backend(&self, now: Instant, fits: impl Fn(u32, &Record) -> bool) -> Option<u32> {
        let order = |id: &&u32| {
            let record = self.backends.get(**id);
            let loads = &self.loads;
            let is_left_out = loads.is_stalled(**id) || loads.is_failing(**id) && !loads.is_due(**id);
            let (priority, is_unreliable) = (record.backend.priority(), loads.is_unreliable(**id));
            (record.health.is_dead(), record.must_wait(now), is_left_out, priority, is_unreliable, record.alive)
        };
        let fits = |id: &&u32| !self.is_out(**id) && fits(**id, self.backends.get(**id));
        self.backends.order().iter().filter(fits).min_by_key(order).copied()
    }

    /// Dials for those who take any backend: the most preferred that is not being tried, if no fresh attempt is under way.
    pub(super) fn dial_for_any(&mut self, now: Instant) {
        if self.any.is_empty() {
            return;
        }
        let is_in = |id: &u32| !self.is_out(*id);
        let order: Vec<u32> = self.backends.order().iter().copied().filter(is_in).collect();
        let dials = |id: &u32| self.backends.get(*id).places.iter().map(|place| &place.dial);
        let fresh = |dial: &Dial| matches!(dial, Dial::Connecting { doubted: false, .. });
        if order.iter().any(|id| dials(id).any(fresh)) {
            return;
        }
        // One that is watched, at long intervals, counts as untried: somebody waits now.
        let untried = |id: &u32| {
            let record = self.backends.get(*id);
            let rests = |dial: &Dial| match dial {
                Dial::Nothing => true,
                Dial::Backoff { .. } => !record.must_wait(now),
                Dial::Held { .. } | Dial::Connecting { .. } => false,
            };
            record.failed_in != self.wave && dials(id).all(rests)
        };
        let mut untried: Vec<u32> = order.into_iter().filter(untried).collect();
        untried.sort_by_key(|id| {
            let record = self.backends.get(*id);
            (record.health.is_dead(), record.must_wait(now), record.backend.priority())
        });
        for next in untried {
            let place = self.choose_place(next);
            self.want_dial(now, next, place);
            // One that must wait for its turn is no attempt: the next is tried as well.
            if matches!(self.place(next, place).dial, Dial::Connecting { .. }) {
                return;
            }
        }
    }

    /// A dial takes long.
    pub(super) fn doubt(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id) else { return };
        self.backends.doubt(backend, Doubt::Slow);
        if let Dial::Connecting { id: current, doubted, .. } = &mut self.place(backend, place).dial {
            *doubted |= *current == id;
        }
        self.serve_any(now);
    }
}

/// How long a dial is waited for before another backend is tried beside it.
pub(super) fn patience(timeout: Duration) -> Duration {
    (timeout / 4).max(Duration::from_millis(1))
}
