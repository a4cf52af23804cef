//! What its predecessor's agent was tested for, A1 to A8, as this one does it.

use crate::agent::*;
use carom::Backend;
use carom::agent::{OriginOptions, Step};
use carom::pool::State;
use carom::resolver::{Fixed, Resolver, ResolverState};
use carom::tls::Tls;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::http::{Script, Server};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

fn in_a_minute() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A1.
#[tokio::test]
async fn a_plain_get_to_an_address() {
    let (agent, server) = (crate::agent::agent(), server("node").await);
    let response = soon(agent.get(server.url("/orders"))).await.unwrap();
    assert_eq!((response.status().as_u16(), node(&response)), (200, "node"));
    assert_eq!(read(response).await.unwrap(), "hello from node");
    assert_eq!(server.seen()[0].header("host"), Some(&*server.address().to_string()));

    let origin = agent.pool(server.url("")).expect("the first request made it");
    assert_eq!(origin.state(), State::Running);
    assert!(agent.pool("http://unknown.test").is_none());
    assert!(agent.create_pool(server.url(""), OriginOptions::default()).is_err());

    assert!(!agent.is_closed());
    assert!(soon(agent.drain(in_a_minute())).await.is_complete());
    assert!(agent.is_closed());
    assert_eq!(origin.state(), State::Stopped);
    server.until(|server| server.connections() == 0).await;
}

/// A2.
#[tokio::test]
async fn an_origin_made_in_advance_connects_before_any_request() {
    let (agent, server) = (crate::agent::agent(), server("node").await);
    let origin = agent.create_pool(server.url(""), OriginOptions::default()).unwrap();
    soon(server.until(|server| server.accepted() == 1)).await;
    assert_eq!(server.requests(), 0);
    assert_eq!(asked(&origin, get("/")).await.0, 200);

    // The default port is the one of the scheme.
    for (url, port) in [("http://127.9.9.9", 80), ("https://127.9.9.9", 443)] {
        let origin = agent.create_pool(url, OriginOptions::default()).unwrap();
        until("it is known who serves it", || !origin.snapshot().backends.is_empty()).await;
        assert_eq!(origin.snapshot().backends[0].port(), port);
    }

    agent.close();
    let error = soon(agent.get(server.url("/"))).await.unwrap_err();
    assert_eq!(error.step(), Step::Closed, "{error:?}");
    assert!(agent.create_pool("http://another.test", OriginOptions::default()).is_err());
}

/// A3.
#[tokio::test]
async fn a_request_uses_the_origin_that_was_made_for_it() {
    let (agent, server) = (crate::agent::single(), server("node").await);
    let origin = agent.create_pool(server.url(""), OriginOptions::default()).unwrap();
    for _ in 0..3 {
        let response = soon(agent.get(server.url("/"))).await.unwrap();
        read(response).await.unwrap();
    }
    assert_eq!((server.accepted(), server.requests()), (1, 3));
    assert_eq!(agent.pool(server.url("")).unwrap().name(), origin.name());
}

/// A4; `agent_ping.rs` has more.
#[tokio::test]
async fn a_ping_asks_for_its_path_and_leaves_the_connection_usable() {
    let server = server("node").await;
    let agent = builder().ping("/healthz").ping_interval(ms(50)).build().unwrap();
    let origin = origin(&agent, [&server]);
    soon(server.until(|server| server.requests() >= 2)).await;
    assert!(server.seen().iter().all(|seen| seen.target == "/healthz" && seen.header("host") == Some("api.test")));
    assert_eq!(asked(&origin, get("/orders")).await, (200, "hello from node".into()));
}

/// A5.
#[tokio::test]
async fn a_resolver_of_the_caller_is_left_running_and_a_closed_server_is_replaced() {
    let servers: [Server; 2] = servers().await;
    let resolver = Resolver::start(Fixed::new(servers.iter().map(Server::address))).unwrap();
    let agent = crate::agent::agent();
    let origin = agent.create_pool(API, OriginOptions::default().resolver(resolver.clone())).unwrap();
    let response = soon(origin.request(get("/"))).await.unwrap();
    let first = node(&response).to_owned();
    read(response).await.unwrap();
    let (gone, left) = if first == "node-1" { (&servers[0], "node-2") } else { (&servers[1], "node-1") };
    gone.kill().await;
    for _ in 0..5 {
        let response = soon(origin.request(get("/"))).await.unwrap();
        assert_eq!(node(&response), left);
        read(response).await.unwrap();
    }
    assert!(soon(agent.drain(in_a_minute())).await.is_complete());
    assert_eq!((resolver.state(), resolver.backends().len()), (ResolverState::Running, 2));
}

/// A6.
#[tokio::test]
async fn a_refused_connection_fails_the_request_and_the_origin() {
    let server = server("node").await;
    server.kill().await;
    let agent = crate::agent::builder().outage_wait(Duration::ZERO).build().unwrap();
    let error = soon(agent.get(server.url("/"))).await.unwrap_err();
    assert_eq!(error.step(), Step::Connect, "{error:?}");
    assert_eq!(error.backend().map(Backend::socket_addr), Some(server.address()));
    let origin = agent.pool(server.url("")).unwrap();
    until("the origin is Failed", || origin.state() == State::Failed).await;
    assert!(soon(agent.drain(in_a_minute())).await.is_complete());
}

/// A7. The predecessor gives such a connection back as if nothing was wrong; here it is closed, and held against the backend. One
/// that can be connected to does not count as dead: it may be that it serves all other requests well.
#[tokio::test]
async fn a_server_that_accepts_and_drops_fails_requests_but_not_the_origin() {
    for drops in [Script::new().request().reset(), Script::new().request().vanish(), Script::new().head().close()] {
        let (agent, server) = (crate::agent::single(), server("node").await);
        server.script(drops);
        let origin = origin(&agent, [&server]);
        for _ in 0..10 {
            let error = ask(&origin, get("/")).await.unwrap_err();
            assert_eq!(error.step(), Step::Receive, "{error:?}");
        }
        assert_at_rest(&origin);
        assert_nobody_dead(&origin);
        server.behave();
        assert_eq!(asked_at_last(&origin, "/").await, (200, "hello from node".into()));
    }
}

/// A8; `agent_tls.rs` has more.
#[tokio::test]
async fn https_with_a_self_signed_certificate_works_where_that_is_allowed() {
    let made = rcgen::generate_simple_self_signed(["api.test".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let server = Server::start_tls("secret", Arc::new(config)).await.unwrap();
    let agent = crate::agent::agent();
    let (strict, lax) = ("https://strict.test", "https://lax.test");
    let options = || OriginOptions::default().resolver(Fixed::new([server.address()]));
    agent.create_pool(strict, options()).unwrap();
    agent.create_pool(lax, options().tls(Tls::builder().dangerous_accept_any_certificate())).unwrap();
    let error = soon(agent.get(strict)).await.unwrap_err();
    assert_eq!(error.step(), Step::Tls, "{error:?}");
    let response = soon(agent.get(lax)).await.unwrap();
    assert_eq!(read(response).await.unwrap(), "hello from secret");
    assert_eq!(server.seen()[0].header("host"), Some("lax.test"));
}
