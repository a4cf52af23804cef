//! Waiters: callers in line for a connection, first come, first served.
//!
//! A waiter leaves the line in one of three ways: it is granted something, it is refused, or its caller withdraws. In the
//! first two the outcome stays here until the caller collects it, so an id is never given to somebody else too early.
//! Joining, leaving from anywhere and serving the first are constant time; finding who has waited too long walks the line,
//! which happens only when somebody may have.

use crate::list::{Chain, Link};
use std::time::Instant;

/// Names a waiter until its outcome is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId {
    index: u32,
    epoch: u32,
}

impl WaiterId {
    /// A small number, reused, for tables kept beside the line.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// A caller's place: when it first asked, and where in line that puts it. It is kept when a hand-over fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) arrival: u64,
    pub(crate) since: Instant,
    pub(crate) avoid: Option<Avoid>,
}

/// A backend that a caller does not want while another can serve, and until when it can wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avoid {
    pub(crate) backend: u32,
    pub(crate) until: Instant,
}

impl Place {
    /// When the caller first asked.
    pub fn since(&self) -> Instant {
        self.since
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    InLine { place: Place, deadline: Instant },
    Served,
}

/// The line.
#[derive(Debug)]
pub(crate) struct Waiters {
    entries: Vec<Entry>,
    links: Vec<Link>,
    free: Vec<u32>,
    line: Chain,
    length: usize,
    /// Since when somebody has been in line all the time, with nothing idle.
    standing_since: Option<Instant>,
    /// No deadline in line is before this.
    earliest: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    epoch: u32,
    state: State,
}

impl Waiters {
    pub(crate) fn new() -> Waiters {
        Waiters {
            entries: Vec::new(),
            links: Vec::new(),
            free: Vec::new(),
            line: Chain::default(),
            length: 0,
            standing_since: None,
            earliest: None,
        }
    }

    /// How many are in line.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Joins the line at the caller's place: the end for newcomers, further ahead for one whose hand-over failed.
    pub(crate) fn join(&mut self, now: Instant, place: Place, deadline: Instant) -> WaiterId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { epoch: 0, state: State::Free });
            self.links.push(Link::default());
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.state = State::InLine { place, deadline };
        let id = WaiterId { index, epoch: entry.epoch };
        match self.later_than(place) {
            Some(later) => self.line.insert_before(&mut self.links, later, index),
            None => self.line.push_tail(&mut self.links, index),
        }
        self.length += 1;
        self.standing_since.get_or_insert(now);
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        id
    }

    /// The first in line is served; the outcome is the caller's to collect.
    pub(crate) fn serve_first(&mut self) -> Option<(WaiterId, Place)> {
        let index = self.line.head()?;
        let id = WaiterId { index, epoch: self.entries[index as usize].epoch };
        self.leave(id).map(|place| (id, place))
    }

    /// Those in line, in order.
    pub(crate) fn in_line(&self) -> impl Iterator<Item = (WaiterId, Place)> + '_ {
        self.line.iter(&self.links).filter_map(|index| match self.entries[index as usize] {
            Entry { epoch, state: State::InLine { place, .. } } => Some((WaiterId { index, epoch }, place)),
            Entry { state: State::Free | State::Served, .. } => None,
        })
    }

    /// This one is served out of turn.
    pub(crate) fn serve(&mut self, id: WaiterId) {
        self.leave(id);
    }

    /// Since when somebody has been in line all the time, with nothing idle.
    pub(crate) fn standing_since(&self) -> Option<Instant> {
        self.standing_since
    }

    /// Something is idle that nobody in line takes: they do not stand there for want of it.
    pub(crate) fn note_idle(&mut self) {
        self.standing_since = None;
    }

    /// When the next of them stops avoiding a backend.
    pub(crate) fn next_to_relent(&self, now: Instant) -> Option<Instant> {
        self.in_line().filter_map(|(_, place)| place.avoid).map(|avoid| avoid.until).filter(|&until| until > now).min()
    }

    /// A backend is no more: nobody avoids whoever has its index next.
    pub(crate) fn forget_backend(&mut self, backend: u32) {
        if self.length == 0 {
            return;
        }
        for entry in &mut self.entries {
            if let State::InLine { place, .. } = &mut entry.state
                && place.avoid.is_some_and(|avoid| avoid.backend == backend)
            {
                place.avoid = None;
            }
        }
    }

    /// Those whose deadline has passed are served, with a refusal; also tells how many were ahead of each.
    pub(crate) fn serve_expired(&mut self, now: Instant) -> Vec<(WaiterId, usize)> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let (mut expired, mut earliest, mut ahead) = (Vec::new(), None::<Instant>, 0);
        for index in self.line.iter(&self.links) {
            let Entry { epoch, state: State::InLine { deadline, .. } } = self.entries[index as usize] else { continue };
            if deadline <= now {
                expired.push((WaiterId { index, epoch }, ahead));
            } else {
                earliest = Some(earliest.map_or(deadline, |earliest| earliest.min(deadline)));
            }
            ahead += 1;
        }
        for (id, _) in &expired {
            self.leave(*id);
        }
        self.earliest = earliest;
        expired
    }

    /// Frees a waiter's entry: true if it was still in line (its caller gave up), false if it had been served.
    pub(crate) fn free(&mut self, id: WaiterId) -> bool {
        let Some(entry) = self.entries.get(id.index()).filter(|entry| entry.epoch == id.epoch) else {
            return false;
        };
        let withdrawn = match entry.state {
            State::InLine { .. } => self.leave(id).is_some(),
            State::Served => false,
            State::Free => return false,
        };
        let entry = &mut self.entries[id.index()];
        entry.state = State::Free;
        entry.epoch = entry.epoch.wrapping_add(1);
        self.free.push(id.index);
        withdrawn
    }

    /// When the earliest deadline may be due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    fn leave(&mut self, id: WaiterId) -> Option<Place> {
        let entry = &mut self.entries[id.index()];
        let State::InLine { place, .. } = entry.state else { return None };
        entry.state = State::Served;
        self.line.remove(&mut self.links, id.index);
        self.length -= 1;
        if self.length == 0 {
            self.earliest = None;
            self.standing_since = None;
        }
        Some(place)
    }

    /// The first in line that arrived after `place`, for a caller who comes back; newcomers find none at once.
    fn later_than(&self, place: Place) -> Option<u32> {
        let arrival = |index: u32| match self.entries[index as usize].state {
            State::InLine { place, .. } => place.arrival,
            State::Free | State::Served => unreachable!("only waiters in line are linked"),
        };
        let last = self.line.tail()?;
        if arrival(last) < place.arrival {
            return None;
        }
        self.line.iter(&self.links).find(|&index| arrival(index) > place.arrival)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn place(arrival: u64, since: Instant) -> Place {
        Place { arrival, since, avoid: None }
    }

    #[test]
    fn first_come_first_served_and_a_returner_keeps_its_place() {
        let (start, mut waiters) = (Instant::now(), Waiters::new());
        let later = start + Duration::from_secs(1);
        let second = waiters.join(start, place(2, start), later);
        let fourth = waiters.join(start, place(4, start), later);
        let third = waiters.join(start, place(3, start), later);
        let first = waiters.join(start, place(1, start), later);
        let order: Vec<_> = std::iter::from_fn(|| waiters.serve_first().map(|(id, _)| id)).collect();
        assert_eq!(order, [first, second, third, fourth]);
    }

    #[test]
    fn a_withdrawn_waiter_is_gone_at_once() {
        let (start, mut waiters) = (Instant::now(), Waiters::new());
        let one = waiters.join(start, place(1, start), start);
        let two = waiters.join(start, place(2, start), start);
        assert!(waiters.free(one));
        assert_eq!(waiters.len(), 1);
        assert_eq!(waiters.serve_first().map(|(id, _)| id), Some(two));
        assert!(!waiters.free(two), "served, not withdrawn");
        assert!(!waiters.free(two), "freeing twice does nothing");
    }

    #[test]
    fn an_outcome_keeps_its_id_until_collected() {
        let (start, mut waiters) = (Instant::now(), Waiters::new());
        let one = waiters.join(start, place(1, start), start);
        waiters.serve_first();
        let two = waiters.join(start, place(2, start), start);
        assert_ne!(one.index(), two.index());
        waiters.free(one);
        let three = waiters.join(start, place(3, start), start);
        assert_eq!(one.index(), three.index());
        assert_ne!(one, three);
    }

    #[test]
    fn the_expired_are_found_wherever_they_stand() {
        let (start, mut waiters) = (Instant::now(), Waiters::new());
        let patient = waiters.join(start, place(1, start), start + Duration::from_secs(9));
        let hasty = waiters.join(start, place(2, start), start + Duration::from_secs(1));
        assert_eq!(waiters.serve_expired(start), []);
        assert_eq!(waiters.serve_expired(start + Duration::from_secs(1)), [(hasty, 1)]);
        assert_eq!(waiters.next_deadline(), Some(start + Duration::from_secs(9)));
        assert_eq!(waiters.serve_first().map(|(id, _)| id), Some(patient));
    }
}
