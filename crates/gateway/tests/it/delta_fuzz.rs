//! Garbage on the wire between an adapter and Delta Exchange: it is passed over, and nothing panics, hangs or ends.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom::feed::{Feed, Mode, Topic};
use carom_core::random::Random;
use carom_gateway::delta::{Delta, EXCHANGE, Instruments};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::cases::{bytes, cases};
use testkit::delta::Exchange;
use tokio::time::timeout;

const RIGHT: [&str; 4] = [
    r#"{"type":"ticker","sy":"A","sp":"5","ts":1788725367575186,"d":[{"s":"A","m":"0.5","ohlc":[1,2,3,"4"],"q":["1",null,"3"]}]}"#,
    r#"{"type":"ob_l2","sy":"A","ts":1788725367575186,"a":[["8","1"],["9","2"]],"b":[["7","3"]]}"#,
    r#"{"type":"subscriptions","channels":[{"name":"ticker","symbols":["A"]},{"name":"ob_l2","error":"no"}]}"#,
    r#"{"type":"error","message":"no"}"#,
];

/// Something right with a few bytes wrong, or nothing but wrong ones.
fn bent(random: &mut Random) -> String {
    let mut bytes = match random.below(5) {
        0 => bytes(random, 300),
        which => RIGHT[which - 1].as_bytes().to_vec(),
    };
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len().max(1));
        match random.below(4) {
            _ if bytes.is_empty() => bytes.push(b'{'),
            0 => bytes[at] = random.bits() as u8,
            1 => bytes.truncate(at + 1),
            2 => bytes[at] = b"{}[]\",:019-.e"[random.below(13)],
            _ => bytes.insert(at, b'9'),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn an_adapter_survives_whatever_the_exchange_says() {
    let exchange = Exchange::start().await;
    let instruments = Instruments::read(r#"{"result":[{"symbol":"A"}]}"#.as_bytes()).unwrap();
    // What is not answered yet could be refused by what follows.
    let patience = Duration::from_secs(30);
    let adapter = Delta::builder(instruments.into()).url(exchange.url()).answer_timeout(patience).build().unwrap();
    let feed = Feed::builder(adapter).pending_after(2 * patience).write_timeout(2 * patience).build().unwrap();
    let mut ticks = feed.ticks();
    assert!(!feed.subscribe(Topic::new(EXCHANGE, "A", Mode::Depth)).await.unwrap().pending);
    for (case, mut random) in cases(500) {
        for _ in 0..20 {
            exchange.say(1, &bent(&mut random));
        }
        // No price above is like this one.
        let mark = 1_000_000 + case.seed();
        exchange.ticker("A", json!({"m": mark.to_string()}));
        let told = timeout(Duration::from_secs(30), async {
            loop {
                let tick = ticks.next().await.expect("the feed goes on");
                let payload: Value = serde_json::from_slice(&tick.payload).expect("whatever is told is JSON");
                if payload["ltp"] == mark {
                    return;
                }
            }
        });
        told.await.expect("what makes sense is told");
    }
    assert_eq!(exchange.seen().opened, 1);
}
