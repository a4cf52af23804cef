//! HTTP/2 over several nodes: where requests go when some are full, leave, refuse, or serve badly.

use crate::agent::{builder, fed, get, ms, node, policy, post, read, request, served, servers, soon, until};
use crate::raw_http2::{Act, Closes, ClosingServer, Raw, head, leases, origin_of};
use carom::Ejection;
use carom::agent::{Builder, Origin, Step};
use h2::Reason;
use http::Method;
use std::io;
use std::time::Duration;
use testkit::http::Server;
use tokio::task::JoinSet;

/// For so long that nobody comes back during a test.
const LONG: Duration = Duration::from_secs(3600);

fn ejecting() -> Builder {
    builder().ejection(Ejection::default().consecutive(3).time(LONG))
}

/// An origin of these nodes, all of which are connected to.
async fn connected<const N: usize>(builder: Builder, nodes: [std::net::SocketAddr; N]) -> Origin {
    let origin = origin_of(builder, nodes);
    until("all are connected to", || origin.snapshot().set.unwrap().connections.len() == N).await;
    origin
}

fn ejected(origin: &Origin) -> Vec<u16> {
    origin.snapshot().set.unwrap().ejected.iter().map(|(backend, _)| backend.port()).collect()
}

#[tokio::test]
async fn requests_one_after_another_go_round() {
    let nodes: [Server; 3] = servers().await;
    // Neutral responses: a node that happens to be slow once gets fewer requests.
    nodes.iter().for_each(|node| node.set_status(500));
    let origin = connected(builder(), nodes.each_ref().map(Server::address)).await;
    for _ in 0..6 {
        read(head(&origin, get("/")).await.unwrap()).await.unwrap();
    }
    assert_eq!(nodes.each_ref().map(Server::requests), [2, 2, 2]);
}

#[tokio::test]
async fn a_node_that_answers_with_server_errors_is_left_out() {
    let nodes: [Server; 3] = servers().await;
    nodes[1].set_status(503);
    let origin = connected(ejecting(), nodes.each_ref().map(Server::address)).await;
    let (mut errors, mut responses) = (0, 0);
    let mut ask = async || {
        let response = head(&origin, get("/")).await.unwrap();
        // Whether the answer is read does not matter.
        errors += usize::from(response.status() == 503);
        responses += 1;
    };
    // After two failures it gets one request a second.
    soon(async {
        while ejected(&origin) != [nodes[1].address().port()] {
            ask().await
        }
    })
    .await;
    for _ in 0..60 {
        ask().await;
    }
    assert_eq!(errors, 3, "of {responses}");
}

#[tokio::test]
async fn node_that_does_not_respond_within_timeout_is_ejected() {
    let nodes: [Server; 3] = servers().await;
    let origin = connected(ejecting().timeout(ms(200)), nodes.each_ref().map(Server::address)).await;
    // The gates of the others are open.
    nodes[1..].iter().for_each(Server::open_gate);
    soon(async {
        while ejected(&origin) != [nodes[0].address().port()] {
            drop(head(&origin, get("/gate")).await);
        }
    })
    .await;
}

#[tokio::test]
async fn a_good_answer_between_bad_ones_is_a_new_beginning() {
    let nodes: [Server; 2] = servers().await;
    let origin = connected(ejecting(), nodes.each_ref().map(Server::address)).await;
    for round in 0..20 {
        nodes[0].set_status(if round % 3 == 2 { 200 } else { 500 });
        for _ in 0..2 {
            read(head(&origin, get("/")).await.unwrap()).await.unwrap();
        }
    }
    assert!(ejected(&origin).is_empty(), "never three in a row");
}

#[tokio::test]
async fn node_that_resets_requests_is_ejected_and_safe_ones_succeed_at_another() {
    let bad = Raw::start(10, |_| Act::Reset(Reason::INTERNAL_ERROR)).await;
    let good = Raw::start(10, |_| Act::Answer).await;
    let origin = connected(ejecting(), [bad.address(), good.address()]).await;
    soon(async {
        while ejected(&origin) != [bad.address().port()] {
            head(&origin, get("/")).await.unwrap();
        }
    })
    .await;
    assert_eq!(bad.requests(), 3);
}

#[tokio::test]
async fn a_connection_that_breaks_is_one_failure_however_many_were_on_it() {
    let nodes: [Server; 2] = servers().await;
    let origin = connected(ejecting(), nodes.each_ref().map(Server::address)).await;
    let mut under_way = JoinSet::new();
    for _ in 0..20 {
        let origin = origin.clone();
        under_way.spawn(async move { head(&origin, post("/gate", "an order")).await.is_ok() });
    }
    for node in &nodes {
        soon(node.until(|node| node.at_gate() == 10)).await;
    }
    let [dying, living] = nodes;
    dying.kill().await;
    living.open_gate();
    let answered = soon(under_way.join_all()).await;
    assert_eq!(answered.iter().filter(|answered| **answered).count(), 10);
    assert!(ejected(&origin).is_empty());
}

#[tokio::test]
async fn what_one_node_refuses_another_serves() {
    let refusing = Raw::start(10, |_| Act::Reset(Reason::REFUSED_STREAM)).await;
    let serving = Raw::start(10, |_| Act::Answer).await;
    let origin = connected(builder(), [refusing.address(), serving.address()]).await;
    let mut attempts = 0;
    for _ in 0..10 {
        let response = head(&origin, post("/", "an order")).await.unwrap();
        attempts += served(&response).attempts;
        assert_eq!(served(&response).backend.socket_addr(), serving.address());
        read(response).await.unwrap();
    }
    assert_eq!((serving.requests(), refusing.requests()), (10, attempts as usize - 10));
    assert!(refusing.requests() <= 10, "once for each request");
}

#[tokio::test]
async fn connections_that_take_no_more_cost_no_tries() {
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(Raw::start(10, |number| if number == 0 { Act::HalfAndLeave } else { Act::Answer }).await);
    }
    let addresses = [&nodes[0], &nodes[1], &nodes[2], &nodes[3]].map(Raw::address);
    let origin = connected(builder(), addresses).await;
    let mut halves = Vec::new();
    for _ in &nodes {
        halves.push(head(&origin, get("/")).await.unwrap());
    }
    let response = head(&origin, post("/", "an order")).await.unwrap();
    assert_eq!(served(&response).attempts, 1, "nothing was sent before");
    assert_eq!(read(response).await.unwrap(), "done");
    nodes.iter().for_each(Raw::finish);
    for half in halves {
        assert_eq!(read(half).await.unwrap(), "half done");
    }
}

/// GOAWAY without an error.
const GRACEFUL: u32 = 0;
/// Another way to close a connection.
const ENHANCE_YOUR_CALM: u32 = 11;

#[tokio::test]
async fn request_that_a_closing_server_has_not_processed_is_no_attempt_and_is_sent_again_whatever_it_is() {
    for method in [Method::GET, Method::POST] {
        // More often than a request is tried.
        let closes = |number| (number < 10).then_some(Closes { after: 0, code: GRACEFUL, on_data: false });
        let server = ClosingServer::start(closes).await;
        let origin = origin_of(builder(), [server.address()]);
        let response = head(&origin, request(method.clone(), "/", "a body")).await.unwrap();
        assert_eq!((response.status().as_u16(), served(&response).attempts), (200, 1), "{method}");
        assert_eq!((server.heard(), server.accepted()), (11, 11), "{method}");
    }
}

#[tokio::test]
async fn requests_that_do_not_fit_on_a_closing_connection_are_answered_on_the_next() {
    let server = ClosingServer::start(|_| Some(Closes { after: 5, code: GRACEFUL, on_data: false })).await;
    let origin = origin_of(builder(), [server.address()]);
    let mut requests = JoinSet::new();
    for _ in 0..32 {
        let origin = origin.clone();
        requests.spawn(async move { served(&head(&origin, get("/")).await.unwrap()).attempts });
    }
    assert_eq!(soon(requests.join_all()).await, [1; 32]);
    assert!(server.accepted() >= 7, "five on each: {}", server.accepted());
}

#[tokio::test]
async fn request_that_no_server_processes_fails_after_32_closed_connections() {
    let server = ClosingServer::start(|_| Some(Closes { after: 0, code: GRACEFUL, on_data: false })).await;
    let policy = policy().delay(ms(1)).max_delay(ms(1));
    let origin = origin_of(builder().recovery(policy), [server.address()]);
    for (method, heard) in [(Method::GET, 33), (Method::POST, 66)] {
        let error = head(&origin, request(method, "/", "a body")).await.unwrap_err();
        assert_eq!((error.step(), error.attempts(), server.heard()), (Step::Send, 1, heard), "{error}");
        assert!(error.to_string().contains("takes no more requests"), "{error}");
    }
}

#[tokio::test]
async fn request_that_a_closing_server_has_not_processed_is_sent_again_with_a_body_that_can_be_read_only_once() {
    for on_data in [false, true] {
        let closes = move |number| (number < 3).then_some(Closes { after: 0, code: GRACEFUL, on_data });
        let server = ClosingServer::start(closes).await;
        let origin = origin_of(builder(), [server.address()]);
        let (sender, body) = fed();
        let feeding = tokio::spawn(async move {
            for piece in ["a ", "body ", "in pieces"] {
                sender.send(Ok(piece.into())).await.unwrap();
            }
        });
        let response = head(&origin, request(Method::POST, "/", body)).await.unwrap();
        feeding.await.unwrap();
        assert_eq!((response.status().as_u16(), served(&response).attempts), (200, 1));
        assert_eq!((server.heard(), server.bodies()), (4, vec![b"a body in pieces".to_vec()]));
    }
}

#[tokio::test]
async fn request_that_a_closing_server_has_not_processed_fails_if_more_of_its_body_was_sent_than_is_kept() {
    let server = ClosingServer::start(|_| Some(Closes { after: 0, code: GRACEFUL, on_data: true })).await;
    let origin = origin_of(builder(), [server.address()]);
    let (sender, body) = fed();
    sender.send(Ok(vec![b'z'; 64 * 1024 + 1].into())).await.unwrap();
    let error = head(&origin, request(Method::POST, "/", body)).await.unwrap_err();
    assert_eq!((error.step(), error.attempts(), server.heard()), (Step::Send, 1, 1), "{error}");
}

#[tokio::test]
async fn request_that_a_server_has_not_processed_is_an_attempt_if_the_server_closes_with_an_error() {
    let server = ClosingServer::start(|_| Some(Closes { after: 0, code: ENHANCE_YOUR_CALM, on_data: false })).await;
    let origin = origin_of(builder(), [server.address()]);
    for (method, heard) in [(Method::GET, 3), (Method::POST, 6)] {
        let error = head(&origin, request(method, "/", "a body")).await.unwrap_err();
        assert_eq!((error.step(), error.attempts(), server.heard()), (Step::Send, 3, heard), "{error}");
    }
}

#[tokio::test]
async fn nobody_waits_at_a_full_node_while_another_has_room() {
    let small = Raw::start(1, |_| Act::Half).await;
    let large = Raw::start(100, |_| Act::Half).await;
    let origin = connected(builder().claim_timeout(LONG), [small.address(), large.address()]).await;
    let mut asking = JoinSet::new();
    for _ in 0..50 {
        let origin = origin.clone();
        asking.spawn(async move { head(&origin, get("/")).await.unwrap() });
    }
    let halves = soon(asking.join_all()).await;
    assert_eq!((small.requests(), large.requests()), (1, 49));
    small.finish();
    large.finish();
    for half in halves {
        read(half).await.unwrap();
    }
    assert_eq!(leases(&origin), 0);
}

#[tokio::test]
async fn the_line_of_those_who_wait_has_an_end() {
    let server = Raw::start(1, |number| if number == 0 { Act::Half } else { Act::Answer }).await;
    let origin = connected(builder().max_waiters(1), [server.address()]).await;
    let first = head(&origin, get("/")).await.unwrap();
    let mut second = std::pin::pin!(origin.request(get("/")));
    tokio::select! {
        biased;
        _ = &mut second => panic!("the server takes one at a time"),
        () = until("the second waits", || leases(&origin) == 2) => {}
    }
    let error = head(&origin, get("/")).await.unwrap_err();
    assert_eq!(error.step(), Step::Claim);
    assert!(error.to_string().contains("1 wait already"), "{error}");
    server.finish();
    read(first).await.unwrap();
    assert_eq!(read(soon(second).await.unwrap()).await.unwrap(), "done");
}

#[tokio::test]
async fn connections_that_are_old_take_no_new_requests() {
    let server = Raw::start(10, |number| if number == 0 { Act::Half } else { Act::Answer }).await;
    let origin = origin_of(builder().max_lifetime(ms(20)), [server.address()]);
    let first = head(&origin, get("/")).await.unwrap();
    soon(async {
        while server.accepted() < 3 {
            assert_eq!(read(head(&origin, get("/")).await.unwrap()).await.unwrap(), "done");
        }
    })
    .await;
    server.finish();
    assert_eq!(read(first).await.unwrap(), "half done", "what is under way goes on");
}

#[tokio::test]
async fn a_server_that_leaves_at_once_is_not_dialled_in_a_tight_loop() {
    let server = Raw::start(10, |_| Act::Leave(Reason::NO_ERROR)).await;
    let origin = origin_of(builder(), [server.address()]);
    let error = head(&origin, get("/")).await.unwrap_err();
    assert_eq!((error.attempts(), server.requests()), (3, 3));
    // There is a delay before the next attempt: with one that the request does not wait for, there is none.
    let server = Raw::start(10, |_| Act::Leave(Reason::NO_ERROR)).await;
    let delayed = builder().recovery(policy().delay(LONG).max_delay(LONG)).claim_timeout(ms(500));
    let origin = connected(delayed, [server.address()]).await;
    head(&origin, get("/")).await.unwrap_err();
    assert_eq!((server.accepted(), server.requests()), (1, 1));
}

#[tokio::test]
async fn a_request_body_that_fails_says_why_and_costs_nobody_the_connection() {
    let [server] = servers().await;
    let origin = connected(ejecting(), [server.address()]).await;
    for sent in [0, 1, 5] {
        let (sender, body) = fed();
        tokio::spawn(async move {
            for _ in 0..sent {
                sender.send(Ok("piece".into())).await.unwrap();
            }
            sender.send(Err(io::Error::other("the disk is gone"))).await.unwrap();
        });
        let error = head(&origin, request(Method::POST, "/", body)).await.unwrap_err();
        assert_eq!(error.step(), Step::Send, "{error:?}");
        assert!(format!("{error:?}").contains("the disk is gone"), "{error:?}");
    }
    let response = head(&origin, get("/")).await.unwrap();
    assert_eq!((node(&response), server.accepted()), ("node-1", 1));
}
