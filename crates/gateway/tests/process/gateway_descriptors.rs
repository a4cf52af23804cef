//! A process without descriptors left: clients wait, and are served when there are some again. That is not told at every try.

use crate::gateway_stage::{Client, LONG, Stage};
use futures_util::FutureExt;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::fs::File;
use std::time::Duration;
use testkit::clock::advance;
use testkit::logs::{Level, Logs};
use testkit::wait::until;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async;

#[tokio::test]
async fn without_descriptors_clients_wait_and_are_served_later() {
    let logs = Logs::capture();
    let stage = Stage::new().await;
    let mut earlier = stage.client().await;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.current.map_or(256, |current| current.min(256)));
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(files.pop().is_some(), "one is left for the client's end");

    let tcp = TcpStream::connect(stage.address()).await.unwrap();
    let upgrade = client_async("ws://localhost/", tcp);
    tokio::pin!(upgrade);
    let warnings = || {
        let warnings = logs.at(Level::WARN);
        warnings.iter().filter(|event| event.target == "carom_gateway::accepting").count()
    };
    until("the gateway has tried to accept it", || warnings() > 0).await;
    for _ in 0..5 {
        // Another try is due, and the gateway has a turn to make it in.
        advance(Duration::from_millis(200)).await;
        earlier.expect_silence().await;
    }
    assert!(upgrade.as_mut().now_or_never().is_none(), "there is none for the gateway's end");
    assert_eq!(warnings(), 1, "{}", logs.text());

    drop(files);
    let (socket, _) = timeout(LONG, upgrade).await.expect("in time").unwrap();
    let mut later = Client { socket };
    assert_eq!(later.ask(json!({"action": "ping"})).await["type"], "pong");
}
