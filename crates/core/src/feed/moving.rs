//! Moving: topics leave a line that cannot be reopened, or one that others have room for; and what is left empty is let go.

use super::entries::{EntryId, Home};
use super::lines::{Line, LineState, Write};
use super::opening::Parting;
use super::told::Milestone;
use super::{Machine, State};
use crate::idle::Idleness;
use std::time::Instant;

impl Machine {
    /// Topics of lines without a connection go to lines that are up and have room. A line that nobody needs any more is not
    /// tried again.
    pub(super) fn rescue(&mut self, now: Instant) {
        self.moves_at = self.moves_at.filter(|at| *at > now);
        for line in 0..self.lines.len() {
            self.expire_stranded(now, line);
            let mut topics = 0;
            while self.moves_at.is_none()
                && self.lines[line].is_stranded()
                && let (Some(id), Some(to)) = (self.lines[line].homes.first().copied(), self.room_elsewhere(now, line))
            {
                self.rehome(now, id, Home::At(to));
                self.settle(now, id);
                topics += 1;
            }
            if topics > 0 {
                self.tell(Milestone::Moved { connection: line + 1, topics, compacted: false });
            }
            let found = &mut self.lines[line];
            if found.homes.is_empty() {
                found.lost = false;
                if matches!(found.state, LineState::Waiting { .. }) {
                    found.state = LineState::Vacant;
                }
            }
        }
    }

    /// Somebody leaves, and what has no connection could have the room. Whoever leaves often leaves everything: by the time that
    /// the next write may be made, what is wanted no more has gone, and the rest moves in one step.
    pub(super) fn hold_moves(&mut self, now: Instant) {
        if self.moves_at.is_none() && self.lines.iter().any(Line::is_stranded) {
            self.moves_at = Some(now + self.options.pace);
        }
    }

    /// Notes since when a line could be freed.
    pub(super) fn consider_compaction(&mut self, now: Instant) {
        let used = self.lines.iter().filter(|line| !line.homes.is_empty()).count();
        let fewer = used.saturating_sub(1).saturating_mul(self.options.max_topics_per_connection);
        let could = used > 1 && self.topics() <= fewer;
        self.compact_at = match (could, self.compact_at, self.options.compact_after) {
            (true, None, Some(compact_after)) => Some(now + compact_after),
            (true, noted, _) => noted,
            (false, _, _) => None,
        };
    }

    /// Frees the line with the fewest topics, if that has been possible for long enough and nothing else is going on. Each
    /// topic is carried at its new home before the old one lets go.
    pub(super) fn compact(&mut self, now: Instant) {
        if self.compact_at.is_none_or(|at| at > now) {
            return;
        }
        self.compact_at = None;
        if !self.lines.iter().all(Line::is_at_rest) {
            return;
        }
        let used = self.lines.iter().enumerate().filter(|(_, line)| !line.homes.is_empty());
        let Some((emptied, _)) = used.min_by_key(|(at, line)| (line.homes.len(), usize::MAX - at)) else { return };
        let mut topics = 0;
        while let (Some(id), Some(to)) =
            (self.lines[emptied].homes.first().copied(), self.first_used_with_room(emptied))
        {
            self.rehome(now, id, Home::Moving { to, from: emptied, until: None });
            self.settle(now, id);
            topics += 1;
        }
        self.tell(Milestone::Moved { connection: emptied + 1, topics, compacted: true });
    }

    /// Makes sure that the detector comes by.
    pub(super) fn start_looking(&mut self, now: Instant) {
        if self.look_at.is_none() && self.lines.iter().any(Line::is_up) {
            self.look_at = self.options.looks().map(|interval| now + interval);
        }
    }

    /// The detector's look. What it finds without topics for long enough is released with the next step, not with this one.
    pub(super) fn look(&mut self, now: Instant) {
        if self.look_at.is_none_or(|at| at > now) {
            return;
        }
        self.look_at = None;
        let Some(max_idle) = self.options.max_idle else { return };
        for line in &mut self.lines {
            let unused_since = line.unused_since();
            let Some(up) = line.up_mut() else { continue };
            up.idleness.look(now, unused_since, max_idle);
            if matches!(up.idleness, Idleness::BeforeRelease { .. }) {
                self.release_at = Some(now);
            }
        }
    }

    /// Releases what the last look found, unless it has got a topic since.
    pub(super) fn release_unused(&mut self, now: Instant) {
        match self.state {
            State::Running | State::Refused => {}
            State::Stopping | State::Stopped => return,
        }
        if self.release_at.take().is_none() {
            return;
        }
        for line in 0..self.lines.len() {
            if self.lines[line].up_mut().is_some_and(|up| up.idleness.release()) {
                self.tell(Milestone::Released { connection: line + 1 });
                self.start_closing(now, line, Parting::Orderly);
            }
        }
    }

    /// What only lingers is not moved: it would take the room of what somebody wants.
    fn expire_stranded(&mut self, now: Instant, line: usize) {
        if self.lines[line].is_stranded() {
            let lingers = |id: &&EntryId| self.entries.get(id).is_some_and(|entry| !entry.wants.is_counted());
            for id in self.lines[line].homes.iter().filter(lingers).copied().collect::<Vec<_>>() {
                self.expire(now, id);
            }
        }
    }

    /// A line that is up and has room, if need be that of something that only lingers.
    fn room_elsewhere(&mut self, now: Instant, but: usize) -> Option<usize> {
        let up_with_room = |machine: &Machine| machine.first_with_room(|at, line| at != but && line.is_up());
        up_with_room(self).or_else(|| {
            self.expire_one(now, Line::is_up).then_some(())?;
            up_with_room(self)
        })
    }

    fn first_used_with_room(&self, but: usize) -> Option<usize> {
        self.first_with_room(|at, line| at != but && line.is_up() && !line.homes.is_empty())
    }

    fn first_with_room(&self, suits: impl Fn(usize, &Line) -> bool) -> Option<usize> {
        let mut lines = self.lines.iter().enumerate();
        lines.find(|(at, line)| suits(*at, line) && line.room(&self.options) > 0).map(|(at, _)| at)
    }
}

impl Line {
    /// Whether the line carries what it should, and nothing is about to change.
    fn is_at_rest(&self) -> bool {
        match &self.state {
            LineState::Vacant => true,
            LineState::Opening { .. } | LineState::Waiting { .. } | LineState::Closing { .. } => false,
            LineState::Up(up) => {
                let ready = match &up.write {
                    Write::Ready { .. } => true,
                    Write::Busy { .. } => false,
                };
                ready && up.incoming.is_empty() && up.outgoing.is_empty() && self.departing.is_empty()
            }
        }
    }
}
