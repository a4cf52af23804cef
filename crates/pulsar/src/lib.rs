//! A client for Apache Pulsar that shares its connections and lets go of those that nobody uses.
//!
//! Topics of a Pulsar cluster move between brokers, and a client that follows them is left with a connection to every broker
//! that ever owned one. Here each producer, each consumer and each request under way holds a [lease](carom::Lease) of its
//! connection, and nothing else counts as use: what nobody holds any more is released after `connection_max_idle`.
//!
//! ```no_run
//! use carom_pulsar::Client;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("pulsar://broker.example.com:6650").build()?;
//!
//! let mut consumer = client.consumer("orders", "kitchen").await?; // of what is sent from now on
//!
//! let producer = client.producer("orders").await?;
//! let receipt = producer.send("one coffee").await?; // stored: this is where
//!
//! let message = consumer.next().await?;
//! println!("{receipt}: {:?}", message.payload);
//! consumer.ack(&message).await?;
//! # Ok(()) }
//! ```
//!
//! A topic that moves is looked up again, what was not receipted is sent again in order with the same numbers, and every `send`
//! ends with a receipt or an error. What is said on the wire is in [`wire`].

mod address;
mod client;
mod connection;
mod connector;
mod consumer;
mod error;
mod hosts;
mod message_id;
mod producer;
mod topic;
pub mod wire;

pub use address::AddressError;
pub use client::{BuildError, Builder, Client};
pub use connection::ConnectionError;
pub use consumer::{Consumer, ConsumerBuilder, Delivered, Message};
pub use error::Error;
pub use message_id::MessageId;
pub use producer::{Outgoing, Producer, ProducerBuilder, Sending};
pub use topic::TopicError;
pub use wire::{InitialPosition, ServerError, SubType};
