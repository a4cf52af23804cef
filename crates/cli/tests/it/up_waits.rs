//! `carom up` with a gateway whose NATS is not there: everything else runs, says so, and ends as always.

use crate::program::PATIENCE;
use crate::serving::{folder, inside};
use crate::up::{Backend, Client, Nobody, Up, ask, closed, tcp};
use std::path::PathBuf;
use tokio::net::UnixDatagram;
use tokio::time::timeout;

const ANY: &str = "127.0.0.1:0";
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";
const GATEWAY: &str = "[gateway]\nlisten = \"127.0.0.1:0\"\n";

/// A gateway that has NATS there.
fn on_nats(nobody: &Nobody) -> String {
    let feed = "[[feed]]\nbroker = \"desk\"\nuser = \"demo\"\nadapter = \"outside\"\n";
    format!("{GATEWAY}bus = \"nats\"\n[gateway.nats]\nurl = \"nats://{}\"\n{feed}", nobody.address())
}

async fn health(up: &Up) -> String {
    let (code, body) = ask(up.admin(), "GET /healthz").await;
    assert_eq!(code, 200, "{body}");
    body
}

#[tokio::test]
async fn what_is_served_does_not_wait_and_finishes_when_it_is_told_to_end() {
    let (a, nobody) = (Backend::start("a").await, Nobody::somewhere());
    let config = tcp("a", ANY, &a, "drain_timeout = \"60s\"") + ADMIN + &on_nats(&nobody);
    let folder = folder("waits-end", &[("c.toml", &config)]);
    let mut up = Up::start(&folder).await;
    assert!(up.banner.contains("carom is up: 1 service and the gateway as soon as it can start;"), "{}", up.banner);
    let health = health(&up).await;
    assert!(health.starts_with(r#"{"status":"degraded""#), "{health}");
    assert!(health.contains(r#""trouble":"waiting for NATS: c.toml:"#), "{health}");
    let mut client = Client::of(up.service("a")).await;
    up.running.signal("-TERM").await;
    up.running.told("stopping").await;
    closed(up.service("a")).await;
    assert_eq!(client.say("one more").await, "a: one more\n");
    drop(client);
    let ended = timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0));
}

/// Whoever has mistyped where NATS is need not start all of it anew.
#[tokio::test]
async fn a_gateway_that_waits_starts_as_the_config_has_it_by_then() {
    let (a, nobody) = (Backend::start("a").await, Nobody::somewhere());
    let others = tcp("a", ANY, &a, "") + ADMIN;
    let folder = folder("waits-reload", &[("c.toml", &(others.clone() + &on_nats(&nobody)))]);
    let socket = PathBuf::from(format!("/tmp/carom-waits-{}", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = inside(&folder, &["up", "-c", "c.toml"]);
    command.env("NOTIFY_SOCKET", &socket).env_remove("WATCHDOG_USEC");
    let mut up = Up::of(&folder, command).await;
    let mut client = Client::of(up.service("a")).await;
    up.reload(&(others.clone() + GATEWAY)).await;
    let mut told = String::new();
    while !told.ends_with("\nSTATUS=serving 1 service and the gateway\n") {
        let mut bytes = vec![0; 4096];
        let count = timeout(PATIENCE, manager.recv(&mut bytes)).await.expect("it starts").unwrap();
        told += std::str::from_utf8(&bytes[..count]).unwrap();
    }
    assert!(told.starts_with("READY=1\nSTATUS=serving 1 service and the gateway as soon as it can start\n"), "{told}");
    let health = health(&up).await;
    assert!(health.contains(r#""gateway":{"clients":0"#) && !health.contains("trouble"), "{health}");
    assert_eq!(client.say("still").await, "a: still\n");
    std::fs::remove_file(&socket).unwrap();
}

#[tokio::test]
async fn a_gateway_that_waits_and_is_wanted_no_more_is_no_trouble() {
    let (a, nobody) = (Backend::start("a").await, Nobody::somewhere());
    let others = tcp("a", ANY, &a, "") + ADMIN;
    let folder = folder("waits-off", &[("c.toml", &(others.clone() + &on_nats(&nobody)))]);
    let mut up = Up::start(&folder).await;
    assert!(health(&up).await.contains("waiting for NATS"));
    up.reload(&others).await;
    let health = health(&up).await;
    assert!(health.starts_with(r#"{"status":"ok""#) && !health.contains("gateway"), "{health}");
}
