//! A request from beginning to end: a connection is claimed, tried, and tried again where that can do no harm.

use super::body::Body;
use super::error::{Error, Step};
use super::evidence::FailedUse;
use super::hedge::{Ended, LateRequest};
use super::http1::{self, Connector, Exchanged, Lost, Pace, Settled};
use super::http2;
use super::limit::{Limit, poll_within};
use super::negotiation::{Found, LOOKS};
use super::origin::Shared;
use super::retry::{ATTEMPTS, Spare, UNTRIED};
use super::routes::{Held, Route};
use super::served::{Served, Timings};
use super::stalls::LATE;
use crate::pool::ClaimError;
use crate::{Backend, Claim, ClaimOptions, Pool, Set, clock};
use http::header::{CONTENT_LENGTH, HOST, HeaderValue, UPGRADE};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri, Version};
use http_body::Body as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Whoever looks for another backend is given twice this long for it.
const AVOIDING: Duration = Duration::from_secs(1);

/// How far a request has come.
pub(super) struct Course {
    begun: Instant,
    attempts: u32,
    /// How often it came upon connections that take no more requests.
    untried: u32,
    /// Whose connections the next attempt is not made on while there are others.
    avoid: Option<Backend>,
    /// Why the last attempt was lost.
    lost: Option<Error>,
}

impl Course {
    /// One more attempt beside one at this backend.
    pub(super) fn beside(backend: Backend) -> Course {
        Course { begun: clock::now(), attempts: 1, untried: 0, avoid: Some(backend), lost: None }
    }

    pub(super) fn avoids(&self, backend: &Backend) -> bool {
        self.avoid.as_ref() == Some(backend)
    }

    /// How long it may still wait for a connection: there is one time for all attempts.
    fn left(&self, now: Instant, claim_timeout: Duration) -> Duration {
        claim_timeout.saturating_sub(now.saturating_duration_since(self.begun))
    }

    /// That there is nothing to try again on is no reason to fail; that it was lost before is.
    fn reason(&self, refused: Error) -> Error {
        match &self.lost {
            Some(lost) if refused.step() == Step::Claim => lost.clone(),
            Some(_) | None => refused,
        }
    }

    fn is_at_its_last(&self) -> bool {
        self.attempts + 1 == ATTEMPTS
    }
}

impl Shared {
    /// Sends a request and waits for the head of the answer.
    ///
    /// All that nearly every request does is in this one function, and what few do is in boxes, as is what is large: futures are
    /// moved about whole, and those inside others each time with them.
    pub(super) async fn serve(&self, mut request: Box<Request<Body>>) -> Result<Response<Body>, Error> {
        let begun = clock::now();
        self.note_use(begun);
        self.address(&mut request);
        let mut trial = if self.stalls.has_any() { self.probe_stalled(&request) } else { None };
        let mut limit = self.settings.timeout.map(|after| Limit::new(begun, after));
        let mut course = Course { begun, attempts: 0, untried: 0, avoid: None, lost: None };
        let (mut resolve, mut since) = (None, begun);
        if !self.is_resolved() {
            let mut resolving = Box::pin(self.resolve(begun));
            match poll_fn(|cx| poll_within(&mut limit, resolving.as_mut(), cx)).await {
                Some(Ok(took)) => resolve = took,
                Some(Err(error)) => return Err(self.tell(error, &course)),
                None => return Err(self.late(&course)),
            }
            since = resolve.map_or(begun, |took| begun + took);
        }
        loop {
            let tried = trial.take();
            let found = if tried.is_none() { self.at_once(&request, &course) } else { None };
            let claimed = match found.as_ref().map(|found| &found.route) {
                Some(Route::Http1(pool)) => {
                    let left = course.left(since, self.settings.claim_timeout);
                    let mut claiming = http1::claim(pool, ClaimOptions::default().timeout(left));
                    match poll_fn(|cx| poll_within(&mut limit, Pin::new(&mut claiming), cx)).await {
                        Some(claimed) => Some(claimed),
                        None => return Err(self.late(&course)),
                    }
                }
                Some(Route::Http2(_)) | None => None,
            };
            let held = match (tried, claimed.map(|claimed| usable(claimed, request.method()))) {
                (Some(held), _) => *held,
                (None, Some(Ok(Some(claim)))) => Held::Http1(claim),
                (None, other) => {
                    let refused = found.zip(other.and_then(Result::err));
                    let mut holding = Box::pin(self.hold(request.method(), is_upgrade(&request), &course, refused));
                    match poll_fn(|cx| poll_within(&mut limit, holding.as_mut(), cx)).await {
                        Some(Ok(held)) => held,
                        Some(Err(error)) => return Err(self.tell(course.reason(error), &course)),
                        None => return Err(self.late(&course)),
                    }
                }
            };
            let mut claimed = clock::now();
            course.attempts += 1;
            let (mut backend, mut protocol, mut made) = (held.backend().clone(), held.protocol(), held.begin_use());
            let (pulse, in_pieces) = (Arc::clone(held.pulse()), !request.body().is_whole());
            let may = course.attempts < ATTEMPTS;
            let (mut spare, mut had_rested) = (None, false);
            let ended = match held {
                Held::Http1(mut claim) => {
                    self.introduce(&mut request);
                    let (mut promise, sent) = http1::send(&mut claim, request, claimed, may);
                    had_rested = claim.had_rested();
                    // Dropped before the claim.
                    let mut late: Option<Box<LateRequest<'_, _>>> = None;
                    let ended = poll_fn(|cx| {
                        let has_lost = late.as_ref().is_some_and(|late| late.has_lost());
                        if !has_lost && let Poll::Ready(exchanged) = claim.poll_answer(&mut promise, cx) {
                            match (&mut late, exchanged) {
                                (Some(late), Exchanged::Answered(response)) => {
                                    late.end();
                                    return Poll::Ready(Ended::First(Exchanged::Answered(response)));
                                }
                                (Some(late), lost) if late.hedges() => late.lose(lost),
                                (_, exchanged) => return Poll::Ready(Ended::First(exchanged)),
                            }
                        }
                        let timed_out = match &mut limit {
                            Some(limit) if has_lost => limit.poll(cx),
                            Some(limit) => limit.poll_answer(&mut claim, sent.pace()),
                            None => Poll::Pending,
                        };
                        if timed_out.is_ready() {
                            return Poll::Ready(Ended::TimedOut);
                        }
                        if late.is_none()
                            && self.stalls.has_several()
                            && claim.has_come(claimed + LATE)
                            && sent.pace().is_none_or(Pace::is_over)
                        {
                            // What took long to send was sent just now.
                            let since = sent.pace().map_or(claimed, |_| clock::now());
                            late = Some(self.late_over_http1(&claim, &promise, since));
                        }
                        late.as_mut().map_or(Poll::Pending, |late| late.poll(|| promise.copy(), cx))
                    });
                    let ended = ended.await;
                    if let Some(late) = &mut late {
                        late.end();
                    }
                    match ended {
                        Ended::First(exchanged) => {
                            let settled = http1::settle(claim, exchanged, sent, promise.repeats());
                            if let Settled::Lost(_) = settled {
                                spare = promise.into_spare();
                            }
                            Ended::First(settled)
                        }
                        Ended::Hedged(hedged) => {
                            // Cancelled without effect on its backend.
                            claim.report_neutral();
                            claim.discard();
                            Ended::Hedged(hedged)
                        }
                        Ended::TimedOut => {
                            http1::give_up(claim, &sent);
                            Ended::TimedOut
                        }
                    }
                }
                Held::Http2(seat) => {
                    spare = if may { Spare::of(&request) } else { None };
                    self.introduce(&mut request);
                    match Box::pin(self.exchange_over_http2(seat, request, &mut spare, claimed, &mut limit)).await {
                        Ended::First(Ok(response)) => Ended::First(Settled::Answered(response)),
                        Ended::First(Err(lost)) => Ended::First(Settled::Lost(lost)),
                        Ended::Hedged(hedged) => Ended::Hedged(hedged),
                        Ended::TimedOut => {
                            if !in_pieces && let Some(Route::Http2(set)) = self.routes.known().map(|found| found.route)
                            {
                                set.report_failure(&backend, FailedUse::TimedOut);
                            }
                            Ended::TimedOut
                        }
                    }
                }
            };
            if let Ended::First(Settled::Answered(_) | Settled::Upgrades(..)) = ended {
                self.stalls.response_started(&pulse, (!in_pieces).then_some(claimed));
            }
            let settled = match ended {
                Ended::First(Settled::Upgrades(claim, response)) => {
                    let mut upgrading = Box::pin(http1::upgrade(claim, response));
                    let upgraded = poll_fn(|cx| poll_within(&mut limit, upgrading.as_mut(), cx)).await;
                    upgraded.map(|upgraded| upgraded.map_err(Lost::Failed))
                }
                Ended::First(Settled::Answered(response)) => Some(Ok(response)),
                Ended::First(Settled::Lost(lost)) => Some(Err(lost)),
                Ended::Hedged(hedged) => {
                    (backend, protocol, made, claimed) = (hedged.backend, hedged.protocol, hedged.made, hedged.claimed);
                    course.attempts += 1;
                    Some(Ok(hedged.response))
                }
                Ended::TimedOut => None,
            };
            request = match settled {
                Some(Ok(response)) if !self.settings.served => return Ok(response),
                Some(Ok(mut response)) => {
                    let timings = Timings {
                        resolve,
                        claim: claimed.saturating_duration_since(since),
                        connect: made.map(|made| made.tcp),
                        tls: made.and_then(|made| made.tls),
                        head: clock::now().saturating_duration_since(claimed),
                    };
                    let served = Served::new(backend, course.attempts, made.is_none(), protocol, timings);
                    response.extensions_mut().insert(served);
                    return Ok(response);
                }
                Some(Err(lost)) => match try_again(&mut course, lost, spare) {
                    Ok(request) => request,
                    Err(error) => return Err(self.tell(error, &course)),
                },
                None => return Err(self.late(&course).at(&backend)),
            };
            // Of a connection that was closed for having rested others know nothing; so it is tried elsewhere last.
            course.avoid = (!had_rested || course.is_at_its_last()).then_some(backend);
            since = clock::now();
        }
    }

    /// What failed, as it is told.
    #[cold]
    fn tell(&self, error: Error, course: &Course) -> Error {
        error.of(&self.name).after(course.attempts)
    }

    /// The time is up.
    #[cold]
    fn late(&self, course: &Course) -> Error {
        let late = Error::timed_out(self.settings.timeout.unwrap_or_default());
        self.tell(course.avoid.iter().fold(late, |late, backend| late.at(backend)), course)
    }

    /// As servers want to be addressed: they are told the path, and the host in a header.
    fn address(&self, request: &mut Request<Body>) {
        if request.version() != Version::HTTP_10 {
            *request.version_mut() = Version::HTTP_11;
        }
        if request.uri().authority().is_none() && request.uri().scheme().is_none() {
            return;
        }
        // The target of a tunnel is an authority: where it leads to.
        let tunnel = request.uri().authority().filter(|_| request.method() == Method::CONNECT).cloned();
        *request.uri_mut() = match tunnel {
            Some(to) => Uri::from(to),
            None => {
                let path = request.uri().path_and_query().cloned();
                Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
            }
        };
    }

    /// Says what servers expect to hear, if the request does not.
    pub(super) fn introduce(&self, request: &mut Request<Body>) {
        if !request.headers().contains_key(HOST) {
            let tunnel = request.uri().authority().filter(|_| request.method() == Method::CONNECT);
            let host = tunnel.and_then(|to| HeaderValue::from_str(to.as_str()).ok());
            request.headers_mut().insert(HOST, host.unwrap_or_else(|| self.host.clone()));
        }
        // Of these, servers expect to be told that nothing comes.
        let expects_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
        if expects_body && request.body().is_end_stream() && !request.headers().contains_key(CONTENT_LENGTH) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    }

    /// The way that a first attempt goes, if that is known and there is nothing else to it.
    fn at_once(&self, request: &Request<Body>, course: &Course) -> Option<Found> {
        if course.attempts > 0 || self.settings.error_on_empty {
            return None;
        }
        // Over HTTP/1 everything can be said.
        self.routes.known().filter(|found| matches!(found.route, Route::Http1(_)) || !is_upgrade(request))
    }

    /// What the next attempt is made on. If no server speaks any more what it did, it is found out anew, once.
    ///
    /// `refused`: this way was gone, and nothing was to be had there.
    pub(super) async fn hold(
        &self,
        method: &Method,
        upgrades: bool,
        course: &Course,
        mut refused: Option<(Found, Error)>,
    ) -> Result<Held, Error> {
        let (mut looks, mut forgotten) = (1, false);
        loop {
            let (found, held) = match refused.take() {
                Some((found, error)) => (found, Err(error)),
                None => {
                    let found =
                        self.routes.find(upgrades, course.left(clock::now(), self.settings.claim_timeout)).await?;
                    let held = match &found.route {
                        Route::Http1(pool) => self.claim(pool, method, course).await.map(Held::Http1),
                        Route::Http2(set) => self.enter(set, course).await.map(Held::Http2),
                    };
                    (found, held)
                }
            };
            match held {
                // What somebody else has forgotten meanwhile says nothing of the origin.
                Err(_) if looks < LOOKS && self.routes.is_outdated(&found) => looks += 1,
                Err(error) if !upgrades && !forgotten && error.refuses_protocol() && self.routes.forget(&found) => {
                    forgotten = true;
                }
                held => return held,
            }
        }
    }

    /// A connection for the next attempt: any for the first ones, a new one for the last.
    async fn claim(&self, pool: &Pool<Connector>, method: &Method, course: &Course) -> Result<Claim<Connector>, Error> {
        let mut avoid = course.avoid.as_ref();
        loop {
            let begun = clock::now();
            let left = course.left(begun, self.settings.claim_timeout);
            // The pool hears of backends a moment later than its resolver knows them.
            let error_on_empty = self.settings.error_on_empty && self.knows_nobody();
            let mut options = ClaimOptions::default().error_on_empty(error_on_empty).timeout(left);
            if let Some(backend) = avoid {
                // It takes what there is after half of that.
                options = options.avoid(backend.clone()).timeout(left.min(2 * AVOIDING));
            }
            let mut claim = match http1::claim(pool, options).await {
                // In an outage, too, it ends early because of what it avoids.
                Err(ClaimError::TimedOut { .. } | ClaimError::Failed { .. })
                    if avoid.take().is_some()
                        && left > 2 * AVOIDING
                        && clock::now().saturating_duration_since(begun) >= 2 * AVOIDING =>
                {
                    continue;
                }
                claimed => claimed?,
            };
            // Behind a long line one might spend good connections for ever on getting a new one.
            let is_wanted = !claim.has_served() || !course.is_at_its_last() || left.is_zero();
            let must_be_open = course.attempts > 0 || !method.is_safe();
            if is_wanted && (!must_be_open || claim.is_open()) {
                return Ok(claim);
            }
            claim.discard();
        }
    }

    /// A share of a connection for the next attempt: of another backend after the first.
    async fn enter(&self, set: &Set<http2::Connector>, course: &Course) -> Result<http2::Seat, Error> {
        if self.settings.error_on_empty && self.knows_nobody() {
            return Err(Error::empty());
        }
        let left = course.left(clock::now(), self.settings.claim_timeout);
        http2::enter(set, course.avoid.as_ref(), left).await
    }
}

/// Whether it is worth asking the system if a connection has ended: when it could not be helped afterwards. `None` if it has.
fn usable(claimed: Result<Claim<Connector>, ClaimError>, method: &Method) -> Result<Option<Claim<Connector>>, Error> {
    let mut claim = claimed?;
    if method.is_safe() || claim.is_open() {
        return Ok(Some(claim));
    }
    claim.discard();
    Ok(None)
}

/// What is sent next, if there is another try; otherwise why there was no answer.
#[cold]
fn try_again(course: &mut Course, lost: Lost, spare: Option<Spare>) -> Result<Box<Request<Body>>, Error> {
    let (request, error) = match lost {
        Lost::Unsent(request, error) if course.attempts < ATTEMPTS => (request, error),
        Lost::Untried(request, error) if course.untried < UNTRIED => {
            (course.attempts, course.untried) = (course.attempts - 1, course.untried + 1);
            (request, error)
        }
        Lost::Leaving(error) if course.untried < UNTRIED => {
            let Some(spare) = spare else { return Err(error) };
            (course.attempts, course.untried) = (course.attempts - 1, course.untried + 1);
            (spare.into_request(), error)
        }
        Lost::Unanswered(error) => match spare {
            Some(spare) => (spare.into_request(), error),
            None => return Err(error),
        },
        Lost::Unsent(_, error) | Lost::Untried(_, error) | Lost::Leaving(error) | Lost::Failed(error) => {
            return Err(error);
        }
    };
    course.lost = Some(error);
    Ok(request)
}

/// Whether it asks for something that HTTP/2 has no words for.
pub(super) fn is_upgrade(request: &Request<Body>) -> bool {
    request.method() == Method::CONNECT || request.headers().contains_key(UPGRADE)
}

#[cfg(test)]
mod tests {
    use crate::agent::Agent;

    #[tokio::test]
    async fn the_future_of_a_request_stays_small() {
        let agent = Agent::builder().build().unwrap();
        let size = size_of_val(&agent.get("http://a.test/"));
        assert!(size < 2048, "{size}: it is moved about with every request");
    }
}
