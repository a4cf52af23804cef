//! One try of a request on a connection that others use too, and whether there can be another.

use super::Address;
use super::answer::Answer;
use super::entering::Seat;
use super::upload::{Sent, Upload};
use crate::agent::body::Body;
use crate::agent::error::{Error, Step};
use crate::agent::evidence::{Evidence, FailedUse};
use crate::agent::http1::Lost;
use crate::agent::retry::copy;
use crate::cause::Chain;
use crate::clock;
use h2::Reason;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Response, Uri, Version};
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Instant;

/// Sends a request, claimed at `since`, and waits for the head of the answer. How it was served counts for or against the backend.
///
/// Cancel safety: the far side is told that nobody wants the answer, and others on the connection do not notice.
pub(crate) async fn exchange(
    Seat { lease, pass }: Seat,
    request: Request<Body>,
    since: Instant,
) -> Result<Response<Body>, Lost> {
    if request.method() == Method::CONNECT {
        return Err(Lost::Failed(Error::request("CONNECT is not made over HTTP/2").at(lease.backend())));
    }
    let host = request.headers().get(HOST).cloned();
    let (request, hop_by_hop) = without_connection(request);
    let request = addressed(request, lease.address()).map_err(|error| Lost::Failed(error.at(lease.backend())))?;
    // How long a body takes to send depends on its sender.
    let is_timed = request.body().is_whole();
    // Safe ones that are here in one piece are kept by whoever tries again.
    let is_kept = request.method().is_safe() && request.body().is_whole();
    // The body follows if the request is sent again and the body can be read only once.
    let spare = (!is_kept).then(|| copy(&request, request.body().try_clone().unwrap_or_default()));
    let request = request.map(Upload::new);
    let sent = request.body().sent();
    let mut error = match lease.send(request).await {
        Ok(response) => {
            if lease.is_first_response() {
                lease.report_use();
            }
            if let Some(sent) = &sent {
                sent.forget();
            }
            match Evidence::of(&response) {
                Evidence::Success => {
                    let now = clock::now();
                    lease.report_head(now, is_timed.then(|| now.saturating_duration_since(since)));
                }
                Evidence::Neutral => {}
                Evidence::Failure => lease.report_failure_with(FailedUse::Status(response.status())),
            }
            return Ok(response.map(|incoming| Body::http2(Answer::new(incoming, lease, pass))));
        }
        Err(error) => error,
    };
    let unsent = error.take_message().map(|request| request.map(Upload::into_body));
    let error = error.into_error();
    let fault = Fault::of(&error);
    if fault.ends_connection() {
        lease.retire();
    }
    if let Some(error) = sent.as_ref().and_then(Sent::failure) {
        return Err(Lost::Failed(error.at(lease.backend())));
    }
    if unsent.is_none() && fault.is_to_blame(|| lease.is_first_to_blame()) {
        lease.report_failure_with(format!("{}: {}", fault.problem(), Chain(&error)));
    }
    let error = Error::new(fault.step(), fault.problem()).at(lease.backend()).caused_by(Arc::new(error) as Arc<_>);
    let back = |mut request: Request<Body>| {
        // As it came: the next try may be over HTTP/1.
        *request.uri_mut() = path_of(request.uri());
        if let Some(headers) = hop_by_hop {
            *request.headers_mut() = headers;
        } else if let Some(host) = host {
            request.headers_mut().insert(HOST, host);
        }
        request
    };
    let is_unprocessed = unsent.is_none() && fault.is_unprocessed();
    let spare = spare.filter(|_| is_unprocessed).and_then(|mut spare| {
        if let Some(sent) = sent {
            *spare.body_mut() = sent.take_again()?;
        }
        Some(spare)
    });
    Err(match (unsent, fault, spare) {
        (Some(request), ..) => Lost::Untried(Box::new(back(request)), error),
        (None, Fault::Leaving { graceful: true }, Some(request)) => Lost::Untried(Box::new(back(request)), error),
        (None, Fault::Leaving { graceful: true }, None) => Lost::Leaving(error),
        (None, Fault::Refused | Fault::Leaving { .. }, Some(request)) => Lost::Unsent(Box::new(back(request)), error),
        (None, Fault::Refused | Fault::Leaving { .. } | Fault::Broken | Fault::Reset, _) => Lost::Unanswered(error),
        (None, Fault::Nonsense | Fault::Own, _) => Lost::Failed(error),
    })
}

/// The request without `Connection` and the headers that it names; and all headers as they were, if there was one.
///
/// HTTP/2 has no `Connection`, but it has `te: trailers`, which HTTP/1 wants to be named there. hyper would remove both, and gRPC
/// servers refuse requests without it.
fn without_connection(mut request: Request<Body>) -> (Request<Body>, Option<HeaderMap>) {
    if !request.headers().contains_key(CONNECTION) {
        return (request, None);
    }
    let before = request.headers().clone();
    let headers = request.headers_mut();
    headers.remove(CONNECTION);
    for name in before.get_all(CONNECTION).iter().flat_map(tokens) {
        match HeaderName::from_bytes(name) {
            Ok(TE) | Err(_) => {}
            Ok(name) => drop(headers.remove(name)),
        }
    }
    let trailers = before.get_all(TE).iter().flat_map(tokens).any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    } else {
        headers.remove(TE);
    }
    (request, Some(before))
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// The request as HTTP/2 has it: whom it is for is a part of its address, and not a header.
fn addressed(mut request: Request<Body>, address: &Address) -> Result<Request<Body>, Error> {
    let authority = match request.headers_mut().remove(HOST) {
        None => address.authority.clone(),
        Some(host) if host.as_bytes() == address.authority.as_str().as_bytes() => address.authority.clone(),
        Some(host) => Authority::try_from(host.as_bytes())
            .map_err(|error| Error::request("the `Host` header names no host").caused_by(Arc::new(error) as Arc<_>))?,
    };
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    (parts.scheme, parts.authority) = (Some(address.scheme.clone()), Some(authority));
    parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from_parts(parts)
        .map_err(|error| Error::request("the URI makes no sense").caused_by(Arc::new(error) as Arc<_>))?;
    *request.version_mut() = Version::HTTP_2;
    Ok(request)
}

fn path_of(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map(Uri::from).unwrap_or_default()
}

/// What went wrong before the head of the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The far side has done nothing about the request: it had too many.
    Refused,
    /// The far side has done nothing about the request, and takes no more on this connection; graceful if that is no error.
    Leaving { graceful: bool },
    /// The connection broke: what the far side did nobody knows.
    Broken,
    /// The far side gave this request up.
    Reset,
    /// What came is not HTTP/2.
    Nonsense,
    /// The request itself failed: its body, say.
    Own,
}

impl Fault {
    fn of(error: &hyper::Error) -> Fault {
        if error.is_user() {
            return Fault::Own;
        }
        let Some(cause) = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>()) else {
            return Fault::Broken;
        };
        match cause.reason() {
            Some(Reason::REFUSED_STREAM) if cause.is_remote() => Fault::Refused,
            // Of those it has dealt with, the far side says nothing when it goes away.
            Some(reason) if cause.is_go_away() && cause.is_remote() => {
                Fault::Leaving { graceful: reason == Reason::NO_ERROR }
            }
            Some(_) if cause.is_reset() && cause.is_remote() => Fault::Reset,
            // What this side gave up: hyper does when a body fails.
            Some(_) if cause.is_reset() && !cause.is_library() => Fault::Own,
            Some(_) if cause.is_io() => Fault::Broken,
            Some(_) => Fault::Nonsense,
            None => Fault::Broken,
        }
    }

    /// Whether it is held against the backend. That a connection broke is, once for all who were on it.
    fn is_to_blame(self, is_first: impl FnOnce() -> bool) -> bool {
        match self {
            Fault::Refused | Fault::Reset => true,
            Fault::Broken | Fault::Nonsense => is_first(),
            Fault::Leaving { .. } | Fault::Own => false,
        }
    }

    /// Whether the server says that it has not processed the request.
    fn is_unprocessed(self) -> bool {
        match self {
            Fault::Refused | Fault::Leaving { .. } => true,
            Fault::Broken | Fault::Reset | Fault::Nonsense | Fault::Own => false,
        }
    }

    /// Whether nobody else should be sent there.
    fn ends_connection(self) -> bool {
        match self {
            Fault::Leaving { .. } | Fault::Broken | Fault::Nonsense => true,
            Fault::Refused | Fault::Reset | Fault::Own => false,
        }
    }

    fn step(self) -> Step {
        match self {
            Fault::Refused | Fault::Leaving { .. } | Fault::Own => Step::Send,
            Fault::Broken | Fault::Reset | Fault::Nonsense => Step::Receive,
        }
    }

    fn problem(self) -> &'static str {
        match self {
            Fault::Refused => "the server refused the request unread",
            Fault::Leaving { .. } => "the server takes no more requests on the connection",
            Fault::Broken => "no answer came",
            Fault::Reset => "the server gave the request up",
            Fault::Nonsense => "what came is no answer",
            Fault::Own => "the request could not be sent",
        }
    }
}
