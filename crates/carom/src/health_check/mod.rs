//! Active health checks: every known backend is checked at an interval, whether or not it is in use.
//!
//! A health check tests the backend, not one connection. Two failed checks in a row make a backend unhealthy: it gets no traffic and
//! its idle connections close. Two passed ones make it healthy again. While more than half of the backends are unhealthy or ejected,
//! all are used.
//!
//! A check finds what connections and uses do not show: a backend that accepts connections and cannot serve, before a user meets it.
//! A [requester](crate::window) asks unhealthy nodes last. A [feed](crate::feed) has no checks: its adapter knows the upstream, and
//! the feed has no other to turn to.
//!
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

pub(crate) use runner::{Checked, Runner, by_connector};

use crate::Backend;
use crate::cause::Reason;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// The future of a check.
type Checking = Pin<Box<dyn Future<Output = Result<(), Reason>> + Send>>;

/// What a health check does, and when. See the [module](self). `N` is what is checked: a backend, or a node of a
/// [requester](crate::window).
pub struct HealthCheck<N = Backend> {
    pub(crate) probe: Probe<N>,
    pub(crate) schedule: Schedule,
    pub(crate) observer: Option<Observer<N>>,
}

/// Called after every check: with what was checked, whether the check passed, and whether the backend is unhealthy since then.
pub(crate) type Observer<N> = Arc<dyn Fn(&N, bool, bool) + Send + Sync>;

/// What a health check does.
pub(crate) enum Probe<N> {
    /// Connects with the connector of the pool or set, and runs its `check`; opens a socket with the transport of the requester.
    Connector,
    Function(Arc<dyn Fn(Arc<N>) -> Checking + Send + Sync>),
}

impl HealthCheck {
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
        HealthCheck::custom_of(move |backend| check(Backend::clone(&backend)))
    }
}

impl<N> HealthCheck<N> {
    /// Connects with the connector of the pool or set, runs its [`check`](crate::Connect::check) if it has one, and closes the
    /// connection. It is not a connection of the pool: `maximum` does not limit it. For a requester: opens a socket, with a fresh
    /// identity, and closes it.
    pub fn connector() -> HealthCheck<N> {
        HealthCheck { probe: Probe::Connector, schedule: Schedule::default(), observer: None }
    }

    /// As [`custom`](HealthCheck::custom), for nodes of any kind.
    pub fn custom_of<F, Fut, E>(check: F) -> HealthCheck<N>
    where
        F: Fn(Arc<N>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Error + Send + Sync + 'static,
    {
        let function = move |node| -> Checking {
            let checking = check(node);
            Box::pin(async move { checking.await.map_err(|error| Arc::new(error) as Reason) })
        };
        HealthCheck { probe: Probe::Function(Arc::new(function)), schedule: Schedule::default(), observer: None }
    }

    /// When the check runs, and how many results in a row decide. Default: every 5 s with a timeout of 2 s; 2 results in a row.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> HealthCheck<N> {
        self.schedule = schedule;
        self
    }

    /// Calls this after every check.
    #[cfg(feature = "http")]
    pub(crate) fn observed_by(self, observer: impl Fn(&N, bool, bool) + Send + Sync + 'static) -> HealthCheck<N> {
        HealthCheck { observer: Some(Arc::new(observer)), ..self }
    }
}

impl<N> Clone for HealthCheck<N> {
    fn clone(&self) -> HealthCheck<N> {
        HealthCheck { probe: self.probe.clone(), schedule: self.schedule.clone(), observer: self.observer.clone() }
    }
}

impl<N> Clone for Probe<N> {
    fn clone(&self) -> Probe<N> {
        match self {
            Probe::Connector => Probe::Connector,
            Probe::Function(function) => Probe::Function(Arc::clone(function)),
        }
    }
}

impl<N> fmt::Debug for HealthCheck<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}
