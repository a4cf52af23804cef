//! `carom up` ends while clients are connected: they have what they asked for, and are told that there is no more.

use crate::serving::folder;
use crate::up::{Up, http};
use ::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use testkit::http::Server;
use testkit::wait::soon;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const ANY: &str = "127.0.0.1:0";

/// A client of HTTP/2, and how its connection ends.
async fn http2(at: SocketAddr) -> (SendRequest<String>, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(at).await.expect("somebody listens");
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    (client, tokio::spawn(connection))
}

fn get(path: &str) -> Request<String> {
    Request::get(format!("http://it.test{path}")).body(String::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let whole = soon(response.into_body().collect()).await.expect("all of it comes");
    String::from_utf8(whole.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn streams_that_are_under_way_are_finished() {
    let node = Server::start("node-1").await.unwrap();
    let config = http("s", ANY, node.address(), "drain_timeout = \"60s\"");
    let folder = folder("draining-http2", &[("c.toml", &config)]);
    let mut up = Up::start(&folder).await;
    let (mut busy, busy_ends) = http2(up.service("s")).await;
    let (mut idle, idle_ends) = http2(up.service("s")).await;
    assert_eq!(text(soon(idle.send_request(get("/"))).await.unwrap()).await, "hello from node-1");
    let under_way = tokio::spawn(busy.send_request(get("/gate")));
    soon(node.until(|node| node.at_gate() == 1)).await;
    up.running.signal("-TERM").await;
    up.running.told("stopping").await;
    // Who has nothing under way is told at once, in good order; the other stays until it has its answer.
    soon(idle_ends).await.unwrap().expect("it was told");
    assert!(!busy_ends.is_finished());
    node.open_gate();
    let response = soon(under_way).await.unwrap().expect("it is answered");
    assert_eq!((response.status().as_u16(), &*text(response).await), (200, "hello from node-1"));
    soon(busy_ends).await.unwrap().expect("it was told");
    assert_eq!(soon(up.running.child.wait()).await.unwrap().code(), Some(0));
}
