//! What came from Kite and did not become a tick, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often something came from Kite that is not passed on. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    unknown: AtomicU64,
    malformed: AtomicU64,
    unasked: AtomicU64,
    orders: AtomicU64,
}

impl Counts {
    /// Packets of a length that is not known.
    pub fn unknown(&self) -> u64 {
        self.0.unknown.load(Ordering::Relaxed)
    }

    /// Messages that were cut off, or made no sense.
    pub fn malformed(&self) -> u64 {
        self.0.malformed.load(Ordering::Relaxed)
    }

    /// Packets of instruments that are not subscribed to; those under way when one is dropped are among them.
    pub fn unasked(&self) -> u64 {
        self.0.unasked.load(Ordering::Relaxed)
    }

    /// Messages about orders.
    pub fn orders(&self) -> u64 {
        self.0.orders.load(Ordering::Relaxed)
    }

    pub(super) fn count_unknown(&self) {
        self.0.unknown.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_malformed(&self) {
        self.0.malformed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unasked(&self) {
        self.0.unasked.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_order(&self) {
        self.0.orders.fetch_add(1, Ordering::Relaxed);
    }
}
