//! What all tests of the agent begin with: an agent that is quick to try again, an origin of scripted servers, and ways to ask.

use bytes::Bytes;
use carom::Policy;
use carom::agent::{Agent, Body, Builder, Error, Origin, OriginOptions, Served};
use carom::pool::{Figures, Phase};
use carom::resolver::Fixed;
use http::{Method, Request, Response};
use http_body::{Body as HttpBody, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use testkit::http::Server;
pub(crate) use testkit::wait::{ms, soon, until};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The origin of most tests; who serves it is said by a resolver.
pub(crate) const API: &str = "http://api.test";

/// More than any body here has.
const PLENTY: usize = 64 << 20;

pub(crate) fn policy() -> Policy {
    Policy::default().attempts(3).timeout(ms(5000)).max_timeout(ms(5000)).delay(ms(5)).max_delay(ms(40))
}

/// One spare connection and four at most, and failures that are tried again at once.
pub(crate) fn builder() -> Builder {
    Agent::builder().spares(1).maximum(4).recovery(policy()).claim_timeout(Duration::from_secs(30))
}

pub(crate) fn agent() -> Agent {
    builder().build().unwrap()
}

/// One connection and no more, so that it shows what is reused.
pub(crate) fn single() -> Agent {
    builder().maximum(1).build().unwrap()
}

pub(crate) async fn server(name: &str) -> Server {
    Server::start(name).await.unwrap()
}

pub(crate) async fn servers<const N: usize>() -> [Server; N] {
    let mut servers = Vec::new();
    for number in 1..=N {
        servers.push(server(&format!("node-{number}")).await);
    }
    servers.try_into().unwrap()
}

/// [`API`], served by these.
pub(crate) fn origin<'a>(agent: &Agent, servers: impl IntoIterator<Item = &'a Server>) -> Origin {
    let addresses = Fixed::new(servers.into_iter().map(Server::address));
    agent.create_pool(API, OriginOptions::default().resolver(addresses)).unwrap()
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder().method(method).uri(path).body(body.into()).unwrap()
}

pub(crate) fn get(path: &str) -> Request<Body> {
    request(Method::GET, path, Body::empty())
}

pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    request(Method::POST, path, body)
}

/// Asks and reads the answer to its end: its status and text.
pub(crate) async fn ask(origin: &Origin, request: Request<Body>) -> Result<(u16, String), Error> {
    let response = soon(origin.request(request)).await?;
    Ok((response.status().as_u16(), read(response).await?))
}

/// As [`ask`], and it works.
pub(crate) async fn asked(origin: &Origin, request: Request<Body>) -> (u16, String) {
    ask(origin, request).await.unwrap_or_else(|error| panic!("{error:?}"))
}

/// Asks until it works: connections that a server was wrong on may be met first.
pub(crate) async fn asked_at_last(origin: &Origin, path: &str) -> (u16, String) {
    soon(async {
        loop {
            match ask(origin, get(path)).await {
                Ok(answer) => break answer,
                // An origin that has failed says so at once, and is to have its time.
                Err(_) => sleep(ms(1)).await,
            }
        }
    })
    .await
}

/// The answer's body to its end.
pub(crate) async fn read(response: Response<Body>) -> Result<String, Error> {
    let bytes = soon(response.into_body().bytes(PLENTY)).await?;
    Ok(String::from_utf8(bytes.into()).unwrap())
}

pub(crate) fn node(response: &Response<Body>) -> &str {
    response.headers()["x-node"].to_str().unwrap()
}

pub(crate) fn served(response: &Response<Body>) -> &Served {
    response.extensions().get().expect("every response says how it came about")
}

/// The figures of its pool.
pub(crate) fn figures(origin: &Origin) -> Figures {
    origin.snapshot().pool.expect("these origins speak HTTP/1").pool
}

/// How many connections are lent, and how many callers wait.
pub(crate) fn in_use(origin: &Origin) -> (usize, usize) {
    let pool = figures(origin);
    (pool.counts.of(Phase::Busy) + pool.draining.of(Phase::Busy), pool.waiting)
}

/// Nothing is lent, and nobody waits: a request that has ended, however it did, has given back what it had.
#[track_caller]
pub(crate) fn assert_at_rest(origin: &Origin) {
    assert_eq!(in_use(origin), (0, 0), "something was left: {:#?}", origin.snapshot());
}

/// No backend was blamed so often that it is left out.
#[track_caller]
pub(crate) fn assert_nobody_dead(origin: &Origin) {
    assert_eq!(figures(origin).dead, 0, "{:#?}", origin.snapshot());
}

/// A body that the test feeds.
pub(crate) struct Fed(mpsc::Receiver<io::Result<Bytes>>);

impl HttpBody for Fed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }
}

/// A body, and what feeds it: its drop is the end.
pub(crate) fn fed() -> (mpsc::Sender<io::Result<Bytes>>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Body::new(Fed(receiver)))
}
