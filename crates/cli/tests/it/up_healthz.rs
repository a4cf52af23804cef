//! `/healthz`: how everything is doing, for probes and people.

use crate::program::PATIENCE;
use crate::serving::folder;
use crate::up::{Backend, Client, Up, ask, http, tcp};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::Nobody;
use testkit::dns::DnsServer;
use testkit::http::{Authority, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ANY: &str = "127.0.0.1:0";

async fn health(admin: SocketAddr) -> (u16, Value) {
    let (status, body) = ask(admin, "GET /healthz").await;
    (status, serde_json::from_str(&body).unwrap())
}

/// Waits until it is like that.
async fn healthy(admin: SocketAddr, like: impl Fn(&Value) -> bool) -> Value {
    answered(admin, 200, like).await
}

/// Waits until it is like that, and answered with this status. Until then it may be answered with 200 as well.
async fn answered(admin: SocketAddr, status: u16, like: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let (answered, health) = health(admin).await;
            assert!(answered == status || answered == 200, "{answered} {health}");
            if answered == status && like(&health) {
                return health;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it comes to that")
}

#[tokio::test]
async fn it_says_how_each_service_is_doing() {
    let a = Backend::start("a").await;
    let held = Nobody::new().unwrap();
    let nobody = held.address();
    let lame = tcp("lame", ANY, &a, "").replace(&a.address.to_string(), &nobody.to_string());
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}{lame}[gateway]\nlisten = \"{ANY}\"\n", tcp("a", ANY, &a, ""));
    let folder = folder("healthz", &[("c.toml", &config)]);
    let up = Up::start(&folder).await;
    let _client = Client::of(up.service("a")).await;
    let health = answered(up.admin(), 503, |health| {
        health["services"][1]["backends"]["dead"] == 1 && health["services"][0]["idle"] == 2
    });
    let health = health.await;
    assert_eq!(health["status"], "unavailable");
    let [good, lame] = &health["services"].as_array().unwrap()[..] else { panic!("{health}") };
    let figures = ["name", "status", "protocol", "busy", "idle", "waiting", "clients", "failed"].map(|key| &good[key]);
    assert_eq!(json!(figures), json!(["a", "ok", "tcp", 1, 2, 0, 1, 0]), "{good}");
    assert_eq!(good["listen"], up.service("a").to_string());
    assert_eq!(good["backends"], json!({"live": 1, "dead": 0}));
    assert_eq!(json!([lame["name"], lame["status"], lame["backends"]["live"]]), json!(["lame", "unavailable", 0]));
    let dead = &lame["dead"][0];
    assert!(dead["backend"].as_str().unwrap().contains(&nobody.to_string()), "{lame}");
    assert!(dead["reason"].as_str().unwrap().contains("refused"), "{lame}");
    assert!(good.get("dead").is_none() && lame["trouble"].as_str().unwrap().contains(&nobody.to_string()), "{lame}");
    assert_eq!(health["gateway"]["feeds"], 1);
}

/// Whoever reads the log without having asked for more sees the beginning and the end.
#[tokio::test]
async fn an_outage_is_told_with_its_end() {
    let a = Backend::start("a").await;
    let held = Nobody::new().unwrap();
    let nobody = held.address();
    let lame = tcp("lame", ANY, &a, "attempts = 1\ndelay = \"10ms\"\nmax_delay = \"50ms\"");
    let folder = folder("healthz-log", &[("c.toml", &lame.replace(&a.address.to_string(), &nobody.to_string()))]);
    let mut up = Up::start(&folder).await;
    let dead = up.running.told("backend is dead").await;
    assert!(dead.contains("lame"), "{dead}");
    let _listener = held.listen().unwrap();
    up.running.told("backend is back").await;
}

/// Two services of the same name in DNS, or of the same addresses, are two to whoever looks.
#[tokio::test]
async fn services_are_told_apart_by_their_names() {
    let node = Server::start("node-1").await.unwrap();
    let services = [http("one", ANY, node.address(), ""), http("two", ANY, node.address(), "maximum = 20")];
    let host = "host = \"same.example\"\n";
    let services = services.map(|service| service + host).concat();
    let folder = folder("healthz-names", &[("c.toml", &format!("[admin]\nlisten = \"{ANY}\"\n{services}"))]);
    let up = Up::start(&folder).await;
    let mut lines = vec!["db_client_connection_max{db_client_connection_pool_name=\"two\"} 20".to_owned()];
    for name in ["one", "two"] {
        lines.push(format!("carom_backend_known{{db_client_connection_pool_name=\"{name}\"}} 1"));
        lines.push(format!("carom_resolver_backends{{carom_resolver_name=\"{name}\"}} 1"));
        lines.push(format!("carom_service_clients{{carom_service_name=\"{name}\"}} 0"));
    }
    let looking = async {
        loop {
            let (_, metrics) = ask(up.admin(), "GET /metrics").await;
            if lines.iter().all(|line| metrics.lines().any(|other| other == line)) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("each is there");
}

#[tokio::test]
async fn it_is_no_longer_healthy_once_it_is_to_end() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, "drain_timeout = \"60s\""));
    let folder = folder("healthz-draining", &[("c.toml", &config)]);
    let mut up = Up::start(&folder).await;
    let client = Client::of(up.service("a")).await;
    let ok = healthy(up.admin(), |health| health["status"] == "ok").await;
    assert_eq!(ok["services"][0]["clients"], 1);
    up.running.signal("-TERM").await;
    up.running.told("stopping").await;
    assert_eq!(health(up.admin()).await, (503, json!({"status": "draining"})));
    drop(client);
    assert_eq!(timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap().code(), Some(0));
}

/// Connections of HTTP/2 are shared, and their backends die as others do.
#[tokio::test]
async fn backends_that_are_spoken_to_by_http2_are_known_as_well() {
    let authority = Authority::new();
    let certificate = authority.issue(["api.example"]);
    let mut nodes = Vec::new();
    for name in ["node-1", "node-2"] {
        nodes.push(Server::start_tls(name, certificate.serving(["h2"])).await.unwrap());
    }
    let more = "tls = { ca = \"ca.pem\", server_name = \"api.example\" }\nattempts = 1\ndelay = \"10ms\"\nmax_delay = \"50ms\"";
    let resolve = format!("\"{}\"", nodes[0].address());
    let both = format!("[\"{}\", \"{}\"]", nodes[0].address(), nodes[1].address());
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", http("s", ANY, nodes[0].address(), more));
    let config = config.replace(&resolve, &both);
    let folder = folder("healthz-http2", &[("c.toml", &config), ("ca.pem", &authority.pem())]);
    let up = Up::start(&folder).await;
    let (status, body) = ask(up.service("s"), "GET /").await;
    assert!(status == 200 && body.starts_with("hello from node-"), "{status} {body}");
    let all = healthy(up.admin(), |health| health["services"][0]["idle"] == 2).await;
    assert_eq!((&all["status"], &all["services"][0]["backends"]), (&json!("ok"), &json!({"live": 2, "dead": 0})));
    nodes[1].kill().await;
    // It is doubted as soon as its connection is gone, and it is known why once it was tried again.
    let is_told = |service: &Value| service["backends"]["dead"] == 1 && service["trouble"].is_string();
    let one = healthy(up.admin(), |health| is_told(&health["services"][0])).await;
    let service = &one["services"][0];
    assert_eq!((&one["status"], &service["backends"]["live"]), (&json!("degraded"), &json!(1)), "{one}");
    let dead = service["dead"][0]["backend"].as_str().unwrap();
    assert!(dead.contains(&nodes[1].address().to_string()), "{service}");
    nodes[1].revive().unwrap();
    healthy(up.admin(), |health| health["status"] == "ok" && health["services"][0]["idle"] == 2).await;
}

/// It connects well, and answers with errors.
#[tokio::test]
async fn a_backend_that_is_left_out_is_known_as_well() {
    // The first of them to be asked: half of them may be left out.
    let (one, other) = (Server::start("one").await.unwrap(), Server::start("other").await.unwrap());
    one.set_status(503);
    let more = "ejection = { consecutive = 2, time = \"10m\", max_ejected = 0.5 }";
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", http("s", ANY, one.address(), more));
    let both = format!("[\"{}\", \"{}\"]", one.address(), other.address());
    let config = config.replace(&format!("\"{}\"", one.address()), &both);
    let up = Up::start(&folder("healthz-ejected", &[("c.toml", &config)])).await;
    let asking = async {
        while health(up.admin()).await.1["services"][0]["ejected"].is_null() {
            ask(up.service("s"), "GET /").await;
        }
    };
    timeout(PATIENCE, asking).await.expect("it is left out");
    let (_, health) = health(up.admin()).await;
    let service = &health["services"][0];
    assert_eq!(
        (&health["status"], &service["backends"]),
        (&json!("degraded"), &json!({"live": 1, "dead": 0, "ejected": 1}))
    );
    let ejected = service["ejected"][0]["backend"].as_str().unwrap();
    assert_eq!(ejected, one.address().to_string(), "{service}");
    assert_eq!(service["ejected"][0]["reason"], "status 503 Service Unavailable", "{service}");
    assert_eq!(service["trouble"], format!("status 503 Service Unavailable from {ejected}"), "{service}");
    let left = service["ejected"][0]["left_ms"].as_u64().unwrap();
    assert!(left > 0 && left <= 600_000 && service.get("dead").is_none(), "{service}");
}

#[tokio::test]
async fn healthz_is_unavailable_while_all_nodes_return_503_and_ok_when_they_have_recovered() {
    let nodes = [Server::start("one").await.unwrap(), Server::start("other").await.unwrap()];
    let more = "ejection = { consecutive = 2, time = \"1s\", max_ejected = 0.5 }";
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", http("s", ANY, nodes[0].address(), more));
    let both = format!("[\"{}\", \"{}\"]", nodes[0].address(), nodes[1].address());
    let config = config.replace(&format!("\"{}\"", nodes[0].address()), &both);
    let up = Up::start(&folder("healthz-all-503", &[("c.toml", &config)])).await;
    nodes.iter().for_each(|node| node.set_status(503));
    // No use has ever succeeded, so that nothing needs to be waited for but the ejections.
    let asking = async {
        loop {
            ask(up.service("s"), "GET /").await;
            let (status, health) = health(up.admin()).await;
            if status == 503 {
                return health;
            }
        }
    };
    let gone = timeout(PATIENCE, asking).await.expect("all are ejected");
    let service = &gone["services"][0];
    assert_eq!((&gone["status"], &service["panic"]), (&json!("unavailable"), &json!(true)), "{gone}");
    assert_eq!(service["backends"], json!({"live": 0, "dead": 0, "ejected": 2}), "{gone}");
    let reasons = service["ejected"].as_array().unwrap().iter().map(|ejected| &ejected["reason"]);
    assert!(reasons.into_iter().all(|reason| reason == "status 503 Service Unavailable"), "{gone}");
    nodes.iter().for_each(|node| node.set_status(200));
    // Requests are served in the panic, and then it is available, though ejections have not ended yet.
    assert_eq!(ask(up.service("s"), "GET /").await.0, 200);
    healthy(up.admin(), |health| health["status"] == "degraded" || health["status"] == "ok").await;
    healthy(up.admin(), |health| health["status"] == "ok").await;
}

/// A config of one http service of these nodes.
fn http_of(nodes: &[Server], more: &str) -> String {
    let service = http("s", ANY, nodes[0].address(), more);
    let all: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
    let service = service.replace(&format!("\"{}\"", nodes[0].address()), &format!("{all:?}"));
    format!("[admin]\nlisten = \"{ANY}\"\n{service}")
}

/// Requests of several clients at a time, all of which are responded to.
async fn round(service: SocketAddr) {
    let mut clients: JoinSet<u16> = (0..8).map(|_| async move { ask(service, "GET /gate").await.0 }).collect();
    while let Some(status) = clients.join_next().await {
        assert_eq!(status.unwrap(), 200);
    }
}

#[tokio::test]
async fn healthz_is_degraded_and_lists_the_node_while_one_of_two_nodes_is_stalled() {
    let nodes = [Server::start("one").await.unwrap(), Server::start("other").await.unwrap()];
    nodes.iter().for_each(Server::open_gate);
    let up = Up::start(&folder("healthz-stalled", &[("c.toml", &http_of(&nodes, ""))])).await;
    let until = async |like: &dyn Fn(&Value) -> bool| {
        let looking = async {
            loop {
                round(up.service("s")).await;
                let (status, health) = health(up.admin()).await;
                assert_eq!(status, 200, "{health}");
                if like(&health) {
                    return health;
                }
            }
        };
        timeout(PATIENCE, looking).await.expect("it comes to that")
    };
    until(&|health| health["status"] == "ok" && nodes.iter().all(|node| node.requests() > 0)).await;
    nodes[0].close_gate();
    let stalled = until(&|health| health["services"][0]["stalled"].is_array()).await;
    let service = &stalled["services"][0];
    assert_eq!(json!([stalled["status"], service["status"]]), json!(["degraded", "degraded"]), "{stalled}");
    assert_eq!(json!(viewed(up.admin()).await), json!(["degraded", "degraded"]));
    let expected =
        json!([{"backend": nodes[0].address().to_string(), "reason": "stopped responding while others respond"}]);
    assert_eq!(service["stalled"], expected, "{service}");
    assert_eq!(service["backends"], json!({"live": 2, "dead": 0}), "it is connected to: {service}");
    nodes[0].open_gate();
    until(&|health| health["status"] == "ok" && health["services"][0].get("stalled").is_none()).await;
}

#[tokio::test]
async fn healthz_is_degraded_and_lists_the_node_while_the_health_checks_of_one_node_fail() {
    let nodes = [Server::start("one").await.unwrap(), Server::start("other").await.unwrap()];
    let config = http_of(&nodes, "check = \"/healthz\"\ncheck_interval = \"20ms\"");
    let up = Up::start(&folder("healthz-unhealthy", &[("c.toml", &config)])).await;
    assert_eq!(ask(up.service("s"), "GET /").await.0, 200);
    healthy(up.admin(), |health| health["status"] == "ok").await;
    nodes[0].set_status(503);
    let one = healthy(up.admin(), |health| health["services"][0]["unhealthy"].is_array()).await;
    let service = &one["services"][0];
    assert_eq!(json!([one["status"], service["status"]]), json!(["degraded", "degraded"]), "{one}");
    assert_eq!(service["backends"], json!({"live": 1, "dead": 0, "unhealthy": 1}), "{service}");
    let [unhealthy] = &service["unhealthy"].as_array().unwrap()[..] else { panic!("{service}") };
    assert_eq!(unhealthy["backend"], nodes[0].address().to_string(), "{service}");
    assert!(unhealthy["reason"].as_str().unwrap().contains("503"), "{service}");
    assert!(service["trouble"].as_str().unwrap().contains("503"), "{service}");
    assert!(service.get("panic").is_none() && service.get("ejected").is_none(), "{service}");
    nodes[0].set_status(200);
    healthy(up.admin(), |health| health["status"] == "ok").await;
}

/// In the panic all nodes are used, and requests succeed although checks fail.
#[tokio::test]
async fn healthz_is_unavailable_while_all_nodes_are_unhealthy_and_no_use_succeeded_in_10_s() {
    let nodes = [Server::start("one").await.unwrap(), Server::start("other").await.unwrap()];
    let config = http_of(&nodes, "check = \"/status/500\"\ncheck_interval = \"20ms\"");
    let up = Up::start(&folder("healthz-all-unhealthy", &[("c.toml", &config)])).await;
    let is_panic = |health: &Value| health["services"][0]["panic"] == true;
    let gone = answered(up.admin(), 503, is_panic).await;
    let service = &gone["services"][0];
    assert_eq!(json!([gone["status"], service["status"]]), json!(["unavailable", "unavailable"]), "{gone}");
    assert_eq!(service["backends"], json!({"live": 0, "dead": 0, "unhealthy": 2}), "{gone}");
    assert_eq!(ask(up.service("s"), "GET /").await.0, 200);
    let used = health(up.admin()).await;
    assert_eq!((used.0, &used.1["status"]), (200, &json!("degraded")), "{}", used.1);
    assert_eq!(used.1["services"][0]["backends"], service["backends"]);
    let gone = answered(up.admin(), 503, is_panic).await;
    assert_eq!(gone["status"], "unavailable", "no use has succeeded since");
}

/// Nobody could be asked whether it works.
#[tokio::test]
async fn a_name_that_nobody_serves_is_not_healthy() {
    let server = DnsServer::start().await.unwrap();
    let address = server.address();
    let service = |name: &str, more: &str| {
        let place = format!("listen = \"{ANY}\"\nresolve = \"{name}.test\"\nnameservers = [\"{address}\"]");
        format!("[[service]]\nname = \"{name}\"\n{place}\nattempts = 1\n{more}\n")
    };
    // One that finds out with its first request what is spoken, and one that has connections from the start.
    let services =
        [service("a", "protocol = \"http\"\ntls = true"), service("b", "protocol = \"tcp\"\ndefault_port = 1")];
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", services.concat());
    let folder = folder("healthz-nobody", &[("c.toml", &config)]);
    let up = Up::start(&folder).await;
    let services = |health: &Value| health["services"].as_array().unwrap().clone();
    let health =
        healthy(up.admin(), |health| services(health).iter().all(|service| service["status"] == "degraded")).await;
    assert_eq!(health["status"], "degraded");
    for service in services(&health) {
        assert_eq!(service["backends"], json!({"live": 0, "dead": 0}));
        assert!(service["trouble"].as_str().unwrap().contains(".test"), "{service}");
    }
}

/// Whoever is still served by what was there before is seen, and keeps one connection alone.
#[tokio::test]
async fn a_service_that_leaves_is_seen_until_it_has_left() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let config = |backend, more| format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("s", ANY, backend, more));
    let folder = folder("healthz-leaving", &[("c.toml", &config(&a, ""))]);
    let mut up = Up::start(&folder).await;
    let mut client = Client::of(up.service("s")).await;
    healthy(up.admin(), |health| health["services"][0]["idle"] == 2 && health.get("leaving").is_none()).await;
    up.reload(&config(&b, "maximum = 8")).await;
    // The status is unknown until the new service has connected.
    let has_changed = |health: &Value| health["leaving"][0]["idle"] == 0 && health["status"] == "ok";
    let leaving = healthy(up.admin(), has_changed).await;
    let figures = ["name", "listen", "busy", "waiting", "clients"].map(|key| &leaving["leaving"][0][key]);
    assert_eq!(json!(figures), json!(["s", up.service("s").to_string(), 1, 0, 1]), "{leaving}");
    assert_eq!(leaving["services"][0]["clients"], 0);
    assert_eq!(client.say("still").await, "a: still\n");
    drop(client);
    healthy(up.admin(), |health| health.get("leaving").is_none()).await;
}

#[tokio::test]
async fn nothing_else_is_answered() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let folder = folder("healthz-others", &[("c.toml", &config)]);
    let up = Up::start(&folder).await;
    let admin = up.admin();
    for (request, status) in [
        ("HEAD /healthz", 200),
        ("GET /healthz?verbose", 200),
        ("POST /healthz", 405),
        ("DELETE /healthz", 405),
        ("GET /none", 404),
        ("GET /healthz/", 404),
        ("GET /../healthz", 404),
    ] {
        assert_eq!(ask(admin, request).await.0, status, "{request}");
    }
    assert_eq!(ask(admin, "HEAD /healthz").await.1, "");
    let long = format!("GET /healthz?{}", "x".repeat(64 << 10));
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it has had enough");
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    assert_eq!(health(admin).await.0, 200, "others are answered");
}

/// The status of the service as the dashboard and `carom top` read it.
async fn viewed(admin: SocketAddr) -> [Value; 2] {
    let (_, body) = ask(admin, "GET /api/snapshot").await;
    let view: Value = serde_json::from_str(&body).unwrap();
    [view["status"].clone(), view["services"][0]["status"].clone()]
}

#[tokio::test]
async fn healthz_is_unknown_before_a_backend_is_connected_to_and_unavailable_only_10_s_after_the_last_success() {
    let node = Server::start("node").await.unwrap();
    let more = "spares = 0\nattempts = 1\ndelay = \"10ms\"\nmax_delay = \"50ms\"";
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", http("s", ANY, node.address(), more));
    let up = Up::start(&folder("healthz-unknown", &[("c.toml", &config)])).await;
    let unknown = healthy(up.admin(), |health| health["services"][0]["backends"]["unknown"] == 1).await;
    assert_eq!(json!([unknown["status"], unknown["services"][0]["status"]]), json!(["unknown", "unknown"]));
    assert_eq!(json!(viewed(up.admin()).await), json!(["unknown", "unknown"]));
    assert_eq!(ask(up.service("s"), "GET /").await.0, 200);
    healthy(up.admin(), |health| health["status"] == "ok").await;
    node.kill().await;
    assert!(ask(up.service("s"), "GET /").await.0 >= 500);
    healthy(up.admin(), |health| health["status"] == "degraded" && health["services"][0]["backends"]["dead"] == 1)
        .await;
    let gone = answered(up.admin(), 503, |_| true).await;
    assert_eq!(json!([gone["status"], gone["services"][0]["status"]]), json!(["unavailable", "unavailable"]));
    assert_eq!(json!(viewed(up.admin()).await), json!(["unavailable", "unavailable"]));
    node.revive().unwrap();
    healthy_again(up.admin()).await;
}

/// Waits until the answer is 200 and `ok`.
async fn healthy_again(admin: SocketAddr) {
    let looking = async {
        while health(admin).await.1["status"] != "ok" {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it comes to that");
}

#[tokio::test]
async fn healthz_is_saturated_while_clients_wait_for_a_connection() {
    let a = Backend::start("a").await;
    let service = tcp("s", ANY, &a, "maximum = 1").replace("spares = 2", "spares = 0");
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{service}");
    let up = Up::start(&folder("healthz-saturated", &[("c.toml", &config)])).await;
    let first = Client::of(up.service("s")).await;
    healthy(up.admin(), |health| health["status"] == "ok").await;
    let _second = TcpStream::connect(up.service("s")).await.unwrap();
    let saturated = healthy(up.admin(), |health| health["services"][0]["waiting"] == 1).await;
    assert_eq!(json!([saturated["status"], saturated["services"][0]["status"]]), json!(["saturated", "saturated"]));
    assert_eq!(json!(viewed(up.admin()).await), json!(["saturated", "saturated"]));
    drop(first);
    healthy(up.admin(), |health| health["status"] == "ok").await;
}

/// Its connections are in use, and nothing else says that all nodes hang.
#[tokio::test]
async fn healthz_tells_for_how_long_no_backend_has_responded_while_all_nodes_are_frozen() {
    let nodes = [Server::start("one").await.unwrap()];
    let config = http_of(&nodes, "maximum = 1\nspares = 1\nclaim_timeout = \"10m\"");
    let up = Up::start(&folder("healthz-frozen", &[("c.toml", &config)])).await;
    let service = up.service("s");
    let clients: Vec<_> = (0..2).map(|_| tokio::spawn(async move { ask(service, "GET /gate").await })).collect();
    let frozen = healthy(up.admin(), |health| health["services"][0]["trouble"].is_string()).await;
    let service = &frozen["services"][0];
    let trouble = service["trouble"].as_str().unwrap();
    let seconds = trouble.strip_prefix("no response from any backend for ").and_then(|rest| rest.strip_suffix(" s"));
    assert!(seconds.unwrap_or_else(|| panic!("{trouble}")).parse::<u64>().unwrap() >= 10, "{trouble}");
    assert_eq!(json!([frozen["status"], service["status"]]), json!(["saturated", "saturated"]));
    assert_eq!(json!([service["waiting"], service["backends"]["live"]]), json!([1, 1]), "{service}");
    nodes[0].open_gate();
    for client in clients {
        assert_eq!(timeout(PATIENCE, client).await.expect("it is served").unwrap().0, 200);
    }
    let health = healthy(up.admin(), |health| health["status"] == "ok").await;
    assert!(health["services"][0].get("trouble").is_none(), "{health}");
}

#[tokio::test]
async fn requests_that_fail_are_logged_with_the_reason_and_not_one_by_one() {
    let nobody = Nobody::new().unwrap();
    let config = http("s", ANY, nobody.address(), "attempts = 1\noutage_wait = 0");
    let mut up = Up::start(&folder("healthz-log-requests", &[("c.toml", &config)])).await;
    for _ in 0..3 {
        assert!(ask(up.service("s"), "GET /").await.0 >= 502);
    }
    let told = up.running.told("requests of clients fail").await;
    assert!(told.contains(" WARN ") && told.contains("service=\"s\" count=1 status=50"), "{told}");
    assert!(told.contains("refused"), "{told}");
    let ran = up.running.end("-TERM").await;
    assert!(!ran.stderr.contains("requests of clients fail"), "{}", ran.stderr);
}

/// A server that responds to PostgreSQL's startup message, unless it is frozen.
async fn postgres(frozen: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind(ANY).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut frozen = frozen.clone();
            tokio::spawn(async move {
                let mut startup = [0; 16];
                if stream.read_exact(&mut startup).await.is_ok() && frozen.wait_for(|frozen| !frozen).await.is_ok() {
                    assert_eq!(&startup, b"\0\0\0\x10\0\x03\0\0user\0x\0\0");
                    let _ = stream.write_all(b"R\0\0\0\x08\0\0\0\0").await;
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn check_of_the_example_finds_a_frozen_postgres() {
    let example = include_str!("../../../../contrib/carom.toml");
    let keys = ["# check_send = ", "# check_expect = "];
    let is_check = |line: &&str| keys.iter().any(|key| line.starts_with(key));
    let check: Vec<&str> = example.lines().filter(is_check).map(|line| &line[2..]).collect();
    let (freeze, frozen) = watch::channel(false);
    let place = format!("listen = \"{ANY}\"\nprotocol = \"tcp\"\nresolve = \"{}\"", postgres(frozen).await);
    let often = "check_interval = \"20ms\"\ncheck_timeout = \"1s\"\nspares = 1";
    let service = format!("[[service]]\nname = \"db\"\n{place}\n{}\n{often}\n", check.join("\n"));
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{service}");
    let up = Up::start(&folder("healthz-postgres", &[("c.toml", &config)])).await;
    healthy(up.admin(), |health| health["status"] == "ok").await;
    freeze.send_replace(true);
    answered(up.admin(), 503, |health| health["services"][0]["backends"]["unhealthy"] == 1).await;
    freeze.send_replace(false);
    healthy_again(up.admin()).await;
}
