//! Milestones as tracing events.

use carom_core::feed::Milestone;

/// Tells what people want to know. The fields are what OpenAlgo's `[POOL]` lines say.
pub(super) fn report(feed: &str, milestone: &Milestone) {
    match milestone {
        Milestone::Opening { connection, topics } => tracing::info!(feed, connection, topics, "opening a connection"),
        Milestone::Started { connection, first } => {
            tracing::info!(feed, connection, first = %first, "a connection has its first topic");
        }
        Milestone::Filled { connection, on_connection, topics, connections } => {
            tracing::info!(feed, connection, on_connection, topics, connections, "a connection fills");
        }
        Milestone::Changed { instrument, from, to, connection } => {
            let change = if to > from { "upgraded" } else { "downgraded" };
            tracing::info!(feed, %instrument, from = %from.mode, to = %to.mode, depth = to.depth, connection, "{change}");
        }
        Milestone::Lost { connection, topics } => {
            tracing::warn!(feed, connection, topics, "a connection was lost");
        }
        Milestone::Stalled { connection, topics } => {
            tracing::warn!(feed, connection, topics, "a connection has stalled and is given up");
        }
        Milestone::Reopened { connection, topics } => {
            tracing::info!(feed, connection, topics, "a connection is back");
        }
        Milestone::Moved { connection, topics, compacted } => {
            tracing::info!(feed, connection, topics, compacted, "topics move to other connections");
        }
        Milestone::Released { connection } => {
            tracing::info!(feed, connection, "a connection without topics is released")
        }
        Milestone::TopicRefused { instrument, level, reason } => {
            tracing::warn!(feed, %instrument, mode = %level.mode, depth = level.depth, reason = &**reason, "a topic was refused");
        }
        Milestone::CredentialRefused => {
            tracing::error!(feed, "the upstream refuses the credential; nothing is opened until another is at hand");
        }
        Milestone::Resumed => tracing::info!(feed, "connections are opened again"),
        Milestone::UnsubscribedAll { topics } => tracing::info!(feed, topics, "everything was unsubscribed"),
        Milestone::Closed { peak } => {
            let (topics, connections, on_each) = (peak.topics, peak.connections, &peak.on_each);
            tracing::info!(feed, peak_topics = topics, peak_connections = connections, ?on_each, "closed");
        }
    }
}
