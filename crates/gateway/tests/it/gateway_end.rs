//! The end: of clients that leave, fall silent or vanish, and of the gateway.

use crate::gateway_stage::{Client, LONG, NEVER, Stage, instrument, try_connect, upstream};
use carom::feed::{Feed, State};
use carom_core::feed::Mode;
use carom_gateway::Limits;
use carom_gateway::keys::{Identity, Keys, NewKey};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::time::{Duration, Instant};
use testkit::feed::{OnOpen, OnWrite};
use testkit::temp_dir::TempDir;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

#[tokio::test]
async fn a_client_that_leaves_is_answered_and_gives_back_what_it_had() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    client.socket.send(Message::Close(None)).await.unwrap();
    while let Some(message) = client.socket.next().await {
        message.expect("an orderly end");
    }
    stage.until(|snapshot| snapshot.clients == 0 && snapshot.subscriptions == 0).await;
    stage.upstream.until(|upstream| upstream.carried(&instrument("SBIN")).is_empty()).await;
}

#[tokio::test]
async fn a_client_that_vanishes_in_the_middle_of_a_subscribe_has_nothing() {
    let stage = Stage::new().await;
    let mut stays = stage.client().await;
    stays.subscribe("INFY", "LTP").await;
    stage.upstream.on_write(OnWrite::Never);
    let mut vanishes = stage.client().await;
    vanishes.send(json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"})).await;
    stage.until(|snapshot| snapshot.feeds[0].feed.waiting == 1).await;
    drop(vanishes);
    stage.until(|snapshot| snapshot.clients == 1).await;
    let snapshot = stage.gateway.snapshot();
    assert_eq!((snapshot.subscriptions, snapshot.feeds[0].feed.waiting), (1, 0));
    let interest: usize = stage.feed.topics().iter().map(|topic| topic.interest).sum();
    assert_eq!(interest, 1, "only the other one's");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed() {
    let stage = Stage::with(|gateway| gateway.ping(Duration::from_millis(50), Duration::from_secs(3))).await;
    let (mut reads, silent) = (stage.connect().await, stage.connect().await);
    // A client library answers pings when it is read from. This one's socket is read without it.
    let reading = tokio::spawn(async move { while reads.socket.next().await.is_some() {} });
    let mut bytes = Vec::new();
    timeout(LONG, silent.socket.into_inner().read_to_end(&mut bytes)).await.expect("in time").unwrap();
    let close = [&1011u16.to_be_bytes()[..], b"keepalive ping timeout"].concat();
    assert!(bytes.ends_with(&close), "{bytes:?}");
    stage.until(|snapshot| snapshot.clients == 1).await;
    assert!(!reading.is_finished());
}

/// Of the stage itself: a test that waits for what never comes is to fail.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "a message in time")]
async fn a_message_that_does_not_come_is_not_waited_for_from_ping_to_ping() {
    let (near, far) = tokio::io::duplex(4096);
    let mut client = Client { socket: WebSocketStream::from_raw_socket(near, Role::Client, None).await };
    let mut server = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
    tokio::spawn(async move {
        for _ in 0..10 {
            tokio::time::sleep(LONG / 2).await;
            server.send(Message::Ping("".into())).await.unwrap();
        }
        server.send(Message::text("{}")).await.unwrap();
    });
    client.next().await;
}

#[tokio::test]
async fn a_client_that_is_not_read_is_not_closed_for_its_silence() {
    let upstream = upstream();
    let feed = Feed::builder(upstream.clone()).pending_after(Duration::from_secs(3)).build().unwrap();
    let mut limits = Limits::default();
    limits.message_size = 1024;
    let options = |gateway: carom_gateway::Builder| {
        gateway.limits(limits).ping(Duration::from_millis(50), Duration::from_secs(1)).slow_after(NEVER)
    };
    let stage = Stage::on(upstream, feed, options).await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    stage.upstream.on_write(OnWrite::Never);
    client.send(json!({"action": "subscribe", "symbol": "INFY", "exchange": "NSE", "request_id": 1})).await;
    // Two that are as large as the line may be, while the first is under way.
    for id in [2, 3] {
        client.send_text(&format!("{:600}", json!({"action": "ping", "_pingId": id}).to_string())).await;
    }
    assert_eq!(client.next().await["request_id"], 1);
    assert_eq!(client.next().await["_pingId"], 2);
    assert_eq!(client.next().await["_pingId"], 3);
}

#[tokio::test]
async fn whoever_answers_a_ping_is_pinged_again_however_long_it_would_have_had_to_answer() {
    let stage = Stage::with(|gateway| gateway.ping(Duration::from_millis(20), NEVER).slow_after(NEVER)).await;
    let mut client = stage.client().await;
    let pinged = async {
        for _ in 0..3 {
            while !matches!(client.socket.next().await, Some(Ok(Message::Ping(_)))) {}
        }
    };
    timeout(LONG, pinged).await.expect("three pings");
}

#[tokio::test]
async fn a_client_whose_key_is_gone_is_closed_when_keys_are_read_again() {
    let (folder, broker) = (TempDir::new(), "scripted");
    let [stays, goes] = [(); 2].map(|()| NewKey::generate().unwrap());
    let table = |key: &NewKey| key.table(&Identity::new(broker, "asha"), None, None);
    let file = folder.write("keys.toml", format!("{}\n{}", table(&stays), table(&goes)));
    let keys = Keys::from_file(&file).unwrap();
    let stage = Stage::with(|gateway| gateway.keys(keys.clone())).await;
    let (mut stranger, mut kept) = (stage.connect().await, stage.client_of(stays.reveal()).await);
    let mut revoked = stage.client_of(goes.reveal()).await;
    revoked.subscribe("SBIN", "LTP").await;

    folder.write("keys.toml", table(&stays));
    assert_eq!(keys.reload().unwrap(), 1);
    assert_eq!(revoked.closed().await, (4401, "key revoked".to_owned()));
    stage.until(|snapshot| snapshot.authenticated == 1 && snapshot.subscriptions == 0).await;
    kept.expect_silence().await;
    stranger.expect_silence().await;
}

#[tokio::test]
async fn a_client_that_is_stuck_leaves_time_to_close_the_feeds() {
    let stage = Stage::with(|gateway| gateway.slow_after(NEVER).ping(NEVER, NEVER)).await;
    let mut stuck = stage.client().await;
    stuck.subscribe("SBIN", "LTP").await;
    let large = json!({"ltp": 1, "pad": "x".repeat(64 << 10)}).to_string();
    let full = async {
        while stage.gateway.snapshot().conflated < 10 {
            stage.upstream.tick(&instrument("SBIN"), Mode::Ltp, large.clone());
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, full).await.expect("its socket is full");
    let (upstream, feed) = (stage.upstream.clone(), stage.feed.clone());
    // Nothing goes through sockets from here on. Without the pause, a slow machine would take the time that the feeds have.
    tokio::time::pause();
    // A client has longer than this to take leave.
    let deadline = tokio::time::Instant::now() + Duration::from_millis(1800);
    let stopping = stage.gateway.stop(deadline);
    assert_eq!(timeout(LONG, stopping).await.expect("in time"), 0, "nothing was cut");
    assert_eq!((feed.state(), upstream.goodbyes()), (State::Stopped, 1));
    assert!(tokio::time::Instant::now() < deadline, "the feeds had time left");
}

#[tokio::test]
async fn stopping_tells_clients_closes_feeds_and_refuses_everybody() {
    let stage = Stage::new().await;
    let (mut client, mut unknown) = (stage.client().await, stage.connect().await);
    client.subscribe("SBIN", "LTP").await;
    let (address, Stage { gateway, upstream, feed, .. }) = (stage.address(), stage);
    let stopped = tokio::spawn(async move { gateway.stop(Instant::now() + NEVER).await });
    assert_eq!(client.closed().await, (1001, "gateway is stopping".to_owned()));
    assert_eq!(unknown.closed().await.0, 1001);
    assert!(client.socket.next().await.is_none());
    assert!(unknown.socket.next().await.is_none());
    assert_eq!(timeout(LONG, stopped).await.expect("in time").unwrap(), 0, "nothing was cut");
    assert_eq!(feed.state(), State::Stopped);
    assert_eq!((upstream.open_now(), upstream.goodbyes()), (0, 1));
    assert!(try_connect(address).await.is_err());
}

#[tokio::test]
async fn what_waits_for_a_client_comes_before_the_close() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.until(|snapshot| snapshot.ticks == 1).await;
    let stopped = tokio::spawn(stage.gateway.stop(Instant::now() + NEVER));
    assert_eq!(client.next().await["data"]["ltp"], 1);
    assert_eq!(client.closed().await.0, 1001);
    while client.socket.next().await.is_some() {}
    timeout(LONG, stopped).await.expect("in time").unwrap();
}

#[tokio::test]
async fn a_stop_is_not_held_up_by_clients_or_upstreams_beyond_its_deadline() {
    let stage = Stage::new().await;
    stage.upstream.on_open(OnOpen::Never);
    let mut client = stage.client().await;
    client.send(json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"})).await;
    stage.upstream.until(|upstream| upstream.attempts() == 1).await;
    // One that has connected and says nothing at all.
    let _mute = tokio::net::TcpStream::connect(stage.address()).await.unwrap();
    stage.until(|snapshot| snapshot.clients == 2).await;
    let feed = stage.feed.clone();
    // Nothing goes through sockets from here on, and what the machine takes does not count.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let stopping = stage.gateway.stop(began + Duration::from_millis(10));
    timeout(LONG, stopping).await.expect("in time");
    // The client alone would have two seconds to answer the close, and the upstream for ever.
    assert!(began.elapsed() < Duration::from_millis(1800), "{:?}", began.elapsed());
    assert_ne!(feed.state(), State::Running);
}

#[tokio::test]
async fn a_gateway_that_is_dropped_closes_its_clients() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    drop(stage.gateway);
    assert_eq!(client.closed().await.0, 1001);
}
