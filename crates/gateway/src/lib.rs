//! A market-data gateway: OpenAlgo's clients on one side, a [`Feed`](carom::feed::Feed) for each user at a broker on the other.

mod builder;
mod carrier;
mod client;
pub mod credential;
mod frame;
mod gateway;
mod hub;
pub mod keys;
mod mailbox;
mod options;
pub mod protocol;
mod roll;
mod server;
mod shared;
pub mod simulated;
mod snapshot;
mod source;
pub mod tables;
mod tls;
mod transport;
mod wire;

pub use builder::{Builder, DEFAULT_LISTEN, StartError};
pub use gateway::Gateway;
pub use options::Limits;
pub use snapshot::{FeedSnapshot, Snapshot};
pub use tls::TlsError;
