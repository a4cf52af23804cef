//! What a proxy has done so far, and for how many at present.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A service whose backends all fail is still thought to work for so long after a use of one succeeded.
pub(super) const LATELY: Duration = Duration::from_secs(10);

/// Counts of a service.
#[derive(Debug)]
pub(super) struct Tally {
    serial: u64,
    clients: AtomicUsize,
    /// Clients of TCP without a backend yet, and requests without a response head.
    pending: AtomicUsize,
    pending_ended: Notify,
    /// When the first use began since a client was last served, in milliseconds since `made`, and 1 more; 0 if all were.
    unserved: AtomicU64,
    /// When a client last failed, likewise.
    failed_at: AtomicU64,
    served: AtomicU64,
    failed: AtomicU64,
    made: Instant,
    /// When a session of TCP last began, in milliseconds since `made`, and 1 more; 0 if none has.
    succeeded: AtomicU64,
}

/// A client that is here, until this is dropped.
#[derive(Debug)]
pub(super) struct Present(Arc<Tally>);

/// A client that needs a backend, or a request that needs a response head, until this is dropped.
#[derive(Debug)]
pub(super) struct Pending(Arc<Tally>);

impl Default for Tally {
    fn default() -> Tally {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        Tally {
            serial,
            clients: AtomicUsize::default(),
            pending: AtomicUsize::default(),
            pending_ended: Notify::new(),
            unserved: AtomicU64::default(),
            failed_at: AtomicU64::default(),
            served: AtomicU64::default(),
            failed: AtomicU64::default(),
            made: Instant::now(),
            succeeded: AtomicU64::default(),
        }
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

    /// A client needs a backend, or a request a response head.
    pub(super) fn begin(self: &Arc<Tally>) -> Pending {
        let is_first = self.pending.fetch_add(1, Ordering::AcqRel) == 0;
        // What failed long ago says nothing of this one.
        if self.unserved.load(Ordering::Relaxed) == 0 || is_first && !self.is_within(&self.failed_at, LATELY) {
            self.unserved.store(self.age_ms() + 1, Ordering::Relaxed);
        }
        Pending(Arc::clone(self))
    }

    /// What is pending has a backend or a response head.
    pub(super) fn end(&self, pending: Pending) {
        if self.unserved.load(Ordering::Relaxed) > 0 {
            let others = self.pending.load(Ordering::Relaxed) > 1;
            self.unserved.store(if others { self.age_ms() + 1 } else { 0 }, Ordering::Relaxed);
        }
        drop(pending);
    }

    /// How many clients or requests are pending.
    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// For how long no client was served, if that is a while and clients wait for a connection or have failed lately.
    pub(super) fn unserved(&self, waiting: usize) -> Option<Duration> {
        let at = self.unserved.load(Ordering::Relaxed).checked_sub(1)?;
        let unserved = Duration::from_millis(self.age_ms().saturating_sub(at));
        let is_felt = waiting > 0 || self.is_within(&self.failed_at, LATELY);
        (is_felt && unserved >= LATELY).then_some(unserved)
    }

    /// Waits until nothing is pending. One task at a time may wait.
    pub(super) async fn nothing_is_pending(&self) {
        while self.pending.load(Ordering::Acquire) > 0 {
            self.pending_ended.notified().await;
        }
    }

    /// A backend was found for it.
    pub(super) fn served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// A session of TCP has a backend.
    pub(super) fn succeeded(&self) {
        self.succeeded.store(self.age_ms() + 1, Ordering::Relaxed);
    }

    /// Whether a session of TCP began lately.
    pub(super) fn succeeded_lately(&self) -> bool {
        self.is_within(&self.succeeded, LATELY)
    }

    fn is_within(&self, at: &AtomicU64, time: Duration) -> bool {
        let at = at.load(Ordering::Relaxed);
        at > 0 && u128::from(self.age_ms().saturating_sub(at - 1)) <= time.as_millis()
    }

    fn age_ms(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }

    /// No backend did what was asked.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.failed_at.store(self.age_ms() + 1, Ordering::Relaxed);
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

impl Drop for Pending {
    fn drop(&mut self) {
        if self.0.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.pending_ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_known_only_after_a_use_has_succeeded() {
        let tally = Tally::default();
        tally.served();
        assert!(!tally.succeeded_lately(), "a backend answered, if only with an error");
        tally.succeeded();
        assert!(tally.succeeded_lately());
    }

    #[test]
    fn use_is_unserved_from_its_begin_until_one_is_served() {
        let tally = Arc::new(Tally::default());
        let is_unserved = || tally.unserved.load(Ordering::Relaxed) > 0;
        let (one, other) = (tally.begin(), tally.begin());
        assert!(is_unserved() && tally.unserved(1).is_none(), "it has only begun");
        tally.end(one);
        assert!(is_unserved(), "the other one is pending");
        tally.end(other);
        assert!(!is_unserved());
        drop(tally.begin());
        tally.failed();
        assert!(is_unserved() && tally.pending() == 0, "the last one failed");
        tally.end(tally.begin());
        assert!(!is_unserved());
    }

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
