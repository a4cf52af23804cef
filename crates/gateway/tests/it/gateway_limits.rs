//! Limits and bad input: each has its answer, and nobody else notices.

use crate::gateway_stage::{Client, LONG, NEVER, Stage, connect, try_connect, upstream};
use carom::feed::Feed;
use carom_core::feed::Mode;
use carom_gateway::{Gateway, Limits, StartError};
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

fn symbols(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"symbol": format!("S{n}"), "exchange": "NSE"})).collect()
}

async fn still_served(stage: &Stage, bystander: &mut Client) {
    stage.tick("BYSTANDER", Mode::Ltp, 1);
    assert_eq!(bystander.next().await["symbol"], "BYSTANDER");
}

async fn bystander(stage: &Stage) -> Client {
    let mut client = stage.client().await;
    client.subscribe("BYSTANDER", "LTP").await;
    client
}

fn refused(connected: Result<Client, Error>) -> (u16, String) {
    match connected {
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            (response.status().as_u16(), String::from_utf8(body).unwrap())
        }
        other => panic!("{:?} instead of a refusal", other.map(|_| ())),
    }
}

#[tokio::test]
async fn what_is_no_request_is_answered_and_closes_nothing() {
    let stage = Stage::new().await;
    let mut bystander = bystander(&stage).await;
    let mut client = stage.client().await;
    for (text, code) in [
        ("not JSON", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ("[1,2]", "SERVER_ERROR"),
        ("null", "SERVER_ERROR"),
        (r#"{"action":"subscribe","symbols":["SBIN"]}"#, "SERVER_ERROR"),
        (r#"{"action":"dance"}"#, "INVALID_ACTION"),
        ("{}", "INVALID_ACTION"),
        (r#"{"action":"subscribe"}"#, "INVALID_PARAMETERS"),
        (r#"{"action":"subscribe","symbol":"SBIN","exchange":"NSE","mode":1.0}"#, "INVALID_MODE"),
    ] {
        client.send_text(text).await;
        let reply = client.next().await;
        assert_eq!((&reply["status"], &reply["code"]), (&json!("error"), &json!(code)), "{text}");
    }
    client.socket.send(Message::binary(vec![0xff, 0xfe, 0])).await.unwrap();
    assert_eq!(client.next().await["code"], "INVALID_JSON");
    client.subscribe("SBIN", "LTP").await;
    still_served(&stage, &mut bystander).await;
}

#[tokio::test]
async fn a_message_over_the_limit_closes_its_client_with_1009() {
    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.message_size = 1024))).await;
    let mut bystander = bystander(&stage).await;
    let mut client = stage.client().await;
    client.send_text(&" ".repeat(1025)).await;
    assert_eq!(client.closed().await, (1009, "message too big".to_owned()));
    let mut client = stage.client().await;
    client.send_text(&format!("{:1024}", r#"{"action":"ping"}"#)).await;
    assert_eq!(client.next().await["type"], "pong", "1024 bytes are not over it");
    still_served(&stage, &mut bystander).await;
}

#[tokio::test]
async fn whoever_asks_for_no_upgrade_is_told_what_this_is() {
    let stage = Stage::with(|gateway| gateway.auth_grace(NEVER)).await;
    let mut bystander = bystander(&stage).await;
    let body = "x".repeat(20_000);
    let post = format!("POST /orders HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let upgrade = "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    for (sent, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "426 Upgrade Required"),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), "426 Upgrade Required"),
        ("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_owned(), "426 Upgrade Required"),
        (post, "426 Upgrade Required"),
        (format!("{upgrade}\r\n"), "400 Bad Request"),
        (format!("{upgrade}Sec-WebSocket-Key: short\r\n\r\n"), "400 Bad Request"),
        ("hello?\r\n\r\n".to_owned(), "400 Bad Request"),
        ("\u{16}\u{3}\u{1}\0".to_owned(), "400 Bad Request"),
        ("x".repeat(70_000), "400 Bad Request"),
    ] {
        let answer = answer_to(&stage, &sent).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{head}");
        assert_eq!(head.contains("\r\nUpgrade: websocket\r\n"), status.starts_with("426"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}");
        assert!(body.starts_with("this is a WebSocket endpoint") && body.lines().count() == 1, "{body}");
    }
    still_served(&stage, &mut bystander).await;
    stage.until(|snapshot| snapshot.clients == 1).await;
}

/// All that comes back, until the gateway ends the connection.
async fn answer_to(stage: &Stage, sent: &str) -> String {
    let mut tcp = TcpStream::connect(stage.address()).await.unwrap();
    tcp.write_all(sent.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LONG, tcp.read_to_string(&mut answer)).await.expect("an end in time").unwrap();
    answer
}

#[tokio::test]
async fn somebody_who_never_stops_talking_is_cut_off() {
    let stage = Stage::with(|gateway| gateway.auth_grace(NEVER)).await;
    let mut tcp = TcpStream::connect(stage.address()).await.unwrap();
    let flood = async { while tcp.write_all(&[b'x'; 4096]).await.is_ok() {} };
    timeout(LONG, flood).await.expect("an end in time");
    stage.until(|snapshot| snapshot.clients == 0).await;
}

#[tokio::test]
async fn more_topics_than_a_client_may_have_are_refused_with_the_limit() {
    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.topics_per_client = 3))).await;
    let mut client = stage.client().await;
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(4), "mode": 1})).await;
    assert_eq!(reply["code"], "TOO_MANY_TOPICS");
    assert_eq!(
        reply["message"],
        "A client may have 3 topics (topics_per_client), and with these it would have 4 or more"
    );
    assert_eq!(stage.upstream.attempts(), 0, "nobody was called");
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(3), "mode": 1})).await;
    assert_eq!(reply["status"], "success");
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(3), "mode": 1})).await;
    assert_eq!(reply["status"], "success", "it has these");
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(1), "mode": 2})).await;
    assert_eq!(reply["code"], "TOO_MANY_TOPICS");
    client.ask(json!({"action": "unsubscribe", "symbols": symbols(1)})).await;
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(1), "mode": 2})).await;
    assert_eq!(reply["status"], "success");
}

#[tokio::test]
async fn a_million_symbols_in_one_subscribe() {
    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.message_size = 64 << 20))).await;
    let mut bystander = bystander(&stage).await;
    let mut client = stage.client().await;
    let symbols: Vec<String> = (0..1_000_000).map(|n| format!(r#"{{"symbol":"S{n}","exchange":"NSE"}}"#)).collect();
    client.send_text(&format!(r#"{{"action":"subscribe","symbols":[{}]}}"#, symbols.join(","))).await;
    let reply = client.next().await;
    assert_eq!(reply["status"], "error", "{reply}");
    assert_eq!(reply["code"], "TOO_MANY_TOPICS", "{reply}");
    still_served(&stage, &mut bystander).await;

    // As it is by default, it does not get that far.
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let _ = client.socket.send(Message::text("x".repeat(2 << 20))).await;
    assert_eq!(client.closed().await.0, 1009);
}

#[tokio::test]
async fn whoever_subscribes_too_fast_is_told_the_rate() {
    let slow = limits(|limits| (limits.subscribe_rate, limits.subscribe_burst) = (1, 5));
    let stage = Stage::with(|gateway| gateway.limits(slow)).await;
    let mut client = stage.client().await;
    assert_eq!(client.ask(json!({"action": "subscribe", "symbols": symbols(4)})).await["status"], "success");
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(4)})).await;
    assert_eq!(reply["code"], "RATE_LIMITED");
    let message = "A client may name 5 topics at once (subscribe_burst), and then 1 per second (subscribe_rate)";
    assert_eq!(reply["message"], message);
    let mut other = stage.client().await;
    assert_eq!(other.ask(json!({"action": "subscribe", "symbols": symbols(4)})).await["status"], "success");
}

#[tokio::test]
async fn every_entry_counts_whatever_becomes_of_it() {
    let slow = limits(|limits| (limits.subscribe_rate, limits.subscribe_burst) = (1, 5));
    let stage = Stage::with(|gateway| gateway.limits(slow)).await;
    let mut client = stage.client().await;
    let same = vec![json!({"symbol": "SBIN", "exchange": "NSE"}); 20];
    let wrong = vec![json!({"symbol": 1, "exchange": "NSE"}); 20];
    for (action, symbols) in
        [("subscribe", &same), ("subscribe", &wrong), ("unsubscribe", &same), ("unsubscribe", &wrong)]
    {
        let reply = client.ask(json!({"action": action, "symbols": symbols})).await;
        assert_eq!(reply["code"], "RATE_LIMITED", "{reply}");
    }
    assert_eq!(client.ask(json!({"action": "subscribe", "symbols": symbols(5)})).await["status"], "success");
    let reply = client.ask(json!({"action": "unsubscribe", "symbols": symbols(5)})).await;
    assert_eq!(reply["status"], "success", "what it has, it may give back at once");
    assert_eq!(stage.gateway.snapshot().subscriptions, 0);

    let mut asks = stage.client().await;
    let asked = async { while asks.ask(json!({"action": "get_subscriptions"})).await["code"] != "RATE_LIMITED" {} };
    timeout(LONG, asked).await.expect("that counts, too");
}

#[tokio::test]
async fn all_that_a_client_may_have_can_be_had_again_when_it_is_given_back() {
    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.topics_per_client = 100))).await;
    let mut client = stage.client().await;
    for _ in 0..3 {
        let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(100), "mode": 1})).await;
        assert_eq!(reply["status"], "success", "{reply}");
        assert_eq!(client.ask(json!({"action": "unsubscribe_all"})).await["status"], "success");
    }
}

#[tokio::test]
async fn little_is_read_of_somebody_who_has_not_said_who_it_is() {
    let stage = Stage::new().await;
    let mut bystander = bystander(&stage).await;
    let mut stranger = stage.connect().await;
    let _ = stranger.socket.send(Message::text("x".repeat(512 << 10))).await;
    assert_eq!(stranger.closed().await, (1009, "too much before authentication".to_owned()));

    // Whoever says who it is need not wait for the answer.
    let mut client = stage.connect().await;
    client.send(json!({"action": "authenticate", "api_key": stage.key})).await;
    client.send(json!({"action": "subscribe", "symbols": symbols(2500), "mode": 1})).await;
    assert_eq!(client.next().await["type"], "auth");
    assert_eq!(client.next().await["status"], "success");
    still_served(&stage, &mut bystander).await;
}

#[tokio::test]
async fn more_strangers_than_there_may_be_are_turned_away() {
    let few = limits(|limits| limits.strangers_per_address = 2);
    let stage = Stage::with(|gateway| gateway.limits(few)).await;
    let (_silent, mut known) = (stage.connect().await, stage.connect().await);
    let (status, body) = refused(try_connect(stage.address()).await);
    let told = "2 clients from this address have not authenticated, and strangers_per_address = 2\n";
    assert_eq!((status, body.as_str()), (429, told));
    known.ask(json!({"action": "authenticate", "api_key": stage.key})).await;
    let _third = stage.connect().await;

    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.strangers = 1))).await;
    let _silent = stage.connect().await;
    let (status, body) = refused(try_connect(stage.address()).await);
    assert_eq!((status, body.as_str()), (503, "1 clients have not authenticated, and strangers = 1\n"));
}

#[tokio::test]
async fn a_full_feed_names_both_limits_and_how_many_there_are() {
    let upstream = upstream();
    let feed = Feed::builder(upstream.clone()).max_topics_per_connection(2).max_connections(3).build().unwrap();
    let stage = Stage::on(upstream, feed, |gateway| gateway).await;
    let mut client = stage.client().await;
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols(7), "mode": 1})).await;
    assert_eq!(reply["status"], "partial");
    let failed: Vec<&Value> =
        reply["subscriptions"].as_array().unwrap().iter().filter(|entry| entry["status"] == "error").collect();
    assert_eq!(failed.len(), 1);
    let message = "Maximum capacity reached: 3 connections × 2 symbols = 6 symbols. Currently subscribed to 6 symbols.";
    assert_eq!(failed[0]["message"], message);
    assert_eq!(stage.gateway.snapshot().subscriptions, 6);
}

#[tokio::test]
async fn more_clients_than_there_may_be_are_turned_away_before_the_upgrade() {
    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.clients = 2))).await;
    let (first, mut second) = (stage.client().await, bystander(&stage).await);
    let (status, body) = refused(try_connect(stage.address()).await);
    assert_eq!((status, body.as_str()), (503, "there are 2 clients, and clients = 2\n"));
    assert_eq!(stage.gateway.snapshot().refused, 1);
    still_served(&stage, &mut second).await;
    drop(first);
    stage.until(|snapshot| snapshot.clients == 1).await;
    connect(stage.address()).await;
}

#[tokio::test]
async fn more_clients_from_one_address_than_there_may_be_are_turned_away() {
    let stage = Stage::with(|gateway| gateway.limits(limits(|limits| limits.clients_per_address = 1))).await;
    let _first = stage.connect().await;
    let (status, body) = refused(try_connect(stage.address()).await);
    assert_eq!(status, 429);
    assert_eq!(body, "there are 1 clients from this address, and clients_per_address = 1\n");
}

#[tokio::test]
async fn whoever_does_not_say_who_it_is_in_time_is_closed() {
    let stage = Stage::with(|gateway| gateway.auth_grace(Duration::from_secs(2))).await;
    let mut bystander = bystander(&stage).await;
    let mut silent = stage.connect().await;
    let mut talks = stage.connect().await;
    let mut mute = TcpStream::connect(stage.address()).await.unwrap();
    talks.ask(json!({"action": "ping"})).await;
    let mut without_feed = stage.client_of(&stage.key_without_feed).await;
    for client in [&mut silent, &mut talks] {
        assert_eq!(client.closed().await, (4401, "auth timeout".to_owned()));
    }
    let ended = timeout(LONG, mute.read_u8()).await.expect("one that asks for no upgrade is closed, too");
    assert!(ended.is_err());
    without_feed.expect_silence().await;
    still_served(&stage, &mut bystander).await;
}

#[tokio::test]
async fn keys_guessed_in_a_loop_end_with_the_connection_and_a_right_one_is_accepted_all_the_same() {
    let stage = Stage::new().await;
    let mut bystander = bystander(&stage).await;
    let mut guessing = Vec::new();
    for n in 0..10 {
        let mut client = stage.connect().await;
        client.send(json!({"action": "authenticate", "api_key": format!("guess {n}")})).await;
        guessing.push(client);
    }
    // All at a time: the last one is not waited for.
    let ends = guessing.into_iter().map(async |mut client| {
        assert_eq!(client.next().await["code"], "AUTHENTICATION_ERROR");
        let _ = client.socket.send(Message::text(r#"{"action":"ping"}"#)).await;
        match timeout(LONG, client.socket.next()).await.unwrap() {
            Some(Ok(Message::Close(Some(close)))) => {
                assert_eq!((u16::from(close.code), close.reason.as_str()), (1008, "too many wrong keys"));
                1
            }
            Some(Ok(Message::Text(_))) => 0,
            other => panic!("{other:?}"),
        }
    });
    let closed: usize = join_all(ends).await.into_iter().sum();
    assert!(closed > 0, "the last one was one too many");
    assert_eq!(stage.gateway.snapshot().wrong_keys, 10);
    still_served(&stage, &mut bystander).await;
    stage.client().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_when_it_starts() {
    let refused = Gateway::builder().limits(limits(|limits| limits.clients = 0)).start().await.unwrap_err();
    assert_eq!(refused.to_string(), "clients must be at least 1");
    let refused = Gateway::builder().limits(limits(|limits| limits.message_size = 1023)).start().await.unwrap_err();
    assert_eq!(refused.to_string(), "message_size must be at least 1 KiB (1024)");
    let refused = Gateway::builder().slow_after(Duration::ZERO).start().await.unwrap_err();
    assert_eq!(refused.to_string(), "slow_after must be above zero");
    let feed = || Feed::builder(upstream()).build().unwrap();
    let two = Gateway::builder().feed("b", "u", feed()).feed("b", "u", feed()).start().await.unwrap_err();
    assert!(matches!(two, StartError::TwoFeeds { .. }));
    let stage = Stage::with(|gateway| gateway.ping(NEVER, NEVER)).await;
    let taken = Gateway::builder().listen(stage.address()).start().await.unwrap_err();
    assert!(matches!(taken, StartError::Listen { .. }), "{taken:?}");
}
