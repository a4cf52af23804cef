//! Connections that speak something else after a request: they leave the pool, and their place is held until they end.

use crate::agent::*;
use carom::agent::{Body, Origin, Upgraded};
use http::{Method, Request, Response};
use std::time::Duration;
use testkit::clock::advance;
use testkit::http::Script;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";

fn upgrade() -> Request<Body> {
    let request = Request::get("/").header("connection", "upgrade").header("upgrade", "echo");
    request.body(Body::empty()).unwrap()
}

async fn switched(origin: &Origin) -> Upgraded {
    let mut response: Response<Body> = soon(origin.request(upgrade())).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["upgrade"]), (101, &"echo".parse().unwrap()));
    Upgraded::take(&mut response).expect("it was upgraded")
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_side_may_end_first() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(SWITCHING).echo().say("bye"));
    let origin = origin(&agent, [&server]);
    let mut stream = switched(&origin).await;
    assert_eq!(stream.backend().socket_addr(), server.address());
    for text in ["hello", "again"] {
        soon(stream.write_all(text.as_bytes())).await.unwrap();
        let mut back = [0; 5];
        soon(stream.read_exact(&mut back)).await.unwrap();
        assert_eq!(back, text.as_bytes());
    }
    // Half of it is closed, the other half still speaks.
    soon(stream.shutdown()).await.unwrap();
    let mut rest = String::new();
    soon(stream.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "bye");
    assert_eq!(server.seen()[0].header("upgrade"), Some("echo"));
}

#[tokio::test]
async fn what_came_right_behind_the_head_is_read_first() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(format!("{SWITCHING}first words ")).echo());
    let origin = origin(&agent, [&server]);
    let mut stream = switched(&origin).await;
    soon(stream.write_all(b"and back")).await.unwrap();
    soon(stream.shutdown()).await.unwrap();
    let mut all = String::new();
    soon(stream.read_to_string(&mut all)).await.unwrap();
    assert_eq!(all, "first words and back");
}

#[tokio::test]
async fn its_place_is_held_until_it_is_dropped() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(SWITCHING).echo());
    let origin = origin(&agent, [&server]);
    let stream = switched(&origin).await;
    assert_eq!(in_use(&origin), (1, 0));
    server.behave();
    let waiting = tokio::spawn({
        let origin = origin.clone();
        async move { asked(&origin, get("/")).await }
    });
    until("the other request waits", || in_use(&origin) == (1, 1)).await;
    assert_eq!(server.accepted(), 1);
    drop(stream);
    assert_eq!(soon(waiting).await.unwrap(), (200, "hello from node".into()));
    soon(server.until(|server| server.connections() == 1)).await;
    assert_at_rest(&origin);
    assert_nobody_dead(&origin);
}

/// How long a connection is held, on the clock, after the response head. No head takes that long.
const HELD: Duration = Duration::from_secs(600);

/// How long uses of the only backend take, as far as the pool has learned.
fn learned(origin: &Origin) -> Option<Duration> {
    figures(origin).backends[0].typical_use
}

#[tokio::test]
async fn latency_of_an_upgrade_is_the_time_until_the_response_head() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(SWITCHING).echo());
    let origin = origin(&agent, [&server]);
    let stream = switched(&origin).await;
    advance(HELD).await;
    drop(stream);
    until("the place is free", || in_use(&origin) == (0, 0)).await;
    let learned = learned(&origin).expect("one use was measured");
    assert!(learned < HELD, "{learned:?}");
}

#[tokio::test]
async fn latency_of_an_event_stream_is_the_time_until_the_response_head() {
    let (agent, server) = (single(), server("node").await);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";
    server.script(Script::new().head().say(head).echo());
    let origin = origin(&agent, [&server]);
    let response = soon(origin.request(get("/"))).await.unwrap();
    advance(HELD).await;
    drop(response);
    until("the place is free", || in_use(&origin) == (0, 0)).await;
    let learned = learned(&origin).expect("one use was measured");
    assert!(learned < HELD, "{learned:?}");
}

#[tokio::test]
async fn nobody_takes_it_and_it_ends_with_its_response() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(SWITCHING).echo());
    let origin = origin(&agent, [&server]);
    let response = soon(origin.request(upgrade())).await.unwrap();
    server.behave();
    drop(response);
    assert_at_rest(&origin);
    assert_eq!(asked(&origin, get("/")).await.0, 200);
    soon(server.until(|server| server.connections() == 1)).await;
}

#[tokio::test]
async fn it_is_taken_once() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(SWITCHING).echo());
    let origin = origin(&agent, [&server]);
    let mut response = soon(origin.request(upgrade())).await.unwrap();
    let stream = Upgraded::take(&mut response);
    assert!(stream.is_some() && Upgraded::take(&mut response).is_none());
    assert_eq!(read(response).await.unwrap(), "");
}

#[tokio::test]
async fn a_server_that_does_not_want_to_answers_as_ever() {
    let (agent, server) = (single(), server("node").await);
    let origin = origin(&agent, [&server]);
    for _ in 0..2 {
        let mut response = soon(origin.request(upgrade())).await.unwrap();
        assert!(Upgraded::take(&mut response).is_none());
        assert_eq!((response.status().as_u16(), &*read(response).await.unwrap()), (200, "hello from node"));
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_tunnel_is_one_too() {
    let (agent, server) = (single(), server("proxy").await);
    server.scripts(|connection| match connection {
        0 => Script::new().head().say("HTTP/1.1 200 Connected\r\n\r\n").echo(),
        _ => Script::new().head().answer(403, "no").again(),
    });
    let origin = origin(&agent, [&server]);
    let connect = || request(Method::CONNECT, "db.test:5432", Body::empty());
    let mut response = soon(origin.request(connect())).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    let mut stream = Upgraded::take(&mut response).expect("a tunnel");
    soon(stream.write_all(b"through")).await.unwrap();
    let mut back = [0; 7];
    soon(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!((&back, &*server.seen()[0].target), (b"through", "db.test:5432"));
    drop(stream);
    let mut response = soon(origin.request(connect())).await.unwrap();
    assert!(Upgraded::take(&mut response).is_none());
    assert_eq!((response.status().as_u16(), &*read(response).await.unwrap()), (403, "no"));
    assert_at_rest(&origin);
}

#[tokio::test]
async fn the_agent_closes_while_it_is_in_use_and_it_goes_on() {
    let (agent, server) = (single(), server("node").await);
    server.script(Script::new().head().say(SWITCHING).echo());
    let origin = origin(&agent, [&server]);
    let mut stream = switched(&origin).await;
    agent.close();
    soon(stream.write_all(b"still here")).await.unwrap();
    soon(stream.shutdown()).await.unwrap();
    let mut back = String::new();
    soon(stream.read_to_string(&mut back)).await.unwrap();
    assert_eq!(back, "still here");
    drop(stream);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    assert!(soon(agent.drain(deadline)).await.is_complete());
}
