//! Commands that carom's client does not use and others do: SEEK, and those about schemas.
//!
//! Schemas are not kept: every topic has the first version of whatever is asked for.

use prost::Message;

/// The part of the protocol's envelope that `carom_pulsar::wire` leaves out.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Rare {
    #[prost(int32, required, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "28")]
    pub(super) seek: Option<Seek>,
    #[prost(message, optional, tag = "34")]
    pub(super) get_schema: Option<Request>,
    #[prost(message, optional, tag = "35")]
    pub(super) get_schema_response: Option<SchemaResponse>,
    #[prost(message, optional, tag = "39")]
    pub(super) get_or_create_schema: Option<Request>,
    #[prost(message, optional, tag = "40")]
    pub(super) get_or_create_schema_response: Option<CreatedSchema>,
}

pub(super) const GET_SCHEMA_RESPONSE: i32 = 35;
pub(super) const GET_OR_CREATE_SCHEMA_RESPONSE: i32 = 40;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Seek {
    #[prost(uint64, required, tag = "1")]
    pub(super) consumer_id: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) request_id: u64,
    #[prost(message, optional, tag = "3")]
    pub(super) message_id: Option<carom_pulsar::wire::MessageIdData>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) message_publish_time: Option<u64>,
}

/// A request of which only the number matters.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Request {
    #[prost(uint64, required, tag = "1")]
    pub(super) request_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchemaResponse {
    #[prost(uint64, required, tag = "1")]
    pub(super) request_id: u64,
    #[prost(int32, optional, tag = "2")]
    pub(super) error_code: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub(super) error_message: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreatedSchema {
    #[prost(uint64, required, tag = "1")]
    pub(super) request_id: u64,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) schema_version: Option<Vec<u8>>,
}
