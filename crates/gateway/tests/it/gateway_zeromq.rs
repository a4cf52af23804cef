//! A gateway whose ticks are published by other programs, and one whose ticks other programs subscribe to.

use crate::gateway_stage::{Client, LONG, connect, instrument, upstream};
use carom::feed::{Adapter, Feed};
use carom_core::feed::Mode;
use carom_gateway::Gateway;
use carom_gateway::bus::{BusStatus, Outside, ZeroMq};
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_zmtp::SocketError;
use carom_zmtp::pubsub::{Encoded, Event, Limits, Role, Socket};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use testkit::wait::soon;
use tokio::time::timeout;

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A client of asha's at the broker `outside`.
async fn client(gateway: &Gateway, key: &NewKey) -> Client {
    let mut client = connect(gateway.local_addr()).await;
    let reply = client.ask(json!({"action": "authenticate", "api_key": key.reveal()})).await;
    assert_eq!(reply["status"], "success", "{reply}");
    client
}

/// A gateway with this feed of asha's on this bus, and her key.
async fn served<A: Adapter>(feed: Feed<A>, zeromq: &ZeroMq) -> (Gateway, NewKey) {
    let key = NewKey::generate().unwrap();
    let gateway = Gateway::builder()
        .listen(ANYWHERE)
        .keys(Keys::in_memory([(Identity::new("outside", "asha"), key.sha256())]))
        .feed_on("outside", "asha", feed, zeromq.clone().into())
        .start()
        .await
        .unwrap();
    (gateway, key)
}

async fn served_from_outside() -> (Gateway, NewKey, ZeroMq) {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let feed = Feed::builder(Outside).max_topics_per_connection(100_000).max_connections(1).build().unwrap();
    let (gateway, key) = served(feed, &zeromq).await;
    (gateway, key, zeromq)
}

async fn publisher(zeromq: &ZeroMq) -> Socket {
    let mut socket = soon(Socket::connect(zeromq.local_addr(), Role::Publisher, Limits::default())).await.unwrap();
    assert_eq!(soon(socket.next()).await.unwrap(), Event::Subscribed("".into()));
    socket
}

async fn say(socket: &mut Socket, parts: &[&str]) {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    socket.push(&Encoded::new(&parts)).unwrap();
    soon(socket.flush()).await.unwrap();
}

async fn next_tick(client: &mut Client) -> Value {
    let tick = client.next().await;
    assert_eq!(tick["type"], "market_data", "{tick}");
    tick
}

#[tokio::test]
async fn ticks_of_publishers_outside_reach_who_subscribes_and_senseless_ones_nobody() {
    let (gateway, key, zeromq) = served_from_outside().await;
    let mut client = client(&gateway, &key).await;
    let reply = client.subscribe("SBIN", "Quote").await;
    assert_eq!(reply["subscriptions"][0].get("pending"), None, "{reply}");
    let mut publisher = publisher(&zeromq).await;
    say(&mut publisher, &["NSE_SBIN_QUOTE", r#"{"ltp": 812.50, "change": NaN, "volume": Infinity}"#]).await;
    let tick = next_tick(&mut client).await;
    assert_eq!((&tick["symbol"], &tick["exchange"], &tick["mode"]), (&json!("SBIN"), &json!("NSE"), &json!(2)));
    assert_eq!(tick["data"], json!({"ltp": 812.5}), "fields without a value are omitted");

    let senseless: [&[&str]; 9] = [
        &["NSE_SBIN_QUOTE"],
        &["NSE_SBIN_QUOTE", "{}", "{}"],
        &["NSE_SBIN", "{}"],
        &["NSE_SBIN_QUOTE", "{"],
        &["NSE_SBIN_QUOTE", r#"{"open": 1}"#],
        &["NSE_SBIN_QUOTE", r#"{"ltp": NaN}"#],
        &["NSE_SBIN_QUOTE", r#"{"ltp": "abc"}"#],
        &["NSE_SBIN_QUOTE", "[1, 2]"],
        &["CACHE_INVALIDATE", "{}"],
    ];
    for (count, parts) in (1..).zip(senseless) {
        say(&mut publisher, parts).await;
        say(&mut publisher, &["NSE_SBIN_DEPTH", &json!({"ltp": count}).to_string()]).await;
        assert_eq!(next_tick(&mut client).await["data"]["ltp"], count);
        assert_eq!(gateway.snapshot().malformed, count);
    }
}

#[tokio::test]
async fn publishers_that_write_the_brokers_name_in_front_are_heard_and_once() {
    let (gateway, key, zeromq) = served_from_outside().await;
    let mut client = client(&gateway, &key).await;
    client.subscribe("SBIN", "LTP").await;
    let mut publisher = publisher(&zeromq).await;
    let mut again = 0;
    for price in 1..=20 {
        let payload = json!({"ltp": price}).to_string();
        for topic in ["outside_NSE_SBIN_LTP", "NSE_SBIN_LTP", "another_NSE_SBIN_LTP"] {
            say(&mut publisher, &[topic, &payload]).await;
        }
        loop {
            let told = next_tick(&mut client).await["data"]["ltp"].as_u64();
            if told == Some(price) {
                break;
            }
            assert_eq!(told, Some(price - 1), "before {price}");
            again += 1;
        }
    }
    // What is said again seconds later is something new: a slow machine may take so long now and then.
    assert!(again < 10, "{again} of 20 were heard twice");
    assert_eq!(gateway.snapshot().malformed, 0);
}

#[tokio::test]
async fn publishers_that_say_each_thing_in_all_modes_are_heard_once_by_each() {
    let (gateway, key, zeromq) = served_from_outside().await;
    let (mut prices, mut quotes) = (client(&gateway, &key).await, client(&gateway, &key).await);
    prices.subscribe("SBIN", "LTP").await;
    quotes.subscribe("SBIN", "Quote").await;
    let mut publisher = publisher(&zeromq).await;
    for tick in 0..8 {
        for (mode, name) in [(3, "DEPTH"), (2, "QUOTE"), (1, "LTP")] {
            let payload = json!({"ltp": 10 * tick + mode}).to_string();
            say(&mut publisher, &[&format!("NSE_SBIN_{name}"), &payload]).await;
        }
        for (client, mode) in [(&mut prices, 1), (&mut quotes, 2)] {
            let own = json!(10 * tick + mode);
            let first = next_tick(client).await["data"]["ltp"].clone();
            assert!(tick < 2 || first == own, "{first} of tick {tick} for mode {mode}");
            let mut last = first;
            while last != own {
                last = next_tick(client).await["data"]["ltp"].clone();
            }
        }
    }
}

#[tokio::test]
async fn whether_a_publisher_is_there_can_be_seen() {
    let (gateway, key, zeromq) = served_from_outside().await;
    let mut client = client(&gateway, &key).await;
    client.subscribe("SBIN", "LTP").await;
    let peers = || match gateway.snapshot().feeds[0].bus {
        BusStatus::ZeroMq(status) => status.peers,
        other => panic!("{other:?}"),
    };
    let info = async |client: &mut Client| client.ask(json!({"action": "get_broker_info"})).await;
    let came = || {
        let snapshot = gateway.snapshot();
        (snapshot.feeds[0].ticks, snapshot.feeds[0].last_tick.is_some(), snapshot.feeds[0].feed.has_upstream)
    };
    assert_eq!(came(), (0, false, false));
    let nobody = info(&mut client).await;
    assert_eq!((peers(), &nobody["adapter_status"]), (0, &json!("disconnected")), "{nobody}");
    let mut publisher = publisher(&zeromq).await;
    say(&mut publisher, &["NSE_SBIN_LTP", r#"{"ltp":1}"#]).await;
    next_tick(&mut client).await;
    assert_eq!(came(), (1, true, false));
    let somebody = info(&mut client).await;
    assert_eq!((peers(), &somebody["adapter_status"]), (1, &json!("connected")), "{somebody}");
}

#[tokio::test]
async fn orders_of_another_process_go_to_the_user_that_they_name() {
    let (gateway, key, zeromq) = served_from_outside().await;
    let mut client = client(&gateway, &key).await;
    client.ask(json!({"action": "subscribe_orders"})).await;
    let mut publisher = publisher(&zeromq).await;
    for user in ["ravi", "asha"] {
        say(&mut publisher, &["ANALYZE_asha_orders", &json!({"type": "order_update", "user_id": user}).to_string()])
            .await;
    }
    assert_eq!(client.next().await, json!({"type": "order_update", "user_id": "asha"}));
    client.expect_silence().await;
}

#[tokio::test]
async fn whoever_subscribes_is_told_what_publishers_said_last_however_often_they_start_again() {
    let (gateway, key, zeromq) = served_from_outside().await;
    let mut first = client(&gateway, &key).await;
    first.subscribe("SBIN", "LTP").await;
    for price in 1..=3 {
        let mut publisher = publisher(&zeromq).await;
        say(&mut publisher, &["NSE_SBIN_LTP", &json!({"ltp": price}).to_string()]).await;
        assert_eq!(next_tick(&mut first).await["data"]["ltp"], price);
        let mut late = client(&gateway, &key).await;
        late.subscribe("SBIN", "LTP").await;
        let last = next_tick(&mut late).await;
        assert_eq!((&last["data"]["ltp"], &last["snapshot"]), (&json!(price), &json!(true)));
    }
}

#[tokio::test]
async fn what_a_feed_says_goes_to_its_clients_and_to_programs_that_subscribe_also_at_the_end() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    zeromq.set_linger(LONG);
    let upstream = upstream();
    let (gateway, key) = served(Feed::builder(upstream.clone()).build().unwrap(), &zeromq).await;
    let mut subscriber = soon(Socket::connect(zeromq.local_addr(), Role::Subscriber, Limits::default())).await.unwrap();
    subscriber.subscribe(b"NSE_SBIN_").unwrap();
    let mut client = client(&gateway, &key).await;
    client.subscribe("SBIN", "LTP").await;
    upstream.until(|upstream| !upstream.carried(&instrument("SBIN")).is_empty()).await;
    let first = async {
        loop {
            upstream.tick(&instrument("SBIN"), Mode::Ltp, r#"{"ltp":1}"#);
            if let Ok(event) = timeout(Duration::from_millis(10), subscriber.next()).await {
                return event.unwrap();
            }
        }
    };
    let expected = |price: &str| Event::Message(vec!["NSE_SBIN_LTP".into(), price.to_owned().into()]);
    assert_eq!(soon(first).await, expected(r#"{"ltp":1}"#));
    assert_eq!(next_tick(&mut client).await["data"]["ltp"], 1);

    upstream.tick(&instrument("SBIN"), Mode::Ltp, r#"{"ltp":2}"#);
    let stopping = tokio::spawn(gateway.stop(Instant::now() + LONG));
    let rest = async {
        loop {
            match subscriber.next().await {
                Ok(event) if event == expected(r#"{"ltp":1}"#) => {}
                other => return other,
            }
        }
    };
    assert_eq!(soon(rest).await.unwrap(), expected(r#"{"ltp":2}"#));
    assert!(matches!(soon(subscriber.next()).await, Err(SocketError::Closed)));
    drop((client, subscriber));
    soon(stopping).await.unwrap();
}
