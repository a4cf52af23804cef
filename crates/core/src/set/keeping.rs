//! Keeping: what an eager set holds on to, and what the detector lets go.

use super::places::{Dial, Record, What};
use super::{ConnectionId, Machine, State};
use crate::backends::MOST_RUNNING;
use crate::idle::Idleness;
use crate::plan::{Have, Spread, plan};
use std::collections::BTreeSet;
use std::time::Instant;

impl Machine {
    /// Finds out which backends are in rotation. Plans which of them an eager set keeps connected, and sees to it.
    pub(super) fn replan(&mut self, now: Instant) {
        self.rotate(now);
        self.note_outage(now);
        match self.state {
            State::Starting | State::Running | State::Failed if self.options.eager => {}
            State::Starting | State::Running | State::Failed | State::Stopping | State::Stopped => return,
        }
        self.planned_at = Some(now);
        let is_in = |id: &u32| !self.is_out(*id);
        let order: Vec<u32> = self.backends.order().iter().copied().filter(is_in).collect();
        let priority = |id: u32| self.backends.get(id).backend.priority();
        let (dead, live): (Vec<u32>, Vec<u32>) =
            order.into_iter().partition(|id| self.backends.get(*id).health.is_dead());
        let serving = live.iter().map(|id| priority(*id)).min();
        let serves: Vec<u32> = live.into_iter().filter(|id| Some(priority(*id)) == serving).collect();
        let have: Vec<Have> = serves.iter().map(|id| self.have(*id)).collect();
        let maximum = self.options.maximum.unwrap_or(usize::MAX);
        let plan = plan(&have, self.options.target.unwrap_or(usize::MAX), maximum, Spread::Single);
        let planned = serves.into_iter().zip(plan.want).filter_map(|(id, want)| (want > 0).then_some(id));
        let wanted: BTreeSet<u32> = planned.chain(self.probed(dead, serving, maximum)).collect();
        for id in self.backends.order().to_vec() {
            self.record(id).wanted = wanted.contains(&id);
            if wanted.contains(&id) {
                self.adopt(id);
            }
        }
        self.drop_unwanted(now, maximum);
        let planned = |id: &&u32| self.backends.get(**id).is_planned();
        let mut sockets = self.backends.order().iter().filter(planned).count();
        for id in self.backends.order().to_vec() {
            if !self.backends.get(id).wanted || self.place(id, 0).is_taken() {
                continue;
            }
            let is_dead = self.backends.get(id).health.is_dead();
            // One more than the maximum, so that what takes another's place can be there before it goes.
            if is_dead || sockets <= maximum {
                self.place(id, 0).planned = true;
                sockets += usize::from(!is_dead);
                self.want_dial(now, id, 0);
            }
        }
    }

    /// The dead backends that are tried although the plan does not cover them: of the tier that serves or a better one, those
    /// whose next attempt is due first.
    fn probed(&self, mut dead: Vec<u32>, serving: Option<u16>, maximum: usize) -> Vec<u32> {
        dead.retain(|id| serving.is_none_or(|serving| self.backends.get(*id).backend.priority() <= serving));
        dead.sort_by_key(|id| self.backends.get(*id).setback.map(|setback| setback.until));
        dead.truncate(maximum.min(MOST_RUNNING));
        dead
    }

    /// Now and then the least preferred backend moves to a random place, so that many clients do not end up on the same few.
    pub(super) fn disturb(&mut self, now: Instant) {
        let Some(at) = self.disturb_at.filter(|at| *at <= now) else { return };
        self.disturb_at = Some(at.max(now) + self.options.decoherence);
        self.backends.decohere(&mut self.random);
        self.replan(now);
    }

    /// Makes sure that the detector comes by.
    pub(super) fn start_looking(&mut self, now: Instant) {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return,
        }
        if self.look_at.is_none() && self.connected > 0 {
            self.look_at = self.options.looks().map(|interval| now + interval);
        }
    }

    /// The detector's look. What it finds unused for long enough is released with the next step, not with this one.
    pub(super) fn look(&mut self, now: Instant) {
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        self.look_at = None;
        let Some(max_idle) = self.options.max_idle else { return };
        let Machine { options, entries, backends, release_at, .. } = self;
        for entry in entries {
            let What::Connection(connection) = &mut entry.what else { continue };
            // Only an eager set keeps any: the others need not look up each.
            let kept = options.eager && backends.get(connection.backend).places[connection.place as usize].planned;
            let unused_since = (connection.leases == 0 && !kept).then_some(connection.last_used);
            connection.idleness.look(now, unused_since, max_idle);
            if matches!(connection.idleness, Idleness::BeforeRelease { .. }) {
                *release_at = Some(now);
            }
        }
        self.start_looking(now);
    }

    /// Releases what the last look found, unless it has been leased since.
    pub(super) fn release_unused(&mut self, now: Instant) {
        if self.release_at.take().is_none() {
            return;
        }
        for id in self.up().collect::<Vec<ConnectionId>>() {
            if self.connection_mut(id).is_some_and(|connection| connection.idleness.release()) {
                self.counters.released += 1;
                self.shut(now, id);
            }
        }
    }

    /// What the plan wants and is there already is the plan's from now on.
    fn adopt(&mut self, id: u32) {
        let place = self.place(id, 0);
        if place.planned || !place.is_taken() {
            return;
        }
        place.planned = true;
        if let Some(connection) = place.connection {
            self.classify(id);
            if let Some(connection) = self.connection_mut(connection) {
                connection.idleness.use_again();
            }
        }
    }

    /// Lets go of what the plan had wanted and does not want any more. As many stay as are to be replaced, if there is room
    /// for them; so does the last that works, since the plan wants a live one whenever there is any. What somebody asked
    /// for is left to the detector.
    fn drop_unwanted(&mut self, now: Instant, maximum: usize) {
        let (mut taken, mut missing, mut works) = (0, 0, false);
        for id in self.backends.order() {
            let record = self.backends.get(*id);
            if record.wanted && !record.health.is_dead() {
                let up = record.places[0].connection.is_some();
                taken += usize::from(record.places[0].is_taken());
                missing += usize::from(!up);
                works |= up;
            }
        }
        let room = maximum.saturating_add(1) - taken;
        let mut stay = missing.min(room);
        let unwanted = |id: &u32| !self.backends.get(*id).wanted && self.backends.get(*id).places[0].planned;
        let unwanted: Vec<u32> = self.backends.order().iter().copied().filter(unwanted).collect();
        for &id in &unwanted {
            let Some(connection) = self.place(id, 0).connection else { continue };
            works = true;
            match stay.checked_sub(1) {
                Some(left) => stay = left,
                None => self.drain(now, connection, None),
            }
        }
        for id in
            unwanted.into_iter().filter(|id| self.backends.get(*id).places[0].dial != Dial::Nothing).collect::<Vec<_>>()
        {
            match stay.checked_sub(1) {
                Some(left) if !works => stay = left,
                Some(_) | None => {
                    self.place(id, 0).planned = false;
                    self.abort_if_unneeded(now, id, 0);
                }
            }
        }
    }

    /// A backend as the plan sees it.
    fn have(&self, id: u32) -> Have {
        let record = self.backends.get(id);
        Have { slots: record.places.iter().filter(|place| place.is_taken()).count(), weight: record.backend.weight() }
    }
}

impl Record {
    /// Whether the plan covers what is in one of its places: attempts at a dead backend do not count against the maximum.
    pub(super) fn is_planned(&self) -> bool {
        self.places.iter().any(|place| place.planned) && !self.health.is_dead()
    }
}
