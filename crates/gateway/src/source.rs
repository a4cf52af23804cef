//! Where a user's ticks come from: a feed, whatever its adapter.

use carom::feed::{
    Adapter, ConnectionSnapshot, ConnectionState, Feed, Pending, Placement, Snapshot, State, SubscribeError, Ticks,
    Topic,
};
use carom::monitor::Id;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// A [`Feed`] of any adapter.
pub(crate) trait Source: Send + Sync {
    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Placement, SubscribeError>>;
    /// Takes one interest back; the feed does that at once.
    fn unsubscribe(&self, topic: &Topic);
    /// Why this much of it is not carried; `None` if it is.
    fn pending(&self, topic: &Topic) -> Option<Pending>;
    /// Something has changed that may help: what waits to be tried again is tried at once.
    fn hurry(&self);
    fn resume(&self);
    /// Counts how often it was resumed.
    fn renewals(&self) -> watch::Receiver<u64>;
    /// How it goes on, and what becomes of it.
    fn states(&self) -> watch::Receiver<State>;
    fn ticks(&self) -> Ticks;
    fn snapshot(&self) -> Snapshot;
    /// Whether all that is wanted is carried.
    fn is_whole(&self) -> bool {
        let snapshot = self.snapshot();
        snapshot.live == snapshot.total_subscriptions
    }
    /// What its monitor calls it.
    fn id(&self) -> Id;
    fn close(&self, deadline: Instant) -> BoxFuture<'_, usize>;
}

impl<A: Adapter> Source for Feed<A> {
    fn subscribe(&self, topic: Topic) -> BoxFuture<'_, Result<Placement, SubscribeError>> {
        Feed::subscribe(self, topic).boxed()
    }

    fn unsubscribe(&self, topic: &Topic) {
        // It never waits. Whoever gives back what a closed feed has forgotten has nothing to give back.
        let _ = Feed::unsubscribe(self, topic).now_or_never();
    }

    fn pending(&self, topic: &Topic) -> Option<Pending> {
        Feed::pending(self, topic)
    }

    fn hurry(&self) {
        Feed::hurry(self);
    }

    fn resume(&self) {
        Feed::resume(self);
    }

    fn renewals(&self) -> watch::Receiver<u64> {
        Feed::renewals(self)
    }

    fn states(&self) -> watch::Receiver<State> {
        Feed::states(self)
    }

    fn ticks(&self) -> Ticks {
        Feed::ticks(self)
    }

    fn snapshot(&self) -> Snapshot {
        Feed::snapshot(self)
    }

    fn id(&self) -> Id {
        Feed::id(self)
    }

    fn close(&self, deadline: Instant) -> BoxFuture<'_, usize> {
        Feed::close(self, deadline).boxed()
    }
}

/// Whether clients are to be told that the upstream is connected: a connection is up, and not for nothing. A feed that nobody
/// wants anything of has none, and opens the first when somebody does.
pub(crate) fn is_connected(snapshot: &Snapshot) -> bool {
    let up = |connection: &ConnectionSnapshot| connection.state == ConnectionState::Up;
    match snapshot.state {
        State::Refused | State::Stopping | State::Stopped => false,
        _ => snapshot.connections.iter().any(up) && (snapshot.withheld == 0 || snapshot.live > 0),
    }
}

/// An interest that the feed counts, on its way to be a client's. Dropped before, it is given back.
pub(crate) struct Held {
    source: Arc<dyn Source>,
    /// `None` when somebody else sees to it.
    topic: Option<Topic>,
    pending: Option<Pending>,
}

impl Held {
    /// Subscribes, and holds what comes of it.
    ///
    /// Cancel safe: the feed takes back what was under way.
    pub(crate) async fn subscribe(source: Arc<dyn Source>, topic: Topic) -> Result<Held, SubscribeError> {
        let placement = source.subscribe(topic.clone()).await?;
        Ok(Held { source, topic: Some(topic), pending: placement.why })
    }

    /// Why the upstream does not carry it yet; `None` if it does.
    pub(crate) fn pending(&self) -> Option<Pending> {
        self.pending
    }

    /// From now on somebody else gives it back.
    pub(crate) fn hand_over(mut self) {
        self.topic = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(topic) = self.topic.take() {
            self.source.unsubscribe(&topic);
        }
    }
}
