//! Backends that stop responding while others respond: they get no new requests, and safe requests on them are sent elsewhere.

use crate::agent::{builder, fed, figures, get, ms, node, post, read, request, served, servers, soon, until};
use carom::agent::{Builder, HttpCheck, Origin, OriginOptions, Protocol};
use carom::health_check::Schedule;
use http::Method;
use std::collections::BTreeMap;
use std::time::Instant;
use testkit::http::Server;
use testkit::logs::Logs;
use tokio::task::JoinSet;

/// What waits while its node is frozen.
const PATH: &str = "/gate";

const CLIENTS: usize = 12;

fn big() -> Builder {
    builder().spares(3).maximum(30)
}

/// An origin of these nodes, all of which have responded.
async fn origin(builder: Builder, protocol: Protocol, nodes: &[Server]) -> Origin {
    nodes.iter().for_each(Server::open_gate);
    let agent = builder.protocol(protocol).build().unwrap();
    let backends = nodes.iter().map(Server::address);
    let origin = agent.create_pool(crate::agent::API, OriginOptions::default().backends(backends)).unwrap();
    // It lives for as long as the agent does.
    std::mem::forget(agent);
    soon(async {
        while nodes.iter().any(|node| node.requests() == 0) {
            round(&origin, Method::GET).await;
        }
    })
    .await;
    origin
}

/// Requests of several clients at a time, until all have their responses: how many each node sent.
async fn round(origin: &Origin, method: Method) -> BTreeMap<String, usize> {
    let mut clients = start(origin, method, CLIENTS);
    let mut nodes = BTreeMap::new();
    while let Some(node) = clients.join_next().await {
        *nodes.entry(node.unwrap()).or_default() += 1;
    }
    nodes
}

fn start(origin: &Origin, method: Method, clients: usize) -> JoinSet<String> {
    let mut all = JoinSet::new();
    for client in 0..clients {
        let (origin, method) = (origin.clone(), method.clone());
        all.spawn(async move {
            let body = if method == Method::POST { format!("{client}") } else { String::new() };
            let response = soon(origin.request(request(method, PATH, body))).await.unwrap();
            let node = node(&response).to_owned();
            read(response).await.unwrap();
            node
        });
    }
    all
}

fn stalled(origin: &Origin) -> Vec<u16> {
    let snapshot = origin.snapshot();
    let in_pool = snapshot.pool.iter().flat_map(|pool| &pool.pool.backends).filter(|seen| seen.stalled);
    let in_set = snapshot.set.iter().flat_map(|set| &set.stalled);
    in_pool.map(|seen| seen.backend.port()).chain(in_set.map(|backend| backend.port())).collect()
}

/// Requests arrive until the node is known to be stalled. All are responded to, though it is frozen.
async fn until_stalled(origin: &Origin, frozen: &Server) {
    soon(async {
        while stalled(origin) != [frozen.address().port()] {
            let nodes = round(origin, Method::GET).await;
            assert_eq!(nodes.get(&*frozen.name()), None);
        }
    })
    .await;
}

/// Both ways of holding connections.
const PROTOCOLS: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];

#[tokio::test]
async fn safe_requests_on_a_frozen_node_are_responded_to_by_another() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 3] = servers().await;
        let origin = origin(big(), protocol, &nodes).await;
        nodes[0].close_gate();
        until_stalled(&origin, &nodes[0]).await;
        for method in [Method::OPTIONS, Method::GET] {
            round(&origin, method).await;
        }
    }
}

#[tokio::test]
async fn stalled_node_gets_one_probe_a_second_and_no_new_requests() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 3] = servers().await;
        let origin = origin(big(), protocol, &nodes).await;
        nodes[0].close_gate();
        until_stalled(&origin, &nodes[0]).await;
        let (before, since) = (nodes[0].requests(), Instant::now());
        while since.elapsed() < ms(2_500) {
            round(&origin, Method::GET).await;
        }
        let most = since.elapsed().as_secs() as usize + 1;
        let probes = nodes[0].requests() - before;
        assert!((1..=most).contains(&probes), "{probes} of {most} over {protocol}");
    }
}

#[tokio::test]
async fn thawed_node_gets_requests_again() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 3] = servers().await;
        let origin = origin(big(), protocol, &nodes).await;
        nodes[0].close_gate();
        until_stalled(&origin, &nodes[0]).await;
        nodes[0].open_gate();
        soon(async { while !round(&origin, Method::GET).await.contains_key(&*nodes[0].name()) {} }).await;
        assert!(stalled(&origin).is_empty());
    }
}

#[tokio::test]
async fn unsafe_requests_are_sent_once_and_responded_to_after_the_thaw() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 3] = servers().await;
        let origin = origin(big(), protocol, &nodes).await;
        nodes[0].close_gate();
        let before = nodes.each_ref().map(Server::requests);
        let mut posts = start(&origin, Method::POST, CLIENTS);
        soon(nodes[0].until(|node| node.at_gate() > 0)).await;
        until_stalled(&origin, &nodes[0]).await;
        assert!(!posts.is_empty());
        nodes[0].open_gate();
        while let Some(node) = posts.join_next().await {
            node.unwrap();
        }
        let mut sent = BTreeMap::new();
        for (node, before) in nodes.iter().zip(before) {
            let seen = node.seen();
            for seen in seen[before..].iter().filter(|seen| seen.method == Method::POST) {
                *sent.entry(seen.body.clone()).or_insert(0) += 1;
            }
        }
        assert_eq!((sent.len(), sent.values().sum::<usize>()), (CLIENTS, CLIENTS), "each was sent once");
    }
}

#[tokio::test]
async fn safe_requests_wait_for_a_frozen_node_without_retry_stalled() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 3] = servers().await;
        let origin = origin(big().retry_stalled(false), protocol, &nodes).await;
        nodes[0].close_gate();
        let mut waiting = start(&origin, Method::GET, CLIENTS);
        soon(nodes[0].until(|node| node.at_gate() > 0)).await;
        // A request that arrives before it is stalled may have to wait there, too.
        let mut others = Vec::new();
        soon(async {
            while stalled(&origin).is_empty() {
                others.push(start(&origin, Method::GET, 1));
                tokio::time::sleep(ms(20)).await;
            }
        })
        .await;
        let before = nodes[0].at_gate();
        for _ in 0..30 {
            // No new request waits there.
            start(&origin, Method::GET, 1).join_next().await.unwrap().unwrap();
        }
        assert!(before > 0 && !waiting.is_empty());
        nodes[0].open_gate();
        let mut served = 0;
        while let Some(node) = waiting.join_next().await {
            served += usize::from(node.unwrap() == *nodes[0].name());
        }
        assert!(served > 0, "the frozen node has responded after all");
    }
}

#[tokio::test]
async fn nodes_that_freeze_all_at_once_respond_after_the_thaw() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 3] = servers().await;
        let origin = origin(big(), protocol, &nodes).await;
        nodes.iter().for_each(Server::close_gate);
        let mut waiting = start(&origin, Method::GET, CLIENTS);
        let at_gate = || nodes.iter().map(Server::at_gate).sum::<usize>();
        until("all wait", || at_gate() >= CLIENTS).await;
        nodes.iter().for_each(Server::open_gate);
        while let Some(node) = waiting.join_next().await {
            node.unwrap();
        }
        soon(async { while !stalled(&origin).is_empty() || round(&origin, Method::GET).await.len() < 3 {} }).await;
    }
}

/// The body of the response that came first is read from where it came.
#[tokio::test]
async fn response_of_the_second_backend_tells_that_it_is_the_second_attempt() {
    let nodes: [Server; 2] = servers().await;
    let origin = origin(big(), Protocol::Http1, &nodes).await;
    nodes[0].close_gate();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let origin = origin.clone();
        clients.spawn(async move {
            let response = soon(origin.request(get(PATH))).await.unwrap();
            let (served, node) = (served(&response).clone(), node(&response).to_owned());
            assert_eq!(read(response).await.unwrap(), format!("hello from {node}"));
            (served.attempts, node)
        });
    }
    // A node is stalled only while another responds.
    let heard = tokio::spawn({
        let origin = origin.clone();
        async move {
            loop {
                drop(soon(origin.request(get("/"))).await);
                tokio::time::sleep(ms(20)).await;
            }
        }
    });
    let mut attempts = Vec::new();
    while let Some(client) = clients.join_next().await {
        let (attempt, node) = client.unwrap();
        assert_eq!(node, "node-2");
        attempts.push(attempt);
    }
    heard.abort();
    assert!(attempts.contains(&2), "{attempts:?}");
    assert!(figures(&origin).dead == 0, "no harm comes of it");
}

#[tokio::test]
async fn request_whose_body_is_still_being_sent_does_not_stall_its_node() {
    let nodes: [Server; 2] = servers().await;
    let origin = origin(big(), Protocol::Http1, &nodes).await;
    let (sender, body) = fed();
    let upload = tokio::spawn({
        let origin = origin.clone();
        async move { soon(origin.request(post(PATH, body))).await.unwrap().status() }
    });
    let since = Instant::now();
    while since.elapsed() < ms(1_200) {
        // Nothing is sent to the node of the upload, whose connection is busy.
        read(soon(origin.request(get("/"))).await.unwrap()).await.unwrap();
        assert!(stalled(&origin).is_empty());
    }
    drop(sender);
    assert_eq!(upload.await.unwrap(), 200);
}

/// The callers of POST requests give up: nothing waits at the frozen node, and nothing is sent that may be copied to it.
#[tokio::test]
async fn node_stays_stalled_without_safe_requests_until_it_responds_to_a_trial() {
    let logs = Logs::capture();
    for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
        let nodes: [Server; 2] = servers().await;
        let origin = origin(big(), protocol, &nodes).await;
        nodes[0].close_gate();
        let mut posts = Vec::new();
        soon(async {
            while stalled(&origin).is_empty() {
                posts.push(start(&origin, Method::POST, 1));
                tokio::time::sleep(ms(20)).await;
            }
        })
        .await;
        drop(posts);
        let is_there = |node: &Server| node.seen().iter().any(|seen| seen.body == b"later");
        let mut trial = None;
        soon(async {
            while trial.is_none() {
                let origin = origin.clone();
                let mut client = tokio::spawn(async move { origin.request(post(PATH, "later")).await.unwrap() });
                tokio::select! {
                    response = &mut client => assert_eq!(read(response.unwrap()).await.unwrap(), "later"),
                    () = nodes[0].until(is_there) => trial = Some(client),
                }
            }
        })
        .await;
        for _ in 0..20 {
            let response = soon(origin.request(post(PATH, "more"))).await.unwrap();
            assert_eq!(node(&response), "node-2");
            read(response).await.unwrap();
        }
        assert_eq!(stalled(&origin), [nodes[0].address().port()], "no byte has arrived from it over {protocol}");
        assert_eq!(logs.count(&["recovered from a stall"]), number);
        nodes[0].open_gate();
        assert_eq!(node(&soon(trial.unwrap()).await.unwrap()), "node-1");
        assert!(stalled(&origin).is_empty());
        let field = if protocol == Protocol::Http1 { "pool=" } else { "set=" };
        for (level, event) in [("WARN", "backend stalled"), ("INFO", "backend recovered from a stall")] {
            assert_eq!(logs.count(&[level, event, field, "api.test"]), 1, "{}", logs.text());
        }
    }
}

/// Checks follow each other closely, and have all the time that they need.
fn checked(path: &str) -> Builder {
    let schedule = Schedule::default().interval(ms(20)).timeout(ms(600_000));
    big().health_check(HttpCheck::get(path).schedule(schedule))
}

#[tokio::test]
async fn lone_request_on_a_frozen_node_is_responded_to_by_another_whose_checks_pass() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 2] = servers().await;
        let origin = origin(checked(PATH), protocol, &nodes).await;
        nodes[0].close_gate();
        soon(async {
            while stalled(&origin).is_empty() {
                assert_eq!(read(origin.request(get(PATH)).await.unwrap()).await.unwrap(), "hello from node-2");
            }
        })
        .await;
        nodes[0].open_gate();
        until("its check passes", || stalled(&origin).is_empty()).await;
    }
}

/// Its checks bring bytes, so it is not stalled.
#[tokio::test]
async fn request_on_a_node_that_becomes_unhealthy_is_responded_to_by_another() {
    for protocol in PROTOCOLS {
        let nodes: [Server; 2] = servers().await;
        let origin = origin(checked("/"), protocol, &nodes).await;
        nodes[0].close_gate();
        let mut waiting = None;
        soon(async {
            while waiting.is_none() {
                let origin = origin.clone();
                let mut client = tokio::spawn(async move { origin.request(get(PATH)).await.unwrap() });
                tokio::select! {
                    response = &mut client => drop(read(response.unwrap()).await),
                    () = nodes[0].until(|node| node.at_gate() > 0) => waiting = Some(client),
                }
            }
        })
        .await;
        nodes[0].set_status(503);
        assert_eq!(node(&soon(waiting.unwrap()).await.unwrap()), "node-2");
        assert!(stalled(&origin).is_empty());
    }
}
