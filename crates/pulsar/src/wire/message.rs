//! What goes with a message: where it is stored, and what its producer said of it.
#![allow(missing_docs, reason = "the fields are the protocol's own")]

use bytes::Bytes;

/// Where a message is stored. Partition and batch index are -1 when there is none.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MessageIdData {
    #[prost(uint64, required, tag = "1")]
    pub ledger_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub entry_id: u64,
    #[prost(int32, optional, tag = "3", default = "-1")]
    pub partition: Option<i32>,
    #[prost(int32, optional, tag = "4", default = "-1")]
    pub batch_index: Option<i32>,
    /// Of a batch: which messages are still to be acknowledged, a bit each.
    #[prost(int64, repeated, packed = "false", tag = "5")]
    pub ack_set: Vec<i64>,
    #[prost(int32, optional, tag = "6")]
    pub batch_size: Option<i32>,
    #[prost(message, optional, boxed, tag = "7")]
    pub first_chunk_message_id: Option<Box<MessageIdData>>,
}

/// A property.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(string, required, tag = "2")]
    pub value: String,
}

/// A property with a number.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyLongValue {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(uint64, required, tag = "2")]
    pub value: u64,
}

/// What stands before a message, or before a batch of them.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MessageMetadata {
    #[prost(string, required, tag = "1")]
    pub producer_name: String,
    #[prost(uint64, required, tag = "2")]
    pub sequence_id: u64,
    /// Milliseconds since 1970.
    #[prost(uint64, required, tag = "3")]
    pub publish_time: u64,
    #[prost(message, repeated, tag = "4")]
    pub properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "5")]
    pub replicated_from: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub partition_key: Option<String>,
    #[prost(string, repeated, tag = "7")]
    pub replicate_to: Vec<String>,
    #[prost(enumeration = "Compression", optional, tag = "8")]
    pub compression: Option<i32>,
    #[prost(uint32, optional, tag = "9")]
    pub uncompressed_size: Option<u32>,
    /// There when the payload is a batch, even of one.
    #[prost(int32, optional, tag = "11")]
    pub num_messages_in_batch: Option<i32>,
    #[prost(uint64, optional, tag = "12")]
    pub event_time: Option<u64>,
    #[prost(string, optional, tag = "14")]
    pub encryption_algo: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "16")]
    pub schema_version: Option<Bytes>,
    #[prost(bool, optional, tag = "17")]
    pub partition_key_b64_encoded: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "18")]
    pub ordering_key: Option<Bytes>,
    #[prost(int64, optional, tag = "19")]
    pub deliver_at_time: Option<i64>,
    #[prost(int32, optional, tag = "20")]
    pub marker_type: Option<i32>,
    #[prost(uint64, optional, tag = "22")]
    pub txnid_least_bits: Option<u64>,
    #[prost(uint64, optional, tag = "23")]
    pub txnid_most_bits: Option<u64>,
    #[prost(uint64, optional, tag = "24")]
    pub highest_sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "25")]
    pub null_value: Option<bool>,
    #[prost(string, optional, tag = "26")]
    pub uuid: Option<String>,
    #[prost(int32, optional, tag = "27")]
    pub num_chunks_from_msg: Option<i32>,
    #[prost(int32, optional, tag = "28")]
    pub total_chunk_msg_size: Option<i32>,
    #[prost(int32, optional, tag = "29")]
    pub chunk_id: Option<i32>,
    #[prost(bool, optional, tag = "30")]
    pub null_partition_key: Option<bool>,
}

/// What stands before each message of a batch.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SingleMessageMetadata {
    #[prost(message, repeated, tag = "1")]
    pub properties: Vec<KeyValue>,
    #[prost(string, optional, tag = "2")]
    pub partition_key: Option<String>,
    #[prost(int32, required, tag = "3")]
    pub payload_size: i32,
    #[prost(bool, optional, tag = "4")]
    pub compacted_out: Option<bool>,
    #[prost(uint64, optional, tag = "5")]
    pub event_time: Option<u64>,
    #[prost(bool, optional, tag = "6")]
    pub partition_key_b64_encoded: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub ordering_key: Option<Bytes>,
    #[prost(uint64, optional, tag = "8")]
    pub sequence_id: Option<u64>,
    #[prost(bool, optional, tag = "9")]
    pub null_value: Option<bool>,
    #[prost(bool, optional, tag = "10")]
    pub null_partition_key: Option<bool>,
}

/// What a broker adds to what it has stored.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct BrokerEntryMetadata {
    #[prost(uint64, optional, tag = "1")]
    pub broker_timestamp: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub index: Option<u64>,
}

/// How a payload is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Compression {
    None = 0,
    Lz4 = 1,
    Zlib = 2,
    Zstd = 3,
    Snappy = 4,
}
