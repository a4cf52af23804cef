//! Connections that any lease may be of, the one to be leased next at hand.
//!
//! A heap that knows where each connection is in it: every lease and every release moves one connection, and most of them
//! by a step or two.

use super::places::{ConnectionId, Rank};

/// Lower ranks come first, then fewer leases, then older connections.
pub(super) type Key = (Rank, usize, ConnectionId);

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
        self.heap.first().map(|&(.., id)| id)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.place_of(key.2).is_some_and(|at| self.heap[at] == *key)
    }

    pub(super) fn insert(&mut self, key: Key) {
        let number = key.2.index();
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

    /// A connection has so many leases now, if it is there.
    pub(super) fn recount(&mut self, id: ConnectionId, leases: usize) {
        let Some(at) = self.place_of(id) else { return };
        self.heap[at].1 = leases;
        self.settle(at);
    }

    fn place_of(&self, id: ConnectionId) -> Option<usize> {
        let at = *self.places.get(id.index())?;
        (self.heap.get(at)?.2 == id).then_some(at)
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
            self.places[self.heap[at].2.index()] = at;
            at = parent;
        }
        self.places[self.heap[at].2.index()] = at;
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
            self.places[self.heap[at].2.index()] = at;
            self.places[self.heap[least].2.index()] = least;
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
            let known = sorted.iter().find(|(.., other)| *other == id).copied();
            match known {
                Some(key) if random.below(4) == 0 => {
                    sorted.remove(&key);
                    open.remove(id);
                }
                Some(key) => {
                    let leases = random.below(5);
                    sorted.remove(&key);
                    sorted.insert((key.0, leases, id));
                    open.recount(id, leases);
                }
                None => {
                    let key = ((epoch % 2 == 0, random.below(3) as u16), random.below(5), id);
                    sorted.insert(key);
                    open.insert(key);
                }
            }
            assert_eq!(open.first(), sorted.first().map(|&(.., id)| id));
            assert_eq!(open.len(), sorted.len());
            assert!(sorted.iter().all(|key| open.contains(key)));
        }
    }

    #[test]
    fn another_of_the_same_number_is_not_taken_for_it() {
        let (earlier, later) = (ConnectionId { epoch: 1, index: 0 }, ConnectionId { epoch: 3, index: 0 });
        let mut open = Open::default();
        open.insert(((false, 0), 0, later));
        open.remove(earlier);
        open.recount(earlier, 9);
        assert!(open.contains(&((false, 0), 0, later)));
    }
}
