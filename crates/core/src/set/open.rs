//! Connections that any lease may be of, the one to be leased next at hand.
//!
//! A heap that knows where each connection is in it: every lease and every release moves one connection, and most of them
//! by a step or two.

use super::places::{ConnectionId, Rank};

/// What a connection is judged by: those with room come first, then lower ranks, then fewer leases, then who was leased
/// longest ago, so that leases one after another go round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) full: bool,
    pub(super) rank: Rank,
    pub(super) leases: usize,
    /// The number of its last lease; 0 if it has had none.
    pub(super) turn: u64,
    pub(super) id: ConnectionId,
}

#[derive(Debug, Default)]
pub(super) struct Open {
    /// None after a child of its own: those of `i` are at `2 i + 1` and `2 i + 2`.
    heap: Vec<Key>,
    /// Where a connection is in the heap, by its small number; anything, if it is not there.
    places: Vec<usize>,
}

impl Open {
    /// The connection to be leased next.
    pub(super) fn first(&self) -> Option<ConnectionId> {
        self.heap.first().map(|key| key.id)
    }

    /// The one to be leased next of those that fit, unless it is full and the very next is not.
    pub(super) fn first_that(&self, fits: impl Fn(ConnectionId) -> bool) -> Option<ConnectionId> {
        let full = self.heap.first()?.full;
        self.heap.iter().filter(|key| key.full == full && fits(key.id)).min().map(|key| key.id)
    }

    /// The one to be leased next of those that fit, full or not.
    pub(super) fn least_that(&self, fits: impl Fn(ConnectionId) -> bool) -> Option<ConnectionId> {
        self.heap.iter().filter(|key| fits(key.id)).min().map(|key| key.id)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.place_of(key.id).is_some_and(|at| self.heap[at] == *key)
    }

    pub(super) fn insert(&mut self, key: Key) {
        let number = key.id.index();
        if self.places.len() <= number {
            self.places.resize(number + 1, usize::MAX);
        }
        self.heap.push(key);
        self.rise(self.heap.len() - 1);
    }

    /// Takes out a connection, if it is there.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        let Some(at) = self.place_of(id) else { return };
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.settle(at);
        }
    }

    /// A connection is judged by this now, if it is there.
    pub(super) fn replace(&mut self, key: Key) {
        let Some(at) = self.place_of(key.id) else { return };
        self.heap[at] = key;
        self.settle(at);
    }

    fn place_of(&self, id: ConnectionId) -> Option<usize> {
        let at = *self.places.get(id.index())?;
        (self.heap.get(at)?.id == id).then_some(at)
    }

    /// Puts what is here where it belongs.
    fn settle(&mut self, at: usize) {
        let at = self.rise(at);
        self.sink(at);
    }

    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            let parent = (at - 1) / 2;
            self.heap.swap(at, parent);
            self.places[self.heap[at].id.index()] = at;
            at = parent;
        }
        self.places[self.heap[at].id.index()] = at;
        at
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1..self.heap.len()).take(2);
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { return };
            if self.heap[at] <= self.heap[least] {
                return;
            }
            self.heap.swap(at, least);
            self.places[self.heap[at].id.index()] = at;
            self.places[self.heap[least].id.index()] = least;
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn whatever_is_done_the_first_is_the_least() {
        let mut random = Random::new(7);
        let (mut open, mut sorted) = (Open::default(), BTreeSet::<Key>::new());
        for epoch in 0..20_000 {
            let id = ConnectionId { epoch: 1, index: random.below(50) as u32 };
            let known = sorted.iter().find(|other| other.id == id).copied();
            match known {
                Some(key) if random.below(4) == 0 => {
                    sorted.remove(&key);
                    open.remove(id);
                }
                Some(key) => {
                    let (leases, full) = (random.below(5), random.below(5) == 0);
                    let turn = if random.below(2) == 0 { epoch } else { key.turn };
                    let moved = Key { full, leases, turn, ..key };
                    sorted.remove(&key);
                    sorted.insert(moved);
                    open.replace(moved);
                }
                None => {
                    let rank = (epoch % 2 == 0, random.below(3) as u16);
                    let key = Key { full: false, rank, leases: random.below(5), turn: 0, id };
                    sorted.insert(key);
                    open.insert(key);
                }
            }
            let first = sorted.first().copied();
            assert_eq!(open.first(), first.map(|key| key.id));
            let odd = |id: ConnectionId| id.index % 2 == 1;
            let other = sorted.iter().find(|key| odd(key.id) && Some(key.full) == first.map(|first| first.full));
            assert_eq!(open.first_that(odd), other.map(|key| key.id));
            assert_eq!(open.len(), sorted.len());
            assert!(sorted.iter().all(|key| open.contains(key)));
        }
    }

    #[test]
    fn another_of_the_same_number_is_not_taken_for_it() {
        let (earlier, later) = (ConnectionId { epoch: 1, index: 0 }, ConnectionId { epoch: 3, index: 0 });
        let key = Key { full: false, rank: (false, 0), leases: 0, turn: 0, id: later };
        let mut open = Open::default();
        open.insert(key);
        open.remove(earlier);
        open.replace(Key { leases: 9, id: earlier, ..key });
        assert!(open.contains(&key));
    }
}
