//! A copy of a feed's state for people, in the shape of OpenAlgo's `get_stats`.

use super::adapter::Adapter;
use super::shared::Shared;
use carom_core::feed::{ConnectionState, Peak, State};
use carom_core::idle::Idleness;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// A feed at one moment. The fields up to `connections` are those of OpenAlgo's `get_stats`; a symbol is an instrument there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Connections that are up, or that are being opened, waited for or closed.
    pub active_connections: usize,
    /// Most connections.
    pub max_connections: usize,
    /// Most symbols on one connection.
    pub max_symbols_per_connection: usize,
    /// Symbols that are subscribed to, those that only linger among them.
    pub total_subscriptions: usize,
    /// Most symbols in all.
    pub max_capacity: usize,
    /// How much of that is used, in percent, to two digits.
    pub capacity_used_percent: f64,
    /// Every connection.
    pub connections: Vec<ConnectionSnapshot>,
    /// Where the feed is.
    pub state: State,
    /// Symbols that are carried as they are wanted.
    pub live: usize,
    /// Symbols that the upstream has accepted and cannot carry for now, as it says itself.
    pub withheld: usize,
    /// Who waits to hear of a topic.
    pub waiting: usize,
    /// The most there was.
    pub peak: Peak,
    /// The last real error of a connection; forgotten when everything that is wanted is carried again.
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
    /// What the upstream said that became no tick, [by what it was](Adapter::passed_over).
    pub passed_over: Vec<(&'static str, u64)>,
    /// Whether [there is an upstream](Adapter::has_upstream) at all.
    pub has_upstream: bool,
}

/// A connection of a feed at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionSnapshot {
    /// Which one, counted from 1.
    pub index: usize,
    /// Symbols on it.
    pub symbols: usize,
    /// How full it is, in percent, to two digits.
    pub capacity_percent: f64,
    /// What it is doing.
    pub state: ConnectionState,
    /// Changes that wait to be written, or are being written.
    pub unwritten: usize,
    /// How far it is on its way out for want of topics; `None` when it is not up.
    pub idleness: Option<Idleness>,
    /// When it last said anything; `None` when it is not up.
    pub heard: Option<Instant>,
    /// Whether it is not up because it was lost, did not last, or could not be opened: also while it is being opened again.
    pub failing: bool,
    /// Whether it waits to be opened again because [there was no credential](Adapter::lacks_credential) to present.
    pub lacks_credential: bool,
}

impl<A: Adapter> Shared<A> {
    pub(super) fn snapshot(&self) -> Snapshot {
        let (figures, limit, most, capacity, cause) = {
            let table = self.lock();
            let options = table.machine.options();
            let (limit, most) = (options.max_topics_per_connection, options.max_connections);
            (table.machine.snapshot(), limit, most, options.capacity(), table.cause.clone())
        };
        let connections = figures.connections.into_iter().map(|glance| ConnectionSnapshot {
            index: glance.index,
            symbols: glance.topics,
            capacity_percent: percent(glance.topics, limit),
            state: glance.state,
            unwritten: glance.unwritten,
            idleness: glance.idleness,
            heard: glance.heard,
            failing: glance.failing,
            lacks_credential: glance.lacks_credential,
        });
        let connections: Vec<_> = connections.collect();
        Snapshot {
            name: Arc::clone(&self.name),
            active_connections: connections.len(),
            max_connections: most,
            max_symbols_per_connection: limit,
            total_subscriptions: figures.topics,
            max_capacity: capacity,
            capacity_used_percent: percent(figures.topics, capacity),
            connections,
            state: figures.state,
            live: figures.live,
            withheld: figures.withheld,
            waiting: figures.waiting,
            peak: figures.peak,
            cause,
            passed_over: self.adapter.passed_over(),
            has_upstream: self.adapter.has_upstream(),
        }
    }
}

/// How much of the whole, in percent, to two digits.
pub(super) fn percent(part: usize, whole: usize) -> f64 {
    (part as f64 / whole as f64 * 10_000.0).round() / 100.0
}
