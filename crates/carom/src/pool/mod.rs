//! Pools: connections lent to one user at a time.
//!
//! A [`Pool`] keeps a few connections more than are in use, spread over the backends of a service. Claims are served in
//! order, by direct hand-off. Backends that fail are tried less and less, declared dead, watched, and used again when
//! they answer. While every backend is dead, connects are attempted at least every second, and claims wait for up to
//! [`outage_wait`](Builder::outage_wait). When a claim fails, its error says why.
//!
//! ```
//! use carom::{Backend, ClaimError, Pool, connect_fn};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Connections can be anything; here, just the name of the backend they lead to.
//! let connector = connect_fn(|backend: Backend| async move { Ok::<_, std::io::Error>(backend.to_string()) });
//! let nodes: Vec<std::net::SocketAddr> = vec!["10.0.0.1:80".parse()?, "10.0.0.2:80".parse()?];
//! let pool = Pool::builder(connector).name("orders").backends(nodes).spares(1).maximum(2).build()?;
//!
//! let one = pool.claim().await?;
//! let other = pool.claim().await?;
//! assert_ne!(*one, *other); // spread over both
//!
//! let error = pool.claim_within(Duration::from_millis(10)).await.unwrap_err();
//! assert!(matches!(error, ClaimError::TimedOut { .. }));
//! println!("{error}"); // timed out after 10ms waiting for `orders` (2 busy of 2, 0 waiting ahead)
//! # Ok(()) }
//! ```

mod builder;
mod callers;
mod checks;
mod claim;
mod claiming;
mod driver;
mod error;
mod observe;
pub(crate) mod shared;
pub(crate) mod table;

pub use builder::Builder;
pub use carom_core::backend::BackendState;
pub use carom_core::pool::{BackendSnapshot, Snapshot as Figures, State};
pub use carom_core::slot::{Counts, Phase};
pub use checks::CheckCounts;
pub use claim::Claim;
pub use claiming::Claiming;
pub use error::{ClaimError, Summary};
pub use shared::Outstanding;

use crate::cause::Cause;
use crate::clock;
use crate::connect::Connect;
use crate::monitor::Id;
use crate::ready::{ReadyError, until_ready};
use carom_core::backend::Backend;
use carom_core::options::OptionsError;
use shared::Shared;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;
use table::Asking;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Lends connections to a service of many nodes. See the [module](self).
///
/// Cheap to clone; all clones are the same pool. Dropping the last one closes it.
pub struct Pool<C: Connect> {
    owner: Arc<Owner<C>>,
}

/// What all handles of a pool own together; the last one to go closes it.
struct Owner<C: Connect> {
    shared: Arc<Shared<C>>,
    id: Id,
    runtime: Handle,
}

/// What a claim wants beyond the defaults; for [`Pool::claim_with`].
#[derive(Clone, Debug, Default)]
pub struct ClaimOptions {
    timeout: Option<Duration>,
    error_on_empty: bool,
    avoid: Option<Backend>,
}

impl ClaimOptions {
    /// How long the claim may take in all. Default: the pool's `claim_timeout`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ClaimOptions {
        self.timeout = Some(timeout);
        self
    }

    /// While no backend is known, fail at once with [`ClaimError::NoBackends`] instead of waiting for one. Default false.
    #[must_use]
    pub fn error_on_empty(mut self, error_on_empty: bool) -> ClaimOptions {
        self.error_on_empty = error_on_empty;
        self
    }

    /// A backend not to be given while another can serve: for another try after this one failed. Default none.
    ///
    /// Another can serve when it is neither dead nor ejected and has a connection, idle or in use, or is about to get one.
    /// The claim waits for that for half its timeout at most, or for `target_delay` if that is shorter; then it takes what
    /// there is, the avoided backend's as well.
    #[must_use]
    pub fn avoid(mut self, backend: Backend) -> ClaimOptions {
        self.avoid = Some(backend);
        self
    }
}

impl<C: Connect> Pool<C> {
    /// Starts building a pool that makes its connections with `connector`.
    pub fn builder(connector: C) -> Builder<C> {
        Builder::new(connector)
    }

    fn new(shared: Arc<Shared<C>>, id: Id, runtime: Handle) -> Pool<C> {
        Pool { owner: Arc::new(Owner { shared, id, runtime }) }
    }

    /// Claims a connection: an idle one at once, otherwise the first that is free when everyone who came before has been
    /// served. Ends within `claim_timeout`, counted from the first poll; while every backend is dead, within `outage_wait`.
    ///
    /// Cancel safe: dropping the future gives up the place in line, and passes on what was already handed over.
    ///
    /// # Errors
    /// [`ClaimError`] says why, with the last real error as its source.
    #[track_caller]
    pub fn claim(&self) -> Claiming<'_, C> {
        self.claim_with(ClaimOptions::default())
    }

    /// Claims a connection within a timeout of its own. See [`Pool::claim`].
    #[track_caller]
    pub fn claim_within(&self, timeout: Duration) -> Claiming<'_, C> {
        self.claim_with(ClaimOptions::default().timeout(timeout))
    }

    /// Claims a connection with options of its own. See [`Pool::claim`].
    #[track_caller]
    pub fn claim_with(&self, options: ClaimOptions) -> Claiming<'_, C> {
        let asking = Asking {
            timeout: options.timeout.unwrap_or(self.owner.shared.claim_timeout),
            error_on_empty: options.error_on_empty,
            avoid: options.avoid,
            site: Location::caller(),
        };
        Claiming::new(&self.owner.shared, asking)
    }

    /// Claims an idle connection, or fails at once.
    ///
    /// # Errors
    /// [`ClaimError::Busy`] when nothing is idle, [`ClaimError::Failed`] or [`ClaimError::Closed`] in those states. While every
    /// backend is dead it also triggers an attempt to connect.
    #[track_caller]
    pub fn try_claim(&self) -> Result<Claim<C>, ClaimError> {
        let (shared, site) = (&self.owner.shared, Location::caller());
        loop {
            let granted = shared.step(|table| table.try_begin(clock::now(), site, &shared.name))?;
            if let Ok(claim) = claiming::open(shared, granted) {
                return Ok(claim);
            }
        }
    }

    /// Takes an idle connection of this backend without waiting, stalled or not.
    #[cfg(feature = "http")]
    #[track_caller]
    pub(crate) fn try_claim_of(&self, backend: &Backend) -> Option<Claim<C>> {
        let (shared, site) = (&self.owner.shared, Location::caller());
        loop {
            let granted = shared.step(|table| table.try_begin_at(clock::now(), backend, site))?;
            if let Ok(claim) = claiming::open(shared, granted) {
                return Some(claim);
            }
        }
    }

    /// Waits until `n` backends have a working connection, for example before a server accepts requests. A backend is ready when a
    /// connect has succeeded, none has failed since or a connection still works, and it is neither ejected nor unhealthy.
    ///
    /// Connects to as many backends as that takes, whatever [`spares`](Builder::spares) says. A connection for which
    /// [`maximum`](Builder::maximum) has no room is closed at once; its backend is ready. Backends that failed are tried again for as
    /// long as it waits. Connections beyond `spares` idle out afterwards.
    ///
    /// `n` is capped by the number of backends that the resolver knows, once it has answered; where it knows none, one is waited
    /// for. `ready(0, _)` succeeds at once. No claim waits behind it.
    ///
    /// ```
    /// # use carom::{Backend, Pool, connect_fn};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let connector = connect_fn(|backend: Backend| async move {
    /// #     if backend.port() == 81 { return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)) }
    /// #     Ok(backend)
    /// # });
    /// let nodes: Vec<std::net::SocketAddr> = vec!["10.0.0.1:80".parse()?, "10.0.0.2:81".parse()?];
    /// let pool = Pool::builder(connector).name("orders").backends(nodes).build()?;
    ///
    /// pool.ready(1, Duration::from_secs(10)).await?; // one backend is enough to serve
    /// let error = pool.ready(2, Duration::from_millis(50)).await.unwrap_err();
    /// println!("{error}"); // timed out after 50ms: 1 of 2 backends of `orders` ready; last connect error: 10.0.0.2:81: …
    /// # assert!(error.to_string().ends_with("connection refused"), "{error}");
    /// # Ok(()) }
    /// ```
    ///
    /// Cancel safe: dropping the future gives up the connects that only it waits for.
    ///
    /// # Errors
    /// After `within`, [`ReadyError::TimedOut`] says how many backends were ready and why the others were not;
    /// [`ReadyError::Closed`] at once when the pool is closed.
    pub async fn ready(&self, n: usize, within: Duration) -> Result<(), ReadyError> {
        until_ready(&*self.owner.shared, &self.owner.runtime, n, within).await
    }

    /// What its connections are made with.
    #[allow(dead_code, reason = "for HTTP alone")]
    pub(crate) fn connector(&self) -> &C {
        &self.owner.shared.connector
    }

    /// Tells the pool, as long as it lives, whether a backend is stalled. That is asked under the pool's lock, so that the latest
    /// answer stays. False when the pool is gone.
    #[cfg(feature = "http")]
    pub(crate) fn set_stalled(&self) -> impl Fn(&Backend, &dyn Fn() -> bool) -> bool + Send + Sync + 'static + use<C> {
        let shared = Arc::downgrade(&self.owner.shared);
        move |backend, is_stalled| {
            let Some(shared) = shared.upgrade() else { return false };
            shared.step(|table| table.machine.set_stalled(clock::now(), backend, is_stalled()));
            true
        }
    }

    /// The name shown in errors, logs and snapshots.
    pub fn name(&self) -> &str {
        &self.owner.shared.name
    }

    /// Which one it is to its [monitor](crate::Monitor).
    pub fn id(&self) -> Id {
        self.owner.id
    }

    /// Where the pool is in its life.
    pub fn state(&self) -> State {
        self.owner.shared.step(|table| table.machine.state())
    }

    /// Follows [`Pool::state`]: the latest state wins.
    pub fn states(&self) -> watch::Receiver<State> {
        self.owner.shared.lifecycle.subscribe()
    }

    /// A copy of the pool's state for people; all figures are of one moment.
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.owner.shared;
        shared.step(|table| Snapshot {
            name: Arc::clone(&shared.name),
            pool: table.machine.snapshot(),
            cause: table.causes.latest(),
            checks: table.checks.counts.clone(),
            overdue: table.overdue,
        })
    }

    /// What is lent at present: to which backend, since when, and where in the program it was claimed.
    pub fn lent(&self) -> Vec<Outstanding> {
        self.owner.shared.outstanding(clock::now())
    }

    /// Changes how many connections are kept and how many there may be. Idle ones above a new maximum are closed now, lent
    /// ones as they come back, whatever `churn_per_second` says; that is for what changes below the maximum.
    ///
    /// # Errors
    /// When the sizes make no sense; nothing is changed then.
    pub fn resize(&self, spares: usize, maximum: usize) -> Result<(), OptionsError> {
        self.owner.shared.step(|table| table.machine.resize(clock::now(), spares, maximum))
    }

    /// Closes the pool: waiters fail with [`ClaimError::Closed`], so does every later claim; idle connections are closed
    /// now, lent ones when they come back. Does not wait; see [`Pool::drain`].
    pub fn close(&self) {
        self.owner.close();
    }

    /// Closes the pool and waits until everything has come back and is closed, or until the deadline. Takes a
    /// `std::time::Instant` or tokio's.
    ///
    /// Cancel safe: the pool stays closed.
    pub async fn drain(&self, deadline: impl Into<tokio::time::Instant>) -> Drained {
        self.close();
        let mut states = self.states();
        let sleep = {
            // The caller's own runtime keeps the deadline even if the pool's is not being driven; it may have none.
            let here = Handle::try_current().unwrap_or_else(|_| self.owner.runtime.clone());
            let _context = here.enter();
            tokio::time::sleep_until(deadline.into())
        };
        tokio::select! {
            biased;
            _ = states.wait_for(|state| *state == State::Stopped) => Drained::default(),
            () = sleep => {
                let left = self.owner.shared.outstanding(clock::now());
                let snapshot = self.snapshot().pool;
                let counts = [snapshot.counts, snapshot.draining, snapshot.probes];
                let closing = counts.iter().map(|counts| counts.of(Phase::Closing)).sum();
                Drained { left, closing, cut: 0 }
            }
        }
    }
}

/// What [`Pool::drain`] could not wait for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it says what was left"]
pub struct Drained {
    /// What was still lent at the deadline.
    pub left: Vec<Outstanding>,
    /// How many connections were still being closed.
    pub closing: usize,
    /// How many answers were cut short that were still being read over connections that many share: an agent has such
    /// connections, a pool has none.
    pub cut: usize,
}

impl Drained {
    /// Whether everything had come back and was closed.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && self.closing == 0 && self.cut == 0
    }
}

/// `drained`, or how much was left and one line for each claim that was still out.
impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_complete() {
            return write!(f, "drained");
        }
        let counts = [(self.cut, "cut short"), (self.closing, "still closing"), (self.left.len(), "still lent")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        f.write_str(&counts.collect::<Vec<_>>().join(", "))?;
        if !self.left.is_empty() {
            f.write_str(":")?;
        }
        for Outstanding { backend, site, lent_for } in &self.left {
            write!(f, "\n  {backend}, claimed at {site} {lent_for:?} ago")?;
        }
        Ok(())
    }
}

/// A pool at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Its state and figures.
    pub pool: carom_core::pool::Snapshot,
    /// The last real error that still matters.
    pub cause: Option<Cause>,
    /// Checks and recycles of its connections so far, and why the last one failed.
    pub checks: CheckCounts,
    /// Claims held longer than `leak_after` so far.
    pub overdue: u64,
}

impl<C: Connect> Owner<C> {
    fn close(&self) {
        self.shared.step(|table| table.machine.close(clock::now()));
    }
}

impl<C: Connect> Drop for Owner<C> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<C: Connect> Clone for Pool<C> {
    fn clone(&self) -> Pool<C> {
        Pool { owner: Arc::clone(&self.owner) }
    }
}

impl<C: Connect> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, counts) = self.owner.shared.step(|table| (table.machine.state(), table.machine.counts()));
        f.debug_struct("Pool").field("name", &self.name()).field("state", &state).field("counts", &counts).finish()
    }
}
