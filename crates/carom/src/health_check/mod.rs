//! Active health checks: every known backend is checked at an interval, whether or not it is in use.
//!
//! A health check tests the backend, not one connection. Two failed checks in a row make a backend unhealthy: it gets no traffic and
//! its idle connections close. Two passed ones make it healthy again. While more than half of the backends are unhealthy or ejected,
//! all are used.
//!
//! A check finds what connections and uses do not show: a backend that accepts connections and cannot serve, before a user meets it.
//! The [`check`](crate::Connect::check) of a connector is something else: it tests one idle connection.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carom::health_check::{HealthCheck, Schedule};
//! use carom::{Pool, tcp::Tcp};
//! use std::time::Duration;
//!
//! // Redis answers PING with +PONG, also while it loads its data set: then with an error.
//! let check = HealthCheck::send_expect("PING\r\n", "+PONG").schedule(Schedule::default().interval(Duration::from_secs(2)));
//! let pool = Pool::builder(Tcp::default())
//!     .backends(["10.0.0.1:6379".parse::<std::net::SocketAddr>()?, "10.0.0.2:6379".parse()?])
//!     .health_check(check)
//!     .build()?;
//! # let _ = pool;
//! # Ok(()) }
//! ```

mod runner;
mod tcp;

pub use carom_core::health_check::Schedule;

pub(crate) use runner::{Checked, Runner};

use crate::Backend;
use crate::cause::Reason;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

type Checking = Pin<Box<dyn Future<Output = Result<(), Reason>> + Send>>;

/// What a health check does, and when. See the [module](self).
#[derive(Clone)]
pub struct HealthCheck {
    pub(crate) probe: Probe,
    pub(crate) schedule: Schedule,
}

/// What a health check does.
#[derive(Clone)]
pub(crate) enum Probe {
    /// Connects with the connector of the pool or set, and runs its `check`.
    Connector,
    Function(Arc<dyn Fn(Backend) -> Checking + Send + Sync>),
}

impl HealthCheck {
    /// Connects with the connector of the pool or set, runs its [`check`](crate::Connect::check) if it has one, and closes the
    /// connection. It is not a connection of the pool: `maximum` does not limit it.
    pub fn connector() -> HealthCheck {
        HealthCheck { probe: Probe::Connector, schedule: Schedule::default() }
    }

    /// Connects over TCP and closes the connection.
    pub fn tcp() -> HealthCheck {
        HealthCheck::send_expect(Vec::new(), Vec::new())
    }

    /// Connects over TCP, sends these bytes, and reads until the received bytes contain the expected ones. Fails if the backend closes
    /// the connection before, or sends 64 KiB without them.
    pub fn send_expect(send: impl Into<Vec<u8>>, expect: impl Into<Vec<u8>>) -> HealthCheck {
        let (send, expect): (Arc<[u8]>, Arc<[u8]>) = (send.into().into(), expect.into().into());
        HealthCheck::custom(move |backend| tcp::send_expect(backend, Arc::clone(&send), Arc::clone(&expect)))
    }

    /// Calls a function for each check. Cancel safety: its future is dropped at the timeout.
    pub fn custom<F, Fut, E>(check: F) -> HealthCheck
    where
        F: Fn(Backend) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Error + Send + Sync + 'static,
    {
        let function = move |backend| -> Checking {
            let checking = check(backend);
            Box::pin(async move { checking.await.map_err(|error| Arc::new(error) as Reason) })
        };
        HealthCheck { probe: Probe::Function(Arc::new(function)), schedule: Schedule::default() }
    }

    /// When the check runs, and how many results in a row decide. Default: every 5 s with a timeout of 2 s; 2 results in a row.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> HealthCheck {
        self.schedule = schedule;
        self
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}
