//! ZeroMQ's protocol (ZMTP 3) without ZeroMQ: each end of a connection is a machine that takes and gives bytes.
//!
//! - `curve` (a feature): a DEALER and a ROUTER, encrypted, as Hyperledger Indy's nodes speak.
//! - [`pubsub`]: a PUB and a SUB, not encrypted, as programs on one machine speak.
//!
//! A socket here is one connection: opened when it is made and closed when it is dropped. What ZeroMQ does beyond that (queues,
//! reconnecting, many peers behind one socket) is up to whoever holds it.

mod command;
#[cfg(feature = "curve")]
pub mod curve;
mod error;
mod frame;
mod greeting;
mod link;
pub mod pubsub;

pub use error::{SocketError, ZmtpError};
