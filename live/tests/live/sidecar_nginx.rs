//! Three nginx servers behind a DNS zone, used through the sidecar by wrk and by curl, which know nothing of them.

use carom::Policy;
use carom::agent::{Agent, OriginOptions, Protocol, Served};
use carom_live::certificates::Authority;
use carom_live::knot::{Knot, ZONE};
use carom_live::nginx::{End, Nginx};
use carom_live::process::{Folder, command};
use carom_live::sidecar::Sidecar;
use carom_live::{load_time, ms, until};
use http::{Method, Request};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A zone in which these nodes serve `web`.
async fn zone(nodes: &[SocketAddr], service: &str) -> Knot {
    let records = nodes
        .iter()
        .enumerate()
        .map(|(i, node)| format!("{service}.web SRV 10 10 {} node-{i}\nnode-{i} A {}\n", node.port(), node.ip()));
    Knot::start(&records.collect::<String>()).await
}

/// Runs a client to its end, and returns what it said.
async fn run(mut client: Command) -> String {
    let output = client.kill_on_drop(true).output().await.expect("`make live` has installed it");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}:\n{said}", output.status);
    said
}

fn client(name: &str, folder: &Folder) -> Command {
    command(Path::new(name), None, folder).into()
}

async fn curl(url: &str, options: &[&str]) -> String {
    let folder = Folder::new("curl", None);
    let mut curl = client("curl", &folder);
    curl.args(["--silent", "--show-error", "--include", "--max-time", "20"]).args(options).arg(url);
    run(curl).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_nodes_are_stopped_killed_and_started_under_load() {
    // Few requests a connection: besides dying, they close connections that are in use all the time.
    let mut nodes = [Nginx::start("one", 500).await, Nginx::start("two", 500).await, Nginx::start("three", 500).await];
    let knot = zone(&nodes.each_ref().map(Nginx::address), "_http._tcp").await;
    let sidecar = Sidecar::start(&format!(
        "resolve = \"_http._tcp.web.{ZONE}\"\nnameservers = [\"{}\"]\nprotocol = \"http\"\nspares = 8\nmaximum = 64\n",
        knot.address()
    ))
    .await;
    let url = format!("http://{}/", sidecar.address());
    let mut seen = BTreeSet::new();
    until(ms(20_000), async || {
        let said = curl(&url, &[]).await;
        seen.extend(said.lines().last().map(str::to_owned));
        if seen.len() == 3 { Ok(()) } else { Err(format!("only {seen:?} have answered")) }
    })
    .await;

    let time = load_time(0.3).max(Duration::from_secs(8));
    let folder = Folder::new("wrk", None);
    let mut wrk = client("wrk", &folder);
    wrk.args(["--threads", "2", "--connections", "32", "--timeout", "10s", "--latency"]);
    wrk.arg("--duration").arg(format!("{}s", time.as_secs())).arg(&url);
    let load = tokio::spawn(run(wrk));
    let start = Instant::now();
    let mut ends = 0;
    for how in [End::AtOnce, End::Killed, End::Gracefully].into_iter().cycle() {
        if start.elapsed() + ms(2_500) > time {
            break;
        }
        let node = &mut nodes[ends % 3];
        tokio::time::sleep(ms(700)).await;
        tokio::task::block_in_place(|| node.end(how));
        ends += 1;
        tokio::time::sleep(ms(700)).await;
        node.restart().await;
    }
    let said = load.await.expect("wrk runs to its end");
    println!("{ends} nodes ended and started again under this load:\n{said}");
    assert!(ends >= 3, "each of them at least once");
    assert!(!said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}\n{}", sidecar.said());
    sidecar.stop();
}

/// nginx closes an HTTP/2 connection after `keepalive_requests`. The delay between connects is 10 s, so the test does not end in time
/// if these closes count as failures.
#[tokio::test(flavor = "multi_thread")]
async fn http2_requests_do_not_wait_for_backoff_when_nginx_closes_connections_after_use() {
    // More than fit on one connection: some requests of each connection are not processed.
    const WORKERS: usize = 32;
    const REQUESTS: usize = 100;
    const PER_CONNECTION: usize = 20;
    let node = Nginx::start_h2c("one", PER_CONNECTION).await;
    let hour = Duration::from_secs(3600);
    let agent = Agent::builder()
        .protocol(Protocol::Http2)
        .recovery(Policy::default().delay(hour).max_delay(hour))
        .claim_timeout(hour)
        .build()
        .unwrap();
    agent.create_pool("http://web.test", OriginOptions::default().backends([node.address()])).unwrap();
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let agent = agent.clone();
        workers.spawn(async move {
            let mut fresh = 0;
            for number in 0..REQUESTS {
                // Every other one has a body that can be read only once.
                let request = Request::builder().uri("http://web.test/");
                let request = match number % 2 {
                    0 => request.body(String::new()),
                    _ => request.method(Method::POST).body("a body".to_owned()),
                };
                let response = agent.request(request.unwrap()).await.expect("nginx serves");
                assert_eq!(response.status(), 200);
                fresh += usize::from(!response.extensions().get::<Served>().expect("it is on").reused);
            }
            eprintln!("DBG worker done");
            fresh
        });
    }
    let ended = timeout(Duration::from_secs(120), workers.join_all()).await;
    let connects: usize = ended.expect("no request waits for a backoff").into_iter().sum();
    println!("{connects} connects for {} requests", WORKERS * REQUESTS);
    // nginx may serve a few streams more on a connection than it was told.
    assert!(connects > WORKERS * REQUESTS / PER_CONNECTION / 2, "nginx closed no connection after use");
}

#[tokio::test]
async fn curl_speaks_http2_to_the_sidecar_and_the_sidecar_to_nodes() {
    let identity = Authority::new("carom live").identity(&format!("web.{ZONE}"));
    let node = Nginx::start_tls("secure", &identity.certificate, &identity.key).await;
    let folder = Folder::new("authority", None);
    let authority = folder.write("authority.pem", &identity.root);
    let knot = zone(&[node.address()], "_https._tcp").await;
    let sidecar = Sidecar::start(&format!(
        "resolve = \"_https._tcp.web.{ZONE}\"\nnameservers = [\"{}\"]\nprotocol = \"http\"\ntls = {{ ca = \"{}\" }}\n",
        knot.address(),
        authority.display()
    ))
    .await;
    let url = format!("http://{}/path", sidecar.address());
    for (options, spoken) in [(&["--http2-prior-knowledge"][..], "HTTP/2 200"), (&["--http1.1"], "HTTP/1.1 200 OK")] {
        let said = curl(&url, options).await.to_lowercase();
        println!("{said}");
        assert!(said.starts_with(&spoken.to_lowercase()), "{said}");
        assert!(said.contains("x-protocol: http/2.0"), "the node is spoken to with HTTP/2 either way: {said}");
        assert!(said.contains(&format!("x-host: web.{ZONE}")), "the name is the service's: {said}");
        assert!(said.trim_end().ends_with("secure"), "{said}");
    }
    sidecar.stop();
}
