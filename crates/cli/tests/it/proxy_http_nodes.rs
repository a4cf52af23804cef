//! HTTP services: nodes that die and come back, and services that end, without a request that fails.

use crate::proxying::Proxy;
use carom::agent::{Agent, Protocol};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use testkit::http::Server;
use testkit::wait::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_under_load_costs_no_request() {
    let mut nodes = Vec::new();
    for name in ["node-1", "node-2", "node-3"] {
        nodes.push(Server::start(name).await.unwrap());
    }
    let addresses: Vec<_> = nodes.iter().map(Server::address).collect();
    let more = "spares = 3\nmaximum = 12\ndelay = \"10ms\"\nmax_delay = \"100ms\"";
    let proxy = Proxy::http("http-dies", &addresses, more).await;
    let agent = Agent::builder().protocol(Protocol::Http1).spares(8).maximum(8).build().unwrap();
    let (done, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut load = JoinSet::new();
    for _ in 0..8 {
        let (agent, done, over) = (agent.clone(), Arc::clone(&done), Arc::clone(&over));
        let uri = format!("http://{}/orders", proxy.address);
        load.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let response = agent.get(&*uri).await.expect("the proxy answers");
                let status = response.status();
                let body = response.into_body().bytes(1 << 10).await.expect("the whole answer");
                assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let more_done = async |count: usize| {
        let target = done.load(Ordering::Relaxed) + count;
        while done.load(Ordering::Relaxed) < target {
            tokio::task::yield_now().await;
        }
    };
    for _ in 0..3 {
        soon(more_done(100)).await;
        nodes[1].kill().await;
        soon(more_done(300)).await;
        let before = nodes[1].requests();
        nodes[1].revive().unwrap();
        soon(nodes[1].until(|node| node.requests() > before)).await;
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = soon(load.join_next()).await {
        ended.unwrap();
    }
    assert_eq!(proxy.health().await["failed"], 0);
}

#[tokio::test]
async fn what_is_under_way_is_finished_when_the_service_ends() {
    let node = Server::start("node-1").await.unwrap();
    let proxy = Proxy::http("http-drain", &[node.address()], "drain_timeout = \"60s\"").await;
    let mut busy = proxy.connect().await;
    busy.write_all(b"GET /gate HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    soon(node.until(|node| node.at_gate() == 1)).await;
    let (at, mut running) = (proxy.address, proxy.running);
    running.signal("-TERM").await;
    running.told("stopping").await;
    assert!(TcpStream::connect(at).await.is_err(), "nobody is let in any more");
    node.open_gate();
    let mut answer = String::new();
    soon(busy.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hello from node-1"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(soon(running.child.wait()).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn what_takes_too_long_is_cut_when_the_service_ends() {
    let node = Server::start("node-1").await.unwrap();
    let proxy = Proxy::http("http-cut", &[node.address()], "drain_timeout = \"100ms\"").await;
    let mut busy = proxy.connect().await;
    busy.write_all(b"GET /gate HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    soon(node.until(|node| node.at_gate() == 1)).await;
    let mut running = proxy.running;
    running.signal("-TERM").await;
    assert_eq!(soon(running.child.wait()).await.unwrap().code(), Some(0));
    let mut answer = Vec::new();
    let _ = soon(busy.read_to_end(&mut answer)).await;
    assert!(answer.is_empty());
}
