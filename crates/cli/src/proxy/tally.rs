//! What a proxy has done so far, and for how many at present.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts of a service.
#[derive(Debug)]
pub(super) struct Tally {
    serial: u64,
    clients: AtomicUsize,
    served: AtomicU64,
    failed: AtomicU64,
}

/// A client that is here, until this is dropped.
#[derive(Debug)]
pub(super) struct Present(Arc<Tally>);

impl Default for Tally {
    fn default() -> Tally {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        Tally { serial, clients: AtomicUsize::default(), served: AtomicU64::default(), failed: AtomicU64::default() }
    }
}

impl Tally {
    /// Which one it is; no other has the same.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Somebody comes in, unless so many are here already.
    pub(super) fn enter(self: &Arc<Tally>, most: usize) -> Option<Present> {
        let count = self.clients.fetch_add(1, Ordering::Relaxed);
        // Made first: it is counted, and its drop counts it out.
        let present = Present(Arc::clone(self));
        (count < most).then_some(present)
    }

    /// A backend was found for it.
    pub(super) fn served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// No backend did what was asked.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Clients, what was served, and what failed.
    pub(super) fn read(&self) -> (usize, u64, u64) {
        let (served, failed) = (self.served.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        (self.clients.load(Ordering::Relaxed), served, failed)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_let_in_as_there_is_room_for() {
        let tally = Arc::new(Tally::default());
        let (one, other) = (tally.enter(2), tally.enter(2));
        assert!(one.is_some() && other.is_some());
        assert!(tally.enter(2).is_none());
        assert_eq!(tally.read().0, 2, "who was turned away is not here");
        drop(one);
        assert!(tally.enter(2).is_some());
    }
}
