//! Subscribers of a PUB: what each wants, and what waits for it.

use super::HIGH_WATER;
use bytes::Bytes;
use carom_zmtp::ZmtpError;
use carom_zmtp::pubsub::{Encoded, Prefixes};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Most prefixes of one subscriber.
const PREFIXES: usize = 10_000;

/// All who are connected. Whoever publishes looks at them as they were a moment ago, and holds no lock while it does.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    all: RwLock<Arc<[Arc<Subscriber>]>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Subscriber {
    wants: Mutex<Prefixes>,
    queue: Sender<Encoded>,
}

impl Subscribers {
    /// One more, and what is published for it from now on.
    pub(super) fn enter(&self) -> (Arc<Subscriber>, Receiver<Encoded>) {
        let (queue, waiting) = mpsc::channel(HIGH_WATER);
        let subscriber = Arc::new(Subscriber { wants: Mutex::new(Prefixes::new(PREFIXES)), queue });
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        *all = all.iter().chain([&subscriber]).cloned().collect();
        (subscriber, waiting)
    }

    /// One less.
    pub(super) fn leave(&self, subscriber: &Arc<Subscriber>) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        *all = all.iter().filter(|other| !Arc::ptr_eq(other, subscriber)).cloned().collect();
    }

    /// A message for all who want it, written when there is one. For how many of them it was dropped.
    pub(super) fn offer(&self, topic: &[u8], message: impl FnOnce() -> Encoded) -> usize {
        let all = Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner));
        let mut wanting = all.iter().filter(|subscriber| subscriber.wants(topic)).peekable();
        if wanting.peek().is_none() {
            return 0;
        }
        let message = message();
        // Whose queue is closed is not late: the bus is being closed, or it has left.
        let full = |subscriber: &&Arc<Subscriber>| {
            matches!(subscriber.queue.try_send(message.clone()), Err(TrySendError::Full(_)))
        };
        wanting.filter(full).count()
    }
}

impl Subscriber {
    fn wants(&self, topic: &[u8]) -> bool {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner).want(topic)
    }

    /// It wants what begins like this, too.
    pub(super) fn want(&self, prefix: &[u8]) -> Result<(), ZmtpError> {
        // Not a piece of a larger buffer, which would be kept with it.
        let prefix = Bytes::copy_from_slice(prefix);
        self.wants.lock().unwrap_or_else(PoisonError::into_inner).insert(prefix)
    }

    /// It does not want what begins like this any more.
    pub(super) fn unwant(&self, prefix: &[u8]) {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner).remove(prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_drops_and_what_is_closed_is_not_late() {
        let subscribers = Subscribers::default();
        let (subscriber, mut waiting) = subscribers.enter();
        let offer = || subscribers.offer(b"NSE_SBIN_LTP", || Encoded::new(&[b"NSE_SBIN_LTP", b"1"]));
        assert_eq!((0..=HIGH_WATER).map(|_| offer()).sum::<usize>(), 0, "nobody wants it");
        subscriber.want(b"NSE_").unwrap();
        assert_eq!((0..=HIGH_WATER).map(|_| offer()).sum::<usize>(), 1);
        waiting.close();
        assert_eq!(offer(), 0);
        assert_eq!(waiting.len(), HIGH_WATER);
    }
}
