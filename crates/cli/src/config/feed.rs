//! The tables `[[feed]]`: a user at a broker, and how the upstream is spoken to.

mod adapter;
mod broker;
mod credential;
mod delta;
mod kite;
mod simulated;
mod upstream;

pub(crate) use broker::{Listed, Socket};
pub(crate) use delta::Delta;
pub(crate) use kite::Kite;
pub(crate) use simulated::Simulated;
pub(crate) use upstream::Upstream;

use super::File;
use super::bus::Bus;
use super::environment::Environment;
use super::layered::Layered;
use super::recovery::Recovery;
use super::values::{name, time_or_none, up_to};
use crate::units::several;
use adapter::Adapter;
use carom_gateway::credential::Credential;
use carom_gateway::tables::{Table, TableError};
use std::time::Duration;

/// So that delays double evenly from the default up to near the longest; what is tried after that is tried for good.
const ATTEMPTS: u32 = 8;
/// More would be a slip of the hand.
pub(crate) const MOST_TOPICS: usize = 1_000_000;
pub(crate) const MOST_CONNECTIONS: usize = 10_000;

/// A user at a broker.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) broker: String,
    pub(crate) user: String,
    pub(crate) upstream: Upstream,
    pub(crate) max_topics_per_connection: usize,
    pub(crate) max_connections: usize,
    pub(crate) linger: Duration,
    pub(crate) stall_after: Option<Duration>,
    pub(crate) recovery: Recovery,
}

/// All feeds; without any, one that needs nothing.
pub(super) fn read(
    file: Option<&mut File<'_>>,
    environment: &Environment,
    bus: &Layered<Bus>,
) -> Result<Vec<Feed>, TableError> {
    let Some(file) = file else { return Ok(vec![Feed::demonstration(environment)]) };
    let mut feeds: Vec<Feed> = Vec::new();
    for mut table in file.table.tables("feed")? {
        let feed = Feed::take(&mut table, file, environment)?;
        if feeds.iter().any(|other| (&other.broker, &other.user) == (&feed.broker, &feed.user)) {
            return Err(
                table.wrong("user", "has a feed at this broker already; accepted: one for each user and broker")
            );
        }
        if let (Bus::ZeroMq(_), false) = (&bus.value, feeds.is_empty()) {
            let problem = format_args!(
                "a ZeroMQ bus names no users, so it is one user's ({}); accepted: one [[feed]]",
                bus.origin
            );
            return Err(table.wrong("user", problem));
        }
        if !feed.is_connected() && !bus.value.has_publishers() {
            let problem =
                "needs a bus that others publish on; accepted: with bus = \"zeromq\" that binds \"sub\", or \"nats\"";
            return Err(table.wrong("adapter", problem));
        }
        table.finish()?;
        feeds.push(feed);
    }
    Ok(if feeds.is_empty() { vec![Feed::demonstration(environment)] } else { feeds })
}

impl Feed {
    /// Whether the same is to be done for both; credentials are read again in any case.
    pub(crate) fn means_the_same(&self, other: &Feed) -> bool {
        let bounds = |feed: &Feed| {
            let Feed { max_topics_per_connection, max_connections, linger, stall_after, recovery, .. } = feed;
            (*max_topics_per_connection, *max_connections, *linger, *stall_after, *recovery)
        };
        self.upstream.means_the_same(&other.upstream)
            && (&self.broker, &self.user, bounds(self)) == (&other.broker, &other.user, bounds(other))
    }

    /// One that needs nothing.
    fn demonstration(environment: &Environment) -> Feed {
        let upstream = Upstream::Simulated(Simulated::DEMONSTRATION);
        Feed::new("simulated".to_owned(), "demo".to_owned(), upstream, environment)
    }

    fn new(broker: String, user: String, upstream: Upstream, environment: &Environment) -> Feed {
        let (topics, connections) = upstream.usual_limits();
        let mut feed = Feed {
            broker,
            user,
            upstream,
            max_topics_per_connection: topics,
            max_connections: connections,
            linger: Duration::from_secs(5),
            stall_after: Some(Duration::from_secs(90)),
            recovery: Recovery::new(ATTEMPTS),
        };
        let set = |set: &Option<Layered<usize>>| set.as_ref().map(|set| set.value);
        feed.limit(set(&environment.max_topics_per_connection), set(&environment.max_connections));
        feed
    }

    /// Has these limits, as far as they are given and it is connected to somebody.
    pub(crate) fn limit(&mut self, topics: Option<usize>, connections: Option<usize>) {
        if !self.is_connected() {
            return;
        }
        self.max_topics_per_connection = topics.unwrap_or(self.max_topics_per_connection);
        self.max_connections = connections.unwrap_or(self.max_connections);
    }

    /// Whether there are connections to speak of.
    pub(crate) fn is_connected(&self) -> bool {
        !matches!(self.upstream, Upstream::Outside)
    }

    /// What may not be meant on this bus, for people.
    pub(crate) fn warnings(&self, bus: &Bus) -> Vec<String> {
        let Feed { broker, user, max_topics_per_connection: topics, max_connections: connections, .. } = self;
        let beyond = self.upstream.allowed().filter(|(most, at_once)| topics > most || connections > at_once);
        let beyond = beyond.map(|(most, at_once)| {
            let wanted = several(*connections, "connection");
            format!("may have {topics} symbols on each of {wanted}; the broker allows {most} on each of {at_once}")
        });
        let missing = self.upstream.credential().and_then(Credential::missing);
        let missing = missing.map(|missing| format!("has nothing to present to the broker yet; {missing}"));
        let is_own = matches!((bus, &self.upstream), (Bus::Nats(_), Upstream::Simulated(Simulated::Here { .. })));
        let own = is_own.then(|| {
            "has an exchange that is started here, and with every other gateway another; a url is one for all"
                .to_owned()
        });
        let all = beyond.into_iter().chain(missing).chain(own);
        all.map(|warning| format!("the feed of {user} at {broker} {warning}")).collect()
    }

    fn take(table: &mut Table, file: &File<'_>, environment: &Environment) -> Result<Feed, TableError> {
        let broker = table.require("broker", "the name of a broker, as in the keys", name)?;
        let user = table.require("user", "the name of a user, as in the keys", name)?;
        let upstream = Upstream::take(Adapter::take(table, &broker)?, table, file)?;
        let mut feed = Feed::new(broker, user, upstream, environment);
        for (key, field, most) in [
            ("max_topics_per_connection", &mut feed.max_topics_per_connection, MOST_TOPICS),
            ("max_connections", &mut feed.max_connections, MOST_CONNECTIONS),
        ] {
            if let Some(value) = table.read(key, &format!("a number from 1 to {most}"), |value| up_to(most, value))? {
                *field = value;
            }
        }
        let accepted = "a time up to a day, such as \"5s\", or 0 for not at all";
        if let Some(linger) = table.read("linger", accepted, time_or_none)? {
            feed.linger = linger.unwrap_or_default();
        }
        let accepted = "a time up to a day, such as \"90s\", or 0 for never";
        if let Some(stall_after) = table.read("stall_after", accepted, time_or_none)? {
            feed.stall_after = stall_after;
        }
        feed.recovery = Recovery::take(table, Recovery::new(ATTEMPTS))?;
        Ok(feed)
    }
}
