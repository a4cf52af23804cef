//! The sight of a feed: what a monitor sees of it.

use super::adapter::Adapter;
use super::shared::Shared;
use crate::cause::in_words;
use crate::clock;
use crate::monitor::{
    self, FeedConnection, FeedConnectionState, FeedCounters, Idle, Object, Observe, Observed, ms_since, ms_until,
};
use carom_core::feed::{ConnectionGlance, ConnectionState, Counters, Snapshot, State};
use carom_core::idle::Idleness;
use std::time::Instant;

impl<A: Adapter> Observe for Shared<A> {
    fn observe(&self) -> Option<Observed> {
        let (snapshot, per_connection, max_connections, capacity, cause) = {
            let table = self.lock();
            let options = table.machine.options();
            let (per_connection, most) = (options.max_topics_per_connection, options.max_connections);
            (table.machine.snapshot(), per_connection, most, options.capacity(), table.cause.clone())
        };
        let cause = cause.map(|cause| in_words(cause, &self.name));
        let (now, outside) = (clock::now(), !self.adapter.has_upstream());
        let feed = monitor::Feed {
            state: state(&snapshot, outside)?,
            topics: snapshot.topics,
            live: snapshot.live,
            waiting: snapshot.waiting,
            max_topics_per_connection: per_connection,
            max_connections,
            capacity,
            peak_topics: snapshot.peak.topics,
            connections: snapshot.connections.iter().map(|connection| show(connection, now)).collect(),
            cause,
            counters: count(snapshot.counters),
            passed_over: self.adapter.passed_over().into_iter().map(|(what, count)| (what.to_owned(), count)).collect(),
            outside,
        };
        Some(Observed { name: self.name.to_string(), object: Object::Feed(feed) })
    }
}

/// Where it is, `None` when it has stopped. A feed that runs may have nothing to do, or no luck; one from outside needs neither.
fn state(snapshot: &Snapshot, outside: bool) -> Option<monitor::State> {
    let any = |state| snapshot.connections.iter().any(|connection| connection.state == state);
    match snapshot.state {
        State::Running if outside => Some(monitor::State::Running),
        State::Running if snapshot.withheld > 0 && snapshot.live == 0 => Some(monitor::State::Failed),
        State::Running if any(ConnectionState::Up) => Some(monitor::State::Running),
        State::Running if snapshot.connections.iter().any(|connection| connection.failing) => {
            Some(monitor::State::Failed)
        }
        State::Running if snapshot.counters.opened == 0 => Some(monitor::State::Starting),
        State::Running => Some(monitor::State::Running),
        State::Refused => Some(monitor::State::Refused),
        State::Stopping => Some(monitor::State::Stopping),
        State::Stopped => None,
    }
}

fn show(connection: &ConnectionGlance, now: Instant) -> FeedConnection {
    FeedConnection {
        index: connection.index,
        state: match connection.state {
            ConnectionState::Opening => FeedConnectionState::Opening,
            ConnectionState::Up => FeedConnectionState::Up,
            ConnectionState::Waiting => FeedConnectionState::Waiting,
            ConnectionState::Closing => FeedConnectionState::Closing,
        },
        topics: connection.topics,
        unwritten: connection.unwritten,
        idle: connection.idleness.map(|idleness| match idleness {
            Idleness::Using => Idle::Using,
            Idleness::IdleMarked { .. } => Idle::Marked,
            Idleness::BeforeRelease { .. } => Idle::BeforeRelease,
            Idleness::Released => Idle::Released,
        }),
        heard_ms: connection.heard.map(|heard| ms_since(heard, now)),
        next_attempt_ms: connection.next_attempt.map(|next| ms_until(next, now)),
    }
}

fn count(Counters { ticks, connects, connect_failures, lost, .. }: Counters) -> FeedCounters {
    FeedCounters { ticks, connects, connect_failures, lost }
}
