//! One try of a request on one connection, and who is to blame if it fails.

use super::Connector;
use super::answer::Answer;
use super::coming::Coming;
use super::connection::Promise;
use super::full::Exchanged;
use super::sending::{Pace, Sending};
use crate::Claim;
use crate::agent::body::Body;
use crate::agent::dial::broke_tls;
use crate::agent::error::{Error, Step};
use crate::agent::evidence::{Evidence, FailedUse};
use crate::agent::upgraded::Upgraded;
use crate::cause::Chain;
use crate::clock;
use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use std::error::Error as _;
use std::io;
use std::iter::successors;
use std::sync::Arc;
use std::time::Instant;

/// Why there was no answer, and whether there can be another try.
pub(crate) enum Lost {
    /// Nothing was sent: here is the request.
    Unsent(Box<Request<Body>>, Error),
    /// Nothing was sent, as nothing is taken there any more: nobody was asked, and this was no try.
    Untried(Box<Request<Body>>, Error),
    /// It was sent, and not a byte of an answer came.
    Unanswered(Error),
    /// It was sent, and the server said that it did not process it since it closes the connection.
    Leaving(Error),
    /// Trying again is out of the question.
    Failed(Error),
}

/// What is remembered of a request while its answer is waited for.
pub(crate) struct Sent {
    began: Instant,
    connects: bool,
    pace: Option<Arc<Pace>>,
}

/// What became of a try.
pub(crate) enum Settled {
    /// There is an answer.
    Answered(Response<Body>),
    /// The connection speaks something else from now on: it is to be [upgraded](upgrade).
    Upgrades(Claim<Connector>, Response<Coming>),
    /// There is none.
    Lost(Lost),
}

impl Sent {
    /// Reports a successful use. Its latency is the time to the response head: how long the body takes depends on its reader, and
    /// an event stream may never end. How long the request took to send depends on its sender.
    fn report_head(&self, claim: &Claim<Connector>) {
        let now = clock::now();
        claim.report_head(now, self.pace.is_none().then(|| now.saturating_duration_since(self.began)));
    }

    pub(crate) fn pace(&self) -> Option<&Pace> {
        self.pace.as_deref()
    }
}

/// Begins to send a request, now. If it `may` be sent once more, and can be, it is kept for that.
///
/// Cancel safety: the connection is closed, and nobody is blamed.
pub(crate) fn send(
    claim: &mut Claim<Connector>,
    mut request: Box<Request<Body>>,
    now: Instant,
    may: bool,
) -> (Promise, Sent) {
    // Of a body whose size it does not know, hyper believes with some methods that there is none.
    let is_known = request.body().is_end_stream() || request.body().size_hint().exact().is_some();
    if !is_known && request.version() == Version::HTTP_11 && !request.headers().contains_key(CONTENT_LENGTH) {
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().entry(TRANSFER_ENCODING).or_insert(chunked);
    }
    let connects = *request.method() == Method::CONNECT;
    claim.note_use(now);
    let (promise, pace) = claim.promise(request, may);
    (promise, Sent { began: now, connects, pace })
}

/// Who is to blame, and what is to be done with the connection, now that it is known what came.
///
/// With `repeats`, it can be sent again: so what a server says that has waited for too long, and closes, need not be an answer
/// to this.
pub(crate) fn settle(mut claim: Claim<Connector>, exchanged: Exchanged, sent: Sent, repeats: bool) -> Settled {
    let response = match exchanged {
        Exchanged::Answered(response) => response,
        Exchanged::Unsent(..) | Exchanged::Unanswered(_) | Exchanged::Broken(_) | Exchanged::Spoilt(_) => {
            return Settled::Lost(lose(claim, exchanged));
        }
    };
    let status = response.status();
    if status == StatusCode::SWITCHING_PROTOCOLS || sent.connects && status.is_success() {
        sent.report_head(&claim);
        return Settled::Upgrades(claim, response);
    }
    // It was said before the request had arrived, and will not be said of the next.
    if repeats && status == StatusCode::REQUEST_TIMEOUT && claim.had_rested() && !claim.is_at_rest() {
        let late = Error::new(Step::Receive, "the server had waited for too long").at(claim.backend());
        claim.discard();
        return Settled::Lost(Lost::Unanswered(late));
    }
    if let Some(pace) = &sent.pace {
        claim.drive_elsewhere(Arc::clone(pace), response.body().is_end_stream());
    }
    match Evidence::of(&response) {
        Evidence::Success => sent.report_head(&claim),
        Evidence::Neutral => claim.report_neutral(),
        Evidence::Failure => claim.report_failure_with(FailedUse::Status(status)),
    }
    Settled::Answered(response.map(|coming| Body::http1(Answer::new(coming, claim))))
}

/// No answer came in time. If the server had the whole request, that is held against it.
pub(crate) fn give_up(mut claim: Claim<Connector>, sent: &Sent) {
    if sent.pace().is_none_or(Pace::is_over) {
        claim.report_failure_with(FailedUse::TimedOut);
    }
    claim.discard();
}

#[cold]
fn lose(claim: Claim<Connector>, exchanged: Exchanged) -> Lost {
    match exchanged {
        Exchanged::Unsent(request, error) => {
            let error = end(claim, Step::Send, "the connection had ended", error);
            Lost::Unsent(Box::new(request.map(Sending::into_body)), error)
        }
        Exchanged::Unanswered(error) => Lost::Unanswered(end(claim, Step::Receive, "no answer came", error)),
        Exchanged::Broken(error) => Lost::Failed(blame(claim, Step::Receive, "what came is no answer", error)),
        Exchanged::Spoilt(error) => {
            let spoilt = failed(&claim, Step::Send, "the request could not be sent", error);
            claim.discard();
            Lost::Failed(spoilt)
        }
        Exchanged::Answered(_) => unreachable!("an answer is not lost"),
    }
}

/// The connection leaves the pool, but keeps its place there until it ends.
///
/// Cancel safety: as of [`send`].
pub(crate) async fn upgrade(mut claim: Claim<Connector>, response: Response<Coming>) -> Result<Response<Body>, Error> {
    let (mut head, _) = response.into_parts();
    head.extensions.remove::<OnUpgrade>();
    match claim.take_upgraded().await {
        Ok(Some((stream, rest))) => {
            let mut response = Response::from_parts(head, Body::empty());
            Upgraded::new(stream, rest, claim).leave_in(&mut response);
            Ok(response)
        }
        Ok(None) => Err(Error::new(Step::Receive, "the connection ended as it was upgraded").at(claim.backend())),
        Err(error) => Err(blame(claim, Step::Receive, "the connection broke as it was upgraded", error)),
    }
}

/// A connection that had served or rested may be closed in an orderly way as it is used: that is no failed use. A new connection that ends,
/// and any that is reset after the request was sent, is one.
fn end(claim: Claim<Connector>, step: Step, problem: &str, error: hyper::Error) -> Error {
    if !claim.had_rested() || step == Step::Receive && was_reset(&error) {
        return blame(claim, step, problem, error);
    }
    let ended = failed(&claim, step, problem, error);
    claim.discard();
    ended
}

/// What the backend did is held against it. Unless TLS failed, connecting went well: one request that is answered badly must not
/// make a backend dead to all others.
fn blame(mut claim: Claim<Connector>, step: Step, problem: &str, error: hyper::Error) -> Error {
    let told = Chain(&error).to_string();
    let reset = step == Step::Receive && was_reset(&error);
    let blamed = failed(&claim, step, problem, error);
    if blamed.step() == Step::Tls {
        claim.fail(told);
    } else {
        if reset {
            claim.report_failure_with(FailedUse::Reset(told));
        } else {
            claim.report_failure_with(format!("{problem}: {told}"));
        }
        claim.discard();
    }
    blamed
}

fn was_reset(error: &hyper::Error) -> bool {
    let causes = successors(error.source(), |cause| (*cause).source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|io| io.kind() == io::ErrorKind::ConnectionReset)
}

fn failed(claim: &Claim<Connector>, step: Step, problem: &str, error: hyper::Error) -> Error {
    let (step, problem) = if broke_tls(&error) { (Step::Tls, "TLS failed") } else { (step, problem) };
    Error::new(step, problem).at(claim.backend()).caused_by(Arc::new(error) as Arc<_>)
}
