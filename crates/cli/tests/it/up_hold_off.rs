//! Nodes of tcp services that close their spares: held off while they may be shutting down, dead when they are gone.

use crate::program::PATIENCE;
use crate::serving::folder;
use crate::up::{Backend, Up, ask, tcp};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::http::Server;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const ANY: &str = "127.0.0.1:0";

/// Waits until `/healthz` is like that; its status code and body.
async fn health(admin: SocketAddr, like: impl Fn(&Value) -> bool) -> (u16, Value) {
    let looking = async {
        loop {
            let (status, body) = ask(admin, "GET /healthz").await;
            let health = serde_json::from_str(&body).unwrap();
            if like(&health) {
                return (status, health);
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it comes to that")
}

async fn spares_are_open(admin: SocketAddr) {
    health(admin, |health| health["status"] == "ok" && health["services"][0]["idle"] == 2).await;
}

/// A node that is killed with `kill -9` while nothing was sent on its connections closes them as one that shuts down does.
#[tokio::test]
async fn killed_node_is_shown_held_off_and_is_dead_soon_after_a_client_was_refused() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("s", ANY, &a, ""));
    let up = Up::start(&folder("hold-off-killed", &[("c.toml", &config)])).await;
    spares_are_open(up.admin()).await;
    let address = a.address.to_string();
    drop(a);
    let (status, held_off) = health(up.admin(), |health| health["services"][0]["held_off"].is_array()).await;
    let service = &held_off["services"][0];
    assert_eq!((status, &held_off["status"], &service["status"]), (200, &json!("ok"), &json!("ok")));
    assert_eq!(service["backends"], json!({"live": 1, "dead": 0}), "{service}");
    let [node] = &service["held_off"].as_array().unwrap()[..] else { panic!("{service}") };
    let left = node["left_ms"].as_u64().unwrap();
    assert!(node["backend"] == address && left > 0 && left <= 10_000, "{service}");
    let (_, metrics) = ask(up.admin(), "GET /metrics").await;
    let is_held_off = |line: &str| line.starts_with("carom_backend_held_off{") && line.ends_with(" 1");
    assert!(metrics.lines().any(is_held_off), "{metrics}");
    let _client = TcpStream::connect(up.service("s")).await.unwrap();
    let (status, dead) = health(up.admin(), |health| health["services"][0]["backends"]["dead"] == 1).await;
    let service = &dead["services"][0];
    assert_eq!((status, &service["status"]), (503, &json!("unavailable")), "{service}");
    assert!(service.get("held_off").is_none(), "{service}");
    assert!(service["dead"][0]["reason"].as_str().unwrap().contains("refused"), "{service}");
}

#[tokio::test]
async fn node_that_resets_its_spares_and_refuses_connections_is_dead_without_a_client() {
    let (a, node) = (Backend::start("a").await, Server::start("node").await.unwrap());
    let service = tcp("s", ANY, &a, "").replace(&a.address.to_string(), &node.address().to_string());
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{service}");
    let up = Up::start(&folder("hold-off-reset", &[("c.toml", &config)])).await;
    spares_are_open(up.admin()).await;
    node.kill().await;
    let (_, dead) = health(up.admin(), |health| {
        assert!(health["services"][0].get("held_off").is_none(), "{health}");
        health["services"][0]["backends"]["dead"] == 1
    })
    .await;
    assert_eq!(dead["status"], "unavailable", "{dead}");
    node.revive().unwrap();
    spares_are_open(up.admin()).await;
}

#[tokio::test]
async fn healthz_is_ok_while_one_of_two_nodes_is_held_off() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let both = format!("[\"{}\", \"{}\"]", a.address, b.address);
    let service = tcp("s", ANY, &a, "").replace(&format!("\"{}\"", a.address), &both);
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{service}");
    let up = Up::start(&folder("hold-off-one", &[("c.toml", &config)])).await;
    spares_are_open(up.admin()).await;
    let address = a.address.to_string();
    drop(a);
    let (status, held_off) = health(up.admin(), |health| health["services"][0]["held_off"].is_array()).await;
    let service = &held_off["services"][0];
    assert_eq!((status, &service["held_off"][0]["backend"]), (200, &json!(address)), "{service}");
    assert_eq!(held_off["status"], "ok", "{service}");
}
