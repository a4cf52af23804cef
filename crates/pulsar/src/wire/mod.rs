//! The wire: Pulsar's frames and commands, as bytes and as types.
//!
//! A frame is a [`BaseCommand`], with a message behind it when the command is [`Send`] or [`Message`]. The types are the part of
//! Pulsar's binary protocol that a client without transactions and schemas speaks; their fields are named and numbered as the
//! protocol has them. What is not known here decodes as a command without a body, not as an error.
//!
//! ```
//! use bytes::BytesMut;
//! use carom_pulsar::wire::{Codec, Command, Frame, Lookup};
//!
//! let codec = Codec::default();
//! let lookup = Lookup { topic: "persistent://public/default/orders".into(), request_id: 7, ..Lookup::default() };
//! let mut bytes = BytesMut::new();
//! codec.encode(&Frame::from(lookup), &mut bytes)?;
//!
//! let frame = codec.decode(&mut bytes)?.expect("a whole frame is there");
//! assert!(matches!(frame.command.body, Some(Command::Lookup(lookup)) if lookup.request_id == 7));
//! # Ok::<(), carom_pulsar::wire::WireError>(())
//! ```

mod batch;
mod command;
mod connect;
mod consume;
mod error;
mod frame;
mod lookup;
mod message;
mod produce;
mod server_error;

pub use batch::{batch, unbatch};
pub use command::{BaseCommand, Command, CommandType, Failure, Ping, Pong, Success};
pub use connect::{AuthChallenge, AuthData, AuthResponse, Connect, Connected, FeatureFlags};
pub use consume::{
    Ack, AckResponse, AckType, ActiveConsumerChange, CloseConsumer, Flow, GetLastMessageId, GetLastMessageIdResponse,
    InitialPosition, Message, ReachedEndOfTopic, RedeliverUnacknowledged, SubType, Subscribe, Unsubscribe,
};
pub use error::WireError;
pub use frame::{Codec, DEFAULT_MAX_MESSAGE_SIZE, FRAME_ALLOWANCE, Frame, MOST_MESSAGE_SIZE, Payload};
pub use lookup::{
    Lookup, LookupResponse, LookupType, NamespaceMode, PartitionedMetadata, PartitionedMetadataResponse,
    PartitionedType, TopicsOfNamespace, TopicsOfNamespaceResponse,
};
pub use message::{
    BrokerEntryMetadata, Compression, KeyLongValue, KeyValue, MessageIdData, MessageMetadata, SingleMessageMetadata,
};
pub use produce::{AccessMode, CloseProducer, Producer, ProducerSuccess, Send, SendError, SendReceipt};
pub use server_error::ServerError;

/// The version of the protocol that this client speaks: receipts for acknowledgements, brokers assigned on close.
pub const PROTOCOL_VERSION: i32 = 21;
