//! Sets: connections that many users share, for protocols that multiplex.
//!
//! A [`Set`] has at most a few connections to each backend, and any number of users on each. A user holds a [`Lease`] for as
//! long as it needs the connection: a producer, a consumer, a request under way. Nothing else counts as use, not even bytes on
//! the wire, so a connection that nobody holds is found, marked, and released after `max_idle`.
//!
//! ```
//! use carom::{Backend, Connect, Set, Share};
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! /// A connection that many may use at a time.
//! struct Line { calls: AtomicU32 }
//! struct Lines;
//!
//! impl Connect for Lines {
//!     type Connection = Line;
//!     type Error = std::io::Error;
//!     async fn connect(&self, _backend: &Backend) -> Result<Line, std::io::Error> {
//!         Ok(Line { calls: AtomicU32::new(0) })
//!     }
//! }
//! impl Share for Lines {
//!     fn shut(&self, _line: &Line) {} // ends the connection for all who hold it
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes: Vec<std::net::SocketAddr> = vec!["10.0.0.1:6650".parse()?, "10.0.0.2:6650".parse()?];
//! let set = Set::builder(Lines).backends(nodes).build()?;
//! let one = set.lease().await?;
//! let other = set.lease().await?;
//! other.calls.fetch_add(1, Ordering::Relaxed);
//! assert_eq!(one.calls.load(Ordering::Relaxed), 1); // they share it
//! # Ok(()) }
//! ```
//!
//! A set is lazy: it connects when somebody wants to. However many want the same backend, it is one dial, and all of them get
//! its outcome; a failure is not remembered, except that the next dial keeps the delay of the recovery policy. An
//! [`eager`](Builder::eager) set keeps connections before anybody asks. While every backend is dead, leases of any backend wait for
//! up to [`outage_wait`](Builder::outage_wait), and each backend is tried at least every second for them.
//!
//! `max_idle` should be longer than the interval of anything that comes back regularly: below it, each round dials anew.

mod builder;
mod driver;
mod error;
mod events;
mod lease;
mod observe;
pub(crate) mod shared;

pub use builder::Builder;
pub use carom_core::idle::Idleness;
pub use carom_core::set::{ConnectionId, State};
pub use error::{LeaseError, Summary};
pub use events::{Event, Events};
pub use lease::{Lease, LeaseOptions, Leasing};
pub use shared::ConnectionSnapshot;

use crate::cause::Cause;
use crate::clock;
use crate::connect::Connect;
use crate::monitor::Id;
use crate::ready::{ReadyError, until_ready};
use carom_core::backend::Backend;
use shared::Shared;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A connector whose connections many may use at a time. A set uses [`connect`](Connect::connect),
/// [`closed`](Connect::closed) and [`shut`](Share::shut) only: the other methods want the connection to themselves. A set watches
/// `closed` for as long as the connection lives, and calls none of these with its lock held; a panic in one of them goes no
/// further.
pub trait Share: Connect<Connection: Sync> {
    /// Ends the connection for all who hold it: their reads and writes fail from here on. Must not wait. It is called exactly
    /// once for each connection that was made, when it is released or drained, when nobody wants it any more, or when its set or
    /// its runtime ends; not when it has ended by itself.
    fn shut(&self, connection: &Self::Connection);
}

/// Shares connections to a service of many nodes. See the [module](self).
///
/// Cheap to clone; all clones are the same set. Dropping the last one closes it.
pub struct Set<S: Share> {
    owner: Arc<Owner<S>>,
}

/// What all handles of a set own together; the last one to go closes it.
struct Owner<S: Share> {
    shared: Arc<Shared<S>>,
    id: Id,
    runtime: Handle,
}

impl<S: Share> Set<S> {
    /// Starts building a set that makes its connections with `connector`.
    pub fn builder(connector: S) -> Builder<S> {
        Builder::new(connector)
    }

    fn new(shared: Arc<Shared<S>>, id: Id, runtime: Handle) -> Set<S> {
        Set { owner: Arc::new(Owner { shared, id, runtime }) }
    }

    /// A lease of a connection to any known backend: of those connected, the one with the fewest leases by weight, or
    /// of several such the one that was leased longest ago. A backend that is slow or whose uses failed, as far as its users
    /// [report](Lease::report_failure), gets fewer, as with [`Pick::LeastLoaded`](crate::Pick::LeastLoaded) of a pool.
    ///
    /// Cancel safe: dropping the future leaves nothing behind; a dial that nobody else waits for is given up.
    ///
    /// # Errors
    /// [`LeaseError`] says why, with the last real error as its source. When every known backend is dead and none may be tried
    /// again yet, at once.
    pub fn lease(&self) -> Leasing<'_, S> {
        self.lease_with(LeaseOptions::default())
    }

    /// A lease of a connection to this backend, which the resolver need not know. See [`Set::lease`]; if the backend may not be
    /// tried again yet, it waits until it may.
    pub fn lease_to(&self, backend: &Backend) -> Leasing<'_, S> {
        self.lease_with(LeaseOptions::default().backend(backend.clone()))
    }

    /// A lease with options of its own. See [`Set::lease`].
    pub fn lease_with(&self, options: LeaseOptions) -> Leasing<'_, S> {
        Leasing::new(&self.owner.shared, options)
    }

    /// Waits until `n` backends have a working connection, for example before a server accepts requests. A backend is ready when a
    /// connect has succeeded, none has failed since or a connection still works, and it is neither ejected nor unhealthy.
    ///
    /// Connects to as many backends as that takes, beside those that an [`eager`](Builder::eager) set keeps connected; dead ones
    /// are tried for as long as it waits. Connections that are not leased are released after [`max_idle`](Builder::max_idle), and
    /// at once where an eager set has its [`maximum`](Builder::maximum) already or with
    /// [`per_backend(0)`](Builder::per_backend).
    ///
    /// `n` is capped by the number of backends that the resolver knows, once it has answered; where it knows none, one is waited
    /// for. `ready(0, _)` succeeds at once. See [`Pool::ready`](crate::Pool::ready) for an example.
    ///
    /// Cancel safe: dropping the future gives up the connects that only it waits for.
    ///
    /// # Errors
    /// After `within`, [`ReadyError::TimedOut`] says how many backends were ready and why the others were not;
    /// [`ReadyError::Closed`] at once when the set is closed.
    pub async fn ready(&self, n: usize, within: Duration) -> Result<(), ReadyError> {
        until_ready(&*self.owner.shared, &self.owner.runtime, n, within).await
    }

    /// The name shown in errors, logs and snapshots.
    pub fn name(&self) -> &str {
        &self.owner.shared.name
    }

    /// Which one it is to its [monitor](crate::Monitor).
    pub fn id(&self) -> Id {
        self.owner.id
    }

    /// Where the set is in its life.
    pub fn state(&self) -> State {
        self.owner.shared.lock().machine.state()
    }

    /// Follows [`Set::state`]: the latest state wins.
    pub fn states(&self) -> watch::Receiver<State> {
        self.owner.shared.lifecycle.subscribe()
    }

    /// Every connection there is: where it leads, how far it is on its way out, and who holds it.
    pub fn connections(&self) -> Vec<ConnectionSnapshot> {
        self.owner.shared.lock().connections()
    }

    /// A copy of the set's state for people; all figures are of one moment.
    pub fn snapshot(&self) -> Snapshot {
        let table = self.owner.shared.lock();
        let figures = table.machine.snapshot();
        Snapshot {
            name: Arc::clone(&self.owner.shared.name),
            state: figures.state,
            known: figures.known,
            dead: figures.dead,
            ejected: figures.ejected,
            stalled: figures.stalled,
            dialling: figures.dialling,
            waiting: figures.waiting,
            leases: figures.leases,
            connections: table.connections(),
            cause: table.cause(None),
        }
    }

    /// Connections that come and go, for users who track them: first those there are, then changes. A reader who is slow
    /// misses history, not the outcome.
    pub fn events(&self) -> Events<S> {
        Events::new(&self.owner.shared)
    }

    /// Tells the set, as long as it lives, whether a backend is stalled. That is asked under the set's lock, so that the latest answer
    /// stays. False when the set is gone.
    #[cfg(feature = "http")]
    pub(crate) fn set_stalled(&self) -> impl Fn(&Backend, &dyn Fn() -> bool) -> bool + Send + Sync + 'static + use<S> {
        let shared = Arc::downgrade(&self.owner.shared);
        move |backend, is_stalled| {
            let Some(shared) = shared.upgrade() else { return false };
            shared.step(|table| table.machine.set_stalled(backend, is_stalled()));
            true
        }
    }

    /// A request failed that was under way on some connection: as [`Lease::report_failure`].
    #[cfg(feature = "http")]
    pub(crate) fn report_failure(
        &self,
        backend: &Backend,
        reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) {
        self.owner.shared.use_failed(Arc::new(backend.clone()), reason.into().into());
    }

    /// A request was cut short after it has waited so long for its response head: a latency penalty for its backend.
    #[cfg(feature = "http")]
    pub(crate) fn report_cut_short(&self, backend: &Backend, waited: Duration) {
        self.owner.shared.step(|table| table.machine.report_cut_short(clock::now(), backend, waited));
    }

    /// Closes the set: waiters fail with [`LeaseError::Closed`], so does every later lease; connections without leases end now,
    /// the others with their last lease. Does not wait; see [`Set::drain`].
    pub fn close(&self) {
        self.owner.close();
    }

    /// Closes the set and waits until every lease has ended, or until the deadline: then what is left is shut, which the holders
    /// learn from [`Lease::closed`]. How many leases were still out.
    ///
    /// Cancel safe: the set stays closed.
    pub async fn drain(&self, deadline: impl Into<tokio::time::Instant>) -> usize {
        self.close();
        let mut states = self.states();
        let sleep = {
            let here = Handle::try_current().unwrap_or_else(|_| self.owner.runtime.clone());
            let _context = here.enter();
            tokio::time::sleep_until(deadline.into())
        };
        tokio::select! {
            biased;
            _ = states.wait_for(|state| *state == State::Stopped) => 0,
            () = sleep => {
                self.owner.shared.step(|table| {
                    let left = table.machine.snapshot().leases;
                    table.machine.abandon(clock::now());
                    left
                })
            }
        }
    }
}

/// A set at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is.
    pub state: State,
    /// Backends that the resolver knows.
    pub known: usize,
    /// Of these, those that are dead.
    pub dead: usize,
    /// Of these, those that are ejected for [reported failures](Lease::report_failure), and until when.
    pub ejected: Vec<(Arc<Backend>, Instant)>,
    /// Of these, those that are stalled: they get no leases while another is connected. HTTP only.
    pub stalled: Vec<Arc<Backend>>,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// Who waits for a lease.
    pub waiting: usize,
    /// Leases that are out.
    pub leases: usize,
    /// Every connection.
    pub connections: Vec<ConnectionSnapshot>,
    /// The last real error that still matters.
    pub cause: Option<Cause>,
}

impl<S: Share> Owner<S> {
    fn close(&self) {
        self.shared.step(|table| table.machine.close(clock::now()));
    }
}

impl<S: Share> Drop for Owner<S> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<S: Share> Clone for Set<S> {
    fn clone(&self) -> Set<S> {
        Set { owner: Arc::clone(&self.owner) }
    }
}

impl<S: Share> fmt::Debug for Set<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.owner.shared.lock().machine.snapshot();
        f.debug_struct("Set")
            .field("name", &self.name())
            .field("state", &figures.state)
            .field("connections", &figures.connections.len())
            .field("leases", &figures.leases)
            .finish()
    }
}
