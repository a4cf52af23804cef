//! A message that has arrived.

use crate::message_id::MessageId;
use bytes::Bytes;
use std::sync::Arc;

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The topic it was sent to, by its whole name; of a topic with partitions, the partition.
    pub topic: Arc<str>,
    /// Where it is stored.
    pub id: MessageId,
    /// The message itself.
    pub payload: Bytes,
    /// Its key.
    pub key: Option<String>,
    /// Its properties.
    pub properties: Vec<(String, String)>,
    /// When it was sent, in milliseconds since 1970.
    pub publish_time: u64,
    /// When it happened, if its producer said so.
    pub event_time: Option<u64>,
    /// Who sent it.
    pub producer: Arc<str>,
    /// Which of its producer's messages it is.
    pub sequence: u64,
    /// How often it was delivered before, as far as the broker knows.
    pub redeliveries: u32,
    /// Which of the consumer's parts it came by.
    pub(super) part: usize,
}
