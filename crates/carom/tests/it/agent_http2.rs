//! HTTP/2: many requests on one connection, and what becomes of them when servers refuse, leave, or die.

use crate::agent::{API, builder, fed, get, ms, node, policy, post, read, request, served, servers, soon, until};
use crate::raw_http2::{Act, Raw, head, leases, origin_of};
use carom::agent::{Body, Origin, OriginOptions, Protocol, Step};
use h2::Reason;
use http::{Method, Request, Version};
use http_body_util::BodyExt;
use testkit::http::{Script, Server};
use tokio::task::JoinSet;

fn origin<'a>(nodes: impl IntoIterator<Item = &'a Server>) -> Origin {
    origin_of(builder(), nodes.into_iter().map(Server::address))
}

fn raw(server: &Raw) -> Origin {
    origin_of(builder(), [server.address()])
}

async fn asked(origin: &Origin, request: Request<Body>) -> String {
    let response = head(origin, request).await.unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(response.version(), Version::HTTP_2);
    read(response).await.unwrap_or_else(|error| panic!("{error:?}"))
}

#[tokio::test]
async fn it_is_spoken_by_prior_knowledge_and_many_share_a_connection() {
    let [server] = servers().await;
    let origin = origin([&server]);
    let mut asking = JoinSet::new();
    for number in 0..50 {
        let origin = origin.clone();
        asking.spawn(async move { asked(&origin, post("/echo", format!("request {number}"))).await });
    }
    let mut answers = soon(asking.join_all()).await;
    answers.sort();
    let mut wanted: Vec<_> = (0..50).map(|number| format!("request {number}")).collect();
    wanted.sort();
    assert_eq!(answers, wanted);
    assert_eq!((server.accepted(), leases(&origin)), (1, 0));
    assert_eq!(origin.protocol(), Some(Protocol::Http2));
}

#[tokio::test]
async fn whom_a_request_is_for_is_told_once_and_a_host_of_its_own_counts() {
    let [server] = servers().await;
    let origin = origin([&server]);
    asked(&origin, get("http://elsewhere.test/orders?all")).await;
    let mut own = get("/orders");
    own.headers_mut().insert("host", "tenant.test".parse().unwrap());
    asked(&origin, own).await;
    let seen = server.seen();
    assert_eq!(seen[0].target, "http://api.test/orders?all");
    assert_eq!(seen[1].target, "http://tenant.test/orders");
    assert!(seen.iter().all(|seen| seen.header("host").is_none() && seen.version == Version::HTTP_2));

    let mut wrong = get("/orders");
    wrong.headers_mut().insert("host", "not a host".parse().unwrap());
    assert_eq!(head(&origin, wrong).await.unwrap_err().step(), Step::Request);
}

#[tokio::test]
async fn te_trailers_is_sent_though_connection_names_it() {
    let [server] = servers().await;
    let origin = origin([&server]);
    for (te, connection) in [("trailers", None), ("trailers", Some("te")), ("gzip, trailers", Some("TE, close"))] {
        let mut request = get("/orders");
        request.headers_mut().insert("te", te.parse().unwrap());
        if let Some(options) = connection {
            request.headers_mut().insert("connection", options.parse().unwrap());
        }
        asked(&origin, request).await;
    }
    let mut other = get("/orders");
    other.headers_mut().insert("te", "gzip".parse().unwrap());
    other.headers_mut().insert("x-own", "1".parse().unwrap());
    other.headers_mut().insert("connection", "te, x-own".parse().unwrap());
    asked(&origin, other).await;
    let seen = server.seen();
    let te: Vec<_> = seen.iter().map(|seen| seen.header("te")).collect();
    assert_eq!(te, [Some("trailers"), Some("trailers"), Some("trailers"), None]);
    assert!(seen.iter().all(|seen| seen.header("connection").is_none() && seen.header("x-own").is_none()));
}

#[tokio::test]
async fn a_response_says_how_it_came_about() {
    let [server] = servers().await;
    let origin = origin([&server]);
    let first = head(&origin, get("/")).await.unwrap();
    let second = head(&origin, get("/")).await.unwrap();
    let (one, other) = (served(&first), served(&second));
    assert_eq!((one.protocol, other.protocol), (Protocol::Http2, Protocol::Http2));
    assert_eq!((one.reused, other.reused), (false, true));
    assert!(one.timings.connect.is_some() && other.timings.connect.is_none());
    assert_eq!((one.attempts, one.backend.socket_addr()), (1, server.address()));
}

#[tokio::test]
async fn large_bodies_go_both_ways_and_trailers_come_last() {
    let [server] = servers().await;
    let origin = origin([&server]);
    let large = "x".repeat(1 << 20);
    assert_eq!(asked(&origin, post("/echo", large.clone())).await, large);
    assert_eq!(asked(&origin, get("/bytes/3000000")).await.len(), 3_000_000);

    let response = head(&origin, get("/trailers")).await.unwrap();
    let collected = soon(response.into_body().collect()).await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "4");
    assert_eq!(collected.to_bytes().len(), 4);
    assert_eq!(leases(&origin), 0);
}

#[tokio::test]
async fn the_answer_may_come_while_the_body_is_still_being_sent() {
    let [server] = servers().await;
    let origin = origin([&server]);
    let (feed, body) = fed();
    let mut response = head(&origin, request(Method::POST, "/stream", body)).await.unwrap();
    for piece in ["one", "two", "three"] {
        feed.send(Ok(piece.into())).await.unwrap();
        let frame = soon(response.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), piece);
    }
    drop(feed);
    assert_eq!(read(response).await.unwrap(), "");
    assert_eq!(leases(&origin), 0);
}

#[tokio::test]
async fn an_answer_without_a_body_gives_its_share_back_at_once() {
    let [server] = servers().await;
    let origin = origin([&server]);
    let response = head(&origin, get("/status/204")).await.unwrap();
    assert_eq!(leases(&origin), 0, "though it is still held");
    assert_eq!(response.status(), 204);
}

#[tokio::test]
async fn requests_are_spread_over_all_nodes() {
    let nodes: [Server; 3] = servers().await;
    let origin = origin(&nodes);
    asked(&origin, get("/")).await;
    until("all nodes are connected", || nodes.iter().all(|node| node.connections() == 1)).await;
    until("all connections are shared", || origin.snapshot().set.unwrap().connections.len() == 3).await;
    let mut under_way = JoinSet::new();
    for _ in 0..30 {
        let origin = origin.clone();
        under_way.spawn(async move { node(&head(&origin, get("/gate")).await.unwrap()).to_owned() });
    }
    for node in &nodes {
        soon(node.until(|node| node.at_gate() == 10)).await;
    }
    nodes.iter().for_each(Server::open_gate);
    assert_eq!(soon(under_way.join_all()).await.len(), 30);
}

#[tokio::test]
async fn no_more_are_under_way_than_the_server_takes() {
    let server = Raw::start(1, |number| if number == 0 { Act::Half } else { Act::Answer }).await;
    let origin = raw(&server);
    let first = head(&origin, get("/")).await.unwrap();
    let mut second = std::pin::pin!(origin.request(get("/")));
    tokio::select! {
        biased;
        _ = &mut second => panic!("the server takes one at a time"),
        () = until("the second waits", || leases(&origin) == 2) => {}
    }
    assert_eq!(server.requests(), 1);
    server.finish();
    assert_eq!(read(first).await.unwrap(), "half done");
    assert_eq!(read(soon(second).await.unwrap()).await.unwrap(), "done");
    assert_eq!((server.accepted(), leases(&origin)), (1, 0));
}

#[tokio::test]
async fn whoever_waits_too_long_for_its_turn_is_told_so() {
    let server = Raw::start(1, |_| Act::Half).await;
    let origin = origin_of(builder().claim_timeout(ms(50)), [server.address()]);
    // A slow machine may take longer than that to connect.
    until("it is connected", || origin.snapshot().set.unwrap().connections.len() == 1).await;
    let first = head(&origin, get("/")).await.unwrap();
    let error = head(&origin, get("/")).await.unwrap_err();
    assert_eq!((error.step(), error.backend().unwrap().socket_addr()), (Step::Claim, server.address()));
    assert!(error.to_string().contains("takes no more requests at a time"), "{error}");
    assert_eq!(server.requests(), 1, "it was never sent");
    drop(first);
}

#[tokio::test]
async fn one_that_was_refused_unread_is_tried_again_whatever_it_is() {
    let refuse_first = |number| if number == 0 { Act::Reset(Reason::REFUSED_STREAM) } else { Act::Answer };
    for method in [Method::GET, Method::POST] {
        let server = Raw::start(10, refuse_first).await;
        let origin = raw(&server);
        let response = head(&origin, request(method, "/", "a body")).await.unwrap();
        assert_eq!(served(&response).attempts, 2);
        assert_eq!(read(response).await.unwrap(), "done");
        assert_eq!(server.accepted(), 1, "the connection is as good as before");
    }
}

#[tokio::test]
async fn request_that_was_refused_unread_is_sent_again_with_a_body_that_can_be_read_only_once() {
    let server = Raw::start(10, |_| Act::Reset(Reason::REFUSED_STREAM)).await;
    let origin = raw(&server);
    let (_feed, body) = fed();
    let error = head(&origin, request(Method::POST, "/", body)).await.unwrap_err();
    assert_eq!((error.step(), error.attempts(), server.requests()), (Step::Send, 3, 3));
    assert!(error.to_string().contains("refused the request unread"), "{error}");
}

#[tokio::test]
async fn request_that_the_server_resets_is_sent_again_if_it_is_safe_and_costs_no_other() {
    for (method, attempts) in [(Method::GET, 2), (Method::POST, 1)] {
        let server = Raw::start(10, |number| match number {
            0 => Act::Half,
            1 => Act::Reset(Reason::INTERNAL_ERROR),
            _ => Act::Answer,
        })
        .await;
        let origin = raw(&server);
        let other = head(&origin, get("/")).await.unwrap();
        match head(&origin, request(method.clone(), "/", "a body")).await {
            Ok(response) => assert_eq!((method, served(&response).attempts), (Method::GET, attempts)),
            Err(error) => {
                assert_eq!((method, error.step(), error.attempts()), (Method::POST, Step::Receive, attempts));
            }
        }
        assert_eq!(server.requests(), 1 + attempts as usize);
        assert_eq!(asked(&origin, get("/")).await, "done");
        server.finish();
        assert_eq!(read(other).await.unwrap(), "half done");
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test]
async fn a_server_that_leaves_after_each_request_costs_none() {
    let server = Raw::start(10, |_| Act::AnswerAndLeave).await;
    let origin = raw(&server);
    for _ in 0..20 {
        assert_eq!(asked(&origin, post("/", "not to be sent twice")).await, "done");
    }
    assert_eq!(server.requests(), 20, "each came once");
}

#[tokio::test]
async fn what_is_under_way_outlives_the_servers_goodbye() {
    let server = Raw::start(10, |number| if number == 0 { Act::HalfAndLeave } else { Act::Answer }).await;
    let origin = raw(&server);
    let first = head(&origin, get("/")).await.unwrap();
    assert_eq!(asked(&origin, post("/", "a body")).await, "done");
    assert_eq!(server.accepted(), 2);
    assert_eq!(leases(&origin), 1, "the first is still counted");
    server.finish();
    assert_eq!(read(first).await.unwrap(), "half done");
    assert_eq!(leases(&origin), 0);
    until("its connection is gone", || origin.snapshot().set.unwrap().connections.len() == 1).await;
}

#[tokio::test]
async fn one_that_a_leaving_server_has_not_read_is_tried_again() {
    let leave_first = |number| if number == 0 { Act::Leave(Reason::NO_ERROR) } else { Act::Answer };
    let server = Raw::start(10, leave_first).await;
    let origin = raw(&server);
    let response = head(&origin, get("/")).await.unwrap();
    assert_eq!((served(&response).attempts, server.accepted()), (2, 2));
}

#[tokio::test]
async fn a_body_dropped_early_tells_the_server_and_nobody_else() {
    let server = Raw::start(10, |number| if number < 2 { Act::Half } else { Act::Answer }).await;
    let origin = raw(&server);
    let (dropped, kept) = (head(&origin, get("/")).await.unwrap(), head(&origin, get("/")).await.unwrap());
    drop(dropped);
    until("the server hears of it", || server.resets() == 1).await;
    assert_eq!(leases(&origin), 1);
    assert_eq!(asked(&origin, get("/")).await, "done");
    server.finish();
    assert_eq!(read(kept).await.unwrap(), "half done");
    assert_eq!((server.accepted(), leases(&origin)), (1, 0));
}

#[tokio::test]
async fn a_request_given_up_leaves_nothing_behind() {
    let [server] = servers().await;
    let origin = origin([&server]);
    let asking = tokio::spawn({
        let origin = origin.clone();
        async move { origin.request(get("/gate")).await }
    });
    soon(server.until(|server| server.at_gate() == 1)).await;
    asking.abort();
    until("its share is given back", || leases(&origin) == 0).await;
    asked(&origin, get("/")).await;
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn safe_requests_on_a_node_that_dies_are_answered_by_another() {
    let nodes: [Server; 2] = servers().await;
    let origin = origin(&nodes);
    asked(&origin, get("/")).await;
    until("both are connected", || origin.snapshot().set.unwrap().connections.len() == 2).await;
    let mut under_way = JoinSet::new();
    for _ in 0..40 {
        let origin = origin.clone();
        under_way.spawn(async move { head(&origin, get("/gate")).await.map(|response| node(&response).to_owned()) });
    }
    for node in &nodes {
        soon(node.until(|node| node.at_gate() == 20)).await;
    }
    let [dying, living] = nodes;
    dying.kill().await;
    soon(living.until(|node| node.at_gate() == 40)).await;
    living.open_gate();
    for answered in soon(under_way.join_all()).await {
        assert_eq!(answered.unwrap(), "node-2");
    }
    dying.revive().unwrap();
    soon(dying.until(|node| node.connections() == 1)).await;
}

#[tokio::test]
async fn an_unsafe_request_on_a_node_that_dies_fails_and_is_sent_once() {
    let nodes: [Server; 2] = servers().await;
    let origin = origin_of(builder().maximum(1), nodes.iter().map(Server::address));
    let asking = tokio::spawn({
        let origin = origin.clone();
        async move { head(&origin, post("/gate", "an order")).await }
    });
    let busy = || nodes.iter().find(|node| node.at_gate() == 1);
    until("it is under way", || busy().is_some()).await;
    busy().unwrap().kill().await;
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!((error.step(), error.attempts()), (Step::Receive, 1));
    assert_eq!(nodes.iter().map(Server::requests).sum::<usize>(), 1);
}

#[tokio::test]
async fn a_body_cut_short_says_so() {
    let server = Raw::start(10, |_| Act::Half).await;
    let origin = raw(&server);
    let response = head(&origin, get("/")).await.unwrap();
    drop(server);
    let error = read(response).await.unwrap_err();
    assert_eq!(error.step(), Step::Receive);
    assert!(error.to_string().contains("cut short"), "{error}");
    assert_eq!(error.origin(), Some(API));
    until("nothing is left of it", || leases(&origin) == 0).await;
}

#[tokio::test]
async fn a_server_that_does_not_speak_it_fails_to_connect() {
    let [server] = servers().await;
    server.script(Script::new().say("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").close());
    let origin = origin_of(builder().recovery(policy().attempts(1)), [server.address()]);
    let error = head(&origin, post("/", "an order")).await.unwrap_err();
    assert_eq!(error.step(), Step::Connect, "{error:?}");
    assert_eq!(error.attempts(), 0, "no request was lost on it");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let [silent] = servers().await;
    silent.script(Script::new().request());
    let policy = policy().attempts(1).timeout(ms(50)).max_timeout(ms(50));
    let origin = origin_of(builder().recovery(policy), [silent.address()]);
    let error = head(&origin, get("/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Connect, "{error:?}");
    soon(silent.until(|server| server.connections() == 0)).await;
}

#[tokio::test]
async fn pings_end_a_connection_that_does_not_answer_them() {
    let [server] = servers().await;
    // It greets as HTTP/2 wants it, and then says nothing.
    server.script(Script::new().say(vec![0, 0, 0, 4, 0, 0, 0, 0, 0]).hold());
    let origin = origin_of(builder().ping("/healthz").ping_interval(ms(20)).check_timeout(ms(50)), [server.address()]);
    let error = head(&origin, post("/", "an order")).await.unwrap_err();
    assert_eq!(error.step(), Step::Receive, "{error:?}");
}

#[tokio::test]
async fn draining_waits_for_what_is_under_way_and_closes_politely() {
    let [server] = servers().await;
    let agent = builder().protocol(Protocol::Http2).build().unwrap();
    let origin = agent.create_pool(API, OriginOptions::default().backends([server.address()])).unwrap();
    let asking = tokio::spawn({
        let origin = origin.clone();
        async move { asked(&origin, get("/gate")).await }
    });
    soon(server.until(|server| server.at_gate() == 1)).await;
    let deadline = tokio::time::Instant::now() + ms(60_000);
    let draining = tokio::spawn({
        let agent = agent.clone();
        async move { agent.drain(deadline).await }
    });
    until("it is closed", || agent.is_closed()).await;
    assert_eq!(head(&origin, get("/")).await.unwrap_err().step(), Step::Closed);
    server.open_gate();
    assert_eq!(soon(asking).await.unwrap(), "hello from node-1");
    assert!(soon(draining).await.unwrap().is_complete());
    soon(server.until(|server| server.connections() == 0)).await;
}
