//! What clients have and what the feed is asked for never drift apart, whatever clients do and wherever they are cut off.

use crate::gateway_stage::{Client, Stage, instrument};
use carom::feed::{ConnectionState, Standing};
use carom_core::random::Random;
use carom_gateway::{Limits, Snapshot};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use testkit::cases::cases;
use testkit::feed::{OnOpen, OnWrite};

const MODES: [&str; 3] = ["LTP", "Quote", "Depth"];

/// A client, and what it must have.
struct Known {
    client: Client,
    has: BTreeSet<(String, usize)>,
}

fn some(random: &mut Random) -> Vec<String> {
    (0..1 + random.below(4)).map(|_| format!("S{}", random.below(8))).collect()
}

fn entries(symbols: &[String]) -> Vec<Value> {
    symbols.iter().map(|symbol| json!({"symbol": symbol, "exchange": "NSE"})).collect()
}

/// One thing that a client does; `false` if it is gone then.
async fn step(random: &mut Random, known: &mut Known) -> bool {
    let (symbols, mode) = (some(random), random.below(3));
    match random.below(10) {
        0..5 => {
            let depth = 5 + random.below(2);
            let request =
                json!({"action": "subscribe", "symbols": entries(&symbols), "mode": MODES[mode], "depth": depth});
            assert_eq!(known.client.ask(request).await["status"], "success");
            known.has.extend(symbols.into_iter().map(|symbol| (symbol, mode)));
        }
        5..7 => {
            let request = json!({"action": "unsubscribe", "symbols": entries(&symbols), "mode": MODES[mode]});
            assert_eq!(known.client.ask(request).await["status"], "success");
            known.has.retain(|(symbol, at)| *at != mode || !symbols.contains(symbol));
        }
        7 => {
            let reply = known.client.ask(json!({"action": "unsubscribe_all"})).await;
            assert_eq!(reply["successful"].as_array().unwrap().len(), known.has.len());
            known.has.clear();
        }
        // Cut off with requests under way: some are served, some are not, and none of them may leave anything behind.
        8 => {
            for _ in 0..1 + random.below(3) {
                let symbols = entries(&some(random));
                known.client.send(json!({"action": "subscribe", "symbols": symbols, "mode": MODES[mode]})).await;
            }
            return false;
        }
        _ => return false,
    }
    true
}

/// Waits until nothing is under way, and compares.
async fn at_rest(seed: u64, stage: &Stage, clients: &[Known]) {
    let has: usize = clients.iter().map(|known| known.has.len()).sum();
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for (symbol, _) in clients.iter().flat_map(|known| &known.has) {
        *wanted.entry(symbol.clone()).or_default() += 1;
    }
    let symbols = || (0..8).map(|n| format!("S{n}"));
    let carried = || symbols().filter(|symbol| stage.upstream.carried(&instrument(symbol)).len() == 1);
    stage
        .until(|snapshot| {
            let settled = stage.feed.topics().iter().all(|topic| topic.standing == Standing::Live);
            let as_wanted = carried().eq(wanted.keys().cloned());
            snapshot.clients == clients.len() && snapshot.subscriptions == has && settled && as_wanted
        })
        .await;
    let topics = stage.feed.topics().into_iter();
    let counted: BTreeMap<String, usize> =
        topics.map(|topic| (topic.instrument.symbol().to_owned(), topic.interest)).collect();
    assert_eq!(counted, wanted, "seed {seed}");
}

async fn run(seed: u64, mut random: Random) {
    let stage = Stage::new().await;
    if random.below(2) == 0 {
        stage.upstream.on_write(OnWrite::Slow(Duration::from_millis(1)));
    }
    let mut clients: Vec<Known> = Vec::new();
    for round in 0..60 {
        if clients.len() < 4 {
            clients.push(Known { client: stage.client().await, has: BTreeSet::new() });
        }
        let at = random.below(clients.len());
        if !step(&mut random, &mut clients[at]).await {
            clients.swap_remove(at);
        }
        if round % 10 == 9 {
            at_rest(seed, &stage, &clients).await;
        }
    }
    clients.clear();
    at_rest(seed, &stage, &clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_agree_at_rest_after_any_order_of_subscribe_unsubscribe_and_disconnect() {
    for (case, random) in cases(10) {
        run(case.seed(), random).await;
    }
}

#[tokio::test]
async fn whoever_gives_up_all_it_may_have_may_have_as_much_again() {
    let mut limits = Limits::default();
    limits.topics_per_client = 10;
    let stage = Stage::with(|gateway| gateway.limits(limits)).await;
    let mut client = stage.client().await;
    let symbols = |count: usize| entries(&(0..count).map(|n| format!("S{n}")).collect::<Vec<_>>());
    for _ in 0..3 {
        let full = client.ask(json!({"action": "subscribe", "symbols": symbols(10), "mode": 1})).await;
        assert_eq!(full["status"], "success", "{full}");
        let one_more = client.ask(json!({"action": "subscribe", "symbols": symbols(1), "mode": 2})).await;
        assert_eq!(one_more["code"], "TOO_MANY_TOPICS");
        client.ask(json!({"action": "unsubscribe_all"})).await;
        stage.until(|snapshot| snapshot.subscriptions == 0).await;
    }
}

#[tokio::test]
async fn the_broker_is_connected_while_a_connection_is_up() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let info = json!({"action": "get_broker_info"});
    assert_eq!(client.ask(info.clone()).await["adapter_status"], "disconnected", "nothing was asked of it");
    client.subscribe("SBIN", "LTP").await;
    assert_eq!(client.ask(info.clone()).await["adapter_status"], "connected");
    stage.upstream.on_open(OnOpen::Never);
    stage.upstream.kill(1);
    let up = |snapshot: &Snapshot| {
        let mut connections = snapshot.feeds.iter().flat_map(|feed| &feed.feed.connections);
        connections.any(|connection| connection.state == ConnectionState::Up)
    };
    stage.until(|snapshot| !up(snapshot)).await;
    assert_eq!(client.ask(info).await["adapter_status"], "disconnected");
}
