//! A copy of a gateway's state for people.

use crate::bus::BusStatus;
use crate::cluster::{Share, ShareSnapshot};
use crate::hub::Heard;
use crate::shared::Shared;
use carom::feed;
use std::sync::Arc;
use std::time::Instant;

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
    /// Ticks that came, those included that gave their place to newer ones.
    pub ticks: u64,
    /// Messages that were sent to clients, or are on their way into a socket.
    pub delivered: u64,
    /// Ticks that gave their place to newer ones: on the way here, held back by the throttle, and waiting for each client.
    /// Who reads everything loses nothing newer by it: of several ticks of one instrument that come together, the last is told.
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
    /// This gateway's part among several that have it; `None` when it is this one's alone.
    pub share: Option<ShareSnapshot>,
    /// The bus that its ticks go through.
    pub bus: BusStatus,
    /// Ticks that came over that, those included that gave their place to newer ones.
    pub ticks: u64,
    /// When the last of them came.
    pub last_tick: Option<Instant>,
}

impl Shared {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let feeds = self.scopes.values().filter_map(|scope| {
            let supply = scope.supply.as_ref()?;
            let (broker, user) = (Arc::clone(&scope.broker), Arc::clone(&scope.user));
            let share = supply.share.as_ref().map(Share::snapshot);
            let (feed, bus) = (supply.source.snapshot(), supply.bus.status());
            let Heard { ticks, last: last_tick } = self.hub.heard(scope.id);
            Some(FeedSnapshot { broker, user, feed, share, bus, ticks, last_tick })
        });
        Snapshot { feeds: feeds.collect(), ..self.figures() }
    }

    /// The figures of the gateway itself, without its feeds: to look at one takes its lock.
    pub(crate) fn figures(&self) -> Snapshot {
        // One after the other: whoever came in between is a client all the same.
        let clients = self.roll.len();
        let (figures, counters) = (self.hub.figures(), &self.counters);
        Snapshot {
            clients: clients.max(figures.authenticated),
            authenticated: figures.authenticated,
            subscriptions: figures.subscriptions,
            ticks: figures.ticks,
            delivered: counters.delivered.get(),
            conflated: figures.conflated,
            lost: figures.lost + counters.missed.get(),
            malformed: self.malformed(&figures),
            refused: counters.refused.get(),
            slow_closed: counters.slow_closed.get(),
            wrong_keys: counters.wrong_keys.get(),
            feeds: Vec::new(),
        }
    }
}
