//! The gateway's bus on ZeroMQ against libzmq, both ways round: what OpenAlgo's programs would see of it.

use carom::feed::Feed;
use carom_gateway::Gateway;
use carom_gateway::bus::{Bus, HIGH_WATER, Outside, Subscription, ZeroMq};
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_live::process::{Folder, Port};
use carom_live::python::{Python, Script};
use carom_live::sidecar::Sidecar;
use carom_live::{ms, until};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

async fn soon<T>(wanted: impl Future<Output = T>) -> T {
    timeout(ms(30_000), wanted).await.expect("it came to nothing")
}

fn script(role: &str, address: SocketAddr, more: &[&str]) -> Script {
    let address = format!("tcp://{address}");
    let arguments: Vec<&str> = [role, &address].into_iter().chain(more.iter().copied()).collect();
    Script::start(Python::Clients, "zmq_bus.py", &arguments)
}

/// What is heard on this topic; much may wait, as a busy machine reads late.
fn hear(zeromq: &ZeroMq, topic: &str) -> Subscription {
    Bus::from(zeromq.clone()).subscribe_with_backlog(topic, 1_000_000)
}

async fn number(messages: &mut Subscription) -> u64 {
    let message = soon(messages.next()).await.expect("a bus");
    str::from_utf8(&message.payload).unwrap().parse().unwrap()
}

/// That the next so many are one after the other.
async fn in_a_row(messages: &mut Subscription, count: u64) {
    let first = number(messages).await;
    for expected in first + 1..first + count {
        assert_eq!(number(messages).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_is_heard_and_after_its_restart_and_ours() {
    let port = Port::chosen();
    let zeromq = ZeroMq::bind_sub(port.address()).await.unwrap();
    let (mut messages, mut others) = (hear(&zeromq, "NSE_SBIN_LTP"), hear(&zeromq, "NSE_INFY_LTP"));
    let first = script("publish", port.address(), &["NSE_SBIN_LTP"]);
    in_a_row(&mut messages, 300).await;
    drop(first);
    let _second = script("publish", port.address(), &["NSE_INFY_LTP"]);
    in_a_row(&mut others, 300).await;
    assert_eq!(zeromq.status().malformed, 0);

    soon(zeromq.close(Instant::now() + ms(30_000))).await;
    drop((zeromq, messages, others));
    let zeromq = ZeroMq::bind_sub(port.address()).await.unwrap();
    in_a_row(&mut hear(&zeromq, "NSE_INFY_LTP"), 300).await;
    let status = zeromq.status();
    assert_eq!((status.peers, status.malformed, status.refused), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_counted_and_delays_nothing() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let mut messages = hear(&zeromq, "NSE_INFY_LTP");
    let _disturbs = script("disturb", zeromq.local_addr(), &["NSE_INFY_LTP"]);
    number(&mut messages).await;
    let start = Instant::now();
    in_a_row(&mut messages, 200).await;
    let (took, status) = (start.elapsed(), zeromq.status());
    println!("200 messages with as many senseless ones between them took {took:?}");
    assert!(status.malformed >= 199 && status.peers == 1, "{status:?}");
}

/// Publishes this number until the script says it.
async fn told(bus: &Bus, script: &mut Script, number: u64) {
    let publishing = async {
        loop {
            bus.publish("NSE_SBIN_LTP", number.to_string());
            tokio::time::sleep(ms(5)).await;
        }
    };
    let said = number.to_string();
    tokio::select! {
        () = script.says(&said) => {}
        () = publishing => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_are_told_whether_they_come_late_or_we_start_again() {
    let port = Port::chosen();
    let mut early = script("subscribe", port.address(), &["NSE_"]);
    for round in 0..3 {
        let zeromq = ZeroMq::bind_pub(port.address()).await.unwrap();
        let bus = Bus::from(zeromq.clone());
        told(&bus, &mut early, 2 * round).await;
        let mut late = script("subscribe", port.address(), &["NSE_SBIN"]);
        told(&bus, &mut late, 2 * round + 1).await;
        let status = zeromq.status();
        assert_eq!((status.peers, status.dropped, status.malformed), (2, 0, 0));
        soon(zeromq.close(Instant::now() + ms(30_000))).await;
        assert_eq!(zeromq.status().peers, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_stops_reading_costs_the_others_nothing_and_what_it_misses_is_counted() {
    let zeromq = ZeroMq::bind_pub(ANYWHERE).await.unwrap();
    let bus = Bus::from(zeromq.clone());
    let mut stalls = script("stall", zeromq.local_addr(), &["NSE_"]);
    told(&bus, &mut stalls, 0).await;
    let mut counts = script("count", zeromq.local_addr(), &["BSE_"]);
    let begins = async {
        loop {
            bus.publish("BSE_SBIN_LTP", "0");
            tokio::time::sleep(ms(5)).await;
        }
    };
    tokio::select! {
        () = counts.says("0") => {}
        () = begins => {}
    }
    let (large, mut published) = ("x".repeat(10_000), 0);
    let start = Instant::now();
    // libzmq keeps some for its program, and each system some more, before anything is dropped here.
    while zeromq.status().dropped < HIGH_WATER as u64 {
        for _ in 0..100 {
            published += 1;
            bus.publish("NSE_SBIN_LTP", format!("{published} {large}"));
            bus.publish("BSE_SBIN_LTP", format!("{published} {large}"));
        }
        counts.says(&published.to_string()).await;
    }
    bus.publish("BSE_END", "");
    counts.says("all").await;
    let dropped = zeromq.status().dropped;
    println!("{published} for each in {:?}, of which one missed {dropped} and the other none", start.elapsed());
    assert!(dropped < published);
    counts.ends().await;
}

/// A client of the gateway.
struct Client(WebSocketStream<TcpStream>);

impl Client {
    /// One of asha's, who wants prices of these symbols, and to hear of orders.
    async fn of(gateway: SocketAddr, key: &NewKey) -> Client {
        let tcp = TcpStream::connect(gateway).await.unwrap();
        let mut client = Client(client_async(format!("ws://{gateway}"), tcp).await.unwrap().0);
        client.say(json!({"action": "authenticate", "api_key": key.reveal()})).await;
        client.say(json!({"action": "subscribe_orders"})).await;
        let symbols = [
            ("NSE_INDEX", "NIFTY"),
            ("NSE_INDEX", "BANKNIFTY"),
            ("NSE", "SBIN"),
            ("NSE", "INFY"),
            ("CRYPTO", "SOL_INR"),
        ];
        let symbols = symbols.map(|(exchange, symbol)| json!({"exchange": exchange, "symbol": symbol}));
        client.say(json!({"action": "subscribe", "symbols": symbols, "mode": "LTP"})).await;
        client
    }

    async fn say(&mut self, request: Value) {
        self.0.send(Message::text(request.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            match soon(self.0.next()).await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?} instead of a message"),
            }
        }
    }

    /// That it gets all that it wants of what OpenAlgo's programs publish, and nothing else.
    async fn hears_openalgo(&mut self) {
        let (mut heard, mut turns) = (BTreeMap::new(), Vec::new());
        // What comes under its second name after a pause of seconds is told again, and so few in a row are enough.
        let told_once = |turns: &[u64]| turns.windows(8).any(|some| some.is_sorted_by(|one, next| one < next));
        while heard.len() < 6 || turns.len() < 20 || !told_once(&turns) {
            assert!(turns.len() < 2_000, "each is told once, whatever it is called: {turns:?}");
            let message = self.next().await;
            if message["symbol"] == "INFY" && message["type"] == "market_data" && message.get("snapshot").is_none() {
                assert!(message["data"]["ltp"].is_number(), "{message}");
                turns.push(message["data"]["turn"].as_u64().unwrap());
            }
            let (of, said) = match message["type"].as_str() {
                Some("market_data") => (message["symbol"].as_str().unwrap().to_owned(), message["data"].clone()),
                Some("order_update") => ("orders".to_owned(), message),
                _ => continue,
            };
            heard.insert(of, said);
        }
        assert_eq!(heard["NIFTY"]["ltp"], 25000.5);
        assert_eq!(heard["BANKNIFTY"]["ltp"], 50000.25, "which has the broker's name in front");
        assert!(turns.is_sorted(), "{turns:?}");
        let quote = &heard["SBIN"];
        assert_eq!((quote.get("change"), quote.get("volume")), (None, None), "Python wrote NaN and Infinity");
        assert_eq!(quote["avg_trade_price"], 811.9);
        assert_eq!(heard["SOL_INR"], json!({"ltp": 1, "name": "₹"}));
        let order = json!({"type": "order_update", "user_id": "asha", "orderid": "2", "price": null});
        assert_eq!(heard["orders"], order, "and none of somebody else's");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_gateway_get_what_openalgos_programs_publish() {
    let zeromq = ZeroMq::bind_sub(ANYWHERE).await.unwrap();
    let key = NewKey::generate().unwrap();
    let gateway = Gateway::builder()
        .listen(ANYWHERE)
        .keys(Keys::in_memory([(Identity::new("zerodha", "asha"), key.sha256())]))
        .feed_on("zerodha", "asha", Feed::builder(Outside).build().unwrap(), zeromq.clone().into())
        .start()
        .await
        .unwrap();
    let mut client = Client::of(gateway.local_addr(), &key).await;
    let _openalgo = script("openalgo", zeromq.local_addr(), &["asha"]);
    client.hears_openalgo().await;
    // Three frames, a tick without a price, and somebody else's order, each time round.
    until(ms(30_000), async || match gateway.snapshot().malformed {
        4.. => Ok(()),
        malformed => Err(malformed),
    })
    .await;
    gateway.stop(Instant::now() + ms(30_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_serves_what_openalgos_programs_publish_and_after_its_restart() {
    let [port, bus, admin] = [(); 3].map(|()| Port::chosen());
    let key = NewKey::generate().unwrap();
    let config = format!(
        r#"
            admin.listen = "{admin}"
            gateway.listen = "{port}"
            gateway.bus = "zeromq"
            gateway.zeromq = {{ bind = "sub", port = {bus} }}
            [[feed]]
            broker = "zerodha"
            user = "asha"
            adapter = "outside"
            {key}
        "#,
        admin = admin.address(),
        port = port.address(),
        bus = bus.address().port(),
        key = key.table(&Identity::new("zerodha", "asha"), None, None),
    );
    let _openalgo = script("openalgo", bus.address(), &["asha"]);
    let program = Sidecar::of(&config, Folder::new("zeromq", None), port).await;
    Client::of(program.address(), &key).await.hears_openalgo().await;
    let program = program.restart().await;
    Client::of(program.address(), &key).await.hears_openalgo().await;
    program.stop();
}
