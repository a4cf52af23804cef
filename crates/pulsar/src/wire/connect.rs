//! The handshake, and proving who one is.
#![allow(missing_docs, reason = "the fields are the protocol's own")]

use bytes::Bytes;

/// The first command of a client.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Connect {
    #[prost(string, required, tag = "1")]
    pub client_version: String,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub auth_data: Option<Bytes>,
    #[prost(int32, optional, tag = "4")]
    pub protocol_version: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub auth_method_name: Option<String>,
    /// `host:port` of the broker that a proxy is asked to lead to.
    #[prost(string, optional, tag = "6")]
    pub proxy_to_broker_url: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub original_principal: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub feature_flags: Option<FeatureFlags>,
}

/// What a side can do beyond its protocol version.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct FeatureFlags {
    #[prost(bool, optional, tag = "1")]
    pub supports_auth_refresh: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    pub supports_broker_entry_metadata: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub supports_partial_producer: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub supports_topic_watchers: Option<bool>,
}

/// The broker's answer to [`Connect`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Connected {
    #[prost(string, required, tag = "1")]
    pub server_version: String,
    #[prost(int32, optional, tag = "2")]
    pub protocol_version: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub max_message_size: Option<i32>,
    #[prost(message, optional, tag = "4")]
    pub feature_flags: Option<FeatureFlags>,
}

/// The broker wants to know again who the client is; it may ask at any time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuthChallenge {
    #[prost(string, optional, tag = "1")]
    pub server_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub challenge: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub protocol_version: Option<i32>,
}

/// The client's answer to [`AuthChallenge`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuthResponse {
    #[prost(string, optional, tag = "1")]
    pub client_version: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub response: Option<AuthData>,
    #[prost(int32, optional, tag = "3")]
    pub protocol_version: Option<i32>,
}

/// A method of proving who one is, and the proof.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuthData {
    #[prost(string, optional, tag = "1")]
    pub auth_method_name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub auth_data: Option<Bytes>,
}
