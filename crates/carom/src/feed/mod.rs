//! Feeds: many subscriptions packed onto few connections, each of which takes only so many.
//!
//! Brokers allow a thousand symbols on a connection, and a handful of connections. A [`Feed`] is told topics and sees to it
//! that each is streamed: it fills one connection after the other, streams each instrument at the highest mode that anybody
//! wants, subscribes anew on the successor of a connection that died, moves topics when that frees a connection, and lets go
//! of what nobody needs. How the upstream is spoken to is the [`Adapter`]'s business, and nothing else is.
//!
//! ```
//! use carom::feed::{Adapter, Change, Feed, Instrument, Mode, Refused, Tick, Topic};
//! use tokio::sync::mpsc;
//!
//! /// An upstream that ticks once for everything it is told.
//! struct Echo;
//!
//! impl Adapter for Echo {
//!     type Writer = mpsc::UnboundedSender<Tick>;
//!     type Reader = mpsc::UnboundedReceiver<Tick>;
//!     type Error = std::io::Error;
//!
//!     async fn open(&self) -> Result<(Self::Writer, Self::Reader), Self::Error> {
//!         Ok(mpsc::unbounded_channel()) // a real one connects, and logs in
//!     }
//!
//!     async fn write(&self, writer: &mut Self::Writer, changes: &[Change]) -> Result<Vec<Refused>, Self::Error> {
//!         for Change { instrument, to, .. } in changes {
//!             if let Some(level) = to {
//!                 let tick = Tick { instrument: instrument.clone(), mode: level.mode, payload: "812.05".into() };
//!                 let _ = writer.send(tick);
//!             }
//!         }
//!         Ok(Vec::new())
//!     }
//!
//!     async fn read(&self, reader: &mut Self::Reader, ticks: &mut Vec<Tick>) -> Result<(), Self::Error> {
//!         ticks.push(reader.recv().await.ok_or(std::io::ErrorKind::UnexpectedEof)?);
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let feed = Feed::builder(Echo).max_topics_per_connection(1000).max_connections(3).build()?;
//! let mut ticks = feed.ticks();
//! let topic = Topic::new("NSE", "SBIN", Mode::Quote);
//! let placed = feed.subscribe(topic.clone()).await?;
//! assert_eq!((placed.connection, placed.on_connection, placed.already), (1, 1, false));
//! let tick = ticks.next().await.unwrap();
//! assert_eq!((tick.instrument, &*tick.payload), (Instrument::new("NSE", "SBIN"), &b"812.05"[..]));
//! feed.unsubscribe(&topic).await?;
//! # Ok(()) }
//! ```
//!
//! Topics are counted: each [`subscribe`](Feed::subscribe) is one interest, and the upstream is told to stop when the last one
//! has gone, after `linger`. Upstreams count distinct instruments, and so does the feed: modes of one instrument ride along.
//! An upstream that refuses the credential is left alone until [`Feed::resume`].

mod adapter;
mod builder;
pub mod bus;
mod connection;
mod driver;
mod error;
mod lagging;
mod milestones;
pub(crate) mod shared;
mod sight;
mod snapshot;
mod subscribing;
mod ticks;
mod withholding;

pub use adapter::{Adapter, Pacing, Refused, Tick};
pub use builder::Builder;
pub use carom_core::feed::{
    Change, ConnectionState, Instrument, Level, Mode, Peak, Pending, Placement, Standing, State, Topic,
    TopicGlance as TopicSnapshot,
};
pub use error::{NotSubscribed, SubscribeError, UpstreamError};
pub use snapshot::{ConnectionSnapshot, Snapshot};
pub use subscribing::Subscribing;
pub use ticks::Ticks;
pub use withholding::Withholding;

use crate::clock;
use crate::monitor::Id;
use lagging::Receiver;
use shared::Shared;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Packs subscriptions onto the connections of one upstream. See the [module](self).
///
/// Cheap to clone; all clones are the same feed. Dropping the last one closes it.
pub struct Feed<A: Adapter> {
    owner: Arc<Owner<A>>,
}

/// What all handles of a feed own together; the last one to go closes it.
struct Owner<A: Adapter> {
    shared: Arc<Shared<A>>,
    id: Id,
    runtime: Handle,
    backlog: usize,
}

impl<A: Adapter> Feed<A> {
    /// Starts building a feed that speaks to its upstream with `adapter`.
    pub fn builder(adapter: A) -> Builder<A> {
        Builder::new(adapter)
    }

    fn new(shared: Arc<Shared<A>>, id: Id, runtime: Handle, backlog: usize) -> Feed<A> {
        Feed { owner: Arc::new(Owner { shared, id, runtime, backlog }) }
    }

    /// Subscribes to a topic, counted as one interest. It resolves when the upstream has accepted it, or after
    /// `pending_after` with [`pending`](Placement::pending): it is subscribed to as soon as it can be then. What is streamed
    /// already, or is covered by a higher mode, calls nobody. While connections cannot be opened, or the credential is refused
    /// ([`State::Refused`]), what needs one is pending at once; [`why`](Placement::why) says which it is. What was pending and is refused by the
    /// upstream then is asked for again, later each time, up to 5 minutes. The depth tells order books apart, and nothing else.
    ///
    /// Cancel safe: dropping the future takes the interest back.
    ///
    /// # Errors
    /// [`SubscribeError`] says why; the interest is not counted then.
    pub fn subscribe(&self, topic: Topic) -> Subscribing<'_, A> {
        Subscribing::new(&self.owner.shared, topic)
    }

    /// Takes one interest in a topic back. The last one to leave unsubscribes it upstream, after `linger`; a lower mode that
    /// somebody wants stays, with its own depth. It does not wait for the upstream. If the interest was that of somebody who
    /// still waits, that subscription fails with [`SubscribeError::Unsubscribed`].
    ///
    /// Cancel safe: it is done when it is first polled, or not at all.
    ///
    /// # Errors
    /// When nobody has subscribed to this topic, with this mode and, of an order book, this depth; or the feed is closed, which
    /// unsubscribes everything.
    pub async fn unsubscribe(&self, topic: &Topic) -> Result<(), NotSubscribed> {
        if self.owner.shared.step(|table| table.machine.unsubscribe(clock::now(), topic)) {
            return Ok(());
        }
        Err(NotSubscribed { feed: Arc::clone(&self.owner.shared.name), topic: topic.clone() })
    }

    /// Takes every interest in everything back, without linger. How many instruments there were. It does not wait for the
    /// upstream; subscriptions under way fail with [`SubscribeError::Unsubscribed`].
    ///
    /// Cancel safe: it is done when it is first polled, or not at all.
    pub async fn unsubscribe_all(&self) -> usize {
        self.owner.shared.step(|table| table.unsubscribe_all(clock::now()))
    }

    /// Something has changed that may help: connections that wait to be opened again are opened at once. Not while the
    /// credential is refused.
    pub fn hurry(&self) {
        self.owner.shared.step(|table| table.machine.hurry(clock::now()));
    }

    /// Another credential is at hand: connections are opened again. The adapter reads it when it opens the next one.
    pub fn resume(&self) {
        self.owner.shared.step(|table| table.machine.resume(clock::now()));
        self.owner.shared.renewals.send_modify(|count| *count += 1);
    }

    /// Counts how often somebody said that another credential is at hand, also while none was refused: see [`Feed::resume`].
    pub fn renewals(&self) -> watch::Receiver<u64> {
        self.owner.shared.renewals.subscribe()
    }

    /// Ticks of everything that is subscribed to, from now on: each once, though two connections may carry it for a moment.
    /// Each call makes a reader of its own.
    pub fn ticks(&self) -> Ticks {
        let Owner { shared, backlog, .. } = &*self.owner;
        let receiver = shared.readers.subscribe((), *backlog);
        // The driver closes what it finds when it ends, and nothing that comes later.
        let stopped = *shared.lifecycle.borrow() == State::Stopped;
        Ticks::new(if stopped { Receiver::closed() } else { receiver })
    }

    /// The name shown in errors, logs and snapshots.
    pub fn name(&self) -> &str {
        &self.owner.shared.name
    }

    /// What its [monitor](Builder::monitor) calls it.
    pub fn id(&self) -> Id {
        self.owner.id
    }

    /// Where the feed is in its life.
    pub fn state(&self) -> State {
        self.owner.shared.lock().machine.state()
    }

    /// Follows [`Feed::state`]: the latest state wins. [`State::Refused`] is the time to look for another credential.
    pub fn states(&self) -> watch::Receiver<State> {
        self.owner.shared.lifecycle.subscribe()
    }

    /// A copy of the feed's state for people, in the shape of OpenAlgo's `get_stats`; all figures are of one moment.
    pub fn snapshot(&self) -> Snapshot {
        self.owner.shared.snapshot()
    }

    /// Why this much of an instrument is not carried; `None` if it is. Of what nobody has subscribed to nothing is known.
    pub fn pending(&self, topic: &Topic) -> Option<Pending> {
        self.owner.shared.lock().machine.pending(topic)
    }

    /// Every instrument that is subscribed to: how much of it, where, by how many, how it stands and when it last ticked.
    pub fn topics(&self) -> Vec<TopicSnapshot> {
        self.owner.shared.lock().machine.glances()
    }

    /// One instrument, if it is subscribed to.
    pub fn topic(&self, instrument: &Instrument) -> Option<TopicSnapshot> {
        self.owner.shared.lock().machine.glance_at(instrument)
    }

    /// Closes the feed: everything is unsubscribed upstream, connections end, and subscriptions fail with
    /// [`SubscribeError::Closed`]. It waits for that until the deadline, and then cuts what is left. How many subscriptions
    /// were cut.
    ///
    /// Cancel safe: the feed goes on closing, as it does when its last handle is dropped.
    pub async fn close(&self, deadline: impl Into<tokio::time::Instant>) -> usize {
        self.owner.close();
        let mut states = self.states();
        let sleep = {
            let here = Handle::try_current().unwrap_or_else(|_| self.owner.runtime.clone());
            let _context = here.enter();
            tokio::time::sleep_until(deadline.into())
        };
        tokio::select! {
            biased;
            _ = states.wait_for(|state| *state == State::Stopped) => 0,
            () = sleep => self.owner.shared.step(|table| table.machine.abandon(clock::now())),
        }
    }
}

impl<A: Adapter> Owner<A> {
    fn close(&self) {
        self.shared.step(|table| table.machine.close(clock::now()));
    }
}

impl<A: Adapter> Drop for Owner<A> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<A: Adapter> Clone for Feed<A> {
    fn clone(&self) -> Feed<A> {
        Feed { owner: Arc::clone(&self.owner) }
    }
}

impl<A: Adapter> fmt::Debug for Feed<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, connections, topics) = {
            let machine = &self.owner.shared.lock().machine;
            (machine.state(), machine.connections(), machine.topics())
        };
        f.debug_struct("Feed")
            .field("name", &self.name())
            .field("state", &state)
            .field("connections", &connections)
            .field("topics", &topics)
            .finish()
    }
}
