//! Milestones as tracing events.

use super::snapshot::percent;
use carom_core::feed::Milestone;

/// Tells what people want to know, in the way of OpenAlgo's `[POOL]` lines. `limit` is the most topics on a connection, and
/// `most` the most connections.
pub(super) fn report(feed: &str, (limit, most): (usize, usize), milestone: &Milestone) {
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
        Milestone::Lost { connection, topics } => {
            tracing::warn!(feed, connection, topics, "[POOL] a connection was lost");
        }
        Milestone::Stalled { connection, topics } => {
            tracing::warn!(feed, connection, topics, "[POOL] a connection has stalled and is given up");
        }
        Milestone::Reopened { connection, topics } => {
            tracing::info!(feed, connection, topics, "[POOL] a connection is back");
        }
        Milestone::Moved { connection, topics, compacted } => {
            tracing::info!(feed, connection, topics, compacted, "[POOL] topics move to other connections");
        }
        Milestone::Released { connection } => {
            tracing::info!(feed, connection, "[POOL] a connection without topics is released")
        }
        Milestone::TopicRefused { instrument, level, reason, again: false } => {
            tracing::warn!(feed, %instrument, mode = %level.mode, depth = level.depth, reason = &**reason, "[POOL] a topic was refused");
        }
        // It is asked for again and again: whoever reads warnings knows it by now.
        Milestone::TopicRefused { instrument, level, reason, again: true } => {
            tracing::debug!(feed, %instrument, mode = %level.mode, depth = level.depth, reason = &**reason, "[POOL] a topic was refused again");
        }
        Milestone::CredentialRefused => {
            tracing::error!(
                feed,
                "[POOL] the upstream refuses the credential; nothing is opened until another is at hand"
            );
        }
        Milestone::Resumed => tracing::info!(feed, "[POOL] connections are opened again"),
        Milestone::UnsubscribedAll { topics } => tracing::info!(feed, topics, "[POOL] everything was unsubscribed"),
        Milestone::Closed { peak } => {
            let (topics, connections, on_each) = (peak.topics, peak.connections, &peak.on_each);
            tracing::info!(feed, peak_topics = topics, peak_connections = connections, ?on_each, "[POOL] closed");
        }
    }
}
