//! The lease: what keeps a connection in use, and the future that brings one.

use super::Share;
use super::error::LeaseError;
use super::shared::{Cell, Collected, Shared, Standing};
use crate::cause::FailedUse;
use crate::clock;
use carom_core::backend::Backend;
use carom_core::set::{ConnectionId, Leased, WaiterId, Want};
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tracing::Span;

/// What a lease is of, beyond the defaults; for [`Set::lease_with`](super::Set::lease_with).
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LeaseOptions {
    backend: Option<Backend>,
    place: Option<usize>,
    role: Option<Arc<str>>,
    avoid: Option<Backend>,
    timeout: Option<Duration>,
}

impl LeaseOptions {
    /// This backend, which the resolver need not know. Default: any that it knows.
    pub fn backend(mut self, backend: Backend) -> LeaseOptions {
        self.backend = Some(backend);
        self
    }

    /// Which of the backend's connections, as [`Lease::place`] said: for a user that must come back to the one it had. Default:
    /// the one with the fewest leases. One that the backend does not have, or without a backend, is refused, with
    /// [`LeaseError::NoSuchPlace`].
    pub fn place(mut self, place: usize) -> LeaseOptions {
        self.place = Some(place);
        self
    }

    /// What the lease is for (`producer`, `consumer`, ...), shown in snapshots. Default: nothing.
    pub fn role(mut self, role: impl Into<Arc<str>>) -> LeaseOptions {
        self.role = Some(role.into());
        self
    }

    /// Rather not of this backend, for a second try of something that failed there: of those connected another is leased, if
    /// there is one that has as much [room](Lease::limit). Default: none.
    pub fn avoid(mut self, avoid: Backend) -> LeaseOptions {
        self.avoid = Some(avoid);
        self
    }

    /// How long it may take to connect. Default: the set's `lease_timeout`.
    pub fn timeout(mut self, timeout: Duration) -> LeaseOptions {
        self.timeout = Some(timeout);
        self
    }
}

/// A lease under way; see [`Set::lease`](super::Set::lease).
#[must_use = "a lease does nothing until it is awaited"]
pub struct Leasing<'set, S: Share> {
    shared: &'set Arc<Shared<S>>,
    options: LeaseOptions,
    progress: Progress,
}

enum Progress {
    New,
    /// With the span of waiting, if anybody listens: leases that are given at once have none, and pay nothing for it.
    Waiting {
        waiter: WaiterId,
        since: Instant,
        span: Option<Box<Span>>,
    },
    Over,
}

impl<'set, S: Share> Leasing<'set, S> {
    pub(crate) fn new(shared: &'set Arc<Shared<S>>, options: LeaseOptions) -> Leasing<'set, S> {
        Leasing { shared, options, progress: Progress::New }
    }

    /// Of a connection that is up: nobody else hears of it, and no clock is asked.
    fn begin_warm(&mut self) -> Option<Result<Lease<S>, LeaseError>> {
        let LeaseOptions { backend, place, role, avoid, .. } = &self.options;
        let cell = {
            let mut table = self.shared.lock();
            let connection = table.machine.lease_warm(backend.as_ref(), *place, avoid.as_ref())?;
            table.count_role(connection, role.as_ref(), 1);
            table.cell(connection)
        };
        self.progress = Progress::Over;
        Some(match cell {
            Some(cell) => Ok(Lease::new(self.shared, cell, self.options.role.take())),
            None => Err(LeaseError::closed(&self.shared.name)),
        })
    }

    fn begin(&mut self, context: &Context<'_>) -> Poll<Result<Lease<S>, LeaseError>> {
        if let Some(lease) = self.begin_warm() {
            return Poll::Ready(lease);
        }
        let now = clock::now();
        let LeaseOptions { backend, place, avoid, timeout, .. } = &self.options;
        let want = Want { backend: backend.clone(), place: *place, avoid: avoid.clone(), timeout: *timeout };
        let role = self.options.role.clone();
        let begun = self.shared.step(|table| match table.machine.lease(now, want) {
            Leased::Granted(connection) => {
                table.count_role(connection, role.as_ref(), 1);
                Begun::Granted(table.cell(connection))
            }
            Leased::Waiting(waiter) => {
                table.wait(waiter, context.waker().clone(), role.clone());
                Begun::Waiting(waiter)
            }
            Leased::Refused(refusal) => {
                let (wanted, waited) = (backend.as_ref(), Duration::ZERO);
                Begun::Refused(table.explain(&refusal, wanted, waited, &self.shared.name))
            }
        });
        self.progress = Progress::Over;
        match begun {
            Begun::Granted(Some(cell)) => Poll::Ready(Ok(Lease::new(self.shared, cell, role))),
            Begun::Granted(None) => Poll::Ready(Err(LeaseError::closed(&self.shared.name))),
            Begun::Refused(error) => Poll::Ready(Err(error)),
            Begun::Waiting(waiter) => {
                let listens = tracing::enabled!(tracing::Level::DEBUG);
                let span = listens.then(|| Box::new(tracing::debug_span!("lease", set = &*self.shared.name)));
                self.progress = Progress::Waiting { waiter, since: now, span };
                Poll::Pending
            }
        }
    }

    fn collect(
        &mut self,
        waiter: WaiterId,
        since: Instant,
        context: &Context<'_>,
    ) -> Poll<Result<Lease<S>, LeaseError>> {
        let collected = self.shared.lock().collect(waiter, context.waker());
        match collected {
            Collected::Nothing(_) => Poll::Pending,
            Collected::Granted(cell) => {
                self.progress = Progress::Over;
                Poll::Ready(Ok(Lease::new(self.shared, cell, self.options.role.clone())))
            }
            Collected::Refused(refusal) => {
                self.progress = Progress::Over;
                let waited = clock::now().saturating_duration_since(since);
                let (wanted, name) = (self.options.backend.as_ref(), &self.shared.name);
                Poll::Ready(Err(self.shared.lock().explain(&refusal, wanted, waited, name)))
            }
        }
    }
}

enum Begun<S: Share> {
    Granted(Option<Arc<Cell<S>>>),
    Waiting(WaiterId),
    Refused(LeaseError),
}

impl<S: Share> Future for Leasing<'_, S> {
    type Output = Result<Lease<S>, LeaseError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &self.progress {
            Progress::New => self.begin(context),
            Progress::Waiting { waiter, since, span } => {
                let (waiter, since) = (*waiter, *since);
                let span = span.as_deref().cloned();
                let _entered = span.as_ref().map(Span::enter);
                self.collect(waiter, since, context)
            }
            Progress::Over => panic!("a lease was polled after it had ended"),
        }
    }
}

impl<S: Share> Drop for Leasing<'_, S> {
    fn drop(&mut self) {
        let Progress::Waiting { waiter, .. } = self.progress else { return };
        let (granted, _waker) = self.shared.step(|table| table.withdraw(clock::now(), waiter));
        if let Some(cell) = granted {
            drop(Lease::new(self.shared, cell, self.options.role.take()));
        }
    }
}

/// A share of a connection, which stays in use as long as somebody has one. Dropping it lets go.
pub struct Lease<S: Share> {
    shared: Arc<Shared<S>>,
    cell: Arc<Cell<S>>,
    role: Option<Arc<str>>,
}

impl<S: Share> Lease<S> {
    fn new(shared: &Arc<Shared<S>>, cell: Arc<Cell<S>>, role: Option<Arc<str>>) -> Lease<S> {
        Lease { shared: Arc::clone(shared), cell, role }
    }

    /// The connection.
    pub fn connection(&self) -> &S::Connection {
        &self.cell.connection
    }

    /// Where it leads.
    pub fn backend(&self) -> &Backend {
        &self.cell.backend
    }

    /// Which of the backend's connections it is; with [`LeaseOptions::place`] a later lease goes to the same.
    pub fn place(&self) -> usize {
        self.cell.place.get().copied().unwrap_or(0)
    }

    /// What it is for, if it was said.
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// The connection's name within the set; leases with the same name share a connection.
    pub fn id(&self) -> ConnectionId {
        self.cell.id
    }

    /// Takes the connection out of the set, for when its far side has said that it takes no more: nobody else gets it, and it
    /// ends with its last lease. The next lease is of another. That is no failure; but where a connection had just been made, none
    /// of its leases has ended yet and no use was [reported](Lease::report_success), the next is made after the delay of the recovery
    /// policy.
    pub fn retire(&self) {
        self.shared.step(|table| table.machine.retire(clock::now(), self.cell.id));
    }

    /// Says how many leases of the connection its far side can serve at a time. Where there are as many already, leases of any
    /// backend go to others that have room. Default: any number.
    pub fn limit(&self, leases: usize) {
        self.shared.lock().machine.set_capacity(self.cell.id, leases);
    }

    /// Reports a failed use against the backend: [`Ejection`](crate::Ejection) counts it. After more than one lately, leases of any
    /// backend are of others while there are others, and after 5 in a row that backend gets one lease a second until a use succeeds.
    /// So report successful uses as well. The connection stays as it is.
    #[doc(alias = "complain")]
    pub fn report_failure(&self) {
        self.report_failure_with(FailedUse::Unexplained);
    }

    /// As [`report_failure`](Lease::report_failure), with the reason that is logged and shown if the backend is ejected.
    pub fn report_failure_with(&self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        self.shared.use_failed(Arc::clone(&self.cell.backend), reason.into().into());
    }

    /// Reports a successful use: failures before it are not in a row with those after it. A connection with at least one
    /// such report is replaced without a backoff when it is closed.
    #[doc(alias = "commend")]
    pub fn report_success(&self) {
        self.report_head(clock::now(), None);
    }

    /// As [`report_success`](Lease::report_success), and how long the backend took to respond: the latency by which leases of any
    /// backend are shared. A backend that takes more than twice as long as most gets fewer.
    pub fn report_success_in(&self, latency: Duration) {
        self.report_head(clock::now(), Some(latency));
    }

    /// Reports a successful use, and its latency if that is known.
    pub(crate) fn report_head(&self, now: Instant, latency: Option<Duration>) {
        let (backend, id) = (&self.cell.backend, self.cell.id);
        let is_unproven = {
            let mut table = self.shared.lock();
            table.machine.report_success(now, backend, latency);
            table.machine.is_unproven(backend, id)
        };
        if is_unproven {
            self.report_use();
        }
    }

    /// A use of the connection succeeded: when it is closed, that is no failure. May come after its end.
    pub(crate) fn report_use(&self) {
        let (backend, id) = (&self.cell.backend, self.cell.id);
        self.shared.step(|table| {
            if table.machine.is_unproven(backend, id) {
                table.machine.handle_served(clock::now(), backend, id);
            }
        });
    }

    /// Resolves when the connection is on its way out, because its backend is gone or not wanted any more: time to finish and
    /// to lease another. Also when it has closed. Independent of the lease; cancelling is harmless.
    pub fn draining(&self) -> impl Future<Output = ()> + Send + 'static {
        self.reaches(Standing::Draining)
    }

    /// Resolves when the connection has ended. Independent of the lease; cancelling is harmless.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.reaches(Standing::Closed)
    }

    /// Whether the connection has ended, as far as is known.
    pub fn is_closed(&self) -> bool {
        *self.cell.standing.borrow() == Standing::Closed
    }

    fn reaches(&self, wanted: Standing) -> impl Future<Output = ()> + Send + 'static {
        let mut standing = self.cell.standing.subscribe();
        async move {
            // It fails when the last holder is gone: the connection has ended then.
            let _ = standing.wait_for(|standing| *standing >= wanted).await;
        }
    }
}

impl<S: Share> Deref for Lease<S> {
    type Target = S::Connection;

    fn deref(&self) -> &S::Connection {
        &self.cell.connection
    }
}

impl<S: Share> Drop for Lease<S> {
    fn drop(&mut self) {
        let (id, role, now) = (self.cell.id, self.role.as_ref(), clock::now());
        let nothing_follows = {
            let mut table = self.shared.lock();
            let nothing_follows = table.machine.release_warm(now, id);
            if nothing_follows {
                table.count_role(id, role, -1);
            }
            nothing_follows
        };
        if !nothing_follows {
            self.shared.step(|table| {
                table.count_role(id, role, -1);
                table.machine.release(now, id);
            });
        }
    }
}

impl<S: Share> fmt::Debug for Lease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("backend", &self.cell.backend).field("role", &self.role).finish_non_exhaustive()
    }
}
