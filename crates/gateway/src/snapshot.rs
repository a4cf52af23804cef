//! A copy of a gateway's state for people.

use crate::shared::Shared;
use carom::feed;
use std::sync::Arc;

/// A gateway at one moment. Counts are since it was started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Clients, those that have not said who they are included.
    pub clients: usize,
    /// Clients that have said who they are.
    pub authenticated: usize,
    /// Subscriptions: of each client, each mode of each instrument.
    pub subscriptions: usize,
    /// Ticks that came, those that gave their place to newer ones before they were looked at not included.
    pub ticks: u64,
    /// Messages that were sent to clients, or are on their way into a socket.
    pub delivered: u64,
    /// Ticks that gave their place to newer ones: on the way here, held back by the throttle, or waiting for a client.
    pub conflated: u64,
    /// Ticks that were lost because too many waited: on the way here, or for one client.
    pub lost: u64,
    /// Messages of a bus that made no sense.
    pub malformed: u64,
    /// Connections that were turned away by a limit.
    pub refused: u64,
    /// Clients that were closed because they did not read.
    pub slow_closed: u64,
    /// Keys that were nobody's.
    pub wrong_keys: u64,
    /// Every feed, by broker and user.
    pub feeds: Vec<FeedSnapshot>,
}

/// A feed of a gateway at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FeedSnapshot {
    /// The broker.
    pub broker: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// Its figures.
    pub feed: feed::Snapshot,
}

impl Shared {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let feeds = self.scopes.values().filter_map(|scope| {
            let feed = scope.supply.as_ref()?.source.snapshot();
            Some(FeedSnapshot { broker: Arc::clone(&scope.broker), user: Arc::clone(&scope.user), feed })
        });
        let (figures, counters) = (self.hub.figures(), &self.counters);
        Snapshot {
            clients: self.roll.len(),
            authenticated: figures.authenticated,
            subscriptions: figures.subscriptions,
            ticks: figures.ticks,
            delivered: counters.delivered.get(),
            conflated: figures.conflated,
            lost: figures.lost + counters.missed.get(),
            malformed: figures.malformed,
            refused: counters.refused.get(),
            slow_closed: counters.slow_closed.get(),
            wrong_keys: counters.wrong_keys.get(),
            feeds: feeds.collect(),
        }
    }
}
