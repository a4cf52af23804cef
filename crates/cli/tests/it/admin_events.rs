//! `/api/events`: everything that is seen, for as long as somebody listens, whatever happens meanwhile.

use crate::admin::{ANY, Listener, get};
use crate::program::PATIENCE;
use crate::serving::folder;
use crate::up::{Backend, Client, Up, ask, http, tcp};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::http::Server;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// So many may listen.
const PLACES: usize = 32;

/// The object of the monitor that is a service's first.
fn behind(view: &Value, service: usize) -> &Value {
    let id = &view["services"][service]["objects"][0];
    let objects = view["monitor"]["objects"].as_array().unwrap();
    objects.iter().find(|object| object["id"] == *id).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_backend_that_dies_and_comes_back_is_seen_to() {
    let node = Server::start("node").await.unwrap();
    let more = "attempts = 1\ndelay = \"10ms\"\nmax_delay = \"50ms\"";
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", http("s", ANY, node.address(), more));
    let up = Up::start(&folder("events-backend", &[("c.toml", &config)])).await;
    let mut events = Listener::start(up.admin(), &[]).await;
    assert_eq!(events.status, 200);
    let good = events.until("connections", |view| behind(view, 0)["backends"][0]["state"] == "healthy").await;
    assert_eq!((&good["status"], &behind(&good, 0)["type"]), (&json!("ok"), &json!("pool")), "{good}");
    node.kill().await;
    let bad = events.until("its death", |view| view["status"] == "unavailable" && behind(view, 0)["dead"] == 1).await;
    let backend = &behind(&bad, 0)["backends"][0];
    assert_eq!((&backend["state"], &backend["port"]), (&json!("dead"), &json!(node.address().port())), "{bad}");
    assert!(backend["reason"].as_str().unwrap().contains("refused"), "{backend}");
    node.revive().unwrap();
    let back = events.until("its return", |view| view["status"] == "ok" && behind(view, 0)["dead"] == 0).await;
    assert_eq!(back["services"][0]["objects"], good["services"][0]["objects"], "it is the same pool");
    // A value a second, of claims too.
    assert_eq!(ask(up.service("s"), "GET /").await.0, 200);
    let id = good["services"][0]["objects"][0].to_string();
    let told = events.until("a claim", |view| {
        view["history"][&id]["served"].as_array().is_some_and(|values| values.iter().any(|value| *value != 0.0))
    });
    let told = told.await;
    let lengths = ["wait_ms", "served", "waiting"].map(|key| told["history"][&id][key].as_array().unwrap().len());
    assert!(lengths[0] > 1 && lengths.iter().all(|length| *length == lengths[0]), "{told}");
}

#[tokio::test]
async fn a_reload_and_the_end_are_heard() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, "drain_timeout = \"60s\""));
    let folder = folder("events-reload", &[("c.toml", &config)]);
    let mut up = Up::start(&folder).await;
    let client = Client::of(up.service("a")).await;
    let mut events = Listener::start(up.admin(), &[]).await;
    let first = events.until("the service", |view| view["services"].as_array().unwrap().len() == 1).await;
    let id = first["services"][0]["objects"][0].to_string();
    events.until("its history", |view| view["history"].get(&id).is_some()).await;
    up.reload(&(config + &tcp("b", ANY, &b, ""))).await;
    let both = events.until("another service", |view| view["services"].as_array().unwrap().len() == 2).await;
    assert_eq!(both["services"][0]["objects"], first["services"][0]["objects"], "it is as it was");
    assert!(!behind(&both, 1).is_null(), "{both}");
    // Who was there before is seen until it has left, and is forgotten then.
    up.reload(&format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("b", ANY, &b, ""))).await;
    let leaving = events.until("that it leaves", |view| view["leaving"][0]["name"] == "a").await;
    assert_eq!((&leaving["leaving"][0]["clients"], leaving["services"].as_array().unwrap().len()), (&json!(1), 1));
    up.running.signal("-TERM").await;
    events.until("the end", |view| view["status"] == "draining").await;
    drop(client);
    let mut last = Value::Null;
    let ended = async {
        while let Some(view) = events.next().await {
            last = view;
        }
    };
    timeout(PATIENCE, ended).await.expect("they end, and were not cut short");
    assert!(last.is_null() || last["status"] == "draining", "{last}");
    assert_eq!(timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap().code(), Some(0));
}

#[tokio::test]
async fn what_is_gone_has_no_history() {
    let a = Backend::start("a").await;
    let config = |more| format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("s", ANY, &a, more));
    let mut up = Up::start(&folder("events-gone", &[("c.toml", &config(""))])).await;
    let mut events = Listener::start(up.admin(), &[]).await;
    let first = events.until("a history", |view| !view["history"].as_object().unwrap().is_empty()).await;
    let id = first["services"][0]["objects"][0].to_string();
    assert!(first["history"].get(&id).is_some(), "{first}");
    up.reload(&config("maximum = 8")).await;
    events
        .until("that it is forgotten", |view| {
            let history = view["history"].as_object().unwrap();
            history.len() == 1 && !history.contains_key(&id)
        })
        .await;
}

#[tokio::test]
async fn one_who_does_not_read_holds_up_nobody() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let up = Up::start(&folder("events-slow", &[("c.toml", &config)])).await;
    let mut deaf = TcpStream::connect(up.admin()).await.unwrap();
    deaf.write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut events = Listener::start(up.admin(), &[]).await;
    let mut before = 0;
    for _ in 0..3 {
        let taken_at = events.next().await.expect("it goes on")["monitor"]["taken_at_ms"].as_u64().unwrap();
        assert!(taken_at >= before, "none is older than the one before");
        before = taken_at;
    }
}

#[tokio::test]
async fn a_few_may_listen_and_others_can_still_ask() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let up = Up::start(&folder("events-many", &[("c.toml", &config)])).await;
    let mut listeners = Vec::new();
    for _ in 0..PLACES {
        let mut listener = Listener::start(up.admin(), &[]).await;
        assert!(listener.next().await.is_some(), "it hears at once");
        listeners.push(listener);
    }
    let refused = get(up.admin(), "/api/events", &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")), "{refused:?}");
    assert!(refused.json()["error"].as_str().unwrap().contains("/api/snapshot"), "{refused:?}");
    assert_eq!(get(up.admin(), "/api/snapshot", &[]).await.status, 200);
    assert!(listeners[0].next().await.is_some(), "those who were there are not disturbed");
    listeners.pop();
    let room = async {
        while Listener::start(up.admin(), &[]).await.status != 200 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, room).await.expect("there is room for another");
}
