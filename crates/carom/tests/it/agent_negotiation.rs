//! Negotiation: an `https` origin is asked once what it speaks, and that is remembered until it is not so any more.

use crate::agent::{builder, fed, get, ms, policy, post, read, served, soon, until};
use carom::Backend;
use carom::agent::{Agent, Body, Origin, OriginOptions, Protocol, Step};
use carom::tls::Tls;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, Version};
use http_body_util::BodyExt;
use std::error::Error as _;
use std::time::{Duration, Instant};
use testkit::backends::Told;
use testkit::http::{Authority, Server};
use tokio::task::JoinSet;
use tokio::time::sleep;

const SECURE: &str = "https://api.test";

async fn server<const N: usize>(name: &str, authority: &Authority, protocols: [&str; N]) -> Server {
    Server::start_tls(name, authority.issue(["api.test"]).serving(protocols)).await.unwrap()
}

fn options(authority: &Authority) -> OriginOptions {
    OriginOptions::default().tls(Tls::builder().roots_pem(authority.pem()))
}

/// No spare connections, so that every one that is made was needed.
fn sparing() -> Agent {
    builder().spares(0).build().unwrap()
}

fn origin<'a>(agent: &Agent, authority: &Authority, nodes: impl IntoIterator<Item = &'a Server>) -> Origin {
    let nodes = nodes.into_iter().map(Server::address);
    agent.create_pool(SECURE, options(authority).backends(nodes)).unwrap()
}

async fn ask(origin: &Origin) -> Response<Body> {
    soon(origin.request(get("/"))).await.unwrap_or_else(|error| panic!("{error:?}"))
}

/// Asks, and reads the answer: over what it came.
async fn version(origin: &Origin) -> Version {
    let response = ask(origin).await;
    let version = response.version();
    read(response).await.unwrap();
    version
}

fn upgrade() -> Request<Body> {
    let mut upgrade = get("/chat");
    upgrade.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    upgrade.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    upgrade
}

#[tokio::test]
async fn an_origin_made_in_advance_is_connected_to_before_anybody_asks() {
    let authority = Authority::new();
    let (both, old) = (server("a", &authority, ["h2", "http/1.1"]).await, server("b", &authority, ["http/1.1"]).await);
    for (node, spoken) in [(&both, Protocol::Http2), (&old, Protocol::Http1)] {
        let agent = builder().spares(1).build().unwrap();
        let origin = origin(&agent, &authority, [node]);
        until("it is known", || origin.protocol() == Some(spoken)).await;
        soon(node.until(|node| node.accepted() > 0)).await;
        assert_eq!(node.requests(), 0);
    }
}

#[tokio::test]
async fn what_the_server_chooses_is_spoken_and_the_first_dial_is_not_wasted() {
    let authority = Authority::new();
    for (protocols, version, protocol) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2, Protocol::Http2),
        (&["http/1.1", "h2"], Version::HTTP_11, Protocol::Http1),
        (&["h2"], Version::HTTP_2, Protocol::Http2),
        (&["http/1.1"], Version::HTTP_11, Protocol::Http1),
        (&[], Version::HTTP_11, Protocol::Http1),
    ] {
        let certificate = authority.issue(["api.test"]);
        let config = match protocols {
            [one, other] => certificate.serving([one, other]),
            [one] => certificate.serving([one]),
            _ => certificate.serving([]),
        };
        let server = Server::start_tls("node-1", config).await.unwrap();
        let agent = sparing();
        let origin = origin(&agent, &authority, [&server]);
        assert_eq!(origin.protocol(), None, "nobody has asked yet");
        for _ in 0..3 {
            assert_eq!(self::version(&origin).await, version, "{protocols:?}");
        }
        assert_eq!(origin.protocol(), Some(protocol));
        assert_eq!(server.accepted(), 1, "{protocols:?}");
    }
}

#[tokio::test]
async fn however_many_ask_first_it_is_one_dial() {
    let authority = Authority::new();
    let server = server("node-1", &authority, ["h2"]).await;
    let agent = sparing();
    let origin = origin(&agent, &authority, [&server]);
    let mut asking = JoinSet::new();
    for _ in 0..50 {
        let origin = origin.clone();
        asking.spawn(async move { version(&origin).await });
    }
    assert!(soon(asking.join_all()).await.iter().all(|version| *version == Version::HTTP_2));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn whoever_gives_up_asking_costs_the_others_nothing() {
    let authority = Authority::new();
    let server = server("node-1", &authority, ["h2"]).await;
    let agent = sparing();
    let origin = origin(&agent, &authority, [&server]);
    for _ in 0..5 {
        let origin = origin.clone();
        let asking = tokio::spawn(async move { version(&origin).await });
        tokio::task::yield_now().await;
        asking.abort();
    }
    assert_eq!(version(&origin).await, Version::HTTP_2);
    assert_eq!(origin.snapshot().set.unwrap().leases, 0);
}

#[tokio::test]
async fn a_dead_node_is_not_the_callers_problem() {
    let authority = Authority::new();
    let nodes = [server("node-1", &authority, ["h2"]).await, server("node-2", &authority, ["h2"]).await];
    for (dead, living) in [(0, 1), (1, 0)] {
        nodes[dead].kill().await;
        let agent = sparing();
        let origin = origin(&agent, &authority, &nodes);
        assert_eq!(served(&ask(&origin).await).backend.socket_addr(), nodes[living].address());
        nodes[dead].revive().unwrap();
    }
}

#[tokio::test]
async fn when_nobody_can_be_asked_it_is_said_why_and_asked_again() {
    let authority = Authority::new();
    let server = server("node-1", &authority, ["h2"]).await;
    server.kill().await;
    let agent = builder().recovery(policy().attempts(1)).build().unwrap();
    let origin = origin(&agent, &authority, [&server]);
    let error = soon(origin.request(get("/"))).await.unwrap_err();
    assert_eq!((error.step(), error.backend().unwrap().socket_addr()), (Step::Connect, server.address()));
    server.revive().unwrap();
    let again = soon(async {
        loop {
            // Until the delay is over that its failure has earned it.
            match origin.request(get("/")).await {
                Ok(response) => return response,
                Err(error) => assert_eq!(error.step(), Step::Connect),
            }
            sleep(ms(1)).await;
        }
    });
    assert_eq!(again.await.version(), Version::HTTP_2);
}

#[tokio::test]
async fn one_protocol_alone_can_be_asked_for() {
    let authority = Authority::new();
    let both = server("node-1", &authority, ["h2", "http/1.1"]).await;
    let agent = builder().protocol(Protocol::Http1).build().unwrap();
    assert_eq!(version(&origin(&agent, &authority, [&both])).await, Version::HTTP_11);
    let agent = builder().protocol(Protocol::Http2).build().unwrap();
    assert_eq!(version(&origin(&agent, &authority, [&both])).await, Version::HTTP_2);

    let old = server("node-2", &authority, ["http/1.1"]).await;
    let agent = builder().protocol(Protocol::Http2).recovery(policy().attempts(1)).build().unwrap();
    let origin = origin(&agent, &authority, [&old]);
    let error = soon(origin.request(get("/"))).await.unwrap_err();
    assert_eq!(error.step(), Step::Tls);
    let source = error.source().unwrap().to_string();
    assert_eq!(source, "the server does not speak HTTP/2");
}

#[tokio::test]
async fn a_fleet_of_both_kinds_serves_every_request() {
    let authority = Authority::new();
    let new = server("new", &authority, ["h2"]).await;
    let old = server("old", &authority, ["http/1.1"]).await;
    for _ in 0..4 {
        let agent = sparing();
        let origin = origin(&agent, &authority, [&new, &old]);
        for _ in 0..10 {
            read(ask(&origin).await).await.unwrap();
        }
        let speaking = if origin.protocol() == Some(Protocol::Http2) { &new } else { &old };
        assert!(speaking.requests() > 0);
    }
    assert_eq!(new.requests() + old.requests(), 40);
}

#[tokio::test]
async fn what_no_server_speaks_any_more_is_forgotten() {
    let authority = Authority::new();
    let new = server("new", &authority, ["h2"]).await;
    let old = server("old", &authority, ["http/1.1"]).await;
    let (serving, told) = Told::new([Backend::fixed(new.address())]);
    let agent = sparing();
    let origin = agent.create_pool(SECURE, options(&authority).resolver(told)).unwrap();
    assert_eq!(version(&origin).await, Version::HTTP_2);
    for (node, wanted, protocol) in [
        (&old, Version::HTTP_11, Protocol::Http1),
        (&new, Version::HTTP_2, Protocol::Http2),
        (&old, Version::HTTP_11, Protocol::Http1),
    ] {
        serving.send_replace(vec![Backend::fixed(node.address())]);
        until("it is known who serves", || origin.snapshot().backends[..] == [Backend::fixed(node.address())]).await;
        let mut asking = JoinSet::new();
        for _ in 0..10 {
            let origin = origin.clone();
            asking.spawn(async move { served(&ask(&origin).await).backend.clone() });
        }
        soon(asking.join_all()).await;
        until("the other node is let go", || {
            [&new, &old].iter().all(|other| other.address() == node.address() || other.connections() == 0)
        })
        .await;
        assert_eq!((version(&origin).await, origin.protocol()), (wanted, Some(protocol)));
    }
}

#[tokio::test]
async fn what_is_still_read_over_a_forgotten_way_is_waited_for() {
    let authority = Authority::new();
    let new = server("new", &authority, ["h2"]).await;
    let old = server("old", &authority, ["http/1.1"]).await;
    let (serving, told) = Told::new([Backend::fixed(new.address())]);
    let agent = sparing();
    let origin = agent.create_pool(SECURE, options(&authority).resolver(told)).unwrap();
    let (feed, body) = fed();
    let mut response = soon(origin.request(post("/stream", body))).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    serving.send_replace(vec![Backend::fixed(old.address())]);
    until("it is known who serves", || origin.snapshot().backends[..] == [Backend::fixed(old.address())]).await;
    assert_eq!(version(&origin).await, Version::HTTP_11);
    feed.send(Ok("still there".into())).await.unwrap();
    let frame = soon(response.body_mut().frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "still there");

    let drained = soon(agent.drain(Instant::now() + ms(50))).await;
    assert_eq!((drained.cut, drained.to_string()), (1, "1 cut short".to_owned()));
    assert!(soon(response.body_mut().frame()).await.unwrap().is_err());
}

#[tokio::test]
async fn a_closed_origin_upgrades_nothing() {
    let authority = Authority::new();
    let server = server("node-1", &authority, ["h2", "http/1.1"]).await;
    let agent = sparing();
    let origin = origin(&agent, &authority, [&server]);
    assert_eq!(version(&origin).await, Version::HTTP_2);
    agent.close();
    let error = soon(origin.request(upgrade())).await.unwrap_err();
    assert_eq!((error.step(), server.accepted()), (Step::Closed, 1));
    assert!(soon(agent.drain(Instant::now() + ms(5000))).await.is_complete());
}

#[tokio::test]
async fn while_nobody_is_known_requests_fail_at_once_if_that_is_wanted() {
    let authority = Authority::new();
    let server = server("node-1", &authority, ["h2"]).await;
    let (serving, told) = Told::new([Backend::fixed(server.address())]);
    let agent = builder().error_on_empty(true).claim_timeout(Duration::from_secs(3600)).build().unwrap();
    let origin = agent.create_pool(SECURE, options(&authority).resolver(told)).unwrap();
    assert_eq!(version(&origin).await, Version::HTTP_2);
    serving.send_replace(Vec::new());
    until("it is known that nobody serves", || origin.snapshot().backends.is_empty()).await;
    assert_eq!(soon(origin.request(get("/"))).await.unwrap_err().step(), Step::Resolve);
}

#[tokio::test]
async fn what_http2_has_no_words_for_goes_over_http1_beside_it() {
    let authority = Authority::new();
    let server = server("node-1", &authority, ["h2", "http/1.1"]).await;
    let agent = sparing();
    let origin = origin(&agent, &authority, [&server]);
    assert_eq!(version(&origin).await, Version::HTTP_2);
    assert!(origin.snapshot().pool.is_none());
    let response = soon(origin.request(upgrade())).await.unwrap();
    let snapshot = origin.snapshot();
    assert!(snapshot.pool.is_some() && snapshot.set.is_some(), "both are shown");
    assert_eq!(response.version(), Version::HTTP_11);
    assert_eq!(served(&response).protocol, Protocol::Http1);
    assert_eq!(server.seen()[1].header("upgrade"), Some("websocket"));
    read(response).await.unwrap();
    assert_eq!((version(&origin).await, origin.protocol()), (Version::HTTP_2, Some(Protocol::Http2)));
}

#[tokio::test]
async fn an_agent_can_be_closed_while_it_is_being_found_out() {
    let authority = Authority::new();
    // It accepts, and says nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agent = sparing();
    let options = options(&authority).backends([listener.local_addr().unwrap()]);
    let origin = agent.create_pool(SECURE, options).unwrap();
    let asking = tokio::spawn({
        let origin = origin.clone();
        async move { origin.request(get("/")).await }
    });
    let (_silent, _) = soon(listener.accept()).await.unwrap();
    agent.close();
    assert_eq!(soon(asking).await.unwrap().unwrap_err().step(), Step::Closed);
    assert_eq!(soon(origin.request(get("/"))).await.unwrap_err().step(), Step::Closed);
}
