//! The future of a claim: served at once, or in line until served, refused or dropped.

use super::callers::{Collected, Withdrawn};
use super::claim::Claim;
use super::error::ClaimError;
use super::shared::Shared;
use super::table::{Asking, Begun, Granted};
use crate::clock;
use crate::connect::{Connect, Liveness};
use carom_core::waiters::{Place, WaiterId};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tracing::Span;

/// A claim under way; see [`Pool::claim`](super::Pool::claim).
///
/// Cancel safety: dropping it at any time gives its place in line to whoever is next, and a connection that was already
/// handed to it too.
#[must_use = "a claim does nothing until it is awaited"]
pub struct Claiming<'pool, C: Connect> {
    shared: &'pool Arc<Shared<C>>,
    asking: Asking,
    progress: Progress,
}

enum Progress {
    New,
    /// With the span of waiting, if anybody listens: claims that are served at once have none, and pay nothing for it.
    InLine {
        waiter: WaiterId,
        since: Instant,
        span: Option<Box<Span>>,
    },
    Over,
}

impl<'pool, C: Connect> Claiming<'pool, C> {
    pub(crate) fn new(shared: &'pool Arc<Shared<C>>, asking: Asking) -> Claiming<'pool, C> {
        Claiming { shared, asking, progress: Progress::New }
    }

    #[inline]
    fn begin(&mut self, context: &Context<'_>) -> Poll<Result<Claim<C>, ClaimError>> {
        let shared = self.shared;
        let (mut first, mut now, mut again) = (None::<Instant>, shared.now_if_crowded(), None::<Place>);
        loop {
            let mut table = shared.lock();
            let rough =
                if now.is_none() && self.asking.avoid.is_none() { table.machine.time_for_claim() } else { None };
            let time = rough.or(now).unwrap_or_else(clock::now);
            let begun = table.begin(time, &self.asking, again, context.waker(), &shared.name);
            shared.unlock(table);
            if rough.is_none() {
                first.get_or_insert(time);
            }
            match begun {
                Begun::Granted(granted) => match open(shared, granted) {
                    Ok(claim) => {
                        self.progress = Progress::Over;
                        return Poll::Ready(Ok(claim));
                    }
                    // Without a look at the clock it is not known since when it waits.
                    Err(place) => (now, again) = (Some(clock::now()), rough.is_none().then_some(place)),
                },
                Begun::Waiting(waiter) => {
                    let listens = tracing::enabled!(tracing::Level::DEBUG);
                    let span = listens.then(|| Box::new(tracing::debug_span!("claim", pool = &*shared.name)));
                    self.progress = Progress::InLine { waiter, since: first.unwrap_or(time), span };
                    return Poll::Pending;
                }
                Begun::Refused(error) => {
                    self.progress = Progress::Over;
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    #[inline(never)]
    fn collect(
        &mut self,
        waiter: WaiterId,
        since: Instant,
        context: &Context<'_>,
    ) -> Poll<Result<Claim<C>, ClaimError>> {
        let waited = clock::now().saturating_duration_since(since);
        // Collecting serves nobody else and asks nothing of the driver.
        let collected = self.shared.lock().collect(waiter, waited, context.waker());
        match collected {
            Collected::Nothing(_) => Poll::Pending,
            Collected::Granted(held) => {
                self.progress = Progress::Over;
                Poll::Ready(Ok(Claim::new(Arc::clone(self.shared), held).begin_after(since)))
            }
            Collected::Refused(refusal) => {
                self.progress = Progress::Over;
                let name = &self.shared.name;
                Poll::Ready(Err(self.shared.step(|table| table.explain(refusal, waited, name))))
            }
        }
    }
}

/// Makes the guard, unless the connection is closed.
pub(crate) fn open<C: Connect>(shared: &Arc<Shared<C>>, granted: Granted<C>) -> Result<Claim<C>, Place> {
    let Granted { held, place, watcher } = granted;
    let mut claim = Claim::new(Arc::clone(shared), held);
    if let Some(watcher) = watcher {
        watcher.abort();
    }
    match claim.liveness() {
        // No user left it so, or it would not idle: the connector wrote something that has no answer, for example a greeting.
        Liveness::Unknown | Liveness::Open | Liveness::Unanswered => Ok(claim.begin()),
        liveness @ (Liveness::Closed | Liveness::Broken(_)) => {
            claim.end(liveness);
            Err(place)
        }
    }
}

impl<C: Connect> Future for Claiming<'_, C> {
    type Output = Result<Claim<C>, ClaimError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &self.progress {
            Progress::New => self.begin(context),
            Progress::InLine { waiter, since, span } => {
                let (waiter, since) = (*waiter, *since);
                let span = span.as_deref().cloned();
                let _entered = span.as_ref().map(Span::enter);
                self.collect(waiter, since, context)
            }
            Progress::Over => panic!("a claim was polled after it had ended"),
        }
    }
}

impl<C: Connect> Drop for Claiming<'_, C> {
    fn drop(&mut self) {
        let Progress::InLine { waiter, .. } = self.progress else { return };
        match self.shared.step(|table| table.withdraw(waiter)) {
            Withdrawn::Granted(held) => drop(Claim::new(Arc::clone(self.shared), held)),
            Withdrawn::Waiting(_) | Withdrawn::Nothing => {}
        }
    }
}
