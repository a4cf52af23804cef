//! Resolvers: who serves a service at present.
//!
//! A resolver publishes the whole current set of backends whenever it changes; whoever follows it works out the
//! difference. The latest set wins, so a slow follower misses nothing but history. A resolver says who exists; whether
//! they work is found out by whoever connects to them.
//!
//! [`Fixed`] knows its list beforehand, [`Dns`](crate::dns::Dns) asks nameservers, and [`Remembered`] makes another survive a
//! restart without them. A pool takes any of them; started on its own, one is a [`Resolver`], which several pools can share:
//!
//! ```
//! use carom::resolver::{Change, Fixed, Resolver};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let resolver = Resolver::start(Fixed::parse(["127.0.0.1:2020"], 80)?)?;
//! let mut changes = resolver.changes();
//! let Some(Change::Insert(backend)) = changes.next().await else { panic!() };
//! assert_eq!(backend.to_string(), "127.0.0.1:2020");
//! # Ok(()) }
//! ```
//!
//! Write one by implementing [`Resolve`]:
//!
//! ```
//! use carom::resolver::{Publisher, Resolve};
//! use carom::Backend;
//! use std::time::Duration;
//!
//! /// Reads the addresses from somewhere every minute.
//! struct Polled;
//!
//! impl Resolve for Polled {
//!     async fn run(self, publisher: Publisher) {
//!         loop {
//!             let address = "10.0.0.1:80".parse().unwrap();
//!             publisher.publish([Backend::new("node-1", address)]);
//!             tokio::time::sleep(Duration::from_secs(60)).await;
//!         }
//!     }
//! }
//! ```

mod changes;
mod fixed;
mod handle;
mod key;
mod name;
mod publisher;
pub(crate) mod record;
mod remembered;
pub(crate) mod source;
mod telling;

pub use carom_core::resolver::{Detail, Via};
pub use changes::{Change, Changes};
pub use fixed::Fixed;
pub use handle::{Resolver, ResolverEnded, StartError, Stopped, WeakResolver};
pub use key::BackendKey;
pub use name::{Input, InputError, ServiceName};
pub use publisher::Publisher;
pub use remembered::Remembered;

use crate::Backend;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

/// Finds out who serves, and publishes it.
pub trait Resolve: Send + 'static {
    /// Runs for as long as somebody follows; dropped, at any await, when nobody does any more. When it returns, what it
    /// published last stays; if that was nothing, it has failed.
    fn run(self, publisher: Publisher) -> impl Future<Output = ()> + Send;
}

/// Where a resolver is.
///
/// ```text
///  Starting ----> Running ----+
///     |              ^        |  stop, or nobody holds it any more
///     +--> Failed ---+        +----> Stopping ----> Stopped
///             |               |
///             +---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolverState {
    /// No answer yet.
    Starting,
    /// It has answered. Later trouble makes the answer stale, not failed.
    Running,
    /// It has never answered, and its attempts failed.
    Failed,
    /// It was told to stop.
    Stopping,
    /// It has stopped. What it said last stays, and grows old.
    Stopped,
}

/// What a resolver knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resolution {
    /// Where it is.
    pub state: ResolverState,
    /// Who serves.
    pub backends: Arc<[Backend]>,
    /// Where each backend is known from, in the same order, if the resolver says so: DNS does. A change of these alone is
    /// not published.
    pub details: Arc<[Detail]>,
    /// Its latest trouble, if it has not succeeded since.
    pub last_error: Option<Arc<dyn Error + Send + Sync>>,
    /// Since when the backends may be out of date.
    pub stale_since: Option<Instant>,
    /// Whether everything there is to ask has been tried. A set may be published before, when some of it is slow.
    pub complete: bool,
}

impl Resolution {
    fn unknown() -> Resolution {
        Resolution {
            state: ResolverState::Starting,
            backends: Arc::new([]),
            details: Arc::new([]),
            last_error: None,
            stale_since: None,
            complete: false,
        }
    }
}
