//! Which requests share connections, and how origins come and go.

use crate::agent::*;
use carom::agent::{Agent, Body, OriginError, OriginOptions, Step};
use carom::pool::State;
use http::Request;
use std::time::{Duration, Instant};
use testkit::http::Server;

fn in_a_minute() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn at(server: &Server) -> OriginOptions {
    OriginOptions::default().backends([server.address()])
}

#[tokio::test]
async fn scheme_host_and_port_tell_origins_apart_and_nothing_else_does() {
    let agent = crate::agent::agent();
    let node = server("node").await;
    let same = [
        ("http://api.test", "http://api.test:80"),
        ("http://other.test/", "HTTP://OTHER.Test/orders?x=1"),
        ("https://api.test", "https://API.TEST:443/x"),
        ("http://api.test:8080", "http://api.test:8080/"),
        ("http://[::1]:81", "http://[::1]:81/x"),
    ];
    for (one, other) in same {
        agent.create_pool(one, at(&node)).unwrap();
        let name = agent.pool(other).unwrap_or_else(|| panic!("{one} is {other}")).name().to_owned();
        assert_eq!(name, agent.pool(one).unwrap().name());
        let error = agent.create_pool(other, at(&node)).unwrap_err();
        assert!(matches!(error, OriginError::Exists { .. }), "{error:?}");
        assert!(error.to_string().contains(&name), "{error}");
    }
    let mut names = agent.origins().iter().map(|origin| origin.name().to_owned()).collect::<Vec<_>>();
    names.sort();
    let all = ["http://[::1]:81", "http://api.test", "http://api.test:8080", "http://other.test", "https://api.test"];
    assert_eq!(names, all);
    for unknown in
        ["http://api.test:443", "https://api.test:80", "http://api.test.", "http://api", "nonsense", "/x", ""]
    {
        assert!(agent.pool(unknown).is_none(), "{unknown}");
    }
}

#[tokio::test]
async fn requests_to_one_origin_share_its_connections_however_it_is_spelled() {
    let (agent, node) = (single(), server("node").await);
    agent.create_pool("http://api.test:80", at(&node)).unwrap();
    for uri in ["http://api.test/1", "http://API.TEST/2", "http://api.test:80/3?q#fragment"] {
        read(soon(agent.get(uri)).await.unwrap()).await.unwrap();
    }
    let seen = node.seen();
    let asked = seen.iter().map(|seen| (seen.connection, &*seen.target)).collect::<Vec<_>>();
    assert_eq!(asked, [(0, "/1"), (0, "/2"), (0, "/3?q")]);
    assert!(seen.iter().all(|seen| seen.header("host") == Some("api.test")), "{seen:?}");
}

#[tokio::test]
async fn the_host_header_is_the_origins_unless_the_request_has_its_own() {
    let (agent, node) = (single(), server("node").await);
    let cases =
        [("http://api.test", "api.test"), ("http://api.test:81", "api.test:81"), ("http://[::1]:82", "[::1]:82")];
    for (uri, host) in cases {
        let origin = agent.create_pool(uri, at(&node)).unwrap();
        // A path is enough, and what else a URI says is the origin's.
        for path in ["/x", "http://other.test:99/x"] {
            asked(&origin, get(path)).await;
            let seen = node.seen().pop().unwrap();
            assert_eq!((seen.header("host"), &*seen.target), (Some(host), "/x"));
        }
        let own = Request::get("/").header("host", "own.test").body(Body::empty()).unwrap();
        asked(&origin, own).await;
        let seen = node.seen().pop().unwrap();
        assert_eq!(seen.headers.get_all("host").iter().collect::<Vec<_>>(), ["own.test"]);
    }
    // Nothing is said that nobody asked for.
    asked(&agent.pool("http://api.test").unwrap(), get("/")).await;
    assert_eq!(node.seen().pop().unwrap().headers.keys().collect::<Vec<_>>(), ["host"]);
}

#[tokio::test]
async fn an_uri_without_a_path_asks_for_the_root() {
    let (agent, node) = (single(), server("node").await);
    read(soon(agent.get(node.url(""))).await.unwrap()).await.unwrap();
    read(soon(agent.get(node.url("?x=1"))).await.unwrap()).await.unwrap();
    assert_eq!(node.seen().iter().map(|seen| &*seen.target).collect::<Vec<_>>(), ["/", "/?x=1"]);
}

#[tokio::test]
async fn clones_are_the_same_agent_and_the_last_one_lets_go_of_origins_that_nobody_holds() {
    let (agent, node) = (crate::agent::agent(), server("node").await);
    let other = agent.clone();
    read(soon(agent.get(node.url("/"))).await.unwrap()).await.unwrap();
    let origin = other.pool(node.url("/")).unwrap();
    drop(agent);
    assert!(!other.is_closed());
    assert_eq!(asked(&origin, get("/")).await.0, 200);
    drop(other);
    assert_eq!(asked(&origin, get("/")).await.0, 200, "somebody holds it");
    drop(origin);
    soon(node.until(|node| node.connections() == 0)).await;
}

#[tokio::test]
async fn draining_lets_answers_be_read_to_their_end() {
    let (agent, node) = (single(), server("node").await);
    let origin = origin(&agent, [&node]);
    let response = soon(origin.request(get("/chunked/1000000"))).await.unwrap();
    let drained = soon(agent.drain(Instant::now())).await;
    assert_eq!((drained.is_complete(), drained.left.len()), (false, 1));
    assert_eq!(drained.left[0].backend.socket_addr(), node.address());
    assert_eq!(read(response).await.unwrap().len(), 1_000_000);
    assert!(soon(agent.drain(in_a_minute())).await.is_complete());
    assert_eq!(origin.state(), State::Stopped);
    soon(node.until(|node| node.connections() == 0)).await;
}

#[tokio::test]
async fn closing_twice_is_closing_once() {
    let (agent, node) = (crate::agent::agent(), server("node").await);
    let origin = origin(&agent, [&node]);
    agent.close();
    agent.close();
    assert!(agent.is_closed());
    assert!(soon(agent.drain(in_a_minute())).await.is_complete());
    assert_eq!(origin.state(), State::Stopped);
    let error = agent.create_pool(API, at(&node)).unwrap_err();
    assert!(matches!(error, OriginError::Closed), "{error:?}");
    let error = soon(agent.get(API)).await.unwrap_err();
    assert_eq!(error.step(), Step::Closed, "{error:?}");
}

#[tokio::test]
async fn an_origin_nobody_uses_is_dropped_with_its_connections_and_made_again() {
    let (node, kept) = (server("node").await, server("kept").await);
    let agent = builder().max_idle(ms(30)).build().unwrap();
    let lasting = agent.create_pool(API, at(&kept)).unwrap();
    for _ in 0..3 {
        read(soon(agent.get(node.url("/"))).await.unwrap()).await.unwrap();
        until("it is dropped", || agent.pool(node.url("")).is_none()).await;
        soon(node.until(|node| node.connections() == 0)).await;
    }
    // What was made on purpose stays.
    assert_eq!(agent.origins().len(), 1);
    assert_eq!(asked(&lasting, get("/")).await.0, 200);
}

#[tokio::test]
async fn an_origin_in_use_is_not_dropped() {
    let (node, other) = (server("node").await, server("other").await);
    let agent = builder().maximum(1).max_idle(ms(20)).build().unwrap();
    let (waiting, response) = (
        tokio::spawn({
            let (agent, uri) = (agent.clone(), node.url("/gate"));
            async move { agent.get(uri).await }
        }),
        soon(agent.get(other.url("/chunked/1000000"))).await.unwrap(),
    );
    soon(node.until(|node| node.at_gate() == 1)).await;
    // Others come and go in the meantime, several times over.
    let third = server("third").await;
    for _ in 0..3 {
        read(soon(agent.get(third.url("/"))).await.unwrap()).await.unwrap();
        until("it is dropped", || agent.pool(third.url("")).is_none()).await;
    }
    node.open_gate();
    let answer = soon(waiting).await.unwrap().unwrap();
    assert_eq!(read(answer).await.unwrap(), "hello from node");
    assert_eq!(read(response).await.unwrap().len(), 1_000_000);
    assert_eq!((node.accepted(), other.accepted()), (1, 1));
}

#[tokio::test]
async fn options_of_one_origin_are_its_own() {
    let (node, other) = (server("node").await, server("other").await);
    let agent = Agent::builder().spares(1).maximum(8).recovery(policy()).build().unwrap();
    let origin = agent.create_pool(API, at(&node).spares(3).maximum(5)).unwrap();
    let plain = agent.create_pool("http://plain.test", at(&other)).unwrap();
    assert_eq!((figures(&origin).spares, figures(&origin).maximum), (3, 5));
    assert_eq!((figures(&plain).spares, figures(&plain).maximum), (1, 8));
    soon(node.until(|node| node.connections() == 3)).await;
    soon(other.until(|other| other.connections() == 1)).await;
}

#[tokio::test]
async fn the_first_requests_to_an_origin_make_it_once() {
    let node = server("node").await;
    let agent = builder().maximum(2).build().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (agent, uri) = (agent.clone(), node.url("/"));
        tasks.spawn(async move { read(soon(agent.get(uri)).await.unwrap()).await.unwrap() });
    }
    while let Some(done) = soon(tasks.join_next()).await {
        done.unwrap();
    }
    assert_eq!(agent.origins().len(), 1);
    assert!(node.connections() <= 2);
}

#[tokio::test]
async fn every_response_says_how_it_came_about() {
    let (agent, node) = (single(), server("node").await);
    let first = soon(agent.get(node.url("/"))).await.unwrap();
    let how = served(&first).clone();
    assert_eq!((how.backend.socket_addr(), how.attempts, how.reused), (node.address(), 1, false));
    assert!(how.timings.connect.is_some() && how.timings.tls.is_none());
    assert_eq!(how.timings.resolve, None, "an address need not be looked up");
    assert_eq!(how.protocol, carom::agent::Protocol::Http1);
    read(first).await.unwrap();
    let second = soon(agent.get(node.url("/"))).await.unwrap();
    let how = served(&second);
    assert_eq!((how.attempts, how.reused, how.timings.resolve, how.timings.connect), (1, true, None, None));
}

#[tokio::test]
async fn who_does_not_want_to_know_is_not_told_how_a_response_came_about() {
    let (agent, node) = (single(), server("node").await);
    let origin = agent.create_pool(API, at(&node).served(false)).unwrap();
    let response = soon(origin.request(get("/"))).await.unwrap();
    assert!(response.extensions().get::<carom::agent::Served>().is_none());
    assert_eq!(response.status(), 200);
}
