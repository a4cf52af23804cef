//! One request: what is meant for the next connection goes to a backend, and its answer comes back.

use super::bodies::{Answer, Outcome};
use super::headers::{Coding, announce_pieces, join_cookies, note_passage, say_again, take_out};
use super::pulse::UnderWay;
use super::refusal::Refusal;
use super::streams;
use super::target::settle_host;
use super::upload::{Rest, Upload};
use super::visit::Visit;
use bytes::Bytes;
use carom::agent::{self, Step, Upgraded};
use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

/// Answers a request of a client, one way or the other. Where requests come in turn it is under way as soon as this is called:
/// that the client has ended its side may be read before the future is polled.
pub(super) fn forward<B>(
    visit: Arc<Visit>,
    request: Request<B>,
) -> impl Future<Output = Result<Response<Answer>, Infallible>>
where
    B: Body<Data = Bytes, Error: Error + Send + Sync> + Send + Unpin + 'static,
{
    let version = request.version();
    // hyper leaves out the body of a response to HEAD over HTTP/1 alone.
    let is_bare = version == Version::HTTP_2 && request.method() == Method::HEAD;
    let begun = (version != Version::HTTP_2).then(|| visit.pulse.begin(None));
    async move {
        // A stream has a task of its own, which is known inside of it.
        let under_way = begun.unwrap_or_else(|| visit.pulse.begin(streams::current()));
        let rest = (!request.body().is_end_stream()).then(|| Rest::of(request.body()));
        let (mut response, outcome) = match pass_on(&visit, &under_way, request, rest.clone()).await {
            Ok(response) => (response, Outcome::Served),
            Err(refusal) => {
                let failed = refusal.status().is_server_error();
                if failed {
                    visit.requests.log_failed(&refusal);
                }
                let mut response = refusal.answer(&visit.requests.name);
                if is_bare {
                    *response.body_mut() = agent::Body::empty();
                }
                (response, if failed { Outcome::Failed } else { Outcome::Refused })
            }
        };
        if version != Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            // One that was late before was waited for long enough; and who is to leave need not be kept.
            let waits = response.status() != StatusCode::REQUEST_TIMEOUT && !visit.is_ending();
            let is_heard = match &rest {
                Some(rest) => rest.comes(waits).await,
                None => true,
            };
            if !is_heard {
                visit.pulse.linger();
            }
            if !is_heard || visit.is_ending() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        Ok(response.map(|body| Answer::new(body, visit, under_way, outcome)))
    }
}

async fn pass_on<B>(
    visit: &Visit,
    under_way: &UnderWay,
    mut request: Request<B>,
    rest: Option<Arc<Rest<B>>>,
) -> Result<Response<agent::Body>, Refusal>
where
    B: Body<Data = Bytes, Error: Error + Send + Sync> + Send + Unpin + 'static,
{
    // Only there when a client wants it, and over HTTP/1.
    let client = request.extensions_mut().remove::<hyper::upgrade::OnUpgrade>();
    let (mut head, body) = request.into_parts();
    // Dropped, it is left for whoever hears the rest.
    let upload = rest.map(|rest| Upload::new(body, under_way.upload(), rest));
    settle_host(&mut head)?;
    let mut taken = take_out(&mut head.headers);
    if client.is_none() || upload.is_some() {
        taken.upgrade = None;
    }
    say_again(&mut head.headers, &taken);
    if let Some(host) = &visit.requests.host {
        head.headers.insert(HOST, host.clone());
    }
    if head.version == Version::HTTP_2 {
        join_cookies(&mut head.headers);
    }
    note_passage(&mut head.headers, head.version);
    head.version = Version::HTTP_11;
    let body = match upload {
        None => agent::Body::empty(),
        Some(upload) => {
            if upload.size_hint().exact().is_none() {
                announce_pieces(&mut head.headers);
            }
            agent::Body::new(upload)
        }
    };
    let pending = visit.requests.tally.begin();
    let mut response = match visit.requests.origin.request(Request::from_parts(head, body)).await {
        Ok(response) => response,
        Err(error) if under_way.is_spoilt() => return Err(Refusal::spoilt(&error)),
        Err(error) if error.step() == Step::Timeout && under_way.is_awaited() => return Err(Refusal::stalled(&error)),
        Err(error) => return Err(error.into()),
    };
    visit.requests.tally.end(pending);
    let passed = response.version();
    let answered = take_out(response.headers_mut());
    if answered.coding == Some(Coding::Other) {
        return Err(Refusal::no_answer("the answer has a transfer coding other than `chunked`"));
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let backend = Upgraded::take(&mut response);
        let (Some(client), Some(backend), Some(_), Some(protocol)) = (client, backend, taken.upgrade, answered.upgrade)
        else {
            return Err(Refusal::no_answer("the backend speaks something else, which nobody asked for"));
        };
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().insert(UPGRADE, protocol);
        visit.upgrade(client, backend);
    }
    note_passage(response.headers_mut(), passed);
    *response.version_mut() = Version::HTTP_11;
    Ok(response)
}
