//! Subscribing: how topics come by a place, and how they are given up.

use super::entries::{EntryId, Home, Waiter};
use super::lines::{Line, LineState};
use super::told::{Delivery, Milestone, Pending, Placement, Refusal, Subscribed, WaiterId};
use super::topic::{Level, Topic};
use super::wants::Left;
use super::{Due, Machine, State};
use std::time::Instant;

/// Every so many topics on a connection are worth telling.
const MILESTONE: usize = 100;

impl Machine {
    /// One more wants this topic.
    pub fn subscribe(&mut self, now: Instant, topic: &Topic) -> Subscribed {
        match self.state {
            State::Running | State::Refused => {}
            State::Stopping | State::Stopped => return Subscribed::Refused(Refusal::Closed),
        }
        let level = topic.level.plain();
        let id = self.entry_of(&topic.instrument);
        if self.entries[&id].home == Home::Nowhere
            && let Err(refusal) = self.place(now, id)
        {
            self.settle(now, id);
            self.finish(now);
            return Subscribed::Refused(refusal);
        }
        let already = match self.entries.get_mut(&id) {
            Some(entry) => entry.wants.add(level),
            None => false,
        };
        // Whoever asks anew gets a new answer; whoever asks for less than was refused does not depend on it.
        if self.entries[&id].refused.as_ref().is_some_and(|refused| level >= refused.level) {
            self.ask_again(id);
        }
        self.settle(now, id);
        let subscribed = match self.outlook(now, id, level, already) {
            Some(placement) => Subscribed::Placed(placement),
            None => Subscribed::Waiting(self.wait_for(now, id, level, already)),
        };
        self.finish(now);
        subscribed
    }

    /// One less wants this topic. False when nobody had.
    pub fn unsubscribe(&mut self, now: Instant, topic: &Topic) -> bool {
        let level = topic.level.plain();
        let Some(id) = self.ids.get(&topic.instrument).copied() else { return false };
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let until = Some(self.options.linger).filter(|linger| !linger.is_zero()).map(|linger| now + linger);
        let Some(left) = entry.wants.remove(level, until) else { return false };
        match left {
            Left::Others => {}
            Left::Lingers | Left::Gone => {
                // Who still waits for it had its interest taken back by somebody else.
                self.turn_away(id, level, &Refusal::Unsubscribed);
            }
        }
        match (left, until) {
            (Left::Lingers, Some(until)) => {
                self.linger(id, until);
                self.note_lingering(id);
            }
            (Left::Others | Left::Lingers | Left::Gone, _) => self.settle(now, id),
        }
        self.hold_moves(now);
        self.finish(now);
        true
    }

    /// Nobody wants anything any more, and nothing lingers. How many topics there were.
    pub fn unsubscribe_all(&mut self, now: Instant) -> usize {
        match self.state {
            State::Running | State::Refused => {}
            State::Stopping | State::Stopped => return 0,
        }
        let topics = self.topics();
        self.tell(Milestone::UnsubscribedAll { topics });
        self.give_up_everything(now, &Refusal::Unsubscribed);
        self.finish(now);
        topics
    }

    /// Somebody who waited is gone, and does not want its topic any more. False when it was told already.
    pub fn forget_waiter(&mut self, now: Instant, waiter: WaiterId) -> bool {
        let Some(found) = self.take_waiter(waiter) else { return false };
        if let Some(entry) = self.entries.get(&found.entry) {
            let topic = Topic { instrument: entry.instrument.clone(), level: found.level };
            self.unsubscribe(now, &topic);
        }
        true
    }

    pub(super) fn give_up_everything(&mut self, now: Instant, refusal: &Refusal) {
        for waiter in self.waiters.keys().copied().collect::<Vec<_>>() {
            self.take_waiter(waiter);
            self.deliveries.push_back(Delivery::Refused { waiter, refusal: refusal.clone() });
        }
        for id in self.entries.keys().copied().collect::<Vec<_>>() {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.wants.clear();
            }
            self.settle(now, id);
        }
    }

    /// Tells those who wait for what is accepted by now.
    pub(super) fn answer(&mut self, id: EntryId) {
        let Some(accepted) = self.accepted(id) else { return };
        let withheld = self.entries[&id].withheld;
        for waiter in self.entries[&id].waiters_up_to(accepted) {
            self.deliver(waiter, withheld);
        }
    }

    /// Somebody has waited long enough, or in vain: its topic is pending.
    pub(super) fn is_pending(&mut self, waiter: WaiterId) {
        if let Some(entry) = self.waiters.get(&waiter).map(|found| found.entry) {
            self.deliver(waiter, Some(self.obstacle(entry)));
        }
    }

    /// Tells those who wait for just this that they do so in vain.
    pub(super) fn turn_away(&mut self, id: EntryId, level: Level, refusal: &Refusal) -> usize {
        let waiters = self.entries.get(&id).map_or_else(Vec::new, |entry| entry.waiters_at(level));
        for waiter in &waiters {
            self.take_waiter(*waiter);
            self.deliveries.push_back(Delivery::Refused { waiter: *waiter, refusal: refusal.clone() });
        }
        waiters.len()
    }

    pub(super) fn take_waiter(&mut self, waiter: WaiterId) -> Option<Waiter> {
        let found = self.waiters.remove(&waiter)?;
        self.agenda.remove(&(found.deadline, Due::Waiter(waiter)));
        if let Some(entry) = self.entries.get_mut(&found.entry) {
            entry.waiters.remove(&(found.level, waiter));
        }
        Some(found)
    }

    fn deliver(&mut self, waiter: WaiterId, why: Option<Pending>) {
        let Some(found) = self.take_waiter(waiter) else { return };
        let placement = self.placement(found.entry, found.already, why);
        self.deliveries.push_back(Delivery::Placed { waiter, placement });
    }

    /// Where a topic is, if there is nothing to wait for: it is accepted, or it cannot be for now.
    fn outlook(&self, now: Instant, id: EntryId, level: Level, already: bool) -> Option<Placement> {
        if Some(level) <= self.accepted(id) {
            return Some(self.placement(id, already, self.entries[&id].withheld));
        }
        let line = &self.lines[self.entries[&id].home.line()?];
        let in_vain = match self.state {
            State::Refused => !line.is_up(),
            State::Running | State::Stopping | State::Stopped => line.is_down(now + self.options.pending_after),
        };
        let why = if self.state == State::Refused { Pending::Credential } else { line.trouble() };
        in_vain.then(|| self.placement(id, already, Some(why)))
    }

    /// Why a topic is not carried by now; `None` if it is.
    pub fn pending(&self, topic: &Topic) -> Option<Pending> {
        let Some(id) = self.ids.get(&topic.instrument).copied() else { return Some(Pending::Unanswered) };
        (self.carried(id) < Some(topic.level.plain())).then(|| self.obstacle(id))
    }

    /// What keeps the upstream from accepting a topic by now, or from carrying it.
    fn obstacle(&self, id: EntryId) -> Pending {
        if let Some(withheld) = self.entries.get(&id).and_then(|entry| entry.withheld) {
            return withheld;
        }
        let home = self.entries.get(&id).and_then(|entry| entry.home.line());
        match (self.state, home.map(|line| &self.lines[line])) {
            (_, Some(line)) if line.is_up() => Pending::Unanswered,
            (State::Refused, _) => Pending::Credential,
            (State::Running | State::Stopping | State::Stopped, Some(line)) if line.lost || line.is_failing() => {
                line.trouble()
            }
            (State::Running | State::Stopping | State::Stopped, _) => Pending::Unanswered,
        }
    }

    fn wait_for(&mut self, now: Instant, id: EntryId, level: Level, already: bool) -> WaiterId {
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        let deadline = now + self.options.pending_after;
        self.waiters.insert(waiter, Waiter { entry: id, level, already, deadline });
        self.agenda.insert((deadline, Due::Waiter(waiter)));
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.waiters.insert((level, waiter));
        }
        waiter
    }

    /// How much of it is accepted where its ticks are taken from.
    fn accepted(&self, id: EntryId) -> Option<Level> {
        self.lines[self.entries.get(&id)?.home.source()?].carries(id)
    }

    /// How much of it is carried there.
    pub(super) fn carried(&self, id: EntryId) -> Option<Level> {
        self.accepted(id).filter(|_| self.entries[&id].withheld.is_none())
    }

    /// Where a topic is, and if it is pending, why.
    fn placement(&self, id: EntryId, already: bool, why: Option<Pending>) -> Placement {
        let line = self.entries.get(&id).and_then(|entry| entry.home.line()).unwrap_or(0);
        let on_connection = self.lines[line].homes.len();
        let (connection, total_connections) = (line + 1, self.connections());
        Placement { connection, total_connections, on_connection, already, pending: why.is_some(), why }
    }

    /// Finds a home for an instrument: where it is still carried, or the first line with room.
    fn place(&mut self, now: Instant, id: EntryId) -> Result<(), Refusal> {
        let still_carried = |line: &Line| line.carries(id).is_some() && line.room(&self.options) > 0;
        let line = match self.lines.iter().position(still_carried).or_else(|| self.line_with_room()) {
            Some(line) => line,
            None => {
                self.evict(now);
                self.line_with_room().ok_or_else(|| self.full())?
            }
        };
        let topics = self.topics();
        if matches!(self.lines[line].state, LineState::Vacant) {
            self.need(now, line);
            if matches!(self.lines[line].state, LineState::Opening { .. }) {
                let on_previous = line.checked_sub(1).map(|previous| self.lines[previous].homes.len());
                self.tell(Milestone::Opening { connection: line + 1, on_previous, topics });
            }
        }
        self.rehome(now, id, Home::At(line));
        let (on_connection, connections) = (self.lines[line].homes.len(), self.connections());
        if on_connection == 1 {
            let first = self.entries[&id].instrument.clone();
            self.tell(Milestone::Started { connection: line + 1, first });
        }
        if on_connection.is_multiple_of(MILESTONE) || on_connection == self.options.max_topics_per_connection {
            self.tell(Milestone::Filled { connection: line + 1, on_connection, topics: topics + 1, connections });
        }
        Ok(())
    }

    /// The first line with room: of those that are up or about to be, of those that are tried again, of those that may be
    /// opened, and last of those that are about to end and can be opened again.
    fn line_with_room(&mut self) -> Option<usize> {
        let rank = |line: &Line| match &line.state {
            LineState::Up(_) => 0,
            LineState::Opening { .. } if line.setback.is_none() => 0,
            LineState::Opening { .. } | LineState::Waiting { .. } => 1,
            LineState::Vacant => 2,
            LineState::Closing { .. } => 3,
        };
        let found = self.lines.iter().enumerate().filter(|(_, line)| line.room(&self.options) > 0);
        let best = found.min_by_key(|(at, line)| (rank(line), *at)).map(|(at, line)| (at, rank(line)));
        match best {
            Some((at, 0..=2)) => Some(at),
            Some(_) | None if self.lines.len() < self.options.max_connections => {
                self.lines.push(Line::new());
                Some(self.lines.len() - 1)
            }
            Some((at, _)) => Some(at),
            None => None,
        }
    }

    /// Makes room: one instrument that only lingers goes at once; or one that moves stays where it is.
    fn evict(&mut self, now: Instant) {
        if self.expire_one(now, |_| true) {
            return;
        }
        let moving = self.lines.iter().enumerate().find_map(|(from, line)| Some((*line.departing.first()?, from)));
        if let Some((id, from)) = moving {
            self.rehome(now, id, Home::At(from));
            self.settle(now, id);
        }
    }

    fn full(&self) -> Refusal {
        Refusal::CapacityReached {
            max_connections: self.options.max_connections,
            max_topics_per_connection: self.options.max_topics_per_connection,
            topics: self.topics(),
        }
    }
}
