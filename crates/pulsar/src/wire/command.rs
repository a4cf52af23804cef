//! The envelope: which command a frame carries.

use super::connect::{AuthChallenge, AuthResponse, Connect, Connected};
use super::consume::{
    Ack, AckResponse, ActiveConsumerChange, CloseConsumer, Flow, GetLastMessageId, GetLastMessageIdResponse, Message,
    ReachedEndOfTopic, RedeliverUnacknowledged, Subscribe, Unsubscribe,
};
use super::lookup::{
    Lookup, LookupResponse, PartitionedMetadata, PartitionedMetadataResponse, TopicsOfNamespace,
    TopicsOfNamespaceResponse,
};
use super::produce::{CloseProducer, Producer, ProducerSuccess, Send, SendError, SendReceipt};
use super::server_error::ServerError;

/// A command of any kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BaseCommand {
    /// Which, as a number: see [`CommandType`]. It may be one that is not known here.
    #[prost(int32, required, tag = "1")]
    pub kind: i32,
    /// The command itself; `None` when it is not known here.
    #[prost(
        oneof = "Command",
        tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 27, 29, 30, 31, 32, 33, 36, 37, 38"
    )]
    pub body: Option<Command>,
}

impl BaseCommand {
    /// Which command it is, if it is known here.
    pub fn command_type(&self) -> Option<CommandType> {
        CommandType::try_from(self.kind).ok()
    }
}

/// Success of a request that has no answer of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Success {
    /// Which request.
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
}

/// Failure of a request (the protocol's `ERROR`). During the handshake it has no request to name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Failure {
    /// Which request.
    #[prost(uint64, required, tag = "1")]
    pub request_id: u64,
    /// Why: see [`ServerError`].
    #[prost(enumeration = "ServerError", required, tag = "2")]
    pub error: i32,
    /// The same for people.
    #[prost(string, required, tag = "3")]
    pub message: String,
}

/// Asks for a sign of life.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Ping {}

/// A sign of life.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Pong {}

macro_rules! commands {
    ($($name:ident = $tag:literal),* $(,)?) => {
        /// Which command, by its number on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
        #[repr(i32)]
        #[allow(missing_docs, reason = "each is documented where its type is")]
        pub enum CommandType {
            $($name = $tag,)*
        }

        impl Command {
            /// Its number on the wire.
            pub fn command_type(&self) -> CommandType {
                match self {
                    $(Command::$name(_) => CommandType::$name,)*
                }
            }
        }

        $(impl From<$name> for BaseCommand {
            fn from(body: $name) -> BaseCommand {
                BaseCommand { kind: CommandType::$name as i32, body: Some(Command::$name(body)) }
            }
        })*
    };
}

macro_rules! bodies {
    ($($name:ident = $tag:literal),* $(,)?) => {
        /// The commands that are known here. The number of each in the protocol is also its field in [`BaseCommand`].
        #[derive(Clone, PartialEq, prost::Oneof)]
        #[allow(missing_docs, reason = "each is documented where its type is")]
        #[allow(clippy::large_enum_variant, reason = "commands are taken apart as soon as they are read")]
        pub enum Command {
            $(#[prost(message, tag = $tag)] $name($name),)*
        }
    };
}

bodies! {
    Connect = "2", Connected = "3", Subscribe = "4", Producer = "5", Send = "6", SendReceipt = "7", SendError = "8", Message = "9",
    Ack = "10", Flow = "11", Unsubscribe = "12", Success = "13", Failure = "14", CloseProducer = "15", CloseConsumer = "16",
    ProducerSuccess = "17", Ping = "18", Pong = "19", RedeliverUnacknowledged = "20", PartitionedMetadata = "21",
    PartitionedMetadataResponse = "22", Lookup = "23", LookupResponse = "24", ReachedEndOfTopic = "27", GetLastMessageId = "29",
    GetLastMessageIdResponse = "30", ActiveConsumerChange = "31", TopicsOfNamespace = "32", TopicsOfNamespaceResponse = "33",
    AuthChallenge = "36", AuthResponse = "37", AckResponse = "38",
}

commands! {
    Connect = 2, Connected = 3, Subscribe = 4, Producer = 5, Send = 6, SendReceipt = 7, SendError = 8, Message = 9,
    Ack = 10, Flow = 11, Unsubscribe = 12, Success = 13, Failure = 14, CloseProducer = 15, CloseConsumer = 16,
    ProducerSuccess = 17, Ping = 18, Pong = 19, RedeliverUnacknowledged = 20, PartitionedMetadata = 21,
    PartitionedMetadataResponse = 22, Lookup = 23, LookupResponse = 24, ReachedEndOfTopic = 27, GetLastMessageId = 29,
    GetLastMessageIdResponse = 30, ActiveConsumerChange = 31, TopicsOfNamespace = 32, TopicsOfNamespaceResponse = 33,
    AuthChallenge = 36, AuthResponse = 37, AckResponse = 38,
}
