//! Managers written for bb8: [`from_managers`] makes a connector of them, one manager for each backend.
//!
//! `connect` connects, within the pool's recovery policy. `has_broken` is asked when a claim comes back, and each
//! time an idle connection is claimed. `is_valid` runs in the background, within `check_timeout`: after `check_after` of idling, and after
//! a use, before the connection is lent again,
//!
//! - if it was last run more than 500 ms ago ([`validate_every`](FromManagers::validate_every)),
//! - if the use took less than a quarter of the backend's mean: it may have failed at once,
//! - and for 10 s after a connection of the backend broke or was not valid, or a connect to it failed.
//!
//! A connection that has broken or is not valid is replaced. Many managers cannot tell that a connection has broken, so this is how a
//! node that died under load is noticed: a use counts as failed if its connection is not valid after it, or if the use was that short and
//! its connection has broken. A connection that had served other uses, and is gone after a use of usual length, does not count: its server
//! may have closed it. The manager's errors are the connector's: `source()` of a
//! [`ClaimError`](crate::ClaimError) can be downcast to them.
//!
//! ```
//! use carom::managers::bb8::from_managers;
//! use carom::{Backend, Pool};
//!
//! // Any manager does; this one's connections are just the name of where they lead to.
//! struct Manager {
//!     server: String,
//! }
//!
//! impl bb8::ManageConnection for Manager {
//!     type Connection = String;
//!     type Error = std::io::Error;
//!
//!     async fn connect(&self) -> Result<String, std::io::Error> {
//!         Ok(self.server.clone())
//!     }
//!     async fn is_valid(&self, _: &mut String) -> Result<(), std::io::Error> {
//!         Ok(())
//!     }
//!     fn has_broken(&self, _: &mut String) -> bool {
//!         false
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes: [std::net::SocketAddr; 2] = ["10.0.0.1:5432".parse()?, "10.0.0.2:5432".parse()?];
//! let connector = from_managers(|backend: &Backend| Manager { server: backend.socket_addr().to_string() });
//! let pool = Pool::builder(connector).backends(nodes).spares(1).maximum(2).build()?;
//!
//! let one = pool.claim().await?;
//! let other = pool.claim().await?;
//! assert_ne!(**one, **other); // spread over both
//! # Ok(()) }
//! ```

use super::kept::Kept;
use crate::Backend;
use crate::connect::{Connect, Liveness};
use ::bb8::ManageConnection;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// A connector made of managers: `make` is called once for each backend, when it is first connected to. A manager is
/// forgotten 5 to 10 minutes after its last connection, and made again if its backend is dialled after that.
pub fn from_managers<M, F>(make: F) -> FromManagers<M>
where
    M: ManageConnection,
    M::Error: Error + Sync,
    F: Fn(&Backend) -> M + Send + Sync + 'static,
{
    try_from_managers(move |backend| Ok(make(backend)))
}

/// As [`from_managers`], for managers whose making can fail; that counts as a failure to connect, and is tried again with
/// the next attempt.
///
/// The error of `make` is the error of the connector, and the manager's own are converted into it. So this also takes
/// managers whose errors do not implement [`Error`], such as `anyhow::Error` or `()`: return an error of your own that is
/// `From` theirs.
pub fn try_from_managers<M, E, F>(make: F) -> FromManagers<M, E>
where
    M: ManageConnection,
    E: From<M::Error> + Error + Send + Sync + 'static,
    F: Fn(&Backend) -> Result<M, E> + Send + Sync + 'static,
{
    FromManagers { kept: Kept::new(make), validate_every: Some(VALIDATE_EVERY) }
}

/// What [`from_managers`] returns: `bb8::Pool<M>` becomes `carom::Pool<FromManagers<M>>`.
pub struct FromManagers<M: ManageConnection, E = <M as ManageConnection>::Error> {
    kept: Kept<M, E>,
    validate_every: Option<Duration>,
}

/// How old the last `is_valid` may be after a use.
const VALIDATE_EVERY: Duration = Duration::from_millis(500);

impl<M: ManageConnection, E> FromManagers<M, E> {
    /// `is_valid` runs after a use if it was last run longer ago than this, or if there is reason to (see the [module](self)); `None`
    /// leaves it to `check_after`. Default 500 ms, at least a millisecond. Without it, a dead node whose connections fail without
    /// `has_broken` keeps getting claims.
    #[must_use]
    pub fn validate_every(mut self, validate_every: impl Into<Option<Duration>>) -> FromManagers<M, E> {
        self.validate_every = validate_every.into();
        self
    }
}

impl<M, E> Connect for FromManagers<M, E>
where
    M: ManageConnection,
    E: From<M::Error> + Error + Send + Sync + 'static,
{
    type Connection = Managed<M>;
    type Error = E;

    async fn connect(&self, backend: &Backend) -> Result<Managed<M>, E> {
        let manager = self.kept.of(backend).await?;
        let connection = manager.connect().await?;
        Ok(Managed { connection, manager })
    }

    /// A manager does not say why a connection has broken, so its backend is not blamed.
    fn liveness(&self, managed: &mut Managed<M>) -> Liveness {
        if managed.manager.has_broken(&mut managed.connection) { Liveness::Closed } else { Liveness::Unknown }
    }

    fn validate_every(&self) -> Option<Duration> {
        self.validate_every
    }

    fn check(&self, managed: &mut Managed<M>) -> Option<impl Future<Output = Result<(), E>> + Send> {
        Some(async move { Ok(managed.manager.is_valid(&mut managed.connection).await?) })
    }
}

impl<M: ManageConnection, E> fmt::Debug for FromManagers<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromManagers").field("managers", &self.kept).finish()
    }
}

/// A connection with the manager that made it. Use it through `Deref`; a claim leads to it and on to the connection, so
/// that methods can be called on the claim. Where the connection itself is asked for, it is `**claim`.
pub struct Managed<M: ManageConnection> {
    connection: M::Connection,
    manager: Arc<M>,
}

impl<M: ManageConnection> Managed<M> {
    /// The connection alone, after [`Claim::detach`](crate::Claim::detach).
    #[must_use]
    pub fn into_inner(this: Managed<M>) -> M::Connection {
        this.connection
    }

    /// The manager that made it.
    pub fn manager(this: &Managed<M>) -> &M {
        &this.manager
    }
}

impl<M: ManageConnection> Deref for Managed<M> {
    type Target = M::Connection;

    fn deref(&self) -> &M::Connection {
        &self.connection
    }
}

impl<M: ManageConnection> DerefMut for Managed<M> {
    fn deref_mut(&mut self) -> &mut M::Connection {
        &mut self.connection
    }
}

impl<M: ManageConnection> fmt::Debug for Managed<M>
where
    M::Connection: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Managed").field(&self.connection).finish()
    }
}
