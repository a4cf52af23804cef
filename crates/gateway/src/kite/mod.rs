//! Zerodha's Kite: its binary ticker, as an upstream of a feed.
//!
//! Kite lets a user have three connections with three thousand instruments each, and streams each instrument in one mode: that of
//! whoever wants the most. A [`Feed`](carom::feed::Feed) sees to the limits; [`Kite`] is the [`Adapter`](carom::feed::Adapter) that
//! speaks to it, [`Instruments`] knows the tokens that it knows symbols by, and [`packet`] its bytes.
//!
//! ```no_run
//! use carom::feed::{Feed, Mode, Topic};
//! use carom_gateway::credential::Credential;
//! use carom_gateway::kite::{self, Instruments, Kite};
//! use std::sync::Arc;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let instruments = Arc::new(Instruments::from_file("instruments.csv")?); // as Kite publishes it every morning
//! let token = Credential::file("access_token");                      // read again when Kite refuses it
//! let kite = Kite::builder("my_api_key", token.clone(), instruments).build()?;
//! let feed = Feed::builder(kite)
//!     .max_topics_per_connection(kite::MOST_INSTRUMENTS)
//!     .max_connections(kite::MOST_CONNECTIONS)
//!     .build()?;
//! let _watcher = token.watch(&feed);
//! feed.subscribe(Topic::new("NSE", "SBIN", Mode::Quote)).await?;
//! # Ok(()) }
//! ```
//!
//! # What is not passed on
//!
//! Kite sends what becomes of orders on every connection, as text. An adapter speaks of ticks alone, so these are
//! [counted](Counts::orders) and dropped. What makes no sense is counted too, and a warning is logged now and then; it is no sign of
//! life.
//!
//! # Secrets
//!
//! Kite wants key and token in the address that is asked for. They are never in errors, logs or `Debug` of this crate. The WebSocket
//! library beneath writes requests to the `log` crate at level `trace`: whoever forwards that should leave out `tungstenite`.

mod adapter;
mod carried;
mod counts;
mod instruments;
mod listing;
pub mod packet;
mod payload;
mod request;

pub use adapter::{Account, BuildError, Builder, Kite, Reader, Writer};
pub use counts::Counts;
pub use instruments::{Instruments, InstrumentsError};
pub use listing::Listing;

/// Where Kite is.
pub const DEFAULT_URL: &str = "wss://ws.kite.trade";

/// Most instruments that Kite allows on one connection.
pub const MOST_INSTRUMENTS: usize = 3_000;

/// Most connections that Kite allows for one API key.
pub const MOST_CONNECTIONS: usize = 3;
