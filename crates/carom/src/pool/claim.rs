//! The guard that a caller holds: a connection, until it is dropped.

use super::shared::Shared;
use super::table::Held;
use crate::cause::{Chain, FailedUse, Failing, Reason};
use crate::clock;
use crate::connect::{Connect, ConnectError, Liveness};
use crate::quiet::{drop_quietly, quietly, text_of};
use carom_core::backend::Backend;
use carom_core::pool::{Blame, Outcome};
use carom_core::slot::Life;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection lent by a [`Pool`](super::Pool). Use it through `Deref`; dropping it gives it back.
///
/// A connection on which an answer is still to come, because its request was cancelled or cut short by a timeout, must not go
/// back: the next user would take that answer for its own. The [TCP](crate::tcp) and [TLS](crate::tls) connectors notice it
/// unless a part of the answer was read. For connections that do not notice, call [`discard`](Claim::discard).
///
/// Dropping never waits, spawns or needs a runtime. If it is dropped because its thread panics, the connection is closed,
/// since nobody knows what state it is in.
#[must_use = "dropping a claim gives the connection back"]
pub struct Claim<C: Connect> {
    shared: Arc<Shared<C>>,
    /// `None` only while being consumed.
    held: Option<Box<Held<C>>>,
}

impl<C: Connect> Claim<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>, held: Box<Held<C>>) -> Claim<C> {
        Claim { shared, held: Some(held) }
    }

    /// Which backend this is connected to.
    pub fn backend(&self) -> &Backend {
        &self.held().backend
    }

    /// How long ago it was connected.
    pub fn age(&self) -> Duration {
        self.life().map_or(Duration::ZERO, |life| clock::now().saturating_duration_since(life.born()))
    }

    /// How often it has been claimed, this time included.
    pub fn uses(&self) -> u64 {
        self.life().map_or(0, |life| life.uses())
    }

    /// Closes the connection in an orderly way instead of giving it back. The backend is not blamed.
    pub fn discard(mut self) {
        if let Some(held) = self.take() {
            self.give_back(held, Outcome::Discarded);
        }
    }

    /// Reports a failed use (for example a 5xx response) against the backend. The connection stays usable. The backend gets a
    /// penalty with [`Pick::LeastLoaded`](crate::Pick::LeastLoaded), and [`Ejection`](crate::Ejection) counts the failure at once,
    /// as it counts [failed](Claim::fail) uses. Returning the connection then is no successful use.
    #[doc(alias = "complain")]
    pub fn report_failure(&mut self) {
        self.report_failure_with(FailedUse::Unexplained);
    }

    /// As [`report_failure`](Claim::report_failure), with the reason that is logged and shown if the backend is ejected.
    pub fn report_failure_with(&mut self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        let error: Reason = reason.into().into();
        let (now, slot, backend) = (clock::now(), self.held().slot, Arc::clone(&self.held().backend));
        let outdated = self.shared.step(|table| {
            table.machine.report_failure(now, slot);
            table.causes.use_failed(backend, error)
        });
        drop_quietly(&self.shared.name, outdated);
    }

    /// Reports that this use is no evidence for or against the backend.
    #[cfg(feature = "http")]
    pub(crate) fn report_neutral(&self) {
        let slot = self.held().slot;
        self.shared.step(|table| table.machine.report_neutral(slot));
    }

    /// Reports a successful use, and how long the backend took to respond. Where claims are held for longer than that, this is
    /// the latency that [`Pick::LeastLoaded`](crate::Pick::LeastLoaded) should know: without it, one use in 16 is timed from the
    /// claim to its return, unless [`learn_latency`](super::Builder::learn_latency) is off. The first report of a claim counts.
    pub fn report_success_in(&self, latency: Duration) {
        self.report_head(clock::now(), Some(latency));
    }

    /// Reports a use that its caller cuts short before the response head, if that is not called off.
    #[cfg(feature = "http")]
    pub(crate) fn cut_short(&self) -> CutShort<C> {
        CutShort { shared: Arc::clone(&self.shared), slot: self.held().slot }
    }

    /// Reports a successful use whose length is no latency, and its latency if that is known.
    pub(crate) fn report_head(&self, now: Instant, latency: Option<Duration>) {
        let slot = self.held().slot;
        self.shared.step(|table| table.machine.report_success_in(now, slot, latency));
    }

    /// Reports a successful use, for a connection that will not be given back (giving it back reports the same):
    /// [`Ejection`](crate::Ejection) begins to count anew.
    #[doc(alias = "commend")]
    pub fn report_success(&self) {
        let (now, slot) = (clock::now(), self.held().slot);
        self.shared.step(|table| table.machine.report_success(now, slot));
    }

    /// Drops the connection and reports a failed use of the backend: the backend gets a penalty with
    /// [`Pick::LeastLoaded`](crate::Pick::LeastLoaded), and [`Ejection`](crate::Ejection) counts the failure. The connection is
    /// replaced at once. If this was its first use, and it was younger than a second, it counts as a failed attempt to connect
    /// instead: a backend that accepts connections and refuses every client is connected to with growing delays.
    ///
    /// The reason becomes the cause that failing claims report. Unless the connector says that the connection is open, the idle
    /// connections of the backend that were opened before are checked before they are lent again, or replaced if there is no check.
    /// For a connection that is of no use while its backend is fine there is [`discard`](Claim::discard).
    pub fn fail(mut self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        // Whatever becomes of this, the claim is still whole.
        let error: Arc<dyn Error + Send + Sync> = reason.into().into();
        if let Some(mut held) = self.take() {
            let backend = Arc::clone(&held.backend);
            if tracing::enabled!(tracing::Level::DEBUG) {
                let error = text_of(&Chain(&*error));
                tracing::debug!(pool = &*self.shared.name, %backend, error, "a use failed");
            }
            // A connector that cannot tell leaves it to the user.
            match liveness(&self.shared, &mut held) {
                Liveness::Unknown | Liveness::Closed => self.shared.broken(&backend, held.slot, &*error),
                Liveness::Broken(cause) => self.shared.broken(&backend, held.slot, &*cause),
                Liveness::Open | Liveness::Unanswered => {}
            }
            let outdated = self.shared.step(|table| table.causes.failed(backend, Failing::Use, error));
            drop_quietly(&self.shared.name, outdated);
            self.give_up(held, Outcome::Failed);
        }
    }

    /// Takes the connection out of the pool for good; the pool makes another if it needs one.
    pub fn detach(mut self) -> C::Connection {
        let Held { connection, slot, .. } = *self.take().expect("a claim holds its connection until it is consumed");
        let now = clock::now();
        self.shared.step(|table| table.give_up(now, slot, Outcome::Detached));
        connection
    }

    /// It was there at once.
    pub(crate) fn begin(mut self) -> Claim<C> {
        if let Some(held) = self.held.as_mut().filter(|held| held.timer.is_kept()) {
            quietly(&self.shared.name, || held.timer.lent());
        }
        self
    }

    /// It was waited for, since then.
    pub(crate) fn begin_after(mut self, since: Instant) -> Claim<C> {
        if let Some(held) = self.held.as_mut().filter(|held| held.timer.is_kept()) {
            quietly(&self.shared.name, || held.timer.lent_after(since));
        }
        self
    }

    /// What is known of the connection, which has idled.
    #[inline]
    pub(crate) fn liveness(&mut self) -> Liveness {
        let held = self.held.as_mut().expect("a claim holds its connection until it is consumed");
        liveness(&self.shared, held)
    }

    /// Ends a claim whose connection turned out closed or broken.
    pub(crate) fn end(mut self, liveness: Liveness) {
        let Some(mut held) = self.held.take() else { return };
        if let Liveness::Broken(cause) = liveness {
            self.shared.broken(&held.backend, held.slot, &*cause);
        }
        let holds_off = self.shared.step(|table| table.machine.options().replace_unused_after.is_some());
        if holds_off && has_unread(&self.shared, &mut held.connection) {
            self.shared.step(|table| table.machine.handle_unread(held.slot));
        }
        self.give_up(held, Outcome::Ended);
    }

    /// The connection, whose use ends here.
    #[inline]
    fn take(&mut self) -> Option<Box<Held<C>>> {
        let held = self.held.as_mut()?;
        if held.timer.is_kept() {
            quietly(&self.shared.name, || held.timer.back());
        }
        self.held.take()
    }

    fn held(&self) -> &Held<C> {
        self.held.as_deref().expect("a claim holds its connection until it is consumed")
    }

    fn life(&self) -> Option<Life> {
        self.shared.step(|table| table.machine.life(self.held().slot))
    }

    /// The connection goes back into the table.
    #[inline]
    fn give_back(&self, held: Box<Held<C>>, outcome: Outcome) {
        if let Some(orphan) = self.shared.step(|table| table.give_back(held, outcome)) {
            drop_quietly(&self.shared.name, orphan);
        }
    }

    /// Drops the connection first and frees its slot then, so that there is never one too many.
    #[cold]
    fn give_up(&self, held: Box<Held<C>>, outcome: Outcome) {
        let (slot, backend) = (held.slot, Arc::clone(&held.backend));
        // Whatever its own drop does, the slot must not be lost.
        drop_quietly(&self.shared.name, held);
        let now = clock::now();
        let outdated = self.shared.step(|table| match table.give_up(now, slot, outcome) {
            Blame::FailedAttempt => Some(table.causes.failed(backend, Failing::Connect, Arc::new(ConnectError::Ended))),
            Blame::FailedUse if outcome == Outcome::Closed => {
                Some(table.causes.use_failed(backend, Arc::new(FailedUse::Closed)))
            }
            // The others have a reason of their own.
            Blame::FailedUse | Blame::None => None,
        });
        drop_quietly(&self.shared.name, outdated);
    }
}

/// Reports how long a use took that is cut short: a latency penalty, and nothing else.
#[cfg(feature = "http")]
pub(crate) struct CutShort<C: Connect> {
    shared: Arc<Shared<C>>,
    slot: carom_core::slot::SlotRef,
}

#[cfg(feature = "http")]
impl<C: Connect> CutShort<C> {
    /// To be called before the claim ends.
    pub(crate) fn report(self, waited: Duration) {
        let now = clock::now();
        self.shared.step(|table| table.machine.report_cut_short(now, self.slot, waited));
    }
}

impl<C: Connect> Drop for Claim<C> {
    fn drop(&mut self) {
        let Some(mut held) = self.take() else { return };
        if std::thread::panicking() {
            return self.give_up(held, Outcome::Dropped);
        }
        match liveness(&self.shared, &mut held) {
            Liveness::Unknown | Liveness::Open => {
                self.give_back(held, Outcome::Open);
            }
            Liveness::Unanswered => {
                let (pool, backend) = (&*self.shared.name, &held.backend);
                tracing::debug!(pool, %backend, "a connection came back with an answer still to come");
                self.give_back(held, Outcome::Discarded);
            }
            Liveness::Closed => {
                tracing::debug!(pool = &*self.shared.name, backend = %held.backend, "a connection came back closed");
                self.give_up(held, Outcome::Closed);
            }
            Liveness::Broken(cause) => {
                self.shared.broken(&held.backend, held.slot, &*cause);
                let backend = Arc::clone(&held.backend);
                let outdated = self.shared.step(|table| table.causes.failed(backend, Failing::Use, cause));
                drop_quietly(&self.shared.name, outdated);
                self.give_up(held, Outcome::Broken);
            }
        }
    }
}

/// Asks what is known of a connection. A panic goes no further.
#[inline]
fn liveness<C: Connect>(shared: &Shared<C>, held: &mut Held<C>) -> Liveness {
    catch_unwind(AssertUnwindSafe(|| shared.connector.liveness(&mut held.connection))).unwrap_or_else(|_| {
        tracing::warn!(pool = &*shared.name, backend = %held.backend, "the connector panicked in `liveness`");
        Liveness::Closed
    })
}

/// Asks whether bytes wait on a connection that nobody has read. A panic means no, and goes no further.
pub(super) fn has_unread<C: Connect>(shared: &Shared<C>, connection: &mut C::Connection) -> bool {
    catch_unwind(AssertUnwindSafe(|| shared.connector.has_unread(connection))).unwrap_or_else(|_| {
        tracing::warn!(pool = &*shared.name, "the connector panicked in `has_unread`");
        false
    })
}

impl<C: Connect> Deref for Claim<C> {
    type Target = C::Connection;

    fn deref(&self) -> &C::Connection {
        &self.held().connection
    }
}

impl<C: Connect> DerefMut for Claim<C> {
    fn deref_mut(&mut self) -> &mut C::Connection {
        &mut self.held.as_mut().expect("a claim holds its connection until it is consumed").connection
    }
}

impl<C: Connect> fmt::Debug for Claim<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("pool", &self.shared.name)
            .field("backend", self.backend())
            .finish_non_exhaustive()
    }
}
