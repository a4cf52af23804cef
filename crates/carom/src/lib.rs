//! Connections to services that run on many nodes.
//!
//! A program that talks to such a service has to find the nodes, connect, spread its load, notice death, retry without
//! storming, let go of what nobody uses, and say why when it fails. carom does that once, for every protocol.
//!
//! A [`Pool`] lends connections, one user at a time: HTTP/1, SQL, Redis, any stream.
//!
//! ```
//! use carom::Pool;
//! use carom::tcp::Tcp;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! # use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = TcpListener::bind("127.0.0.1:0").await?;
//! # let here = listener.local_addr()?;
//! # tokio::spawn(async move {
//! #     while let Ok((mut socket, _)) = listener.accept().await {
//! #         tokio::spawn(async move { let (mut read, mut write) = socket.split(); tokio::io::copy(&mut read, &mut write).await });
//! #     }
//! # });
//! # let nodes = [here];
//! // `nodes` are the addresses of the service: one, or many.
//! let pool = Pool::builder(Tcp::default()).backends(nodes).spares(2).maximum(8).build()?;
//!
//! let mut connection = pool.claim().await?; // waits its turn, at most 30 s; says why if it fails
//! connection.write_all(b"hello").await?;
//! let mut answer = [0; 5];
//! connection.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"hello");
//! drop(connection); // goes back, to whoever waits first
//! # Ok(()) }
//! ```
//!
//! A [`Set`] shares connections, many users on each, for protocols that multiplex: [`set`] shows one. A [`Feed`] packs many
//! subscriptions onto few connections: [`feed`] shows one.
//!
//! A [`Requester`] sends requests through sockets that are open for a few seconds only, to services whose nodes cannot afford
//! idle clients: [`window`] shows how.
//!
//! An `Agent` speaks HTTP over these: to every node that DNS knows of every origin it is asked for. It is in the module `agent`,
//! with the feature `http`.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `dns` (default) | backends from DNS: `service`, [`dns`] |
//! | `tls` | TLS over TCP, with rustls: [`tls`] |
//! | `http` | [`agent`]: HTTP/1.1 and HTTP/2; turns on `dns` and `tls` |
//! | `feed` | [`Feed`] |
//! | `window` | [`Requester`] |
//! | `bb8`, `deadpool` | connection managers written for these pools: [`managers`] |
//! | `metrics` | counters and histograms through the crate `metrics` |
//! | `serde` | serde's traits for the snapshots of the [`monitor`] |
//! | `kang` | the monitor over HTTP as kang's JSON: [`kang`] |
//!
//! The logic of all this is in [`carom_core`], free of I/O, where a whole service with failing nodes runs in a plain test;
//! this crate drives it on tokio.

#[cfg(feature = "http")]
pub mod agent;
mod building;
mod cause;
mod changing;
mod clock;
pub mod connect;
#[cfg(feature = "dns")]
pub mod dns;
#[cfg(feature = "feed")]
pub mod feed;
pub mod health_check;
#[cfg(feature = "kang")]
pub mod kang;
/// Foreign managers: those written for bb8 or deadpool, run over many nodes unchanged.
///
/// A manager of those pools knows one server. Here a function makes one manager for each backend, and the pool does the
/// rest: spreading, recovery, death, order. The module `moving` shows the way line by line.
#[cfg(any(feature = "bb8", feature = "deadpool"))]
pub mod managers {
    #[cfg(feature = "bb8")]
    pub mod bb8;
    #[cfg(feature = "deadpool")]
    pub mod deadpool;
    mod kept;
}
#[cfg(all(feature = "bb8", feature = "deadpool"))]
#[doc = include_str!("moving.md")]
pub mod moving {}
#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(feature = "metrics"))]
#[path = "meter_off.rs"]
mod meter;
pub mod monitor;
pub mod pool;
mod quiet;
mod ready;
pub mod resolver;
mod seed;
pub mod set;
pub mod tcp;
mod telling;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "window")]
pub mod window;

#[cfg(all(test, feature = "__shuttle"))]
mod interleavings;
#[cfg(all(test, feature = "__shuttle"))]
mod interleavings_of_sets;
#[cfg(not(all(test, feature = "__shuttle")))]
mod sync;
#[cfg(all(test, feature = "__shuttle"))]
#[path = "sync_shuttle.rs"]
mod sync;

pub use building::BuildError;
pub use carom_core::backend::Backend;
pub use carom_core::ejection::Ejection;
pub use carom_core::options::OptionsError;
pub use carom_core::pick::Pick;
pub use carom_core::recovery::{Policy, Recovery};
pub use cause::Cause;
pub use connect::{Connect, Liveness, connect_fn};
#[cfg(feature = "feed")]
pub use feed::Feed;
pub use health_check::HealthCheck;
pub use monitor::Monitor;
pub use pool::{Claim, ClaimError, ClaimOptions, Pool};
pub use ready::{ReadyError, Unready};
pub use resolver::Resolve;
pub use set::{Lease, LeaseError, Set, Share};
#[cfg(feature = "window")]
pub use window::{RequestError, Requester, Transport};
