//! Producing: a producer's beginning and end, messages and their receipts.
#![allow(missing_docs, reason = "the fields are the protocol's own")]

use super::message::{KeyValue, MessageIdData};
use super::server_error::ServerError;
use bytes::Bytes;

/// Begins a producer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Producer {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "3")]
    pub request_id: u64,
    #[prost(string, optional, tag = "4")]
    pub producer_name: Option<String>,
    #[prost(bool, optional, tag = "5")]
    pub encrypted: Option<bool>,
    #[prost(message, repeated, tag = "6")]
    pub metadata: Vec<KeyValue>,
    /// How often it has begun anew: the broker lets a later one take the place of an earlier of the same name.
    #[prost(uint64, optional, tag = "8")]
    pub epoch: Option<u64>,
    #[prost(bool, optional, tag = "9")]
    pub user_provided_producer_name: Option<bool>,
    #[prost(enumeration = "AccessMode", optional, tag = "10")]
    pub producer_access_mode: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub topic_epoch: Option<u64>,
    #[prost(bool, optional, tag = "12")]
    pub txn_enabled: Option<bool>,
    #[prost(string, optional, tag = "13")]
    pub initial_subscription_name: Option<String>,
}

/// Whether a producer wants the topic to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AccessMode {
    Shared = 0,
    Exclusive = 1,
    WaitForExclusive = 2,
    ExclusiveWithFencing = 3,
}

/// The answer to [`Producer`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProducerSuccess {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub producer_name: String,
    /// The last sequence id that the broker has stored of this name; -1 (and absent) when there is none.
    #[prost(int64, optional, tag = "3")]
    pub last_sequence_id: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub schema_version: Option<Bytes>,
    #[prost(uint64, optional, tag = "5")]
    pub topic_epoch: Option<u64>,
    /// `Some(false)` when another such answer follows once the producer may send.
    #[prost(bool, optional, tag = "6")]
    pub producer_ready: Option<bool>,
}

/// A message; it stands behind the command in the frame.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Send {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(int32, optional, tag = "3")]
    pub num_messages: Option<i32>,
    #[prost(uint64, optional, tag = "4")]
    pub txnid_least_bits: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub txnid_most_bits: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub highest_sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "7")]
    pub is_chunk: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub marker: Option<bool>,
}

/// A message is stored.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SendReceipt {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(message, optional, tag = "3")]
    pub message_id: Option<MessageIdData>,
    #[prost(uint64, optional, tag = "4")]
    pub highest_sequence_id: Option<u64>,
}

/// A message is not stored.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SendError {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    #[prost(enumeration = "ServerError", required, tag = "3")]
    pub error: i32,
    #[prost(string, required, tag = "4")]
    pub message: String,
}

/// A producer ends. From a client it is a request; from a broker it says that the topic is moving.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CloseProducer {
    #[prost(uint64, required, tag = "1")]
    pub producer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// Where the topic moves to; good for one attempt.
    #[prost(string, optional, tag = "3")]
    pub assigned_broker_service_url: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub assigned_broker_service_url_tls: Option<String>,
}
