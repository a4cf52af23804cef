//! `carom up` is told to end: what is under way may finish, until a deadline, and not when it is told twice.

use crate::program::PATIENCE;
use crate::serving::folder;
use crate::up::{Backend, Client, Up, ask, closed, http, tcp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

const ANY: &str = "127.0.0.1:0";

#[tokio::test]
async fn what_is_under_way_finishes_and_nobody_else_is_let_in() {
    for signal in ["-TERM", "-INT"] {
        let a = Backend::start("a").await;
        let folder = folder("signals-finish", &[("c.toml", &tcp("a", ANY, &a, "drain_timeout = \"60s\""))]);
        let mut up = Up::start(&folder).await;
        let mut client = Client::of(up.service("a")).await;
        up.running.signal(signal).await;
        up.running.told("stopping").await;
        closed(up.service("a")).await;
        assert_eq!(client.say("one more").await, "a: one more\n");
        drop(client);
        let ended = timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap();
        assert_eq!(ended.code(), Some(0));
    }
}

#[tokio::test]
async fn a_request_under_way_is_answered() {
    let backend = TcpListener::bind(ANY).await.unwrap();
    let config = http("a", ANY, backend.local_addr().unwrap(), "spares = 0\ndrain_timeout = \"60s\"");
    let folder = folder("signals-request", &[("c.toml", &config)]);
    let mut up = Up::start(&folder).await;
    let asking = tokio::spawn(ask(up.service("a"), "GET /slow"));
    let (mut asked, _) = timeout(PATIENCE, backend.accept()).await.expect("the request comes").unwrap();
    let mut head = [0; 4];
    timeout(PATIENCE, asked.read_exact(&mut head)).await.expect("a head comes").unwrap();
    up.running.signal("-TERM").await;
    up.running.told("stopping").await;
    closed(up.service("a")).await;
    asked.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate").await.unwrap();
    assert_eq!(asking.await.unwrap(), (200, "late".to_owned()));
    let ended = timeout(PATIENCE, up.running.child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn whoever_does_not_finish_is_cut_short_and_counted() {
    let a = Backend::start("a").await;
    let folder = folder("signals-deadline", &[("c.toml", &tcp("a", ANY, &a, "drain_timeout = \"100ms\""))]);
    let up = Up::start(&folder).await;
    let _client = Client::of(up.service("a")).await;
    let ended = up.running.end("-TERM").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("warning: service a: 1 client cut short"), "{ended:?}");
}

#[tokio::test]
async fn told_twice_it_ends_at_once() {
    let a = Backend::start("a").await;
    let folder = folder("signals-twice", &[("c.toml", &tcp("a", ANY, &a, "drain_timeout = \"1000m\""))]);
    let mut up = Up::start(&folder).await;
    let _client = Client::of(up.service("a")).await;
    up.running.signal("-TERM").await;
    up.running.told("stopping").await;
    let ended = up.running.end("-TERM").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("stopped at once"), "{ended:?}");
}
