//! Buses: how ticks and order updates get from whoever publishes them to the gateway's clients, by name.
//!
//! Each user at a broker has a bus of its own, so that nobody sees another's ticks. What waits for a subscriber is bounded,
//! whatever the kind of bus: one who is slow misses the oldest messages, and knows how many.
//!
//! - [`Bus::memory`]: within this process.
//! - [`ZeroMq`]: with other programs, OpenAlgo's among them, that publish to it or subscribe to it. If all ticks come from
//!   there, [`Outside`] is the adapter of the feed.
//! - [`Nats`]: among gateways on several machines.
//!
//! ```
//! use carom_gateway::bus::Bus;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let bus = Bus::memory();
//! let mut prices = bus.subscribe("NSE_");
//! bus.publish("NSE_SBIN_LTP", r#"{"ltp":812.05}"#);
//! assert_eq!(&*prices.next().await.unwrap().topic, "NSE_SBIN_LTP");
//! # }
//! ```

// Only a client of NATS opens these buses.
#[cfg_attr(not(feature = "nats"), allow(dead_code))]
pub(crate) mod nats;
mod outside;
mod zeromq;

pub use carom::feed::bus::{BACKLOG_BYTES, DEFAULT_BACKLOG, Message, Subscription};
pub use nats::{Nats, NatsBus, NatsError, NatsOptions, NatsStatus, PostError};
pub use outside::Outside;
pub use zeromq::{BindError, HIGH_WATER, LINGER, ZeroMq, ZeroMqStatus};

use bytes::Bytes;
use carom::feed::bus;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// A bus of one kind or another. Cheap to clone; all clones are the same bus.
///
/// Publishing never waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Bus {
    /// Within this process.
    Memory(bus::Bus),
    /// Among processes, by way of NATS; see [`Nats::scope`].
    Nats(NatsBus),
    /// With programs that speak ZeroMQ, OpenAlgo's among them.
    ZeroMq(ZeroMq),
}

impl Bus {
    /// A bus within this process.
    pub fn memory() -> Bus {
        Bus::Memory(bus::Bus::memory())
    }

    /// Publishes a message to all who subscribe to a prefix of its topic by now.
    pub fn publish(&self, topic: impl Into<Arc<str>>, payload: impl Into<Bytes>) {
        match self {
            Bus::Memory(memory) => memory.publish(topic, payload),
            Bus::Nats(nats) => nats.publish(topic.into(), payload.into()),
            Bus::ZeroMq(zeromq) => zeromq.publish(topic.into(), payload.into()),
        }
    }

    /// Messages whose topic begins with `prefix`; the empty prefix is all. At most [`DEFAULT_BACKLOG`] wait to be read.
    pub fn subscribe(&self, prefix: impl Into<Arc<str>>) -> Subscription {
        self.subscribe_with_backlog(prefix, DEFAULT_BACKLOG)
    }

    /// As [`subscribe`](Bus::subscribe), with at most so many messages that wait to be read; 0 is 1. They are fewer when
    /// they are large: at most [`BACKLOG_BYTES`] wait.
    pub fn subscribe_with_backlog(&self, prefix: impl Into<Arc<str>>, backlog: usize) -> Subscription {
        match self {
            Bus::Memory(memory) => memory.subscribe_with_backlog(prefix, backlog),
            Bus::Nats(nats) => nats.subscribe_with_backlog(prefix.into(), backlog),
            Bus::ZeroMq(zeromq) => zeromq.subscribe_with_backlog(prefix.into(), backlog),
        }
    }

    /// What was published until now goes on its way to other processes, as far as that can be done by the deadline, and connections
    /// that are this bus's alone end.
    ///
    /// Cancelled, what waits may go on its way or not.
    pub async fn close(&self, deadline: impl Into<Instant>) {
        let deadline = deadline.into();
        match self {
            Bus::Memory(_) => {}
            Bus::Nats(nats) => {
                // Whatever is not there by then is counted there.
                let _ = timeout_at(deadline, nats.flush()).await;
            }
            Bus::ZeroMq(zeromq) => zeromq.close(deadline).await,
        }
    }
}

impl Bus {
    /// What can be said of it at this moment.
    pub fn status(&self) -> BusStatus {
        match self {
            Bus::Memory(_) => BusStatus::Memory,
            Bus::Nats(nats) => BusStatus::Nats(nats.status()),
            Bus::ZeroMq(zeromq) => BusStatus::ZeroMq(zeromq.status()),
        }
    }

    /// Messages of other processes that made no sense.
    pub(crate) fn malformed(&self) -> u64 {
        match self.status() {
            BusStatus::Memory => 0,
            BusStatus::Nats(nats) => nats.malformed,
            BusStatus::ZeroMq(zeromq) => zeromq.malformed,
        }
    }

    /// Whether ticks of other programs could come, as far as is known.
    pub(crate) fn is_published_to(&self) -> bool {
        match self {
            Bus::Memory(_) => true,
            Bus::Nats(nats) => nats.status().connected,
            Bus::ZeroMq(zeromq) => zeromq.is_published_to(),
        }
    }
}

/// A bus at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusStatus {
    /// It is within this process.
    Memory,
    /// It is on NATS.
    Nats(NatsStatus),
    /// It is on ZeroMQ.
    ZeroMq(ZeroMqStatus),
}

impl From<ZeroMq> for Bus {
    fn from(zeromq: ZeroMq) -> Bus {
        Bus::ZeroMq(zeromq)
    }
}
