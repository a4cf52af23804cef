//! The client protocol over real sockets: every request, before and after a client has said who it is.

use crate::gateway_stage::{Client, Stage, instrument};
use carom::feed::Feed;
use carom_core::feed::Mode;
use futures_util::SinkExt;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::feed::{OnOpen, OnWrite};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_client_authenticates_subscribes_gets_ticks_and_unsubscribes() {
    let stage = Stage::new().await;
    let mut client = stage.connect().await;
    let reply = client.ask(json!({"action": "authenticate", "api_key": stage.key})).await;
    let features = json!({"ltp": true, "quote": true, "depth": true});
    assert_eq!(
        reply,
        json!({"type": "auth", "status": "success", "message": "Authentication successful", "broker": "scripted",
               "user_id": "asha", "supported_features": features})
    );

    let symbols = json!([{"symbol": "SBIN", "exchange": "NSE"}, {"symbol": "INFY", "exchange": "NSE"}]);
    let request = json!({"action": "subscribe", "symbols": symbols, "mode": "LTP", "request_id": 7});
    let entry = |symbol| json!({"symbol": symbol, "exchange": "NSE", "status": "success", "mode": "LTP", "depth": 5, "broker": "scripted"});
    assert_eq!(
        client.ask(request).await,
        json!({"type": "subscribe", "status": "success", "message": "Subscription processing complete",
               "broker": "scripted", "subscriptions": [entry("SBIN"), entry("INFY")], "request_id": 7})
    );

    stage.tick("SBIN", Mode::Ltp, 812);
    assert_eq!(
        client.next().await,
        json!({"type": "market_data", "symbol": "SBIN", "exchange": "NSE", "mode": 1, "data": {"ltp": 812}, "broker": "scripted"})
    );

    let reply = client.ask(json!({"action": "unsubscribe", "symbol": "SBIN", "exchange": "NSE", "mode": 1})).await;
    let gone = json!([{"symbol": "SBIN", "exchange": "NSE", "status": "success", "broker": "scripted"}]);
    assert_eq!((&reply["status"], &reply["successful"]), (&json!("success"), &gone));
    stage.upstream.until(|upstream| upstream.carried(&instrument("SBIN")).is_empty()).await;
    assert_eq!(stage.upstream.carried(&instrument("INFY")).len(), 1, "the other one stays");
    client.expect_silence().await;
}

#[tokio::test]
async fn before_a_client_has_said_who_it_is_it_may_ping_and_ask_for_brokers() {
    let stage = Stage::new().await;
    let mut client = stage.connect().await;
    for request in [
        json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"}),
        json!({"action": "unsubscribe", "symbol": "SBIN", "exchange": "NSE"}),
        json!({"action": "unsubscribe_all"}),
        json!({"action": "subscribe_orders"}),
        json!({"action": "unsubscribe_orders"}),
        json!({"action": "get_broker_info"}),
        json!({"action": "get_subscriptions"}),
    ] {
        let reply = client.ask(request.clone()).await;
        assert_eq!(reply["code"], "NOT_AUTHENTICATED", "{request}");
        assert_eq!(reply["message"], "You must authenticate first");
    }
    let pong = client.ask(json!({"type": "ping", "timestamp": 12.5, "_pingId": "a"})).await;
    assert_eq!(
        (&pong["type"], &pong["client_timestamp"], &pong["_pingId"]),
        (&json!("pong"), &json!(12.5), &json!("a"))
    );
    let brokers = client.ask(json!({"action": "get_supported_brokers"})).await;
    assert_eq!((&brokers["brokers"], &brokers["count"]), (&json!(["scripted"]), &json!(1)));
    assert_eq!(stage.upstream.attempts(), 0, "nobody was called");
}

#[tokio::test]
async fn a_request_id_comes_back_whatever_the_answer_is() {
    let stage = Stage::new().await;
    let mut stranger = stage.connect().await;
    for request in [
        json!({"action": "authenticate"}),
        json!({"action": "authenticate", "api_key": "wrong"}),
        json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"}),
        json!({"action": "subscribe"}),
        json!({"action": "dance"}),
        json!({}),
        json!({"action": "ping"}),
        json!({"action": "get_supported_brokers"}),
    ] {
        comes_back(&mut stranger, request).await;
    }
    let mut client = stage.client().await;
    comes_back(&mut client, json!({"action": "get_broker_info"})).await;
    comes_back(&mut client, json!({"action": "subscribe", "symbols": [1]})).await;
    let mut without_feed = stage.client_of(&stage.key_without_feed).await;
    comes_back(&mut without_feed, json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"})).await;
}

async fn comes_back(client: &mut Client, mut request: Value) {
    let reply = client.ask(request.clone()).await;
    assert_eq!(reply.get("request_id"), None, "{request}");
    request["request_id"] = json!({"n": [1]});
    let reply = client.ask(request.clone()).await;
    assert_eq!(reply["request_id"], json!({"n": [1]}), "{request}: {reply}");
}

#[tokio::test]
async fn a_wrong_key_may_be_retried() {
    let stage = Stage::new().await;
    let mut client = stage.connect().await;
    let missing = client.ask(json!({"action": "authenticate"})).await;
    assert_eq!((&missing["type"], &missing["message"]), (&json!("auth"), &json!("API key is required")));
    let wrong = client.ask(json!({"action": "auth", "apikey": "wrong"})).await;
    assert_eq!(
        wrong,
        json!({"type": "auth", "status": "error", "code": "AUTHENTICATION_ERROR", "message": "Invalid API key"})
    );
    let right = client.ask(json!({"action": "auth", "apikey": stage.key})).await;
    assert_eq!(right["status"], "success");
    assert_eq!(stage.gateway.snapshot().wrong_keys, 1);
}

#[tokio::test]
async fn a_user_without_a_feed_is_told_so_when_it_subscribes() {
    let stage = Stage::new().await;
    let mut client = stage.client_of(&stage.key_without_feed).await;
    let reply = client.ask(json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"})).await;
    assert_eq!((&reply["code"], &reply["message"]), (&json!("BROKER_ERROR"), &json!("Broker adapter not found")));
    let reply = client.ask(json!({"action": "get_broker_info"})).await;
    assert_eq!(reply["adapter_status"], "disconnected");
}

#[tokio::test]
async fn a_client_may_become_somebody_else_and_gives_up_what_it_had() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    let again = client.ask(json!({"action": "authenticate", "api_key": stage.key})).await;
    assert_eq!(again["user_id"], "asha");
    assert_eq!(stage.gateway.snapshot().subscriptions, 1, "the same user keeps what it has");

    let other = client.ask(json!({"action": "authenticate", "api_key": stage.other_key})).await;
    assert_eq!(other["user_id"], "ravi");
    assert_eq!(stage.gateway.snapshot().subscriptions, 0);
    stage.upstream.until(|upstream| upstream.carried(&instrument("SBIN")).is_empty()).await;
    client.subscribe("SBIN", "LTP").await;
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.other_upstream.tick(&instrument("SBIN"), Mode::Ltp, r#"{"ltp":2}"#);
    assert_eq!(client.next().await["data"]["ltp"], 2, "and sees the other's ticks alone");
}

#[tokio::test]
async fn subscribing_again_calls_nobody_and_another_depth_takes_the_place_of_the_first() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "Depth").await;
    let writes = stage.upstream.written().len();
    client.subscribe("SBIN", "Depth").await;
    assert_eq!(stage.upstream.written().len(), writes);
    assert_eq!(stage.feed.topic(&instrument("SBIN")).unwrap().interest, 1);

    let deeper = json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE", "mode": 3, "depth": 20});
    assert_eq!(client.ask(deeper).await["subscriptions"][0]["depth"], 20);
    let topic = stage.feed.topic(&instrument("SBIN")).unwrap();
    assert_eq!((topic.interest, topic.wanted.depth), (1, 20));
    let own = client.ask(json!({"action": "get_subscriptions", "request_id": "x"})).await;
    assert_eq!(
        own,
        json!({"type": "subscriptions", "status": "success",
               "subscriptions": [{"symbol": "SBIN", "exchange": "NSE", "mode": "Depth", "depth": 20}], "count": 1,
               "all": [{"symbol": "SBIN", "exchange": "NSE", "clients": {"LTP": 0, "Quote": 0, "Depth": 1}}],
               "broker": "scripted", "request_id": "x"})
    );
}

#[tokio::test]
async fn entries_fail_by_themselves() {
    let stage = Stage::new().await;
    stage.upstream.refuse(&instrument("NONE"), Some("unknown symbol"));
    let mut client = stage.client().await;
    let symbols = json!([{"symbol": "NONE", "exchange": "NSE"}, {"symbol": "SBIN", "exchange": "NSE"},
                         {"symbol": "A", "exchange": "NO_SUCH"}]);
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols, "mode": 1})).await;
    assert_eq!(reply["status"], "partial");
    let entries = reply["subscriptions"].as_array().unwrap();
    assert_eq!(
        entries[0],
        json!({"symbol": "NONE", "exchange": "NSE", "status": "error", "message": "unknown symbol", "broker": "scripted"})
    );
    assert_eq!(entries[1]["status"], "success");
    assert_eq!(entries[2]["status"], "error", "ticks of it would be taken for another's");
    assert_eq!(stage.gateway.snapshot().subscriptions, 1);
}

#[tokio::test]
async fn unsubscribing_without_a_mode_leaves_every_mode_in_a_list_and_all_leaves_everything() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    for mode in ["LTP", "Depth"] {
        client.subscribe("SBIN", mode).await;
        client.subscribe("INFY", mode).await;
    }
    let symbols = json!([{"symbol": "SBIN", "exchange": "NSE"}]);
    let reply = client.ask(json!({"action": "unsubscribe", "symbols": symbols})).await;
    assert_eq!(reply["status"], "success");
    assert_eq!(stage.gateway.snapshot().subscriptions, 2);
    let reply = client.ask(json!({"action": "unsubscribe_all", "request_id": 1})).await;
    assert_eq!(reply["successful"].as_array().unwrap().len(), 2);
    assert_eq!(stage.gateway.snapshot().subscriptions, 0);
    stage.upstream.until(|upstream| upstream.carried_by_each().values().all(|carried| *carried == 0)).await;
}

#[tokio::test]
async fn binary_frames_with_json_are_requests_too() {
    let stage = Stage::new().await;
    let mut client = stage.connect().await;
    let request = json!({"action": "ping", "_pingId": 1}).to_string();
    client.socket.send(Message::binary(request)).await.unwrap();
    assert_eq!(client.next().await["_pingId"], 1);
}

#[tokio::test]
async fn order_updates_reach_those_of_the_user_who_asked_for_them() {
    let stage = Stage::new().await;
    let (mut asha, mut silent) = (stage.client().await, stage.client().await);
    let mut ravi = stage.client_of(&stage.other_key).await;
    for client in [&mut asha, &mut ravi] {
        let reply = client.ask(json!({"action": "subscribe_orders", "request_id": 3})).await;
        assert_eq!(
            reply,
            json!({"type": "subscribe_orders", "status": "success", "message": "Subscribed to order updates", "request_id": 3})
        );
    }
    let bus = stage.gateway.bus("scripted", "asha").unwrap();
    let order = json!({"type": "order_update", "user_id": "asha", "orderid": "1"});
    bus.publish("SCRIPTED_asha_orders", json!({"type": "order_update", "user_id": "ravi"}).to_string());
    for nobodys in ["not JSON", "{}", r#"["asha"]"#, r#"{"user_id":7}"#] {
        bus.publish("SCRIPTED_asha_orders", nobodys);
    }
    bus.publish("ANALYZE_ravi_orders", order.to_string());
    bus.publish("SCRIPTED_asha_orders", order.to_string());
    assert_eq!(asha.next().await, order);
    assert_eq!(asha.next().await, order, "two of them are two");
    silent.expect_silence().await;
    ravi.expect_silence().await;
    assert_eq!(stage.gateway.snapshot().malformed, 5);
    bus.publish("SCRIPTED_asha_orders", r#"{"user_id": "asha", "average_price": NaN}"#);
    assert_eq!(asha.next().await, json!({"user_id": "asha", "average_price": null}), "Python writes what is no JSON");

    asha.ask(json!({"action": "unsubscribe_orders"})).await;
    bus.publish("SCRIPTED_asha_orders", order.to_string());
    bus.publish("nonsense", "{}");
    stage.until(|snapshot| snapshot.malformed == 6).await;
    asha.expect_silence().await;
}

#[tokio::test]
async fn a_credential_that_was_refused_is_tried_again_when_it_is_said_to_have_changed() {
    let stage = Stage::new().await;
    stage.upstream.on_open(OnOpen::Refuse);
    let mut client = stage.client().await;
    client.send(json!({"action": "subscribe", "symbol": "SBIN", "exchange": "NSE"})).await;
    stage.upstream.until(|upstream| upstream.attempts() == 1).await;
    stage.feed.states().wait_for(|state| *state == carom::feed::State::Refused).await.unwrap();
    stage.upstream.on_open(OnOpen::Succeed);
    let bus = stage.gateway.bus("scripted", "asha").unwrap();
    bus.publish("CACHE_INVALIDATE_AUTH_asha", r#"{"action":"invalidate","user_id":"asha"}"#);
    stage.upstream.until(|upstream| !upstream.carried(&instrument("SBIN")).is_empty()).await;
    assert_eq!(client.reply().await["status"], "success");
    let reply = client.ask(json!({"action": "get_broker_info"})).await;
    assert_eq!(
        reply,
        json!({"type": "broker_info", "status": "success", "broker": "scripted", "adapter_status": "connected", "user_id": "asha"})
    );
}

/// What the only entry of a subscribe says of why it waits; it has succeeded.
fn pending(reply: &Value) -> Value {
    let entry = &reply["subscriptions"][0];
    assert_eq!((&entry["status"], &entry["pending"]), (&json!("success"), &json!(true)), "{reply}");
    entry["message"].clone()
}

#[tokio::test]
async fn whoever_subscribes_while_the_upstream_refuses_or_is_down_is_told_each_time_until_it_is_not() {
    let later = "; it will be subscribed as soon as it can be";
    for (on_open, why) in
        [(OnOpen::Refuse, "the upstream refuses the credential"), (OnOpen::Fail, "the upstream cannot be reached")]
    {
        let upstream = crate::gateway_stage::upstream();
        let feed = Feed::builder(upstream.clone()).pending_after(Duration::from_millis(200)).build().unwrap();
        let stage = Stage::on(upstream, feed, |gateway| gateway).await;
        stage.upstream.on_open(on_open);
        let mut client = stage.client().await;
        for _ in 0..2 {
            assert_eq!(pending(&client.subscribe("SBIN", "LTP").await), format!("{why}{later}"));
        }

        stage.upstream.on_open(OnOpen::Succeed);
        stage.feed.resume();
        stage.upstream.until(|upstream| !upstream.carried(&instrument("SBIN")).is_empty()).await;
        let carried = || stage.feed.topic(&instrument("SBIN")).is_some_and(|topic| topic.carried.is_some());
        stage.until(|_| carried()).await;
        let entry = client.subscribe("SBIN", "LTP").await["subscriptions"][0].take();
        assert_eq!((&entry["pending"], &entry["message"]), (&Value::Null, &Value::Null), "{entry}");
    }
}

#[tokio::test]
async fn while_a_subscribe_is_under_way_ticks_flow_and_later_requests_wait_their_turn() {
    let upstream = crate::gateway_stage::upstream();
    let feed = Feed::builder(upstream.clone()).pending_after(Duration::from_millis(500)).build().unwrap();
    let stage = Stage::on(upstream, feed, |gateway| gateway).await;
    let mut client = stage.client().await;
    client.subscribe("SBIN", "LTP").await;
    stage.upstream.on_write(OnWrite::Never);
    client.send(json!({"action": "subscribe", "symbol": "INFY", "exchange": "NSE", "request_id": 1})).await;
    client.send(json!({"action": "ping", "_pingId": 2})).await;
    stage.until(|snapshot| snapshot.feeds[0].feed.waiting == 1).await;
    stage.tick("SBIN", Mode::Ltp, 1);
    assert_eq!(client.next().await["data"]["ltp"], 1);
    let reply = client.next().await;
    assert_eq!((&reply["request_id"], &reply["status"]), (&json!(1), &json!("success")));
    assert_eq!(pending(&reply), json!("the upstream has not answered yet; it will be subscribed as soon as it can be"));
    assert_eq!(client.next().await["_pingId"], 2);
    assert_eq!(stage.gateway.snapshot().subscriptions, 2);
}
