//! Consuming: a consumer's beginning and end, messages and their acknowledgement.
#![allow(missing_docs, reason = "the fields are the protocol's own")]

use super::message::{KeyLongValue, KeyValue, MessageIdData};
use super::server_error::ServerError;

/// Begins a consumer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Subscribe {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(string, required, tag = "2")]
    pub subscription: String,
    #[prost(enumeration = "SubType", required, tag = "3")]
    pub sub_type: i32,
    #[prost(uint64, required, tag = "4")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "5")]
    pub request_id: u64,
    #[prost(string, optional, tag = "6")]
    pub consumer_name: Option<String>,
    #[prost(int32, optional, tag = "7")]
    pub priority_level: Option<i32>,
    #[prost(bool, optional, tag = "8")]
    pub durable: Option<bool>,
    #[prost(message, optional, tag = "9")]
    pub start_message_id: Option<MessageIdData>,
    #[prost(message, repeated, tag = "10")]
    pub metadata: Vec<KeyValue>,
    #[prost(bool, optional, tag = "11")]
    pub read_compacted: Option<bool>,
    #[prost(enumeration = "InitialPosition", optional, tag = "13")]
    pub initial_position: Option<i32>,
    #[prost(bool, optional, tag = "15")]
    pub force_topic_creation: Option<bool>,
    #[prost(message, repeated, tag = "18")]
    pub subscription_properties: Vec<KeyValue>,
    #[prost(uint64, optional, tag = "19")]
    pub consumer_epoch: Option<u64>,
}

/// How the consumers of a subscription share its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SubType {
    /// One consumer at a time.
    Exclusive = 0,
    /// Each message to one of many.
    Shared = 1,
    /// One at a time, and another takes over.
    Failover = 2,
    /// Each key to one of many.
    KeyShared = 3,
}

impl SubType {
    /// Its name in texts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SubType::Exclusive => "exclusive",
            SubType::Shared => "shared",
            SubType::Failover => "failover",
            SubType::KeyShared => "key-shared",
        }
    }
}

/// Where a subscription starts that is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum InitialPosition {
    /// With what comes from now on.
    Latest = 0,
    /// With the oldest message there is.
    Earliest = 1,
}

/// The broker may send this many more messages.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Flow {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint32, required, tag = "2")]
    pub message_permits: u32,
}

/// A message for a consumer; it stands behind the command in the frame.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Message {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(message, required, tag = "2")]
    pub message_id: MessageIdData,
    #[prost(uint32, optional, tag = "3")]
    pub redelivery_count: Option<u32>,
    /// Of a batch: which messages are still to be acknowledged, a bit each.
    #[prost(int64, repeated, packed = "false", tag = "4")]
    pub ack_set: Vec<i64>,
    #[prost(uint64, optional, tag = "5")]
    pub consumer_epoch: Option<u64>,
}

/// Messages are done with. Answered only when it has a request id.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ack {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(enumeration = "AckType", required, tag = "2")]
    pub ack_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub message_id: Vec<MessageIdData>,
    #[prost(int32, optional, tag = "4")]
    pub validation_error: Option<i32>,
    #[prost(message, repeated, tag = "5")]
    pub properties: Vec<KeyLongValue>,
    #[prost(uint64, optional, tag = "8")]
    pub request_id: Option<u64>,
}

/// What an [`Ack`] covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AckType {
    /// The messages named.
    Individual = 0,
    /// All up to the message named.
    Cumulative = 1,
}

/// The answer to an [`Ack`] with a request id.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AckResponse {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(enumeration = "ServerError", optional, tag = "4")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub message: Option<String>,
    #[prost(uint64, optional, tag = "6")]
    pub request_id: Option<u64>,
}

/// Ends a subscription for good.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Unsubscribe {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "3")]
    pub force: Option<bool>,
}

/// Messages that are not acknowledged are to come again: those named, or all.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RedeliverUnacknowledged {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(message, repeated, tag = "2")]
    pub message_ids: Vec<MessageIdData>,
    #[prost(uint64, optional, tag = "3")]
    pub consumer_epoch: Option<u64>,
}

/// A consumer ends. From a client it is a request; from a broker it says that the topic is moving.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CloseConsumer {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// Where the topic moves to; good for one attempt.
    #[prost(string, optional, tag = "3")]
    pub assigned_broker_service_url: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub assigned_broker_service_url_tls: Option<String>,
}

/// Which of a failover subscription's consumers gets the messages has changed.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ActiveConsumerChange {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(bool, optional, tag = "2")]
    pub is_active: Option<bool>,
}

/// A topic was ended for good, and all of it has been read.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ReachedEndOfTopic {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
}

/// Which is the last message of the consumer's topic?
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GetLastMessageId {
    #[prost(uint64, required, tag = "1")]
    pub consumer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
}

/// The answer to [`GetLastMessageId`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetLastMessageIdResponse {
    #[prost(message, required, tag = "1")]
    pub last_message_id: MessageIdData,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(message, optional, tag = "3")]
    pub consumer_mark_delete_position: Option<MessageIdData>,
}
