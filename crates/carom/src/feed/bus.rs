//! The bus: where ticks are published, by name, to whoever wants names that begin like that.
//!
//! ```
//! use carom::feed::bus::Bus;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let bus = Bus::memory();
//! let mut prices = bus.subscribe("NSE_");
//! bus.publish("BSE_SBIN_LTP", "812.10");
//! bus.publish("NSE_SBIN_LTP", "812.05");
//! let message = prices.next().await.unwrap();
//! assert_eq!((&*message.topic, &*message.payload), ("NSE_SBIN_LTP", &b"812.05"[..]));
//! # }
//! ```

use super::lagging::{MOST_BYTES, Receiver, Senders, Weigh};
use bytes::Bytes;
use futures_core::Stream;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How many messages wait for a subscriber when nobody says how many.
pub const DEFAULT_BACKLOG: usize = 1_000;

/// How many bytes wait for a subscriber at most, whatever number of messages that is.
pub const BACKLOG_BYTES: usize = MOST_BYTES;

/// Carries messages from those who publish to those who subscribe, within this process. Cheap to clone; all clones are the same bus.
///
/// Publishing never waits: a subscriber who is slow misses the oldest messages, and knows how many.
#[derive(Clone)]
pub struct Bus {
    senders: Arc<Senders<Arc<str>, Message>>,
}

impl Bus {
    /// A bus that nobody knows yet.
    pub fn memory() -> Bus {
        Bus { senders: Arc::new(Senders::new()) }
    }

    /// Publishes a message to all who subscribe to a prefix of its topic by now.
    pub fn publish(&self, topic: impl Into<Arc<str>>, payload: impl Into<Bytes>) {
        let message = [Message { topic: topic.into(), payload: payload.into() }];
        self.senders.send(&message, |prefix| message[0].topic.starts_with(&**prefix));
    }

    /// Messages whose topic begins with `prefix`; the empty prefix is all. At most [`DEFAULT_BACKLOG`] wait to be read.
    pub fn subscribe(&self, prefix: impl Into<Arc<str>>) -> Subscription {
        self.subscribe_with_backlog(prefix, DEFAULT_BACKLOG)
    }

    /// As [`subscribe`](Bus::subscribe), with at most so many messages that wait to be read; 0 is 1. They are fewer when
    /// they are large: at most [`BACKLOG_BYTES`] wait.
    pub fn subscribe_with_backlog(&self, prefix: impl Into<Arc<str>>, backlog: usize) -> Subscription {
        Subscription { receiver: self.senders.subscribe(prefix.into(), backlog) }
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").finish_non_exhaustive()
    }
}

/// A message on a bus. Cheap to clone: the bytes are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub topic: Arc<str>,
    /// What it says.
    pub payload: Bytes,
}

/// As much as its bytes; what it is made of besides is for the number of messages to bound.
impl Weigh for Message {
    fn weight(&self) -> usize {
        self.topic.len() + self.payload.len()
    }
}

/// Messages of a bus, from when it was asked for. A [`Stream`] that ends with the last who could publish.
pub struct Subscription {
    receiver: Receiver<Message>,
}

impl Subscription {
    /// The next message, or `None` when there will be none. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Message> {
        poll_fn(|context| self.receiver.poll(context)).await
    }

    /// Waits for a message, and appends all that wait by then; `false` when there will be none. Cancelling it loses nothing.
    pub async fn next_many(&mut self, messages: &mut Vec<Message>) -> bool {
        poll_fn(|context| self.receiver.poll_many(context, messages)).await
    }

    /// How many messages were lost because they were not read in time.
    pub fn missed(&self) -> u64 {
        self.receiver.missed()
    }
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.receiver.poll(context)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("waiting", &self.receiver.len()).field("missed", &self.missed()).finish()
    }
}
