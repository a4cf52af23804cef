//! Clients that do not read: they cost the others nothing, take bounded memory, and are closed.

use crate::gateway_stage::{Client, LONG, NEVER, Stage, instrument};
use carom_core::feed::Mode;
use carom_gateway::Limits;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

/// Something that fills sockets.
fn large(price: u64) -> String {
    json!({"ltp": price, "pad": "x".repeat(64 << 10)}).to_string()
}

async fn subscribed(stage: &Stage, symbols: &[String]) -> Client {
    let mut client = stage.client().await;
    let symbols: Vec<Value> = symbols.iter().map(|symbol| json!({"symbol": symbol, "exchange": "NSE"})).collect();
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols, "mode": 1})).await;
    assert_eq!(reply["status"], "success");
    client
}

/// Ticks until the stalled client's outbox is where ticks end up; the others read every round.
async fn fill(stage: &Stage, symbols: &[String], readers: &mut [Client]) -> u64 {
    let mut round = 0;
    while stage.gateway.snapshot().conflated < symbols.len() as u64 * 2 {
        round += 1;
        for symbol in symbols {
            stage.upstream.tick(&instrument(symbol), Mode::Ltp, large(round));
        }
        for reader in readers.iter_mut() {
            let mut seen = 0;
            while seen < symbols.len() {
                let message = reader.next().await;
                seen += usize::from(message["data"]["ltp"] == round);
            }
        }
    }
    round
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_client_costs_the_others_nothing_and_gets_the_latest_when_it_reads_again() {
    let stage = Stage::with(|gateway| gateway.slow_after(NEVER).ping(NEVER, NEVER)).await;
    let symbols: Vec<String> = (0..10).map(|n| format!("S{n}")).collect();
    let mut stalled = subscribed(&stage, &symbols).await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        readers.push(subscribed(&stage, &symbols).await);
    }
    let rounds = fill(&stage, &symbols, &mut readers).await;
    assert_eq!(stage.gateway.snapshot().lost, 0);

    // It reads what the sockets held, and then the latest: far fewer than there were.
    let (mut read, mut last) = (0, std::collections::BTreeMap::new());
    while last.len() < symbols.len() || last.values().any(|price| *price != rounds) {
        let message = stalled.next().await;
        let before = last.insert(message["symbol"].to_string(), message["data"]["ltp"].as_u64().unwrap());
        assert!(before < message["data"]["ltp"].as_u64(), "never an older one after a newer one");
        read += 1;
    }
    assert!(read < rounds * symbols.len() as u64, "{read} of {rounds} rounds");
    stalled.expect_silence().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_closed_and_gives_back_what_it_had() {
    let stage = Stage::with(|gateway| gateway.slow_after(Duration::from_millis(200)).ping(NEVER, NEVER)).await;
    let symbols: Vec<String> = (0..10).map(|n| format!("S{n}")).collect();
    let stalled = subscribed(&stage, &symbols).await;
    let mut reader = subscribed(&stage, &symbols[..1]).await;
    let mut round = 0;
    while stage.gateway.snapshot().slow_closed == 0 {
        round += 1;
        for symbol in &symbols {
            stage.upstream.tick(&instrument(symbol), Mode::Ltp, large(round));
        }
        while reader.next().await["data"]["ltp"] != round {}
    }
    stage.until(|snapshot| snapshot.authenticated == 1 && snapshot.subscriptions == 1).await;
    stage.upstream.until(|upstream| upstream.carried_by_each() == [(1, 1)].into()).await;
    stage.until(|snapshot| snapshot.clients == 1).await;
    assert_eq!(stage.gateway.snapshot().slow_closed, 1, "whoever reads is not slow");
    drop(stalled);
}

#[tokio::test]
async fn a_client_that_asks_and_never_reads_is_not_served_for_ever() {
    let stage = Stage::with(|gateway| gateway.slow_after(Duration::from_millis(300)).ping(NEVER, NEVER)).await;
    let mut client = stage.client().await;
    let echo = "x".repeat(4000);
    let flood = async {
        loop {
            let ping = json!({"action": "ping", "_pingId": echo}).to_string();
            if client.socket.send(Message::text(ping)).await.is_err() {
                break;
            }
        }
    };
    timeout(LONG, flood).await.expect("it is closed");
    assert_eq!(stage.gateway.snapshot().slow_closed, 1);
}

#[tokio::test]
async fn requests_wait_while_large_replies_are_not_read() {
    let mut limits = Limits::default();
    (limits.message_size, limits.subscribe_burst) = (8 << 20, 1_000_000);
    let stage = Stage::with(|gateway| gateway.limits(limits).slow_after(NEVER).ping(NEVER, NEVER)).await;
    let (mut sink, stream) = stage.client().await.socket.split();
    // More than sockets take.
    let entries = vec![r#"{"symbol":"A","exchange":"B"}"#; 120_000].join(",");
    let large = format!(r#"{{"action":"unsubscribe","symbols":[{entries}]}}"#);
    let last = json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"}).to_string();
    let asking = tokio::spawn(async move {
        for text in [large.clone(), large.clone(), large, last] {
            sink.send(Message::text(text)).await.unwrap();
        }
        sink
    });
    // All of it is sent. A gateway that did not wait would have served it in far fewer turns.
    let sink = timeout(LONG, asking).await.expect("they wait in line").unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
        assert_eq!(stage.gateway.snapshot().subscriptions, 0, "the client has read nothing yet");
    }

    let texts = stream.filter_map(async |message| message.unwrap().into_text().ok());
    let replies: Vec<String> =
        timeout(LONG, texts.take(4).map(|text| text[..30].to_owned()).collect()).await.expect("replies");
    let expected = [r#"{"type":"unsubscribe""#; 3].into_iter().chain([r#"{"type":"subscribe""#]);
    assert!(replies.iter().zip(expected).all(|(reply, expected)| reply.starts_with(expected)), "{replies:?}");
    stage.until(|snapshot| snapshot.subscriptions == 1).await;
    drop(sink);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_of_what_it_asked_for_is_closed_though_nothing_more_is_sent() {
    let mut limits = Limits::default();
    (limits.message_size, limits.subscribe_burst) = (8 << 20, 1_000_000);
    let often = Duration::from_millis(500);
    let stage = Stage::with(|gateway| gateway.limits(limits).slow_after(NEVER).ping(often, often)).await;
    let (mut sink, stream) = stage.client().await.socket.split();
    let entries = vec![r#"{"symbol":"A","exchange":"B"}"#; 120_000].join(",");
    let large = format!(r#"{{"action":"unsubscribe","symbols":[{entries}]}}"#);
    // It is not read any more once these wait in line, so it cannot be asked whether it lives.
    let asking = tokio::spawn(async move { while sink.send(Message::text(large.clone())).await.is_ok() {} });
    stage.until(|snapshot| snapshot.slow_closed == 1 && snapshot.clients == 0).await;
    drop(stream);
    timeout(LONG, asking).await.expect("it is closed").unwrap();
}

#[tokio::test]
async fn too_many_order_updates_that_wait_close_a_client() {
    let stage = Stage::with(|gateway| gateway.slow_after(NEVER).ping(NEVER, NEVER)).await;
    let mut client = stage.client().await;
    client.ask(json!({"action": "subscribe_orders"})).await;
    let bus = stage.gateway.bus("scripted", "asha").unwrap();
    let order = json!({"type": "order_update", "user_id": "asha", "pad": "x".repeat(64 << 10)}).to_string();
    // The sockets take some, too.
    let overflow = async {
        while stage.gateway.snapshot().authenticated == 1 {
            bus.publish("A_asha_orders", order.clone());
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, overflow).await.expect("in time");
    let (code, reason) = client.closed().await;
    assert_eq!((code, reason.as_str()), (1008, "1000 replies wait to be read, and there may be no more"));
}
