//! Buses on ZeroMQ: a PUB and a SUB of which one binds, with OpenAlgo's two frames between them.
//!
//! [`ZeroMq::bind_sub`] is how OpenAlgo's own proxy does it: it binds, and any number of publishers connect, each of which tells
//! it ticks, orders and news of credentials. With [`ZeroMq::bind_pub`] this process publishes, and programs that subscribe
//! connect to it. Either way whoever is on the other side may come late, and come back.
//!
//! Topics do not say whose they are, so a bus of this kind belongs to one user at one broker. Whoever can connect is believed;
//! nothing is encrypted: let it listen where nobody else comes.
//!
//! ```
//! use carom_gateway::bus::{Bus, ZeroMq};
//! use carom_zmtp::pubsub::{Encoded, Event, Limits, Role, Socket};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let zeromq = ZeroMq::bind_sub("127.0.0.1:0".parse()?).await?;
//! let bus = Bus::from(zeromq.clone());
//! let mut messages = bus.subscribe("");
//!
//! // What a publisher does.
//! let mut publisher = Socket::connect(zeromq.local_addr(), Role::Publisher, Limits::default()).await?;
//! assert_eq!(publisher.next().await?, Event::Subscribed("".into()));
//! publisher.push(&Encoded::new(&[b"NSE_SBIN_LTP", br#"{"ltp":812.05}"#]))?;
//! publisher.flush().await?;
//! assert_eq!(&*messages.next().await.unwrap().topic, "NSE_SBIN_LTP");
//! # Ok(()) }
//! ```

mod listening;
mod receiving;
mod sending;
mod senseless;
mod shared;
mod subscribers;

use bytes::Bytes;
use carom::feed::bus::Subscription;
use carom_zmtp::pubsub::Encoded;
use listening::Side;
use shared::Shared;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How many messages wait for a subscriber; what is published meanwhile is dropped for it. ZeroMQ's own default.
pub const HIGH_WATER: usize = 1_000;

/// For how long what waits is still written when the bus is closed, unless [told otherwise](ZeroMq::set_linger).
pub const LINGER: Duration = Duration::from_secs(1);

/// A bus on ZeroMQ. Cheap to clone; all clones are the same bus. It ends with the last of them.
#[derive(Clone)]
pub struct ZeroMq {
    handle: Arc<Handle>,
}

struct Handle {
    address: SocketAddr,
    side: Side,
    shared: Arc<Shared>,
    linger: Mutex<Duration>,
    /// Until when to linger, once it is to end. Dropped, it ends at once.
    stop: watch::Sender<Option<Instant>>,
    /// Nothing is sent: it is closed when all connections are.
    ended: watch::Receiver<()>,
}

/// Why there is no bus.
#[derive(Debug, thiserror::Error)]
#[error("cannot bind ZeroMQ to {address}")]
#[non_exhaustive]
pub struct BindError {
    /// Where to.
    pub address: SocketAddr,
    /// Why not. A port that is taken is an error: others would look for it there.
    pub source: io::Error,
}

/// A bus on ZeroMQ at one moment. Counts are since it was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZeroMqStatus {
    /// Publishers or subscribers that are connected.
    pub peers: usize,
    /// Messages that made no sense: not of two frames, too long, or with a topic that is no text.
    pub malformed: u64,
    /// Messages that were dropped, for each subscriber that did not read them in time.
    pub dropped: u64,
    /// Connections that were turned away: there were too many, or something else than ZeroMQ was spoken.
    pub refused: u64,
}

impl ZeroMq {
    /// A SUB that binds, for all topics: publishers connect. What is published here is heard in this process alone, as a SUB
    /// sends nothing.
    ///
    /// Port 0 is one that the system chooses. Cancel safe: nothing is bound then.
    ///
    /// # Errors
    /// When the address cannot be had; no other is tried.
    pub async fn bind_sub(address: SocketAddr) -> Result<ZeroMq, BindError> {
        ZeroMq::bind(address, Side::Sub).await
    }

    /// A PUB that binds: subscribers connect, and get what they subscribe to of what is published here from then on. At most
    /// [`HIGH_WATER`] messages wait for each.
    ///
    /// Port 0 is one that the system chooses. Cancel safe: nothing is bound then.
    ///
    /// # Errors
    /// When the address cannot be had; no other is tried.
    pub async fn bind_pub(address: SocketAddr) -> Result<ZeroMq, BindError> {
        ZeroMq::bind(address, Side::Pub).await
    }

    async fn bind(address: SocketAddr, side: Side) -> Result<ZeroMq, BindError> {
        let bound = TcpListener::bind(address).await.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|source| BindError { address, source })?;
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = watch::channel(None);
        let (ends, ended) = watch::channel(());
        tokio::spawn(listening::run(Arc::clone(&shared), listener, side, stopped, ends));
        let linger = Mutex::new(LINGER);
        Ok(ZeroMq { handle: Arc::new(Handle { address, side, shared, linger, stop, ended }) })
    }

    /// For how long what waits is still written when the bus is closed: [`LINGER`] unless this is called before.
    pub fn set_linger(&self, linger: Duration) {
        *self.handle.linger.lock().unwrap_or_else(PoisonError::into_inner) = linger;
    }

    /// Where peers connect to.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.address
    }

    /// What can be said of it at this moment.
    pub fn status(&self) -> ZeroMqStatus {
        self.handle.shared.status()
    }

    /// Lets nobody in any more, writes what waits for those who are there, while it [lingers](ZeroMq::set_linger) or until the
    /// deadline, whichever is sooner, and ends all connections. What is published later is heard in this process alone.
    ///
    /// Cancelled, it goes on by itself.
    pub async fn close(&self, deadline: impl Into<Instant>) {
        let deadline = deadline.into();
        let linger = *self.handle.linger.lock().unwrap_or_else(PoisonError::into_inner);
        let linger = Instant::now().checked_add(linger).map_or(deadline, |until| until.min(deadline));
        self.handle.stop.send_if_modified(|stop| stop.replace(linger).is_none());
        // Only that it is closed can be heard.
        let _ = timeout_at(deadline, self.handle.ended.clone().changed()).await;
    }

    /// Whether somebody is there who publishes; of a PUB, that is us.
    pub(super) fn is_published_to(&self) -> bool {
        match self.handle.side {
            Side::Sub => self.status().peers > 0,
            Side::Pub => true,
        }
    }

    pub(super) fn publish(&self, topic: Arc<str>, payload: Bytes) {
        let shared = &self.handle.shared;
        shared.offer(topic.as_bytes(), || Encoded::new(&[topic.as_bytes(), &payload]));
        shared.local.publish(topic, payload);
    }

    pub(super) fn subscribe_with_backlog(&self, prefix: Arc<str>, backlog: usize) -> Subscription {
        self.handle.shared.local.subscribe_with_backlog(prefix, backlog)
    }
}

impl fmt::Debug for ZeroMq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZeroMq").field("address", &self.handle.address).field("status", &self.status()).finish()
    }
}
