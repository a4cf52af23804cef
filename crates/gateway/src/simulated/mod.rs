//! A simulated exchange: seeded prices, an upstream server of its own, and the adapter that speaks to it.
//!
//! A feed is to be tried where nothing is at stake, against an upstream that has limits and fails on demand. An [`Exchange`]
//! lists thousands of symbols whose prices follow from a seed, serves them over WebSockets on this machine, and keeps to its
//! limits as brokers do. [`Simulated`] is the [`Adapter`](carom::feed::Adapter) that speaks to it, as others speak to theirs.
//!
//! ```
//! use carom::feed::{Feed, Mode, Topic};
//! use carom_gateway::credential::Credential;
//! use carom_gateway::simulated::{Exchange, Options, Simulated};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let exchange = Exchange::start(Options::default().token("today's".to_owned())).await?;
//! let adapter = Simulated::new(&exchange.url(), Credential::fixed("today's"))?;
//! let feed = Feed::builder(adapter).build()?;
//! let mut ticks = feed.ticks();
//! feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp)).await?;
//! assert_eq!(ticks.next().await.unwrap().instrument.symbol(), "SBIN");
//!
//! exchange.kill(1); // the feed opens another connection, and ticks go on
//! # Ok(()) }
//! ```

mod adapter;
mod connection;
mod exchange;
mod floor;
mod market;
mod options;
mod payload;
mod server;
mod symbols;
mod token;
mod walk;
mod wire;
mod world;

pub use adapter::{Simulated, UpstreamError, UrlError};
pub use exchange::{Exchange, LineSnapshot, Snapshot, StartError};
pub use market::{Market, SymbolId};
pub use options::Options;
