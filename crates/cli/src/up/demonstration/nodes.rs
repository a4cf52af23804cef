//! Nodes of a service that is made up: each says its name.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Those that there are; the last one flaps.
pub(super) const NAMES: [&str; 3] = ["node-1", "node-2", FLAPPING];
pub(super) const FLAPPING: &str = "node-3";
/// The header with the name of whoever answered.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-node");
/// How long an answer takes, as if it were hard to find.
const WORK: Duration = Duration::from_millis(5);
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// A node, there or not.
pub(super) struct Node {
    name: &'static str,
    address: SocketAddr,
    /// Its one task, with all connections; nothing is left of it when it is not there.
    serving: JoinSet<()>,
}

impl Node {
    pub(super) async fn start(name: &'static str) -> io::Result<Node> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let mut node = Node { name, address: listener.local_addr()?, serving: JoinSet::new() };
        node.serving.spawn(serve(listener, name));
        Ok(node)
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// As if its machine were switched off: whatever it was doing is left undone.
    pub(super) fn go(&mut self) {
        self.serving = JoinSet::new();
    }

    /// At the address where it was.
    pub(super) async fn come_back(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        self.serving.spawn(serve(listener, self.name));
        Ok(())
    }
}

async fn serve(listener: TcpListener, name: &'static str) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(answer_on(stream, name))),
                Err(_) => sleep(ACCEPT_DELAY).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer_on(stream: TcpStream, name: &'static str) {
    let service = service_fn(|request: Request<Incoming>| {
        let answered = answer(name, &request);
        async move {
            sleep(WORK).await;
            Ok::<_, Infallible>(answered)
        }
    });
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    // It ends when whoever asks has had enough.
    let _ = connection.await;
}

fn answer(name: &'static str, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let said = json!({"node": name, "method": request.method().as_str(), "path": request.uri().path()});
    let mut response = Response::new(Full::new(Bytes::from(format!("{said}\n"))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(HEADER, HeaderValue::from_static(name));
    response
}
