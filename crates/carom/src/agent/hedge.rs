//! Hedged requests and probes: requests that are sent twice because a backend is stalled or unhealthy.
//!
//! A safe request that waits at such a backend is sent once more, to another one. The first response wins, and the other sending is
//! cancelled without effect on its backend. A stalled backend is probed with a copy of a request that goes elsewhere; the response to
//! the copy is discarded. Where nothing is sent that may be copied, and no active health check runs, a stalled backend gets a request
//! as a trial, more and more rarely.

use super::body::Body;
use super::dial::{Made, Offer, Spoken};
use super::http1::{self, Connection, Connector, Exchanged, Lost, Promise, Settled};
use super::http2;
use super::limit::Limit;
use super::negotiation::Found;
use super::origin::Shared;
use super::retry::{Spare, is_repeatable};
use super::routes::{Held, Route};
use super::served::Protocol;
use super::serving::{Course, is_upgrade};
use super::stalls::{LATE, Pulse, Registration};
use crate::{Backend, Claim, Set, clock};
use carom_core::stall::MOST_THRESHOLD;
use http::{Request, Response};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep_until, timeout};

/// A response to the second sending.
pub(super) struct Hedged {
    pub(super) response: Response<Body>,
    pub(super) backend: Backend,
    pub(super) protocol: Protocol,
    pub(super) made: Option<Made>,
    pub(super) claimed: Instant,
}

/// How waiting for a response head ended.
pub(super) enum Ended<T> {
    /// The first sending came to this.
    First(T),
    /// The second one was faster.
    Hedged(Box<Hedged>),
    /// The time is up.
    TimedOut,
}

/// Reports that a request was cut short after it has waited so long.
type CutShort<'a> = Box<dyn FnOnce(Duration) + Send + 'a>;

/// A request that has waited for a while: its backend may be stalled.
pub(super) struct LateRequest<'a, T> {
    shared: &'a Shared,
    registration: Registration,
    backend: Backend,
    told: bool,
    hedge: Option<Pin<Box<dyn Future<Output = Option<Hedged>> + Send + 'a>>>,
    /// What the first sending came to, while the second one is under way.
    lost: Option<T>,
    /// To be reported if the caller gives up.
    cut_short: Option<CutShort<'a>>,
    sent: Instant,
}

impl<T> LateRequest<'_, T> {
    /// Whether a request that was lost is still under way elsewhere.
    pub(super) fn hedges(&self) -> bool {
        self.hedge.is_some()
    }

    /// The first sending has failed, while the second one is under way.
    pub(super) fn lose(&mut self, lost: T) {
        self.lost = Some(lost);
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The wait is over, and the caller was there to see it.
    pub(super) fn end(&mut self) {
        self.cut_short = None;
    }

    /// Sends the request once more when its backend is stalled or becomes unhealthy. Ready with its response, or, if nothing came of it, with what the
    /// first sending has come to.
    pub(super) fn poll(&mut self, copy: impl FnOnce() -> Option<Spare>, cx: &mut Context<'_>) -> Poll<Ended<T>> {
        let shared = self.shared;
        if !self.told && self.registration.poll_retry(&shared.runtime, cx).is_ready() {
            self.told = true;
            let backend = self.backend.clone();
            self.hedge = copy().map(|spare| -> Pin<Box<dyn Future<Output = Option<Hedged>> + Send>> {
                Box::pin(shared.send_elsewhere(spare.into_request(), backend))
            });
        }
        let Some(hedge) = &mut self.hedge else { return Poll::Pending };
        let hedged = ready!(hedge.as_mut().poll(cx));
        self.hedge = None;
        match (hedged, self.lost.take()) {
            (Some(hedged), _) => Poll::Ready(Ended::Hedged(Box::new(hedged))),
            (None, Some(lost)) => Poll::Ready(Ended::First(lost)),
            (None, None) => Poll::Pending,
        }
    }
}

impl<T> Drop for LateRequest<'_, T> {
    fn drop(&mut self) {
        let Some(report) = self.cut_short.take() else { return };
        let waited = clock::now().saturating_duration_since(self.sent);
        if waited > self.shared.stalls.threshold() {
            report(waited);
        }
    }
}

impl Shared {
    /// A request over HTTP/1 that waits for its response head, and has done so for a while by now.
    #[cold]
    pub(super) fn late_over_http1(
        &self,
        claim: &Claim<Connector>,
        promise: &Promise,
        sent: Instant,
    ) -> Box<LateRequest<'_, Exchanged>> {
        let cut_short = claim.cut_short();
        self.begin_late(claim.pulse(), sent, promise.is_repeatable(), Box::new(move |waited| cut_short.report(waited)))
    }

    fn begin_late<'a, T>(
        &'a self,
        pulse: &Arc<Pulse>,
        sent: Instant,
        repeatable: bool,
        cut_short: CutShort<'a>,
    ) -> Box<LateRequest<'a, T>> {
        let registration = self.stalls.wait(pulse, sent, repeatable);
        let backend = pulse.backend.clone();
        let (told, hedge, lost, cut_short) = (false, None, None, Some(cut_short));
        Box::new(LateRequest { shared: self, registration, backend, told, hedge, lost, cut_short, sent })
    }

    /// Sends a request over HTTP/2, and waits for its response head.
    pub(super) async fn exchange_over_http2(
        &self,
        seat: http2::Seat,
        request: Box<Request<Body>>,
        spare: &mut Option<Spare>,
        sent: Instant,
        limit: &mut Option<Limit>,
    ) -> Ended<Result<Response<Body>, Lost>> {
        // A request whose body is still being sent needs no response yet.
        let watches = self.stalls.has_several() && request.body().is_whole();
        let pulse = watches.then(|| Arc::clone(seat.pulse()));
        let mut exchanging = Box::pin(http2::exchange(seat, *request, sent));
        let (mut alarm, mut late): (Option<Pin<Box<Sleep>>>, Option<Box<LateRequest<'_, _>>>) = (None, None);
        let ended = poll_fn(|cx| {
            if late.as_ref().is_none_or(|late| !late.has_lost())
                && let Poll::Ready(exchanged) = exchanging.as_mut().poll(cx)
            {
                match &mut late {
                    Some(late) if late.hedges() && exchanged.is_err() => late.lose(exchanged),
                    Some(_) | None => return Poll::Ready(Ended::First(exchanged)),
                }
            }
            if limit.as_mut().is_some_and(|limit| limit.poll(cx).is_ready()) {
                return Poll::Ready(Ended::TimedOut);
            }
            let Some(pulse) = &pulse else { return Poll::Pending };
            if late.is_none() {
                let alarm = alarm.get_or_insert_with(|| {
                    let _entered = self.runtime.enter();
                    Box::pin(sleep_until((sent + LATE).into()))
                });
                ready!(alarm.as_mut().poll(cx));
            }
            // A spare may be sent to another thread, but not looked at from two.
            let spare = spare.as_mut();
            let is_repeatable = spare.as_ref().is_some_and(|spare| spare.is_repeatable());
            let late = late.get_or_insert_with(|| {
                let report = |waited| self.report_cut_short(&pulse.backend, waited);
                self.begin_late(pulse, sent, is_repeatable, Box::new(report))
            });
            late.poll(|| spare?.copy(), cx)
        })
        .await;
        if let Some(late) = &mut late {
            late.end();
        }
        ended
    }

    /// A request over HTTP/2 was cut short after it has waited so long for its response head.
    fn report_cut_short(&self, backend: &Backend, waited: Duration) {
        if let Some(Route::Http2(set)) = self.routes.known().map(|found| found.route) {
            set.report_cut_short(backend, waited);
        }
    }

    /// Sends a request once more, to another backend than this one. `None` if nothing comes of it.
    async fn send_elsewhere(&self, mut request: Box<Request<Body>>, stalled: Backend) -> Option<Hedged> {
        let course = Course::beside(stalled);
        let held = self.hold(request.method(), false, &course, None).await.ok()?;
        if course.avoids(held.backend()) {
            return None;
        }
        self.introduce(&mut request);
        let (claimed, pulse) = (clock::now(), Arc::clone(held.pulse()));
        let (backend, protocol, made) = (held.backend().clone(), held.protocol(), held.begin_use());
        tracing::debug!(origin = &*self.name, %backend, "a request is sent once more: its backend is stalled or unhealthy");
        let registration = self.stalls.wait(&pulse, claimed, false);
        let response = match held {
            Held::Http1(mut claim) => {
                let (mut promise, sent) = http1::send(&mut claim, request, claimed, false);
                let exchanged = poll_fn(|cx| claim.poll_answer(&mut promise, cx)).await;
                match http1::settle(claim, exchanged, sent, false) {
                    Settled::Answered(response) => response,
                    Settled::Upgrades(..) | Settled::Lost(_) => return None,
                }
            }
            Held::Http2(seat) => http2::exchange(seat, *request, claimed).await.ok()?,
        };
        self.stalls.response_started(&pulse, Some(claimed));
        drop(registration);
        Some(Hedged { response, backend, protocol, made, claimed })
    }

    /// If a stalled backend is to be probed, sends a copy of a request there that goes elsewhere. A request that must not be sent twice
    /// may be the trial of a stalled backend itself: what it goes over then.
    #[cold]
    pub(super) fn probe_stalled(&self, request: &Request<Body>) -> Option<Box<Held>> {
        let spare = if is_repeatable(request) { Spare::of(request) } else { None };
        let pulse = if spare.is_some() { self.stalls.next_probe() } else { self.stalls.next_trial() }?;
        let found = self.routes.known()?;
        if !self.resolver.backends().contains(&pulse.backend) {
            self.stalls.forget(&pulse);
            return None;
        }
        match spare {
            Some(spare) => self.probe(spare, found, &pulse),
            None => return self.trial(request, found, &pulse.backend),
        }
        None
    }

    /// A connection to a stalled backend, if one is open and takes this request now.
    fn trial(&self, request: &Request<Body>, found: Found, backend: &Backend) -> Option<Box<Held>> {
        let held = match found.route {
            Route::Http1(pool) => {
                let mut claim = pool.try_claim_of(backend)?;
                if !claim.is_open() {
                    claim.discard();
                    return None;
                }
                Held::Http1(claim)
            }
            Route::Http2(_) if is_upgrade(request) => return None,
            Route::Http2(set) => {
                let entering = pin!(http2::enter_at(&set, backend.clone()));
                match entering.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Some(seat)) => Held::Http2(seat),
                    Poll::Ready(None) | Poll::Pending => return None,
                }
            }
        };
        tracing::debug!(origin = &*self.name, %backend, "a request is sent to a stalled backend, to see whether it responds");
        Some(Box::new(held))
    }

    fn probe(&self, spare: Spare, found: Found, pulse: &Pulse) {
        let mut request = spare.into_request();
        self.introduce(&mut request);
        let mut closed = self.closed.subscribe();
        let probe: Pin<Box<dyn Future<Output = ()> + Send>> = match found.route {
            // On a new connection: a probe takes no slot of the pool.
            Route::Http1(_) => {
                let dialer = self.dialer.offering(Offer::Only(Spoken::Http1));
                let (backend, origin) = (pulse.backend.clone(), Arc::clone(&self.name));
                Box::pin(async move {
                    if let Ok(dialled) = dialer.dial(&backend).await {
                        Connection::begin(dialled, &origin).send(request).await;
                    }
                })
            }
            Route::Http2(set) => Box::pin(probe_over_http2(set, pulse.backend.clone(), request)),
        };
        self.runtime.spawn(async move {
            tokio::select! {
                _ = closed.wait_for(|closed| *closed) => {}
                _ = timeout(MOST_THRESHOLD, probe) => {}
            }
        });
    }
}

async fn probe_over_http2(set: Set<http2::Connector>, backend: Backend, request: Box<Request<Body>>) {
    let seat = http2::enter_at(&set, backend).await;
    drop(set);
    if let Some(seat) = seat {
        let _ = http2::exchange(seat, *request, clock::now()).await;
    }
}
