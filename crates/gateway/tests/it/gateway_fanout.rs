//! Fan-out: one message for each tick and mode that a client wants, to those whose ticks they are and nobody else.

use crate::gateway_stage::{LONG, NEVER, Stage, instrument};
use carom::feed::State;
use carom_core::feed::{Mode, Topic};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::feed::OnWrite;

fn mode_and_price(message: &Value) -> (u64, u64) {
    (message["mode"].as_u64().unwrap(), message["data"]["ltp"].as_u64().unwrap())
}

#[tokio::test]
async fn each_client_gets_one_message_for_each_tick_and_mode_it_wants() {
    let stage = Stage::new().await;
    let (mut both, mut quotes) = (stage.client().await, stage.client().await);
    both.subscribe("SBIN", "LTP").await;
    both.subscribe("SBIN", "Depth").await;
    quotes.subscribe("SBIN", "Quote").await;

    stage.tick("SBIN", Mode::Depth, 1);
    let of_the_book = [both.next().await, both.next().await];
    assert_eq!(of_the_book.each_ref().map(mode_and_price), [(1, 1), (3, 1)]);
    assert_eq!(mode_and_price(&quotes.next().await), (2, 1));

    stage.tick("SBIN", Mode::Ltp, 2);
    assert_eq!(mode_and_price(&both.next().await), (1, 2));
    both.expect_silence().await;
    quotes.expect_silence().await;
}

#[tokio::test]
async fn users_never_see_each_others_ticks() {
    let stage = Stage::new().await;
    let (mut asha, mut ravi) = (stage.client().await, stage.client_of(&stage.other_key).await);
    for client in [&mut asha, &mut ravi] {
        client.subscribe("SBIN", "LTP").await;
    }
    stage.tick("SBIN", Mode::Ltp, 1);
    assert_eq!(asha.next().await["data"]["ltp"], 1);
    ravi.expect_silence().await;
    stage.other_upstream.tick(&instrument("SBIN"), Mode::Ltp, r#"{"ltp":2}"#);
    assert_eq!(ravi.next().await["data"]["ltp"], 2);
    asha.expect_silence().await;
}

#[tokio::test]
async fn whoever_subscribes_gets_the_last_known_tick_after_the_reply() {
    let stage = Stage::new().await;
    let mut first = stage.client().await;
    first.subscribe("SBIN", "Quote").await;
    stage.tick("SBIN", Mode::Quote, 1);
    assert_eq!(first.next().await.get("snapshot"), None, "it is live");

    let mut second = stage.client().await;
    second.send(json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE", "mode": 1})).await;
    assert_eq!(second.next().await["type"], "subscribe");
    let known = second.next().await;
    assert_eq!((mode_and_price(&known), &known["snapshot"]), ((1, 1), &json!(true)));
    second.subscribe("SBIN", "LTP").await;
    second.subscribe("SBIN", "Depth").await;
    second.expect_silence().await;
}

#[tokio::test]
async fn ticks_that_come_before_the_whole_request_is_answered_are_not_lost() {
    let stage = Stage::new().await;
    stage.feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp)).await.unwrap();
    stage.upstream.on_write(OnWrite::Never);
    let mut client = stage.client().await;
    let symbols = ["SBIN", "INFY"].map(|symbol| json!({"symbol": symbol, "exchange": "NSE"}));
    client.send(json!({"action": "subscribe", "symbols": symbols, "mode": 1})).await;
    stage.until(|_| stage.feed.topics().len() == 2).await;
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.until(|snapshot| snapshot.ticks == 1).await;

    stage.upstream.on_write(OnWrite::Accept);
    stage.upstream.kill(1);
    assert_eq!(client.next().await["status"], "success");
    client.send(json!({"action": "ping"})).await;
    let known = client.next().await;
    assert_eq!(known["type"], "market_data", "{known}");
    assert_eq!((mode_and_price(&known), &known["snapshot"]), ((1, 1), &json!(true)));
}

#[tokio::test]
async fn the_last_known_tick_can_be_left_out() {
    let stage = Stage::with(|gateway| gateway.snapshot_on_subscribe(false)).await;
    let mut first = stage.client().await;
    first.subscribe("SBIN", "LTP").await;
    stage.tick("SBIN", Mode::Ltp, 1);
    first.next().await;
    let mut second = stage.client().await;
    second.subscribe("SBIN", "LTP").await;
    second.expect_silence().await;
}

#[tokio::test]
async fn prices_are_held_back_and_the_last_one_is_told() {
    const LAST: u32 = 200;
    let stage = Stage::with(|gateway| gateway.ltp_throttle(Duration::from_millis(200))).await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    client.subscribe("SBIN", "Quote").await;
    for price in 1..LAST {
        stage.tick("SBIN", Mode::Ltp, price);
    }
    stage.tick("SBIN", Mode::Quote, LAST);
    let (mut prices, mut quotes) = (Vec::new(), Vec::new());
    while prices.last() != Some(&u64::from(LAST)) {
        match mode_and_price(&client.next().await) {
            (1, price) => prices.push(price),
            (_, quote) => quotes.push(quote),
        }
    }
    assert!(prices.is_sorted(), "{prices:?}");
    assert_eq!(quotes, [u64::from(LAST)], "it was not held back, or it would have come after the price");
    assert_eq!(stage.gateway.snapshot().conflated, u64::from(LAST) - prices.len() as u64);
    client.expect_silence().await;
}

#[tokio::test]
async fn a_client_that_reads_promptly_gets_every_tick_of_a_burst() {
    const BURST: u32 = 50;
    let stage = Stage::new().await;
    let (mut prices, mut quotes) = (stage.client().await, stage.client().await);
    prices.subscribe("SBIN", "LTP").await;
    quotes.subscribe("SBIN", "Quote").await;
    // All of them are on the bus before the gateway reads the first.
    (1..=BURST).for_each(|price| stage.tick("SBIN", Mode::Quote, price));
    for client in [&mut prices, &mut quotes] {
        let mut got = Vec::new();
        while got.last() != Some(&u64::from(BURST)) {
            got.push(mode_and_price(&client.next().await).1);
        }
        assert_eq!(got, (1..=u64::from(BURST)).collect::<Vec<_>>());
    }
    assert_eq!(stage.gateway.snapshot().conflated, 0);
}

#[tokio::test]
async fn what_others_publish_is_carried_when_the_feed_has_ended() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    client.ask(json!({"action": "subscribe_orders"})).await;
    stage.feed.close(Instant::now() + LONG).await;
    let mut ticks = stage.feed.ticks();
    assert!(!ticks.next_many(&mut Vec::new()).await, "it has ended");
    stage.until(|snapshot| snapshot.feeds[0].feed.state == State::Stopped).await;
    for order in 1..=3 {
        let bus = stage.gateway.bus("scripted", "asha").unwrap();
        bus.publish(
            "scripted_asha_orders",
            json!({"type": "order_update", "user_id": "asha", "orderid": order}).to_string(),
        );
        let update = tokio::time::timeout(LONG, client.next()).await.expect("it is carried");
        assert_eq!(update["orderid"], order);
    }
    let stopped = tokio::time::timeout(LONG, stage.gateway.stop(Instant::now() + NEVER)).await;
    assert_eq!(stopped.expect("nothing is waited for"), 0);
}

#[tokio::test]
async fn ticks_that_make_no_sense_are_counted_and_delay_nobody() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    let bus = stage.gateway.bus("scripted", "asha").unwrap();
    for (topic, payload) in [
        ("NSE_SBIN_LTP", &b"not JSON"[..]),
        ("NSE_SBIN_LTP_", b"{}"),
        ("NSE_SBIN_9", b"{}"),
        ("", b"{}"),
        ("NSE_SBIN_DEPTH", b"\xff\xfe"),
        ("SCRIPTED_asha_positions", b"ignored"),
        ("NSE_SBIN_QUOTE", b"{\"ltp\":7}"),
    ] {
        bus.publish(topic, payload.to_vec());
    }
    assert_eq!(mode_and_price(&client.next().await), (1, 7));
    assert_eq!(stage.gateway.snapshot().malformed, 5);
}
