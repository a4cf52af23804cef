//! Peers and helpers for carom's own tests. Peers are made of memory where time is paused, and of sockets where it is not.
//!
//! Features select the peers, so that a crate's tests build only what they use.

#[cfg(feature = "backends")]
pub mod backends;
pub mod cases;
#[cfg(feature = "clock")]
pub mod clock;
#[cfg(feature = "delta")]
pub mod delta;
#[cfg(feature = "dns")]
pub mod dns;
#[cfg(feature = "feed")]
pub mod feed;
mod free_address;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "indy")]
pub mod indy;
#[cfg(feature = "kite")]
pub mod kite;
#[cfg(feature = "listening")]
mod listening;
#[cfg(feature = "logs")]
pub mod logs;
#[cfg(feature = "nodes")]
pub mod nodes;
#[cfg(feature = "pulsar")]
pub mod pulsar;
#[cfg(feature = "shared")]
mod shared;
mod skip;
pub mod temp_dir;
pub mod wait;

pub use free_address::free_address;
pub use skip::skip;
