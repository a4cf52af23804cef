//! Managers written for deadpool: [`from_managers`] makes a connector of them, one manager for each backend.
//!
//! `create` connects, within the pool's recovery policy. `recycle` runs after use: when a claim comes back, before the
//! connection is lent again, within `check_timeout`, in the background; so a claim never waits for it while another
//! connection is idle. It also is the check that runs after `check_after` of idling. A connection that it refuses, or that
//! it did not finish with, is closed and replaced. After a use that counts as a failed use of its backend, unless the connection had
//! served other uses, this one took no less than a quarter of the backend's mean, and `recycle` failed within 100 ms: then its server may
//! have closed it. `detach` is called when a connection leaves for good, whatever the reason.
//!
//! ```
//! use carom::managers::deadpool::from_managers;
//! use carom::{Backend, Pool};
//! use deadpool::managed::{self, Metrics, RecycleResult};
//!
//! // Any manager does; this one's connections are just the name of where they lead to.
//! struct Manager {
//!     server: String,
//! }
//!
//! impl managed::Manager for Manager {
//!     type Type = String;
//!     type Error = std::io::Error;
//!
//!     async fn create(&self) -> Result<String, std::io::Error> {
//!         Ok(self.server.clone())
//!     }
//!     async fn recycle(&self, _: &mut String, _: &Metrics) -> RecycleResult<std::io::Error> {
//!         Ok(())
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
use crate::connect::Connect;
use ::deadpool::managed::{Manager, Metrics, RecycleError};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A connector made of managers: `make` is called once for each backend, when it is first connected to. A manager is
/// forgotten 5 to 10 minutes after its last connection, and made again if its backend is dialled after that.
pub fn from_managers<M, F>(make: F) -> FromManagers<M>
where
    M: Manager + 'static,
    M::Error: Error + Sync + 'static,
    F: Fn(&Backend) -> M + Send + Sync + 'static,
{
    try_from_managers(move |backend| Ok(make(backend)))
}

/// As [`from_managers`], for managers whose making can fail; that counts as a failure to connect, and is tried again with
/// the next attempt.
///
/// The error of `make` is the error inside the connector's [`ManagerError`], and the manager's own are converted into it.
/// So this also takes managers whose errors do not implement [`Error`], such as `anyhow::Error` or `()`: return an error
/// of your own that is `From` theirs.
pub fn try_from_managers<M, E, F>(make: F) -> FromManagers<M, E>
where
    M: Manager + 'static,
    E: From<M::Error> + Error + Send + Sync + 'static,
    F: Fn(&Backend) -> Result<M, E> + Send + Sync + 'static,
{
    FromManagers { kept: Kept::new(make) }
}

/// What [`from_managers`] returns: `deadpool::managed::Pool<M>` becomes `carom::Pool<FromManagers<M>>`.
pub struct FromManagers<M: Manager, E = <M as Manager>::Error> {
    kept: Kept<M, E>,
}

/// What a manager said. The error it said it with is the `source()`.
// The text repeats the source: claims that fail show this text as their cause, and not what is below it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError<E> {
    /// It could not be made, or could not create a connection.
    #[error("{0}")]
    Create(#[source] E),
    /// It could not recycle a connection.
    #[error("recycling failed: {0}")]
    Recycle(#[source] E),
    /// It refused to recycle a connection, in words.
    #[error("recycling failed: {0}")]
    Refused(Cow<'static, str>),
}

impl<M, E> Connect for FromManagers<M, E>
where
    M: Manager + 'static,
    E: From<M::Error> + Error + Send + Sync + 'static,
{
    type Connection = Managed<M>;
    type Error = ManagerError<E>;

    async fn connect(&self, backend: &Backend) -> Result<Managed<M>, ManagerError<E>> {
        let manager = self.kept.of(backend).await.map_err(ManagerError::Create)?;
        let connection = manager.create().await.map_err(|error| ManagerError::Create(error.into()))?;
        Ok(Managed { connection: Some(connection), metrics: Metrics::default(), manager })
    }

    fn check(&self, managed: &mut Managed<M>) -> Option<impl Future<Output = Result<(), ManagerError<E>>> + Send> {
        Some(managed.recycle())
    }

    fn recycle(&self, managed: &mut Managed<M>) -> Option<impl Future<Output = Result<(), ManagerError<E>>> + Send> {
        Some(managed.recycle())
    }
}

impl<M: Manager, E> fmt::Debug for FromManagers<M, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromManagers").field("managers", &self.kept).finish()
    }
}

/// A connection with the manager that made it. Use it through `Deref`; a claim leads to it and on to the connection, so
/// that methods can be called on the claim. Where the connection itself is asked for, it is `**claim`.
///
/// Dropping it detaches the connection from its manager.
pub struct Managed<M: Manager> {
    /// `None` only while being consumed.
    connection: Option<M::Type>,
    metrics: Metrics,
    manager: Arc<M>,
}

impl<M: Manager> Managed<M> {
    /// The connection alone, after [`Claim::detach`](crate::Claim::detach). Detaches it from its manager, as
    /// `Object::take` does.
    #[must_use]
    pub fn into_inner(mut this: Managed<M>) -> M::Type {
        let mut connection = this.connection.take().expect("it is there until it is consumed");
        this.manager.detach(&mut connection);
        connection
    }

    /// The manager that made it.
    pub fn manager(this: &Managed<M>) -> &M {
        &this.manager
    }

    /// When it was created, when it was last recycled, and how often.
    pub fn metrics(this: &Managed<M>) -> &Metrics {
        &this.metrics
    }

    async fn recycle<E: From<M::Error>>(&mut self) -> Result<(), ManagerError<E>> {
        let connection = self.connection.as_mut().expect("it is there until it is consumed");
        self.manager.recycle(connection, &self.metrics).await.map_err(|error| match error {
            RecycleError::Backend(error) => ManagerError::Recycle(error.into()),
            RecycleError::Message(message) => ManagerError::Refused(message),
        })?;
        self.metrics.recycle_count += 1;
        self.metrics.recycled = Some(Instant::now());
        Ok(())
    }
}

impl<M: Manager> Deref for Managed<M> {
    type Target = M::Type;

    fn deref(&self) -> &M::Type {
        self.connection.as_ref().expect("it is there until it is consumed")
    }
}

impl<M: Manager> DerefMut for Managed<M> {
    fn deref_mut(&mut self) -> &mut M::Type {
        self.connection.as_mut().expect("it is there until it is consumed")
    }
}

impl<M: Manager> Drop for Managed<M> {
    fn drop(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        // Connections are dropped in many places, the driver among them: none of those may be taken down by this.
        if catch_unwind(AssertUnwindSafe(|| self.manager.detach(connection))).is_err() {
            tracing::warn!("a manager panicked when a connection was detached from it");
        }
    }
}

impl<M: Manager> fmt::Debug for Managed<M>
where
    M::Type: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed").field("connection", &self.connection).field("metrics", &self.metrics).finish()
    }
}
