//! Buses on NATS: one connection to its servers for ticks, and on it a bus for each user at a broker.
//!
//! What is published on the bus of a user is heard on the buses of the same user in other processes. Ticks have an epoch in their
//! [subject](subject), so that those of a gateway that does not own the upstream any more can be told from its successor's;
//! without an [election](crate::cluster) it is 0, and everybody's ticks count.
//!
//! Whoever may publish under the prefix is believed: let NATS' permissions keep everybody else out.

mod access;
#[cfg(feature = "nats")]
mod client;
#[cfg_attr(not(feature = "nats"), path = "connection_off.rs")]
mod connection;
mod options;
pub(crate) mod post;
#[cfg(feature = "nats")]
mod reports;
pub(crate) mod scope;
pub(crate) mod subject;

#[cfg(test)]
pub(crate) mod town;

pub use connection::Nats;
pub use options::{NatsError, NatsOptions};
pub use post::PostError;
pub use scope::{NatsBus, NatsStatus};
