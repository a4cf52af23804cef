//! A process without descriptors left: clients wait, and are served when there are some again. That is not told at every try.

mod gateway_stage;

use gateway_stage::{Client, LONG, Stage};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata};

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("carom_gateway::accepting")
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

// The limit is the process's: there is no other test in this file.
#[tokio::test]
async fn without_descriptors_clients_wait_and_are_served_later() {
    let warnings = Warnings::default();
    let _listening = tracing::subscriber::set_default(warnings.clone());
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
    // Time for several tries.
    assert!(timeout(Duration::from_millis(500), &mut upgrade).await.is_err(), "there is none for the gateway's end");
    earlier.expect_silence().await;
    assert_eq!(warnings.0.load(Ordering::Relaxed), 1);

    drop(files);
    let (socket, _) = timeout(LONG, upgrade).await.expect("in time").unwrap();
    let mut later = Client { socket };
    assert_eq!(later.ask(json!({"action": "ping"})).await["type"], "pong");
}
