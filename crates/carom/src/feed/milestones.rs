//! Milestones as tracing events.

use super::snapshot::percent;
use crate::clock;
use carom_core::feed::Milestone;
use carom_core::seldom::Seldom;

/// Whoever reads of an outage among the warnings can have its end alone beside them.
const RECOVERED: &str = "carom::feed::recovered";

/// Tells what people want to know, in the way of OpenAlgo's `[POOL]` lines. `limit` is the most topics on a connection, and
/// `most` the most connections; `cause` says what failed last. Whoever subscribes has a hand in how many topics are refused, so of
/// all of them one is told now and then, by `refusals`.
pub(super) fn report(
    feed: &str,
    (limit, most): (usize, usize),
    refusals: &mut Seldom,
    milestone: &Milestone,
    cause: impl Fn() -> String,
) {
    match milestone {
        Milestone::Created { max_topics_per_connection, max_connections, capacity } => {
            tracing::info!(feed, max_topics_per_connection, max_connections, capacity, "[POOL] created");
        }
        Milestone::Opening { connection, on_previous, topics } => {
            tracing::info!(feed, connection, most, on_previous, limit, topics, "[POOL] opening a connection");
        }
        Milestone::Started { connection, first } => {
            tracing::info!(feed, connection, first = %first, "[POOL] a connection has its first topic");
        }
        Milestone::Filled { connection, on_connection, topics, connections } => {
            let percent = percent(*on_connection, limit);
            tracing::info!(
                feed,
                connection,
                on_connection,
                limit,
                percent,
                topics,
                connections,
                "[POOL] a connection fills"
            );
        }
        Milestone::Changed { instrument, from, to, connection } => {
            let change = if to > from { "upgraded" } else { "downgraded" };
            tracing::info!(feed, %instrument, from = %from.mode, to = %to.mode, depth = to.depth, connection, "[POOL] {change}");
        }
        Milestone::Lost { connection, topics, again: false } => {
            tracing::warn!(feed, connection, topics, "[POOL] a connection was lost");
        }
        // One that does not last is opened and lost over and over: whoever reads warnings knows it by now.
        Milestone::Lost { connection, topics, again: true } => {
            tracing::debug!(feed, connection, topics, "[POOL] a connection was lost again");
        }
        Milestone::Stalled { connection, topics, again: false } => {
            tracing::warn!(feed, connection, topics, "[POOL] a connection has stalled and is given up");
        }
        Milestone::Stalled { connection, topics, again: true } => {
            tracing::debug!(feed, connection, topics, "[POOL] a connection has stalled again and is given up");
        }
        Milestone::Withheld { topics } => {
            tracing::warn!(feed, topics, "[POOL] the upstream cannot carry topics for now");
        }
        Milestone::Restored => {
            tracing::info!(target: RECOVERED, feed, "[POOL] the upstream carries everything again");
        }
        Milestone::Reopened { connection, topics } => {
            tracing::info!(target: RECOVERED, feed, connection, topics, "[POOL] a connection is back");
        }
        Milestone::Moved { connection, topics, compacted } => {
            tracing::info!(feed, connection, topics, compacted, "[POOL] topics move to other connections");
        }
        Milestone::Released { connection } => {
            tracing::info!(feed, connection, "[POOL] a connection without topics is released")
        }
        Milestone::TopicRefused { instrument, level, reason, again: false } => {
            let (mode, depth, reason) = (level.mode, level.depth, &**reason);
            match refusals.happened(clock::now()) {
                Some(count) => {
                    tracing::warn!(feed, %instrument, %mode, depth, reason, count, "[POOL] topics were refused")
                }
                None => tracing::debug!(feed, %instrument, %mode, depth, reason, "[POOL] a topic was refused"),
            }
        }
        // It is asked for again and again: whoever reads warnings knows it by now.
        Milestone::TopicRefused { instrument, level, reason, again: true } => {
            tracing::debug!(feed, %instrument, mode = %level.mode, depth = level.depth, reason = &**reason, "[POOL] a topic was refused again");
        }
        Milestone::CredentialRefused => {
            tracing::error!(
                feed,
                error = cause(),
                "[POOL] the upstream refuses the credential; nothing is opened until another is at hand"
            );
        }
        Milestone::Resumed => tracing::info!(target: RECOVERED, feed, "[POOL] connections are opened again"),
        Milestone::UnsubscribedAll { topics } => tracing::info!(feed, topics, "[POOL] everything was unsubscribed"),
        Milestone::Closed { peak } => {
            let (topics, connections, on_each) = (peak.topics, peak.connections, &peak.on_each);
            tracing::info!(feed, peak_topics = topics, peak_connections = connections, ?on_each, "[POOL] closed");
        }
    }
}
