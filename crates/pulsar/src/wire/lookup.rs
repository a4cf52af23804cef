//! Finding out: how many partitions a topic has, which broker owns it, which topics there are.
#![allow(missing_docs, reason = "the fields are the protocol's own")]

use super::server_error::ServerError;

/// How many partitions has this topic?
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartitionedMetadata {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// Whether the topic may be created by asking; the protocol's default is yes.
    #[prost(bool, optional, tag = "6")]
    pub metadata_auto_creation_enabled: Option<bool>,
}

/// The answer to [`PartitionedMetadata`]: 0 partitions mean that it is one topic by itself.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PartitionedMetadataResponse {
    #[prost(uint32, optional, tag = "1")]
    pub partitions: Option<u32>,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    #[prost(enumeration = "PartitionedType", optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(enumeration = "ServerError", optional, tag = "4")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub message: Option<String>,
}

/// How a [`PartitionedMetadata`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PartitionedType {
    Success = 0,
    Failed = 1,
}

/// Which broker owns this topic (or partition)?
#[derive(Clone, PartialEq, prost::Message)]
pub struct Lookup {
    #[prost(string, required, tag = "1")]
    pub topic: String,
    #[prost(uint64, required, tag = "2")]
    pub request_id: u64,
    /// Whether the broker asked is to answer for itself, as the one that redirected here said.
    #[prost(bool, optional, tag = "3")]
    pub authoritative: Option<bool>,
    #[prost(string, optional, tag = "7")]
    pub advertised_listener_name: Option<String>,
}

/// The answer to [`Lookup`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct LookupResponse {
    #[prost(string, optional, tag = "1")]
    pub broker_service_url: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub broker_service_url_tls: Option<String>,
    #[prost(enumeration = "LookupType", optional, tag = "3")]
    pub response: Option<i32>,
    #[prost(uint64, required, tag = "4")]
    pub request_id: u64,
    #[prost(bool, optional, tag = "5")]
    pub authoritative: Option<bool>,
    #[prost(enumeration = "ServerError", optional, tag = "6")]
    pub error: Option<i32>,
    #[prost(string, optional, tag = "7")]
    pub message: Option<String>,
    /// The broker is reached through the address that was asked, which is a proxy's.
    #[prost(bool, optional, tag = "8")]
    pub proxy_through_service_url: Option<bool>,
}

/// How a [`Lookup`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LookupType {
    /// Ask the broker named.
    Redirect = 0,
    /// The broker named owns it.
    Connect = 1,
    Failed = 2,
}

/// Which topics has this namespace?
#[derive(Clone, PartialEq, prost::Message)]
pub struct TopicsOfNamespace {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, required, tag = "2")]
    pub namespace: String,
    #[prost(enumeration = "NamespaceMode", optional, tag = "3")]
    pub mode: Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub topics_pattern: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub topics_hash: Option<String>,
}

/// Which kinds of topics a [`TopicsOfNamespace`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum NamespaceMode {
    Persistent = 0,
    NonPersistent = 1,
    All = 2,
}

/// The answer to [`TopicsOfNamespace`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct TopicsOfNamespaceResponse {
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    #[prost(string, repeated, tag = "2")]
    pub topics: Vec<String>,
    #[prost(bool, optional, tag = "3")]
    pub filtered: Option<bool>,
    #[prost(string, optional, tag = "4")]
    pub topics_hash: Option<String>,
    #[prost(bool, optional, tag = "5")]
    pub changed: Option<bool>,
}
