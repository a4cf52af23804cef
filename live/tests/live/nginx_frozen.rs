//! Three nginx servers, one of which is stopped with SIGSTOP for 3 s: it accepts connections and answers nothing.

use carom::agent::{Agent, OriginOptions, Protocol};
use carom_live::ms;
use carom_live::nginx::Nginx;
use carom_live::sidecar::Sidecar;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const CLIENTS: usize = 16;

/// For this long a node is frozen.
const FREEZE: Duration = Duration::from_millis(3_000);

/// Responses to the clients.
#[derive(Debug, Default)]
struct Responses {
    requests: usize,
    failed: Vec<String>,
    longest: Duration,
    /// Responses by node.
    nodes: BTreeMap<String, usize>,
}

impl Responses {
    fn add(&mut self, other: Responses) {
        self.requests += other.requests;
        self.failed.extend(other.failed);
        self.longest = self.longest.max(other.longest);
        for (node, count) in other.nodes {
            *self.nodes.entry(node).or_default() += count;
        }
    }
}

/// Clients that send one `GET` after another until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<Responses>,
}

impl Load {
    fn start(agent: &Agent, url: &str) -> Load {
        let (stop, mut clients) = (Arc::<AtomicBool>::default(), JoinSet::new());
        for _ in 0..CLIENTS {
            let (agent, url, stop) = (agent.clone(), url.to_owned(), Arc::clone(&stop));
            clients.spawn(async move {
                let mut seen = Responses::default();
                while !stop.load(Ordering::Relaxed) {
                    let since = Instant::now();
                    let response =
                        timeout(ms(20_000), agent.get(&*url)).await.map_err(|_| "no response for 20 s".to_owned());
                    seen.requests += 1;
                    match response.and_then(|response| response.map_err(|error| error.to_string())) {
                        Ok(response) if response.status() == 200 => {
                            seen.longest = seen.longest.max(since.elapsed());
                            let node = response.headers()["x-node"].to_str().expect("a name").to_owned();
                            *seen.nodes.entry(node).or_default() += 1;
                            drop(response.into_body().bytes(1 << 10).await);
                        }
                        Ok(response) => seen.failed.push(response.status().to_string()),
                        Err(error) => seen.failed.push(error),
                    }
                    sleep(ms(2)).await;
                }
                seen
            });
        }
        Load { stop, clients }
    }

    async fn end(self) -> Responses {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Responses::default();
        self.clients.join_all().await.into_iter().for_each(|seen| all.add(seen));
        all
    }
}

/// Freezes one node under load, and thaws it: no request fails, none of those that end meanwhile waits for the thaw, and the node gets
/// requests again.
async fn freeze_one(agent: &Agent, url: &str, nodes: &[Nginx; 3], what: &str) {
    let before = Load::start(agent, url);
    sleep(ms(1_000)).await;
    assert_eq!(before.end().await.nodes.len(), 3, "each node serves");
    let load = Load::start(agent, url);
    sleep(ms(300)).await;
    nodes[1].freeze();
    let since = Instant::now();
    sleep(FREEZE).await;
    // Every client has its response without the frozen node.
    let during = load.end().await;
    let took = since.elapsed();
    println!("{what}, frozen for {took:?}: {during:?}");
    assert!(during.failed.is_empty(), "{:?}", during.failed);
    nodes[1].thaw();
    let after = timeout(ms(20_000), async {
        loop {
            let load = Load::start(agent, url);
            sleep(ms(500)).await;
            let seen = load.end().await;
            assert!(seen.failed.is_empty(), "{:?}", seen.failed);
            if seen.nodes.contains_key("two") {
                break seen;
            }
        }
    });
    println!("{what}, thawed: {:?}", after.await.expect("it gets requests again"));
}

async fn nodes() -> [Nginx; 3] {
    // No connection is closed for its number of requests.
    [Nginx::start("one", 1 << 20).await, Nginx::start("two", 1 << 20).await, Nginx::start("three", 1 << 20).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_frozen_nginx_are_answered_by_another_over_http1() {
    let nodes = nodes().await;
    let agent = Agent::builder().maximum(2 * CLIENTS).build().unwrap();
    let backends = nodes.each_ref().map(Nginx::address);
    agent.create_pool("http://web.test", OriginOptions::default().backends(backends)).unwrap();
    freeze_one(&agent, "http://web.test/", &nodes, "agent over HTTP/1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_frozen_nginx_are_answered_by_another_over_http2() {
    let nodes = [
        Nginx::start_h2c("one", 1 << 20).await,
        Nginx::start_h2c("two", 1 << 20).await,
        Nginx::start_h2c("three", 1 << 20).await,
    ];
    let agent = Agent::builder().protocol(Protocol::Http2).build().unwrap();
    let backends = nodes.each_ref().map(Nginx::address);
    agent.create_pool("http://web.test", OriginOptions::default().backends(backends)).unwrap();
    freeze_one(&agent, "http://web.test/", &nodes, "agent over HTTP/2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_frozen_nginx_are_answered_by_another_through_the_sidecar() {
    let nodes = nodes().await;
    let backends: Vec<String> = nodes.iter().map(|node| format!("\"{}\"", node.address())).collect();
    let sidecar = Sidecar::start(&format!("resolve = [{}]\nprotocol = \"http\"\n", backends.join(", "))).await;
    // It has one backend, so that nothing here is sent twice by the client.
    let agent = Agent::builder().maximum(2 * CLIENTS).build().unwrap();
    freeze_one(&agent, &format!("http://{}/", sidecar.address()), &nodes, "sidecar").await;
    sidecar.stop();
}
