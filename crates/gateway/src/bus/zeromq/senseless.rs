//! Why a message of a peer makes no sense, by its form alone.

use super::{receiving, sending};
use crate::protocol::frames::{FramesError, LONGEST_TOPIC};

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(super) enum Senseless {
    #[error("a message has not 2 frames")]
    Frames,
    #[error("a message has more than {} bytes", receiving::LIMITS.message)]
    Long,
    #[error("a topic has more than {LONGEST_TOPIC} bytes")]
    LongTopic,
    #[error("a topic is not UTF-8")]
    Text,
    #[error("a subscriber says something that is no subscription")]
    NoSubscription,
    #[error("a subscription has more than {} bytes", sending::LIMITS.message)]
    LongSubscription,
}

impl From<FramesError> for Senseless {
    fn from(error: FramesError) -> Senseless {
        match error {
            FramesError::Frames { .. } => Senseless::Frames,
            FramesError::Long { .. } => Senseless::LongTopic,
            FramesError::Text => Senseless::Text,
        }
    }
}
