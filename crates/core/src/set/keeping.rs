//! Keeping: what an eager set holds on to, and what the detector lets go.

use super::places::{Dial, What};
use super::{ConnectionId, Machine, State};
use crate::idle::Idleness;
use crate::plan::{Have, Spread, plan};
use std::time::Instant;

impl Machine {
    /// Plans which backends an eager set keeps connected, and sees to it.
    pub(super) fn replan(&mut self, now: Instant) {
        match self.state {
            State::Starting | State::Running | State::Failed if self.options.eager => {}
            State::Starting | State::Running | State::Failed | State::Stopping | State::Stopped => return,
        }
        let have: Vec<Have> = self.order.iter().map(|id| self.have(*id)).collect();
        let maximum = self.options.maximum.unwrap_or(usize::MAX);
        let target = self.options.target.unwrap_or(usize::MAX).min(self.order.len());
        let plan = plan(&have, target, maximum, Spread::Single);
        for (i, id) in self.order.clone().into_iter().enumerate() {
            self.record(id).wanted = plan.want[i] > 0;
        }
        self.drop_unwanted(now);
        for id in self.order.clone() {
            let sockets = self.order.iter().map(|id| self.have(*id).slots).sum::<usize>();
            let record = &self.records[&id];
            let has =
                record.places.first().is_some_and(|place| place.connection.is_some() || place.dial != Dial::Nothing);
            // One more than the maximum, so that what takes another's place can be there before it goes.
            if record.wanted && !has && sockets <= maximum {
                self.want_dial(now, id, 0);
            }
        }
    }

    /// After a connection or an attempt of a place has ended: an eager set wants the next.
    pub(super) fn want_if_planned(&mut self, now: Instant, backend: u32, place: u32) {
        match self.state {
            State::Starting | State::Running | State::Failed => {}
            State::Stopping | State::Stopped => return,
        }
        let record = &self.records[&backend];
        let found = &record.places[place as usize];
        let wanted = (record.wanted && place == 0) || !found.waiters.is_empty();
        if wanted && found.connection.is_none() {
            self.want_dial(now, backend, place);
        }
    }

    /// Now and then the least preferred backend moves to a random place, so that many clients do not end up on the same few.
    pub(super) fn disturb(&mut self, now: Instant) {
        let Some(at) = self.disturb_at.filter(|at| *at <= now) else { return };
        self.disturb_at = Some(at.max(now) + self.options.decoherence);
        if let Some(last) = self.order.pop() {
            let at = self.random.below(self.order.len() + 1);
            self.order.insert(at, last);
        }
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
        let Machine { entries, records, release_at, .. } = self;
        for entry in entries {
            let What::Connection(connection) = &mut entry.what else { continue };
            let kept = records[&connection.backend].wanted && connection.place == 0;
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
                self.shut(now, id);
            }
        }
    }

    /// Lets go of what the plan does not want: what nobody holds, and only while something that is wanted works.
    fn drop_unwanted(&mut self, now: Instant) {
        let works = |id: &&u32| self.records[id].wanted && self.have(**id).slots > 0 && self.is_up(**id);
        if self.order.iter().find(works).is_none() {
            return;
        }
        let unwanted: Vec<u32> = self.order.iter().copied().filter(|id| !self.records[id].wanted).collect();
        for id in unwanted {
            for place in 0..self.records[&id].places.len() as u32 {
                let found = self.place(id, place);
                match found.connection {
                    Some(connection) => self.drain(now, connection, None),
                    None => self.abort_if_unneeded(now, id, place),
                }
            }
        }
    }

    fn is_up(&self, id: u32) -> bool {
        self.records[&id].places.iter().any(|place| place.connection.is_some())
    }

    /// A backend as the plan sees it.
    fn have(&self, id: u32) -> Have {
        let record = &self.records[&id];
        let taken = |place: &&super::places::Place| place.connection.is_some() || place.dial != Dial::Nothing;
        Have {
            slots: record.places.iter().filter(taken).count(),
            dead: record.dead,
            priority: record.backend.priority(),
            weight: record.backend.weight(),
        }
    }
}
