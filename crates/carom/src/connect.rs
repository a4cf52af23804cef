//! How connections are made: the [`Connect`] trait, and [`connect_fn`] for when a closure is enough.
//!
//! A connector opens connections and knows a few things about them: whether one may be used again, how to prove that it
//! works, how to tell that it has ended. Only `connect` must be written; each further method makes the pool notice more.
//!
//! ```
//! use carom::{Backend, connect_fn};
//! use tokio::net::TcpStream;
//!
//! let connector = connect_fn(|backend: Backend| TcpStream::connect(backend.socket_addr()));
//! # let _ = connector;
//! ```

use carom_core::backend::Backend;
use std::error::Error;
use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::time::Duration;

/// What is known of a connection without waiting: of its own state, not of what its backend would reply.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Liveness {
    /// The connector cannot tell. The connection is used until its user, a check or a failed use says otherwise.
    #[default]
    Unknown,
    /// Nothing has arrived that ends it.
    Open,
    /// It ended in an orderly way, or may not be used again: end of file, a goodbye, a reply that nobody has read.
    /// The backend is not blamed for it.
    Closed,
    /// It works, but bytes were written and none read since: an answer may still come, and the next user would take it for its
    /// own. A connection that comes back like this is closed as by [`Claim::discard`](crate::Claim::discard): the backend is not
    /// blamed, and nothing follows for its other connections.
    Unanswered,
    /// It broke: it was reset, timed out, or violated the protocol. After a use this is a failed use of the backend.
    Broken(Arc<dyn Error + Send + Sync>),
}

impl Liveness {
    /// A broken connection, with what broke it.
    pub fn broken(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Liveness {
        Liveness::Broken(cause.into().into())
    }

    /// Whether the connection may be used: it is open as far as anything knows.
    pub fn is_usable(&self) -> bool {
        match self {
            Liveness::Unknown | Liveness::Open => true,
            Liveness::Closed | Liveness::Unanswered | Liveness::Broken(_) => false,
        }
    }
}

/// Opens connections to backends, and looks after them.
///
/// None of these is called while a lock of the pool is held, except [`closed`](Connect::closed) and
/// [`has_unread`](Connect::has_unread). Each may panic: a panic in `connect`, `check`, `recycle` or `close` counts as its
/// failure, one in `liveness` as [`Closed`](Liveness::Closed), one in `has_unread` as no, and one in `closed` as `None`.
///
/// What blames a backend:
///
/// - A failed attempt to connect, so that the backend is tried later: failing to connect, a connection that ends within a second
///   and unused, and [`Claim::fail`](crate::Claim::fail).
/// - A failed use: [`Claim::fail`](crate::Claim::fail), a connection that is [broken](Liveness::Broken) when it comes back, and one
///   that does not pass its check or recycle after a use. [`Pick::LeastLoaded`](crate::Pick::LeastLoaded) picks the backend less
///   for a few seconds, and [`Ejection`](crate::Ejection) counts it. A connection that had served other uses, and fails its check or
///   recycle within 100 ms after one that was not much shorter than usual, is taken to have been closed by its server: no failed use.
///
/// A connection that ends in another way, or is closed when it comes back, blames nothing. It is replaced at once if it was used, and
/// after one `delay` of the recovery policy if it was not.
///
/// When a connection breaks or does not pass a check, its node may have restarted: the idle connections of the backend that were opened
/// before are suspect. They are not lent until `liveness` and `check`, asked in the background, say that they work; the first that fails
/// closes them all. A connector that has neither cannot tell: then they are replaced once a connect to the backend has succeeded.
///
/// Cancel safety: the futures are dropped when they take too long or are no longer wanted. A connection whose `check`
/// or `recycle` was cut short is closed, never lent.
pub trait Connect: Send + Sync + 'static {
    /// What is lent.
    type Connection: Send + 'static;
    /// Why connecting or checking failed. It becomes the `source()` of the errors that claims end with.
    type Error: Error + Send + Sync + 'static;

    /// Opens a connection that is ready for use: handshake and login done.
    fn connect(&self, backend: &Backend) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// What is known of this connection: cheap, and without waiting. Asked when a claim comes back, and each time an idle
    /// connection is claimed. One that is closed or broken is dropped and, if needed, replaced at once. One that is
    /// [`Unanswered`](Liveness::Unanswered) when a claim comes back is closed; an idle one is lent, as what was written last was
    /// written by the connector. A panic means [`Closed`](Liveness::Closed). Default: [`Unknown`](Liveness::Unknown).
    fn liveness(&self, connection: &mut Self::Connection) -> Liveness {
        let _ = connection;
        Liveness::Unknown
    }

    /// A round trip that proves that a connection works, within `check_timeout`. Run in the background, never by a claim:
    /// after `check_after` of idling, and after a use if the last check is older than
    /// [`validate_every`](Connect::validate_every). Default: `None`, there is no check, and every connection passes.
    ///
    /// ```
    /// # use carom::{Backend, Connect};
    /// # use std::future::Future;
    /// # struct Connector;
    /// # struct Connection;
    /// # impl Connection { async fn ping(&mut self) -> std::io::Result<()> { Ok(()) } }
    /// # impl Connect for Connector {
    /// # type Connection = Connection;
    /// # type Error = std::io::Error;
    /// # async fn connect(&self, _: &Backend) -> std::io::Result<Connection> { Ok(Connection) }
    /// fn check(&self, connection: &mut Connection) -> Option<impl Future<Output = std::io::Result<()>> + Send> {
    ///     Some(connection.ping())
    /// }
    /// # }
    /// ```
    fn check(&self, connection: &mut Self::Connection) -> Option<impl Future<Output = Result<(), Self::Error>> + Send> {
        let _ = connection;
        None::<Ready<Result<(), Self::Error>>>
    }

    /// Resolves when the connection has ended, with [`Closed`](Liveness::Closed) or [`Broken`](Liveness::Broken), so that
    /// the end of an idle connection is noticed at once and not by the next claim. Watched only after 250 ms of idling, so
    /// that a busy pool pays nothing, and dropped when the
    /// connection is claimed. If it resolves at its first poll the connection is taken to have ended when it came to rest.
    /// Default: `None`, it cannot be watched.
    ///
    /// Called with the pool's lock held: build the future and return it, do not call the pool.
    fn closed(&self, connection: &Self::Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        let _ = connection;
        None::<Ready<Liveness>>
    }

    /// Whether the backend has sent bytes on this connection that no user has read. Asked of a
    /// connection that has ended unused, if the pool has
    /// [`replace_unused_after`](crate::pool::Builder::replace_unused_after): one that was greeted is replaced at once. Default: no.
    ///
    /// Called with the pool's lock held: do not call the pool. A panic means no.
    fn has_unread(&self, connection: &mut Self::Connection) -> bool {
        let _ = connection;
        false
    }

    /// Cleaning after use: run in the background when a claim has come back, within
    /// `check_timeout`, before the connection is lent again. One that fails, is cut short, or panics is closed and replaced,
    /// and the use may count as failed; its error is logged at debug level, and kept as the cause in
    /// [`CheckCounts`](crate::pool::CheckCounts). Default: `None`, connections are not cleaned.
    ///
    /// Called once after each connect, to learn whether there is a future; that one is dropped without being polled. After
    /// that it is called after each use, if it returned one then.
    fn recycle(
        &self,
        connection: &mut Self::Connection,
    ) -> Option<impl Future<Output = Result<(), Self::Error>> + Send> {
        let _ = connection;
        None::<Ready<Result<(), Self::Error>>>
    }

    /// How old the last check may be when a claim comes back. If it is older, [`check`](Connect::check) runs in the background,
    /// within `check_timeout`, before the connection is lent again. A connection that is used more often than this is checked
    /// once in this time, and claims do not wait for it while another connection is idle. For connections that do not know
    /// whether they have broken. They are also checked after a use that took less than a quarter of the backend's mean, which may have
    /// failed at once, and after every use for 10 s after a connection of the backend broke or a connect to it failed. Asked once, when
    /// the pool is built; at least a millisecond. Default: never.
    fn validate_every(&self) -> Option<Duration> {
        None
    }

    /// An orderly goodbye, within `check_timeout`. Not called for connections that have ended by themselves, were failed by
    /// their user, or were lent while a thread panicked: those are just dropped. Default: drops it.
    fn close(&self, connection: Self::Connection) -> impl Future<Output = ()> + Send {
        drop(connection);
        ready(())
    }
}

/// A connector made of a closure. The other methods of [`Connect`] keep their defaults.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use carom::{Backend, Pool, connect_fn};
/// use tokio::net::TcpStream;
///
/// let pool = Pool::builder(connect_fn(|backend: Backend| TcpStream::connect(backend.socket_addr())))
///     .backends(["10.0.0.1:7000".parse::<std::net::SocketAddr>()?, "10.0.0.2:7000".parse()?])
///     .build()?;
/// let connection = pool.claim().await?;
/// # let _ = connection;
/// # Ok(()) }
/// ```
pub fn connect_fn<F, Fut, C, E>(connect: F) -> ConnectFn<F>
where
    F: Fn(Backend) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<C, E>> + Send + 'static,
    C: Send + 'static,
    E: Error + Send + Sync + 'static,
{
    ConnectFn { connect }
}

/// What [`connect_fn`] returns.
#[derive(Clone, Copy, Debug)]
pub struct ConnectFn<F> {
    connect: F,
}

impl<F, Fut, C, E> Connect for ConnectFn<F>
where
    F: Fn(Backend) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<C, E>> + Send + 'static,
    C: Send + 'static,
    E: Error + Send + Sync + 'static,
{
    type Connection = C;
    type Error = E;

    fn connect(&self, backend: &Backend) -> impl Future<Output = Result<C, E>> + Send {
        (self.connect)(backend.clone())
    }
}

/// Why connecting failed when it was not the connector that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// It took longer than the recovery policy allows.
    #[error("connecting timed out after {0:?}")]
    ConnectTimedOut(Duration),
    /// The health check of the backend took longer than its timeout.
    #[error("health check timed out after {0:?}")]
    HealthCheckTimedOut(Duration),
    /// The check took longer than `check_timeout`.
    #[error("the check timed out after {0:?}")]
    CheckTimedOut(Duration),
    /// Cleaning after use took longer than `check_timeout`.
    #[error("the recycle timed out after {0:?}")]
    RecycleTimedOut(Duration),
    /// It succeeded, but the connection ended at once, before anybody could use it.
    #[error("the connection ended before anybody used it")]
    Ended,
    /// The connector panicked.
    #[error("the connector panicked")]
    Panicked,
}
