//! A gateway, as a monitor sees it: its clients, those for whom most waits, its feeds, and nobody's key.

use crate::gateway_stage::{Client, LONG, NEVER, Stage, instrument, upstream};
use carom::Feed;
use carom::monitor::{Gateway as Seen, Monitor, Object, State};
use carom_core::feed::Mode;
use carom_gateway::Gateway;
use carom_gateway::bus::Outside;
use carom_gateway::keys::{Identity, Keys, NewKey};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

fn seen(monitor: &Monitor, gateway: &Gateway) -> Option<Seen> {
    match monitor.object(gateway.id())?.object {
        Object::Gateway(gateway) => Some(gateway),
        other => panic!("{other:?}"),
    }
}

/// Looks until it is as wanted.
async fn until(monitor: &Monitor, gateway: &Gateway, wanted: impl Fn(&Seen) -> bool) -> Seen {
    let look = async {
        loop {
            match seen(monitor, gateway) {
                Some(seen) if wanted(&seen) => return seen,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
    };
    match timeout(LONG, look).await {
        Ok(seen) => seen,
        Err(_) => panic!("it has not come to that: {:#?}", seen(monitor, gateway)),
    }
}

/// Something that fills sockets.
fn large(price: u64) -> String {
    json!({"ltp": price, "pad": "x".repeat(64 << 10)}).to_string()
}

async fn subscribed(stage: &Stage, symbols: &[&str]) -> Client {
    let mut client = stage.client().await;
    let symbols: Vec<Value> = symbols.iter().map(|symbol| json!({"symbol": symbol, "exchange": "NSE"})).collect();
    let reply = client.ask(json!({"action": "subscribe", "symbols": symbols, "mode": 1})).await;
    assert_eq!(reply["status"], "success");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_slow_is_the_worst_and_its_ticks_give_way() {
    let monitor = Monitor::new();
    let stage = Stage::with(|gateway| gateway.monitor(&monitor).slow_after(NEVER).ping(NEVER, NEVER)).await;
    let symbols = ["S1", "S2", "S3"];
    // Whoever comes first would be first, if nothing else told them apart.
    let mut reader = subscribed(&stage, &symbols).await;
    let stalled = subscribed(&stage, &symbols[..2]).await;
    let stranger = stage.connect().await;
    let now = until(&monitor, &stage.gateway, |seen| seen.clients == 3).await;
    assert_eq!((now.state, now.authenticated, now.subscriptions, now.worst.len()), (State::Running, 2, 5, 3));
    assert_eq!(now.listen, stage.address().to_string());

    let mut round = 0;
    while stage.gateway.snapshot().conflated < 10 {
        round += 1;
        for symbol in symbols {
            stage.upstream.tick(&instrument(symbol), Mode::Ltp, large(round));
        }
        let mut heard = 0;
        while heard < symbols.len() {
            heard += usize::from(reader.next().await["data"]["ltp"] == round);
        }
    }
    let now =
        until(&monitor, &stage.gateway, |seen| seen.worst.iter().filter(|one| one.waiting > 0).count() == 1).await;
    let [worst, others @ ..] = &now.worst[..] else { panic!("{now:?}") };
    assert_eq!((worst.id, worst.subscriptions), (1, 2));
    assert!((2..=256).contains(&worst.waiting), "the latest of each, and no more than a client may have: {worst:?}");
    assert!(worst.conflated > 0 && now.conflated >= worst.conflated, "{now:?}");
    assert_eq!(worst.address, "127.0.0.1");
    let users: Vec<_> = now.worst.iter().map(|client| client.user.as_deref()).collect();
    let user = worst.user.as_deref().expect("it has said who it is");
    assert!(user.contains(" at "), "{user}");
    assert_eq!(users.iter().filter(|one| one.is_none()).count(), 1, "one has not said who it is");
    assert!(others.iter().all(|client| client.waiting == 0 && client.id != worst.id), "{others:?}");
    assert!(now.ticks >= round * 3 && now.delivered > 0, "{now:?}");
    assert_eq!((now.lost, now.malformed, now.refused, now.slow_closed, now.wrong_keys), (0, 0, 0, 0, 0));
    drop((stalled, stranger));
    until(&monitor, &stage.gateway, |seen| seen.clients == 1 && seen.subscriptions == 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feeds_are_named_and_are_in_the_same_snapshot() {
    let monitor = Monitor::new();
    let feed = Feed::builder(upstream()).name("paper of ada").monitor(&monitor).build().unwrap();
    let gateway = Gateway::builder().monitor(&monitor).listen(([127, 0, 0, 1], 0)).feed("paper", "ada", feed.clone());
    let gateway = gateway.start().await.unwrap();
    let now = seen(&monitor, &gateway).unwrap();
    let [of_ada] = &now.feeds[..] else { panic!("{now:?}") };
    assert_eq!((&*of_ada.broker, &*of_ada.user, of_ada.feed), ("paper", "ada", Some(feed.id())));
    let of_feed = monitor.object(of_ada.feed.unwrap()).unwrap();
    assert!(matches!(&of_feed.object, Object::Feed(_)) && of_feed.name == "paper of ada", "{of_feed:?}");

    let id = gateway.id();
    gateway.stop(Instant::now() + LONG).await;
    assert_eq!((monitor.object(id), monitor.object(feed.id())), (None, None), "both have stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_from_outside_runs_and_when_its_last_tick_came_is_seen() {
    let monitor = Monitor::new();
    let feed = Feed::builder(Outside).monitor(&monitor).build().unwrap();
    let id = feed.id();
    let gateway = Gateway::builder().monitor(&monitor).listen(([127, 0, 0, 1], 0)).feed("paper", "ada", feed);
    let gateway = gateway.start().await.unwrap();
    match monitor.object(id).unwrap().object {
        Object::Feed(feed) => assert_eq!((feed.state, feed.outside), (State::Running, true)),
        other => panic!("{other:?}"),
    }
    let now = seen(&monitor, &gateway).unwrap();
    assert_eq!((now.feeds[0].ticks, now.feeds[0].last_tick_ms), (0, None));
    gateway.bus("paper", "ada").unwrap().publish("NSE_S1_LTP", r#"{"ltp":1}"#);
    let now = until(&monitor, &gateway, |seen| seen.feeds[0].ticks == 1).await;
    assert!(now.feeds[0].last_tick_ms.is_some(), "{now:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_dropped_is_stopping_and_then_gone() {
    let monitor = Monitor::new();
    let stage = Stage::with(|gateway| gateway.monitor(&monitor)).await;
    let (id, client) = (stage.gateway.id(), stage.client().await);
    drop(stage);
    let gone = async {
        while let Some(seen) = monitor.object(id) {
            assert!(matches!(&seen.object, Object::Gateway(_)));
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, gone).await.expect("it is gone with its last client");
    drop(client);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_in_what_is_seen() {
    let monitor = Monitor::new();
    let key = NewKey::generate().unwrap();
    let keys = Keys::in_memory([(Identity::new("paper", "ada"), key.sha256())]);
    let feed = Feed::builder(upstream()).monitor(&monitor).build().unwrap();
    let gateway = Gateway::builder().monitor(&monitor).listen(([127, 0, 0, 1], 0)).keys(keys);
    let gateway = gateway.feed("paper", "ada", feed).start().await.unwrap();
    let wrong = "wrong-key-that-was-planted-0123456789";
    let mut client = crate::gateway_stage::connect(gateway.local_addr()).await;
    client.ask(json!({"action": "authenticate", "api_key": wrong})).await;
    let reply = client.ask(json!({"action": "authenticate", "api_key": key.reveal()})).await;
    assert_eq!(reply["status"], "success");
    client.subscribe("S1", "LTP").await;
    let now = until(&monitor, &gateway, |seen| seen.authenticated == 1 && seen.subscriptions == 1).await;
    assert_eq!((now.wrong_keys, now.worst[0].user.as_deref()), (1, Some("ada at paper")));

    let text = serde_json::to_string(&monitor.snapshot()).unwrap();
    let digest: String = key.sha256().iter().map(|byte| format!("{byte:02x}")).collect();
    for secret in [key.reveal(), wrong, &digest] {
        assert!(!text.contains(secret), "{text}");
    }
}
