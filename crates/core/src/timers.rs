//! Timers of things that change their minds: entries are never searched for, only outlived.
//!
//! An entry names a thing and the stay it was set for. When the thing has moved on, the entry is stale and skipped when
//! it comes due; when stale ones pile up they are swept out, so that memory follows what is alive.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// A thing and the stay (of whatever kind) a timer was set for.
pub(crate) type Entry<T> = (Instant, T);

#[derive(Debug)]
pub(crate) struct Timers<T: Ord> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
}

impl<T: Ord + Copy> Timers<T> {
    pub(crate) fn new() -> Timers<T> {
        Timers { heap: BinaryHeap::new() }
    }

    /// Sets a timer. `alive` is how many things may have one; `is_current` tells whether an entry still means something.
    pub(crate) fn set(&mut self, at: Instant, what: T, alive: usize, is_current: impl Fn(T) -> bool) {
        // Sweeping when half is stale costs a constant amount per entry ever set. Things have at most two timers.
        if self.heap.len() > 4 * alive + 64 {
            self.heap.retain(|Reverse((_, what))| is_current(*what));
        }
        self.heap.push(Reverse((at, what)));
    }

    /// When the earliest entry is due; it may be stale.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The earliest entry that is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, what))| what)
    }

    /// How many entries there are, stale ones included.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn stale_entries_do_not_pile_up() {
        let (start, mut timers) = (Instant::now(), Timers::new());
        for round in 0..100_000u32 {
            timers.set(start + Duration::from_secs(30), round, 1, |what| what == round);
        }
        assert!(timers.len() <= 70, "{} entries for one live thing", timers.len());
    }

    #[test]
    fn due_entries_come_in_order() {
        let (start, mut timers) = (Instant::now(), Timers::new());
        for after in [3u64, 1, 2] {
            timers.set(start + Duration::from_secs(after), after, 3, |_| true);
        }
        assert_eq!(timers.pop_due(start), None);
        let later = start + Duration::from_secs(2);
        assert_eq!((timers.pop_due(later), timers.pop_due(later), timers.pop_due(later)), (Some(1), Some(2), None));
    }
}
