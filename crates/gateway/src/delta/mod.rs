//! Delta Exchange: derivatives of crypto currencies, over its public socket, which asks nobody who they are.
//!
//! A [`Feed`](carom::feed::Feed) with a [`Delta`] streams contracts of the exchange [`EXCHANGE`], under the names that OpenAlgo's
//! clients use or under Delta Exchange's own. [`Instruments`] knows these names, so that a wrong one is refused at once, with those
//! that come nearest.
//!
//! ```no_run
//! use carom::feed::{Feed, Mode, Topic};
//! use carom_gateway::delta::{Delta, EXCHANGE, Instruments};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // curl https://api.india.delta.exchange/v2/products > products.json
//! let instruments = Instruments::from_file("products.json")?;
//! let feed = Feed::builder(Delta::builder(instruments.into()).build()?).build()?;
//! let mut ticks = feed.ticks();
//! feed.subscribe(Topic::new(EXCHANGE, "BTCUSD", Mode::Quote)).await?;
//! println!("{:?}", ticks.next().await.unwrap().payload);
//! # Ok(()) }
//! ```
//!
//! # What becomes of what it says
//!
//! Prices and quotes come on the channel `ticker`, order books on `ob_l2`; whoever wants books is subscribed to both, as a book has
//! no last price. Each message says what has changed. What it does not mention stays, and what it says to have no value now is
//! left out; so every tick says all that is known. The price that a contract is valued at is its `ltp`, as OpenAlgo has it, and nothing
//! is said of a contract before that is known. Numbers keep their digits.

mod adapter;
mod asked;
mod carried;
mod halves;
mod instruments;
mod known;
mod late;
pub mod message;
mod spelling;

pub use adapter::{BuildError, Builder, Contracts, Delta, Malformed};
pub use halves::{Reader, Writer};
pub use instruments::{Instruments, InstrumentsError, Listed};

use std::time::Duration;

/// What the exchange of its contracts is called, in topics and by clients: as OpenAlgo calls it.
pub const EXCHANGE: &str = "CRYPTO";

/// Where the public socket of Delta Exchange India is.
pub const DEFAULT_URL: &str = "wss://public-socket.india.delta.exchange";

/// Longest message that is read, in bytes: a ticker may be about all options on something.
const LONGEST_MESSAGE: usize = 4 * 1024 * 1024;

/// How long answers are waited for, if nothing else is said: less than a feed waits for a write.
const ANSWER: Duration = Duration::from_secs(3);
