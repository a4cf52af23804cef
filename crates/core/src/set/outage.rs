//! Outages: every known backend is dead or unhealthy, and no connection works.
//!
//! While an outage lasts, leases of any backend wait for up to `outage_wait`, and every known backend is tried for them at
//! least once a second. A lease that arrives brings the next attempts forward. An attempt that hangs for a second does not
//! keep a further one from beginning beside it.

use super::places::{Dial, Hanging, Place, Record};
use super::{ConnectionId, Machine, State, Timer, WaiterId};
use crate::backends::{MOST_RUNNING, Outage, RUNNING};
use crate::recovery::Tries;
use std::time::{Duration, Instant};

impl Machine {
    /// Begins or ends an outage when the backends say so. To be called when one died, was checked, came back, was
    /// added or was removed, or has lost a connection.
    pub(super) fn note_outage(&mut self, now: Instant) {
        match self.outage {
            None if self.backends.is_outage() && !self.is_closed() => self.begin_outage(now),
            Some(_) if !self.backends.is_outage() => self.outage = None,
            None | Some(_) => {}
        }
    }

    fn begin_outage(&mut self, now: Instant) {
        self.state = State::Failed;
        let mut outage = Outage::new(now, self.options.outage_wait);
        for id in self.backends.order().to_vec() {
            self.call_back(id);
            self.keep_one_dial(now, id);
            let dials = |place: &Place| match place.dial {
                Dial::Connecting { id, .. } => Some((id, place.dialled_at? + RUNNING)),
                Dial::Nothing | Dial::Held { .. } | Dial::Backoff { .. } => None,
            };
            for (dial, at) in self.backends.get(id).places.iter().filter_map(dials).collect::<Vec<_>>() {
                self.set_timer(at.max(now), Timer::Hanging(dial));
            }
        }
        if let Some(first) = self.any.first() {
            outage.expect_failure(self.waiters[first].since);
        }
        self.outage = Some(outage);
        // Backends that died while another served may not have been tried for long.
        for id in self.backends.order().to_vec() {
            let delay = self.policy(id).clone().outage_delay(&mut self.random);
            self.bring_forward(now, id, delay);
        }
    }

    /// With a connection for each lease each had a dial as well. For those that have been called back one is enough.
    fn keep_one_dial(&mut self, now: Instant, backend: u32) {
        let mut is_kept = false;
        for place in 0..self.backends.get(backend).places.len() as u32 {
            let found = self.place(backend, place);
            let dials = matches!(found.dial, Dial::Connecting { .. });
            if !found.private || !found.waiters.is_empty() || found.connection.is_some() {
                continue;
            }
            if dials && !is_kept {
                is_kept = true;
            } else if found.is_taken() {
                self.stop_dials(backend, place, None);
            }
        }
        self.give_turns(now, backend);
    }

    /// A lease of any backend arrives in an outage.
    pub(super) fn hasten_attempts(&mut self, now: Instant) {
        let Some(outage) = &mut self.outage else { return };
        outage.expect_failure(now);
        for id in self.backends.order().to_vec() {
            let delay = self.policy(id).outage_gap();
            self.bring_forward(now, id, delay);
        }
    }

    fn bring_forward(&mut self, now: Instant, backend: u32, delay: Duration) {
        let Some(earliest) = self.record(backend).bring_forward(delay) else { return };
        let waits = |place: &Place| matches!(place.dial, Dial::Backoff { until, .. } if until > earliest);
        let places = 0..self.backends.get(backend).places.len() as u32;
        let waiting: Vec<u32> =
            places.filter(|place| waits(&self.backends.get(backend).places[*place as usize])).collect();
        waiting.into_iter().for_each(|place| self.want_dial(now, backend, place));
    }

    /// In an outage one place of every known backend dials for those who take any.
    pub(super) fn dial_in_outage(&mut self, now: Instant) {
        if self.any.is_empty() || self.outage.is_none() {
            return;
        }
        let is_running = |place: &&Place| {
            let dials = matches!(place.dial, Dial::Connecting { .. });
            dials && place.dialled_at.is_some_and(|began| now < began + RUNNING)
        };
        let running = |record: &Record| record.places.iter().filter(is_running).count();
        let mut room = MOST_RUNNING.saturating_sub(self.backends.known_records().map(running).sum());
        let mut order = self.backends.order().to_vec();
        order.sort_by_key(|id| self.backends.get(*id).setback.map(|setback| setback.failed_at));
        for id in order {
            if room == 0 {
                return;
            }
            room -= usize::from(self.dial_once(now, id));
        }
    }

    /// A dial has been under way for a second, or a dial that hung has failed: in an outage its place dials once more, beside it.
    pub(super) fn dial_beside(&mut self, now: Instant, id: ConnectionId) {
        let Some((backend, place)) = self.dialled(id).filter(|_| self.outage.is_some()) else { return };
        let limit = self.options.connecting_per_backend;
        let record = self.record(backend);
        if !record.known || record.connecting >= limit {
            return;
        }
        let found = &mut record.places[place as usize];
        let Some(began) = found.dialled_at.filter(|began| *began + RUNNING <= now) else { return };
        match found.dial {
            Dial::Connecting { id: current, .. } if current == id => {
                found.hanging.push(Hanging { id, began });
                found.enter(Dial::Nothing);
                let tries = Tries::watching(self.policy(backend));
                self.connect_when_allowed(now, backend, place, tries);
            }
            Dial::Nothing | Dial::Held { .. } | Dial::Connecting { .. } | Dial::Backoff { .. } => {}
        }
    }

    /// Fails the leases that have waited for long enough.
    pub(super) fn fail_waiting(&mut self, now: Instant) {
        let Some(outage) = &mut self.outage else { return };
        let Some(latest) = outage.take_failure(now, || self.backends.tried()) else { return };
        let is_over = |waiter: &&WaiterId| self.waiters[*waiter].since <= latest;
        for waiter in self.any.iter().filter(is_over).copied().collect::<Vec<WaiterId>>() {
            self.refuse(waiter, self.failure());
        }
        if let (Some(outage), Some(first)) = (&mut self.outage, self.any.first()) {
            outage.expect_failure(self.waiters[first].since);
        }
        self.abort_unneeded(now);
    }
}
