//! What a bus on ZeroMQ and its connections share.

use super::ZeroMqStatus;
use super::senseless::Senseless;
use super::subscribers::Subscribers;
use crate::nonsense::{Nonsense, shown_topic};
use crate::shared::Counter;
use carom::feed::bus::Bus;
use carom_core::seldom::Seldom;
use carom_zmtp::pubsub::{Encoded, Skipped};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Shared {
    /// Where this process hears what is published, here and elsewhere.
    pub(super) local: Bus,
    pub(super) subscribers: Subscribers,
    peers: AtomicUsize,
    malformed: Counter,
    dropped: Counter,
    refused: Counter,
    /// How often it is told that something makes no sense, or is dropped.
    senseless: Mutex<Nonsense<Senseless>>,
    losses: Mutex<Seldom>,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            local: Bus::memory(),
            subscribers: Subscribers::default(),
            peers: AtomicUsize::new(0),
            malformed: Counter::default(),
            dropped: Counter::default(),
            refused: Counter::default(),
            senseless: Mutex::default(),
            losses: Mutex::default(),
        }
    }
}

impl Shared {
    pub(super) fn status(&self) -> ZeroMqStatus {
        ZeroMqStatus {
            peers: self.peers.load(Ordering::Relaxed),
            malformed: self.malformed.get(),
            dropped: self.dropped.get(),
            refused: self.refused.get(),
        }
    }

    /// A message for all subscribers who want it, written when there is one.
    pub(super) fn offer(&self, topic: &[u8], message: impl FnOnce() -> Encoded) {
        let dropped = self.subscribers.offer(topic, message);
        self.dropped(dropped);
    }

    /// So many subscribers did not read in time, or so many messages of one of them were not written in time.
    pub(super) fn dropped(&self, count: usize) {
        if count == 0 {
            return;
        }
        self.dropped.add(count as u64);
        if happened(&self.losses).is_some() {
            let dropped = self.dropped.get();
            tracing::warn!(dropped, "subscribers of a ZeroMQ bus do not read in time");
        }
    }

    /// A message made no sense.
    pub(super) fn malformed(&self, why: Senseless, Skipped { first, parts, bytes }: &Skipped) {
        self.malformed.add(1);
        let count = self.senseless.lock().unwrap_or_else(PoisonError::into_inner).happened(why, Instant::now());
        if let Some(count) = count {
            let topic = shown_topic(first);
            tracing::warn!(%why, topic, frames = parts, bytes, count, "messages on a ZeroMQ bus make no sense");
        }
    }

    /// A connection was turned away.
    pub(super) fn refused(&self) {
        self.refused.add(1);
    }

    /// A peer is there, for as long as this is kept.
    pub(super) fn present(self: &Arc<Shared>) -> Present {
        self.peers.fetch_add(1, Ordering::Relaxed);
        Present(Arc::clone(self))
    }
}

fn happened(seldom: &Mutex<Seldom>) -> Option<u64> {
    seldom.lock().unwrap_or_else(PoisonError::into_inner).happened(Instant::now())
}

/// A peer that is connected.
#[derive(Debug)]
pub(super) struct Present(Arc<Shared>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.peers.fetch_sub(1, Ordering::Relaxed);
    }
}
