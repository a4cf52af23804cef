//! Resolvers: who serves a service at present.
//!
//! A resolver publishes the whole current set of backends whenever it changes; whoever follows it works out the
//! difference. The latest set wins, so a slow follower misses nothing but history. A resolver says who exists; whether
//! they work is found out by whoever connects to them.
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

mod fixed;

pub use fixed::Fixed;

use crate::Backend;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Finds out who serves, and publishes it.
pub trait Resolve: Send + 'static {
    /// Runs for as long as somebody follows; dropped, at any await, when nobody does any more. When it returns, what it
    /// published last stays.
    fn run(self, publisher: Publisher) -> impl Future<Output = ()> + Send;
}

/// Where a resolver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolverState {
    /// No answer yet.
    Starting,
    /// It has answered. Later trouble makes the answer stale, not failed.
    Running,
    /// It has never answered, and its attempts failed.
    Failed,
}

/// What a resolver knows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resolution {
    /// Where it is.
    pub state: ResolverState,
    /// Who serves.
    pub backends: Arc<[Backend]>,
    /// Its latest trouble, if it has not succeeded since.
    pub last_error: Option<Arc<dyn Error + Send + Sync>>,
    /// Since when the backends may be out of date.
    pub stale_since: Option<Instant>,
}

impl Resolution {
    fn unknown() -> Resolution {
        Resolution { state: ResolverState::Starting, backends: Arc::new([]), last_error: None, stale_since: None }
    }
}

/// Where a resolver puts what it knows.
#[derive(Debug)]
pub struct Publisher {
    sender: watch::Sender<Resolution>,
}

impl Publisher {
    pub(crate) fn new() -> (Publisher, watch::Receiver<Resolution>) {
        let (sender, receiver) = watch::channel(Resolution::unknown());
        (Publisher { sender }, receiver)
    }

    /// The whole current set. It may be empty: then nobody serves, which is an answer too.
    pub fn publish(&self, backends: impl IntoIterator<Item = Backend>) {
        self.sender.send_replace(Resolution {
            state: ResolverState::Running,
            backends: backends.into_iter().collect(),
            last_error: None,
            stale_since: None,
        });
    }

    /// Finding out failed. What was known stays, as stale; a resolver that never knew anything has failed.
    pub fn fail(&self, error: impl Into<Box<dyn Error + Send + Sync>>) {
        let error: Arc<dyn Error + Send + Sync> = error.into().into();
        self.sender.send_modify(|resolution| {
            resolution.last_error = Some(error);
            match resolution.state {
                ResolverState::Starting | ResolverState::Failed => resolution.state = ResolverState::Failed,
                ResolverState::Running => {
                    resolution.stale_since.get_or_insert_with(crate::clock::now);
                }
            }
        });
    }

    /// Resolves when nobody follows any more.
    pub async fn abandoned(&self) {
        self.sender.closed().await;
    }
}
