//! Why there was no subscription.

use carom_core::feed::{Refusal, Topic};
use std::sync::Arc;
use std::time::Duration;

/// Why a topic could not be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// Every connection that there may be is full.
    #[error(
        "`{feed}` is full: {topics} topics on at most {max_connections} connections of {max_topics_per_connection} each"
    )]
    #[non_exhaustive]
    CapacityReached {
        /// The name of the feed.
        feed: Arc<str>,
        /// Most connections.
        max_connections: usize,
        /// Most topics on each.
        max_topics_per_connection: usize,
        /// Topics there are.
        topics: usize,
    },
    /// The upstream does not want it.
    #[error("the upstream of `{feed}` refuses {topic}: {reason}")]
    #[non_exhaustive]
    Refused {
        /// The name of the feed.
        feed: Arc<str>,
        /// Which.
        topic: Topic,
        /// What the upstream said.
        reason: Arc<str>,
    },
    /// Everything was unsubscribed while it waited, or somebody took this very interest back.
    #[error("it was unsubscribed from `{feed}` meanwhile")]
    #[non_exhaustive]
    Unsubscribed {
        /// The name of the feed.
        feed: Arc<str>,
    },
    /// The feed is closed, or the runtime it lived on has ended.
    #[error("`{feed}` is closed")]
    #[non_exhaustive]
    Closed {
        /// The name of the feed.
        feed: Arc<str>,
    },
}

impl SubscribeError {
    pub(super) fn new(feed: &Arc<str>, topic: &Topic, refusal: Refusal) -> SubscribeError {
        let feed = Arc::clone(feed);
        match refusal {
            Refusal::CapacityReached { max_connections, max_topics_per_connection, topics } => {
                SubscribeError::CapacityReached { feed, max_connections, max_topics_per_connection, topics }
            }
            Refusal::Upstream { reason } => SubscribeError::Refused { feed, topic: topic.clone(), reason },
            Refusal::Unsubscribed => SubscribeError::Unsubscribed { feed },
            Refusal::Closed => SubscribeError::Closed { feed },
        }
    }
}

/// Why a topic could not be unsubscribed from: nobody has subscribed to it, or everything is unsubscribed since the feed is
/// closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody is subscribed to {topic} of `{feed}`")]
#[non_exhaustive]
pub struct NotSubscribed {
    /// The name of the feed.
    pub feed: Arc<str>,
    /// Which.
    pub topic: Topic,
}

/// Why a connection ended when it was not the adapter that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// It took longer to open than the recovery policy allows.
    #[error("opening timed out after {0:?}")]
    OpenTimedOut(Duration),
    /// A heartbeat took longer than `write_timeout`.
    #[error("a heartbeat timed out after {0:?}")]
    HeartbeatTimedOut(Duration),
    /// The adapter panicked.
    #[error("the adapter panicked")]
    Panicked,
}
