//! A server that behaves well: HTTP/1.1 or HTTP/2, whichever the client begins with.

use super::request::Seen;
use super::socket::Duplex;
use super::world::{self, World};
use crate::shared::Shared;
use bytes::Bytes;
use http::header::TRAILER;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::sleep;

/// The pieces that bodies without a length come in.
const PIECE: usize = 16 * 1024;

type Body = BoxBody<Bytes, hyper::Error>;

/// Until the client has gone.
pub(super) async fn serve(shared: &Arc<Shared<World>>, connection: usize, stream: Box<dyn Duplex>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(shared);
        async move { Ok::<_, Infallible>(answer(&shared, connection, request).await) }
    });
    // However it ends: what came whole was answered, and is known.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: &Shared<World>, connection: usize, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let place = shared.change(|world| {
        world.note(Seen {
            connection,
            method: head.method,
            target: head.uri.to_string(),
            version: head.version,
            headers: head.headers,
            body: Vec::new(),
        })
    });
    let (name, status, delay) = {
        let world = shared.lock();
        (Arc::clone(&world.name), world.status, world.delay)
    };
    if path == "/stream" {
        return made(&name, status, body.boxed());
    }
    // What does not come whole ends the connection, so that nobody hears the answer.
    let sent = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
    shared.change(|world| world.seen[place].body.extend_from_slice(&sent));
    if !delay.is_zero() {
        sleep(delay).await;
    }
    let number = |prefix| path.strip_prefix(prefix).and_then(|number: &str| number.parse().ok());
    if let Some(status) = number("/status/") {
        return made(&name, u16::try_from(status).unwrap_or(500), full(Bytes::new()));
    }
    if let Some(length) = number("/bytes/") {
        return made(&name, status, full(vec![b'x'; length].into()));
    }
    if let Some(length) = number("/chunked/") {
        return made(&name, status, Pieces { left: length }.boxed());
    }
    match &*path {
        "/trailers" => {
            let trailers = HeaderMap::from_iter([(HeaderName::from_static("x-sum"), HeaderValue::from(4))]);
            let body = Pieces { left: 4 }.with_trailers(ready(Some(Ok(trailers))));
            let mut response = made(&name, status, body.boxed());
            response.headers_mut().insert(TRAILER, HeaderValue::from_static("x-sum"));
            return response;
        }
        "/gate" => world::gate(shared).await,
        _ => {}
    }
    let body = if sent.is_empty() { format!("hello from {name}").into() } else { sent };
    made(&name, status, full(body))
}

fn made(name: &str, status: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let name = HeaderValue::from_str(name).unwrap_or(HeaderValue::from_static("unspeakable"));
    response.headers_mut().insert("x-node", name);
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// So many bytes, without saying so in advance.
struct Pieces {
    left: usize,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let length = self.left.min(PIECE);
        self.left -= length;
        Poll::Ready((length > 0).then(|| Ok(Frame::data(vec![b'x'; length].into()))))
    }
}
