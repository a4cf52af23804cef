//! A market-data gateway: OpenAlgo's clients on one side, a [`Feed`](carom::feed::Feed) for each user at a broker on the other.
//!
//! Brokers let a user have a thousand symbols on a connection, and a handful of connections; a user has many programs that want
//! prices. A [`Gateway`] is one WebSocket server for all of them: each says who it is with a key, subscribes, and gets ticks of
//! its own user's feed, in OpenAlgo's protocol, so that the clients published for OpenAlgo need not be changed.
//!
//! ```
//! use carom::feed::Feed;
//! use carom_gateway::Gateway;
//! use carom_gateway::credential::Credential;
//! use carom_gateway::keys::{Identity, Keys, NewKey};
//! use carom_gateway::simulated::{Exchange, Options, Simulated};
//! use futures_util::{SinkExt, StreamExt};
//! use std::net::Ipv4Addr;
//! use std::time::{Duration, Instant};
//! use tokio::net::TcpStream;
//! use tokio_tungstenite::{client_async, tungstenite::Message};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An upstream to try it on, a feed that packs topics onto its connections, and a key for its user.
//! let exchange = Exchange::start(Options::default().token("today's".to_owned())).await?;
//! let feed = Feed::builder(Simulated::new(&exchange.url(), Credential::fixed("today's"))?).build()?;
//! let key = NewKey::generate()?;
//! let keys = Keys::in_memory([(Identity::new("simulated", "demo"), key.sha256())]);
//! let gateway = Gateway::builder()
//!     .listen((Ipv4Addr::LOCALHOST, 0))
//!     .keys(keys)
//!     .feed("simulated", "demo", feed)
//!     .start()
//!     .await?;
//!
//! // What a client does.
//! let address = gateway.local_addr();
//! let (mut client, _) = client_async(format!("ws://{address}"), TcpStream::connect(address).await?).await?;
//! let authenticate = format!(r#"{{"action":"authenticate","api_key":"{}"}}"#, key.reveal());
//! client.send(Message::text(authenticate)).await?;
//! let subscribe = r#"{"action":"subscribe","symbols":[{"symbol":"SBIN","exchange":"NSE"}],"mode":"LTP"}"#;
//! client.send(Message::text(subscribe)).await?;
//! for begins in [r#"{"type":"auth","status":"success""#, r#"{"type":"subscribe","status":"success""#, r#"{"type":"market_data""#] {
//!     let said = client.next().await.unwrap()?.into_text()?;
//!     assert!(said.starts_with(begins), "{said}");
//! }
//!
//! assert_eq!((gateway.snapshot().clients, gateway.snapshot().subscriptions), (1, 1));
//! drop(client);
//! gateway.stop(Instant::now() + Duration::from_secs(5)).await;
//! # Ok(()) }
//! ```
//!
//! # The way of a tick
//!
//! ```text
//! upstream -> feed -> bus of its user -> hub: who wants it? -> a frame for each mode -> mailboxes -> sockets
//! ```
//!
//! Nobody on this way waits for anybody behind it. A client that keeps up gets every tick. When more than 256 messages or 1 MiB wait
//! for a client, or the oldest waits for more than 250 ms, its ticks are conflated: a newer one replaces the unsent one of the same
//! topic and mode, until the client has caught up. Ticks on the bus are conflated when the gateway itself is that late. Both are
//! counted. Replies and order updates are not conflated. A client that does not read costs the others nothing, and is closed after
//! [`slow_after`](Builder::slow_after).
//!
//! # Where it differs from OpenAlgo
//!
//! - `authenticate` is answered at once, as the upstream is connected to when somebody subscribes; a wrong key is answered with
//!   `"type":"auth"`, later each time, and guessing is closed with 1008.
//! - Ticks of one user are never sent to another. Each client gets one message for each tick and each mode it subscribed to.
//! - The reply to `subscribe` comes when the upstream has answered, or after the feed's
//!   [`pending_after`](carom::feed::Builder::pending_after); ticks come after it, the last known one first
//!   ([`snapshot_on_subscribe`](Builder::snapshot_on_subscribe)). An entry that the upstream has not accepted by then has
//!   `"status":"success"`, as it will be subscribed, and `"pending":true` with a `"message"` that says why it is not yet: the
//!   upstream cannot be reached, refuses the credential, or has not answered.
//! - A `request_id` comes back in every reply, refusals and pongs included, but not when a key is accepted.
//! - `get_subscriptions` is new. There are [`Limits`], each of which names itself when it is met.
//! - Messages are not compressed, also when a client offers that.

mod accepting;
pub mod address;
mod builder;
pub mod bus;
mod carrier;
mod client;
// Only a client of NATS makes shares.
#[cfg_attr(not(feature = "nats"), allow(dead_code))]
pub mod cluster;
pub mod credential;
pub mod delta;
mod frame;
mod gateway;
mod hub;
pub mod keys;
pub mod kite;
mod mailbox;
mod no_upgrade;
mod nonsense;
mod options;
pub mod protocol;
mod resuming;
mod roll;
mod server;
mod shared;
mod sight;
pub mod simulated;
mod snapshot;
mod source;
pub mod tables;
mod tls;
mod transport;
mod troubles;
pub mod upstream;
mod wire;

pub use builder::{Builder, DEFAULT_LISTEN, StartError};
pub use gateway::Gateway;
pub use options::Limits;
pub use snapshot::{FeedSnapshot, Snapshot};
pub use tls::{TlsError, check_certificate};
