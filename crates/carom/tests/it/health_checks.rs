//! Active health checks of pools and agents, with real sockets.

use crate::agent::{asked, builder, figures, get, origin, servers};
use carom::agent::HttpCheck;
use carom::health_check::{HealthCheck, Schedule};
use carom::monitor::{self, Monitor, Object};
use carom::pool::BackendState;
use carom::tcp::Tcp;
use carom::{Pool, connect_fn};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::http::Server;
use testkit::wait::{ms, soon, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Checks follow each other closely: the tests wait for what they cause.
fn schedule() -> Schedule {
    Schedule::default().interval(ms(5)).timeout(ms(60_000))
}

/// A server that replies to the first line of a connection, and closes that.
struct Lines {
    address: SocketAddr,
    reply: watch::Sender<&'static str>,
}

impl Lines {
    async fn start() -> Lines {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, reply) = (listener.local_addr().unwrap(), watch::Sender::new("+PONG\r\n"));
        let replies = reply.subscribe();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let replies = replies.clone();
                tokio::spawn(async move {
                    let mut line = [0; 6];
                    if stream.read_exact(&mut line).await.is_ok() {
                        let reply = *replies.borrow();
                        drop(stream.write_all(reply.as_bytes()).await);
                    }
                });
            }
        });
        Lines { address, reply }
    }
}

fn states(pool: &Pool<Tcp>) -> Vec<(SocketAddr, BackendState)> {
    let backends = pool.snapshot().pool.backends.into_iter();
    backends.map(|found| (found.backend.socket_addr(), found.state)).collect()
}

#[tokio::test]
async fn backend_whose_checks_fail_gets_no_claims_until_they_pass() {
    let (good, loading) = (Lines::start().await, Lines::start().await);
    loading.reply.send_replace("-LOADING\r\n");
    let pool = Pool::builder(Tcp::default())
        .backends([good.address, loading.address])
        .spares(2)
        .health_check(HealthCheck::send_expect("PING\r\n", "+PONG").schedule(schedule()))
        .build()
        .unwrap();
    let is = |address, state| states(&pool).contains(&(address, state));
    until("it is unhealthy", || is(loading.address, BackendState::Unhealthy)).await;
    for _ in 0..20 {
        let claim = soon(pool.claim()).await.unwrap();
        assert_eq!(claim.backend().socket_addr(), good.address);
    }
    loading.reply.send_replace("+PONG\r\n");
    until("it is healthy", || is(loading.address, BackendState::Healthy)).await;
}

#[tokio::test]
async fn check_of_the_connector_runs_on_a_connection_of_its_own() {
    let server = Lines::start().await;
    let connects = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connects);
    let connector = connect_fn(move |backend: carom::Backend| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, Infallible>(backend) }
    });
    let pool = Pool::builder(connector)
        .backends([server.address])
        .maximum(1)
        .spares(1)
        .health_check(HealthCheck::connector().schedule(schedule()))
        .build()
        .unwrap();
    let claim = soon(pool.claim()).await.unwrap();
    let before = connects.load(Ordering::Relaxed);
    until("it is checked while its only connection is in use", || connects.load(Ordering::Relaxed) > before + 3).await;
    drop(claim);
}

#[tokio::test]
async fn node_that_fails_http_checks_gets_no_requests_until_they_pass() {
    let servers: [Server; 3] = servers().await;
    servers[1].set_status(503);
    let agent = builder()
        .spares(3)
        .maximum(6)
        .ejection(None)
        .health_check(HttpCheck::get("/healthz").schedule(schedule()))
        .build()
        .unwrap();
    let origin = origin(&agent, &servers);
    let bad = servers[1].address().port();
    let state = || figures(&origin).backends.iter().find(|found| found.backend.port() == bad).map(|found| found.state);
    until("it is unhealthy", || state() == Some(BackendState::Unhealthy)).await;
    for _ in 0..30 {
        assert_eq!(asked(&origin, get("/")).await.0, 200);
    }
    servers[1].set_status(200);
    until("it is healthy", || state() == Some(BackendState::Healthy)).await;
}

/// Answers every call with this serving status.
async fn grpc(serving: watch::Receiver<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = serving.clone();
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    assert_eq!(request.headers()["content-type"], "application/grpc");
                    let response = http::Response::builder().header("content-type", "application/grpc");
                    let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
                    let frame = vec![0, 0, 0, 0, 2, 8, *serving.borrow()];
                    stream.send_data(frame.into(), false).unwrap();
                    let trailers = [("grpc-status", "0")].map(|(name, value)| {
                        (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
                    });
                    stream.send_trailers(trailers.into_iter().collect()).unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn node_that_is_not_serving_is_unhealthy_by_grpc_health_v1() {
    let (monitor, serving) = (Monitor::new(), watch::Sender::new(1));
    let nodes = [grpc(watch::Sender::new(1).subscribe()).await, grpc(serving.subscribe()).await];
    let agent = builder()
        .protocol(carom::agent::Protocol::Http2)
        .monitor(&monitor)
        .health_check(HttpCheck::grpc("orders.v1.Orders").schedule(schedule()))
        .build()
        .unwrap();
    let options = carom::agent::OriginOptions::default().backends(nodes);
    let origin = agent.create_pool("http://orders.test", options).unwrap();
    let is = |wanted| {
        let set = monitor.snapshot().objects.into_iter().find_map(|seen| match seen.object {
            Object::Set(set) => Some(set),
            _ => None,
        });
        let backends = set.map(|set| set.backends).unwrap_or_default();
        backends.iter().any(|found| found.backend.port == nodes[1].port() && found.state == wanted)
    };
    until("it is healthy", || is(monitor::BackendState::Healthy)).await;
    serving.send_replace(2);
    until("it is unhealthy", || is(monitor::BackendState::Unhealthy)).await;
    serving.send_replace(1);
    until("it is healthy again", || is(monitor::BackendState::Healthy)).await;
    drop(origin);
}
