//! A message that has arrived, and how an acknowledgement names it.

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
    /// What it came by.
    pub(super) subscription: Arc<str>,
}

/// The message that an acknowledgement is for: a [`Message`], or one that could not be read, by the topic and the id in
/// [`Error::Unreadable`](crate::Error::Unreadable).
#[derive(Clone, Copy, Debug)]
pub struct Delivered<'m> {
    pub(super) topic: &'m str,
    pub(super) id: MessageId,
    /// If it is known.
    pub(super) subscription: Option<&'m str>,
}

impl<'m> From<&'m Message> for Delivered<'m> {
    fn from(message: &'m Message) -> Delivered<'m> {
        Delivered { topic: &message.topic, id: message.id, subscription: Some(&message.subscription) }
    }
}

impl<'m> From<(&'m str, MessageId)> for Delivered<'m> {
    fn from((topic, id): (&'m str, MessageId)) -> Delivered<'m> {
        Delivered { topic, id, subscription: None }
    }
}
