//! A feed on Kite's ticker, over real sockets: modes, limits, batches, the token of the day, and every fault that a ticker has.

use carom::feed::{Adapter, Feed, Instrument, Mode, Pending, State, SubscribeError, Tick, Ticks, Topic};
use carom::{Policy, feed};
use carom_gateway::credential::Credential;
use carom_gateway::kite::{BuildError, Instruments, Kite};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use testkit::kite::{Seen, Ticker};
use testkit::temp_dir::TempDir;
use testkit::wait::{expect, ms};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

const LIST: &str = include_str!("../data/kite_instruments.csv");

const SBIN: u32 = 779_521;
const INFY: u32 = 408_065;
const NIFTY: u32 = 256_265;
const USDINR: u32 = 412_675;

fn sample() -> Arc<Instruments> {
    Arc::new(Instruments::read(LIST.as_bytes()).unwrap())
}

/// So many shares, S0 and on, with tokens from 257 on.
fn many(count: u32) -> Arc<Instruments> {
    let header = "instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n";
    let rows: String = (0..count).map(|at| format!("{},S{at},,,,EQ,NSE,NSE\n", 257 + at * 256)).collect();
    Arc::new(Instruments::read(format!("{header}{rows}").as_bytes()).unwrap())
}

fn kite(ticker: &Ticker, credential: Credential, instruments: Arc<Instruments>) -> Kite {
    Kite::builder("key", credential, instruments).url(ticker.url()).pace(ms(20)).build().unwrap()
}

/// Small delays, so that recovery is seen soon.
fn on(kite: Kite) -> feed::Builder<Kite> {
    let policy = Policy::default().attempts(3).timeout(ms(5_000)).delay(ms(20)).max_delay(ms(200));
    Feed::builder(kite).recovery(policy).linger(Duration::ZERO).pending_after(Duration::from_secs(30))
}

async fn stage() -> (Ticker, Feed<Kite>) {
    let ticker = Ticker::start("key", "token").await.unwrap();
    let feed = on(kite(&ticker, Credential::fixed("token"), sample())).build().unwrap();
    (ticker, feed)
}

async fn subscribe(feed: &Feed<Kite>, topic: Topic) {
    let placed = expect("subscribing", feed.subscribe(topic)).await.unwrap();
    assert!(!placed.pending);
}

async fn subscribe_many(feed: &Feed<Kite>, count: u32) {
    let topics = (0..count).map(|at| Topic::new("NSE", format!("S{at}"), Mode::Quote));
    for placed in expect("subscribing", join_all(topics.map(|topic| feed.subscribe(topic)))).await {
        placed.unwrap();
    }
}

/// Waits until the ticker streams this in this mode.
async fn streams(ticker: &Ticker, token: u32, mode: &str) {
    let so = |has: &std::collections::BTreeMap<u32, String>| has.get(&token).is_some_and(|current| current == mode);
    ticker.until(&format!("{token} in mode {mode}"), |seen| seen.connections.values().any(so)).await;
}

async fn is(feed: &Feed<Kite>, state: State) {
    expect("the feed's state", feed.states().wait_for(|at| *at == state)).await.unwrap();
}

async fn next(ticks: &mut Ticks) -> (Tick, Value) {
    let tick = expect("a tick", ticks.next()).await.expect("the feed goes on");
    let payload = serde_json::from_slice(&tick.payload).expect("a payload is JSON");
    (tick, payload)
}

#[tokio::test]
async fn each_is_told_as_much_as_it_wants_to_know() {
    let (ticker, feed) = stage().await;
    let mut ticks = feed.ticks();
    subscribe(&feed, Topic::new("NSE", "SBIN", Mode::Ltp)).await;
    subscribe(&feed, Topic::new("NSE", "INFY", Mode::Quote)).await;
    subscribe(&feed, Topic::new("CDS", "USDINR26MAR24FUT", Mode::Depth)).await;
    subscribe(&feed, Topic::new("NSE_INDEX", "NIFTY", Mode::Depth)).await;
    for (token, mode) in [(SBIN, "ltp"), (INFY, "quote"), (USDINR, "full"), (NIFTY, "full")] {
        streams(&ticker, token, mode).await;
    }

    for (token, name, mode, price, ltp) in [
        (SBIN, "NSE:SBIN", Mode::Ltp, 81_205, json!(812.05)),
        (INFY, "NSE:INFY", Mode::Quote, 150_000, json!(1500.0)),
        (USDINR, "CDS:USDINR26MAR24FUT", Mode::Depth, 832_575_000, json!(83.2575)),
        (NIFTY, "NSE_INDEX:NIFTY", Mode::Depth, 2_200_000, json!(22_000.0)),
    ] {
        assert_eq!(ticker.trade(token, price), 1);
        let (tick, payload) = next(&mut ticks).await;
        assert_eq!((tick.instrument.to_string().as_str(), tick.mode), (name, mode));
        assert_eq!(payload["ltp"], ltp, "{name}");
        assert_eq!(payload.get("depth").is_some(), token == USDINR, "{name}");
        assert_eq!(payload.get("close").is_some(), mode != Mode::Ltp, "{name}");
    }
    let seen = ticker.seen();
    assert_eq!((seen.opened, seen.refused, seen.garbled.len()), (1, 0, 0));
}

#[tokio::test]
async fn a_higher_mode_is_streamed_for_as_long_as_it_is_wanted() {
    let (ticker, feed) = stage().await;
    let topic = |mode| Topic::new("NSE", "SBIN", mode);
    subscribe(&feed, topic(Mode::Ltp)).await;
    streams(&ticker, SBIN, "ltp").await;
    subscribe(&feed, topic(Mode::Depth)).await;
    streams(&ticker, SBIN, "full").await;
    subscribe(&feed, topic(Mode::Quote)).await;
    feed.unsubscribe(&topic(Mode::Depth)).await.unwrap();
    streams(&ticker, SBIN, "quote").await;
    feed.unsubscribe(&topic(Mode::Quote)).await.unwrap();
    streams(&ticker, SBIN, "ltp").await;
    feed.unsubscribe(&topic(Mode::Ltp)).await.unwrap();
    let seen = ticker.until("nothing is streamed", |seen| seen.connections.values().all(|has| has.is_empty())).await;
    let asked: Vec<_> = seen.requests.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        asked,
        [
            r#"{"a":"subscribe","v":[779521]}"#,
            r#"{"a":"mode","v":["ltp",[779521]]}"#,
            r#"{"a":"mode","v":["full",[779521]]}"#,
            r#"{"a":"mode","v":["quote",[779521]]}"#,
            r#"{"a":"mode","v":["ltp",[779521]]}"#,
            r#"{"a":"unsubscribe","v":[779521]}"#,
        ]
    );
}

#[tokio::test]
async fn what_is_not_listed_is_refused_with_the_nearest_names_until_a_new_list_has_it() {
    let ticker = Ticker::start("key", "token").await.unwrap();
    let kite = kite(&ticker, Credential::fixed("token"), sample());
    let listing = kite.listing();
    let feed = on(kite).build().unwrap();
    let (known, unknown) = (Topic::new("NSE", "SBIN", Mode::Ltp), Topic::new("NSE", "S1", Mode::Ltp));
    let (known, refused) =
        expect("both are answered", async { tokio::join!(feed.subscribe(known), feed.subscribe(unknown.clone())) })
            .await;
    assert!(known.is_ok());
    let Err(SubscribeError::Refused { reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(&*reason, "Kite lists no NSE:S1: no name is near to it");
    let near = expect("an answer", feed.subscribe(Topic::new("NSE", "SBNI", Mode::Ltp))).await.unwrap_err();
    assert!(near.to_string().ends_with("did you mean NSE:SBIN?"), "{near}");

    listing.replace(many(2));
    subscribe(&feed, unknown).await;
    streams(&ticker, 513, "ltp").await;
    streams(&ticker, SBIN, "ltp").await;
}

#[tokio::test]
async fn a_connection_that_is_cut_comes_back_with_all_it_had_in_batches() {
    let ticker = Ticker::start("key", "token").await.unwrap();
    let feed = on(kite(&ticker, Credential::fixed("token"), many(450))).build().unwrap();
    subscribe_many(&feed, 450).await;
    let all = |seen: &Seen| seen.connections.values().any(|has| has.len() == 450);
    ticker.until("all are streamed", all).await;
    ticker.cut();
    let seen = ticker.until("all are streamed again", |seen| seen.opened == 2 && all(seen)).await;
    let again: Vec<Value> = seen
        .requests
        .iter()
        .filter(|(connection, _)| *connection == 2)
        .map(|(_, text)| serde_json::from_str(text).unwrap())
        .collect();
    let sizes: Vec<_> = again
        .iter()
        .filter(|asked| asked["a"] == "subscribe")
        .map(|asked| asked["v"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [200, 200, 50]);

    let mut ticks = feed.ticks();
    ticker.until("the last mode is set", |seen| seen.requests.iter().filter(|(at, _)| *at == 2).count() == 6).await;
    assert_eq!(ticker.trade(257, 100), 1);
    assert_eq!(next(&mut ticks).await.0.instrument, Instrument::new("NSE", "S0"));
}

#[tokio::test]
async fn limits_are_never_exceeded() {
    let ticker = Ticker::start("key", "token").await.unwrap();
    ticker.limit(10, 3);
    let kite = kite(&ticker, Credential::fixed("token"), many(31));
    let feed = on(kite).max_topics_per_connection(10).max_connections(3).build().unwrap();
    subscribe_many(&feed, 30).await;
    let full = expect("an answer", feed.subscribe(Topic::new("NSE", "S30", Mode::Ltp))).await.unwrap_err();
    assert!(matches!(full, SubscribeError::CapacityReached { .. }), "{full}");
    let total = |seen: &Seen| seen.connections.values().map(|has| has.len()).sum::<usize>();
    ticker.until("thirty are streamed", |seen| total(seen) == 30).await;
    ticker.cut();
    let seen = ticker.until("thirty are streamed again", |seen| seen.opened >= 6 && total(seen) == 30).await;
    assert_eq!((seen.peak, seen.too_many, seen.refused), (3, 0, 0));
}

#[tokio::test]
async fn the_token_of_the_day_is_read_from_its_file() {
    let folder = TempDir::new();
    let credential = Credential::file(folder.write("token", "monday\n"));
    let ticker = Ticker::start("key", "monday").await.unwrap();
    let feed = on(kite(&ticker, credential.clone(), sample())).build().unwrap();
    let _watcher = credential.watch(&feed);
    subscribe(&feed, Topic::new("NSE", "SBIN", Mode::Quote)).await;

    ticker.accept("tuesday");
    ticker.cut();
    is(&feed, State::Refused).await;
    let cause = feed.snapshot().cause.expect("it says why").to_string();
    assert!(cause.contains("refuses the credential") && !cause.contains("monday"), "{cause}");
    assert_eq!(ticker.seen().refused, 1, "one that is refused is not presented again and again");
    folder.write("token", "tuesday\n");
    is(&feed, State::Running).await;
    streams(&ticker, SBIN, "quote").await;
    let mut ticks = feed.ticks();
    assert_eq!(ticker.trade(SBIN, 81_205), 1);
    next(&mut ticks).await;
}

#[tokio::test]
async fn who_waits_for_a_token_that_is_not_there_is_told_so() {
    let folder = TempDir::new();
    let path = folder.write("token", "");
    std::fs::remove_file(&path).unwrap();
    let ticker = Ticker::start("key", "monday").await.unwrap();
    let feed = on(kite(&ticker, Credential::file(path), sample())).pending_after(ms(100)).build().unwrap();
    let placed = expect("an answer", feed.subscribe(Topic::new("NSE", "SBIN", Mode::Quote))).await.unwrap();
    assert_eq!(placed.why, Some(Pending::NoCredential));
    folder.write("token", "monday\n");
    streams(&ticker, SBIN, "quote").await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_token_of_the_day_is_printed_by_a_command() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday\n");
    let credential = Credential::command(["cat".into(), path.into_os_string()]);
    let ticker = Ticker::start("key", "monday").await.unwrap();
    let feed = on(kite(&ticker, credential.clone(), sample())).build().unwrap();
    let _watcher = credential.watch(&feed);
    subscribe(&feed, Topic::new("NSE", "SBIN", Mode::Quote)).await;

    folder.write("token", "tuesday\n");
    ticker.accept("tuesday");
    ticker.cut();
    ticker.until("another connection", |seen| seen.refused == 1 && seen.opened == 2).await;
    streams(&ticker, SBIN, "quote").await;
    is(&feed, State::Running).await;
}

#[tokio::test]
async fn a_ticker_that_falls_silent_is_left() {
    let ticker = Ticker::start("key", "token").await.unwrap();
    ticker.beat(ms(50));
    let feed = on(kite(&ticker, Credential::fixed("token"), sample())).stall_after(ms(3_000)).build().unwrap();
    subscribe(&feed, Topic::new("NSE", "SBIN", Mode::Ltp)).await;
    streams(&ticker, SBIN, "ltp").await;
    ticker.stall();
    // The ticker does not notice that it was left, as it does not read.
    let other = |seen: &Seen| seen.connections.iter().any(|(number, has)| *number > 1 && has.contains_key(&SBIN));
    ticker.until("another connection carries it", other).await;
}

/// On a ticker that says nothing by itself.
async fn quiet() -> (Ticker, Kite) {
    let ticker = Ticker::start("key", "token").await.unwrap();
    ticker.beat(Duration::from_secs(3_600));
    let kite = kite(&ticker, Credential::fixed("token"), sample());
    (ticker, kite)
}

#[tokio::test]
async fn what_is_no_tick_is_a_sign_of_life_and_counted() {
    let (ticker, kite) = quiet().await;
    let counts = kite.counts();
    let figures = || [counts.unknown(), counts.malformed(), counts.unasked(), counts.orders()];
    let (mut writer, mut reader) = expect("opening", kite.open()).await.unwrap();
    let unasked = testkit::kite::packet(SBIN, "full", 1);
    for (message, expected) in [
        (Message::binary(vec![7]), [0, 0, 0, 0]),
        (Message::binary(vec![0, 0]), [0, 0, 0, 0]),
        (Message::binary(testkit::kite::packets(std::slice::from_ref(&unasked))), [0, 0, 1, 0]),
        (Message::binary(testkit::kite::packets(&[vec![1, 2, 3], unasked])), [1, 0, 2, 0]),
        (Message::text(r#"{"type":"order","data":{"order_id":"1"}}"#), [1, 0, 2, 1]),
        (Message::text(r#"{"type":"error","data":"no"}"#), [1, 0, 2, 1]),
        (Message::text(r#"{"type":"message","data":"hello"}"#), [1, 0, 2, 1]),
    ] {
        ticker.say(message.clone());
        let mut ticks = Vec::new();
        expect("it is read", kite.read(&mut reader, &mut ticks)).await.unwrap();
        assert_eq!((ticks.len(), figures()), (0, expected), "{message:?}");
    }
    let passed_over = [("malformed", 0), ("unknown", 1), ("unasked", 2), ("orders", 1)];
    assert_eq!(kite.passed_over(), passed_over, "as it is shown");
    kite.heartbeat(&mut writer).await.unwrap();
    expect("a pong is read", kite.read(&mut reader, &mut Vec::new())).await.unwrap();
    ticker.until("a ping", |seen| seen.pings == 1).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_counted_and_no_sign_of_life() {
    let (ticker, kite) = quiet().await;
    let counts = kite.counts();
    let (_writer, mut reader) = expect("opening", kite.open()).await.unwrap();
    let longer = testkit::kite::packets(&[vec![0; 192], vec![0; 192]]);
    for nonsense in [vec![], vec![0, 1, 0, 3, 1, 2, 3], vec![0, 2, 0, 8], longer] {
        ticker.say(Message::binary(nonsense));
    }
    ticker.say(Message::text("hello"));
    ticker.say(Message::text(r#"{"type":7}"#));
    ticker.say(Message::binary(vec![7]));
    let mut ticks = Vec::new();
    // Only the last of them is what is waited for.
    expect("a heartbeat is read", kite.read(&mut reader, &mut ticks)).await.unwrap();
    assert_eq!((ticks.len(), counts.unknown(), counts.malformed()), (0, 3, 4));
}

#[tokio::test]
async fn two_names_of_one_instrument_get_the_same() {
    let (ticker, feed) = stage().await;
    let mut ticks = feed.ticks();
    let [ours, own] = ["NIFTY", "NIFTY 50"].map(|name| Topic::new("NSE_INDEX", name, Mode::Quote));
    subscribe(&feed, ours).await;
    subscribe(&feed, own).await;
    streams(&ticker, NIFTY, "quote").await;
    assert_eq!(ticker.trade(NIFTY, 2_200_000), 1);
    let mut names = [next(&mut ticks).await, next(&mut ticks).await].map(|(tick, _)| tick.instrument.to_string());
    names.sort();
    assert_eq!(names, ["NSE_INDEX:NIFTY", "NSE_INDEX:NIFTY 50"]);
}

#[tokio::test]
async fn a_feed_that_is_closed_says_goodbye() {
    let (ticker, feed) = stage().await;
    subscribe(&feed, Topic::new("NSE", "SBIN", Mode::Ltp)).await;
    expect("closing", feed.close(Instant::now() + Duration::from_secs(20))).await;
    let seen = ticker.until("it is gone", |seen| seen.connections.is_empty()).await;
    assert_eq!(seen.goodbyes, 1);
}

/// Answers with 403, and what it was asked.
async fn parrot() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4_096];
        let length = socket.read(&mut request).await.unwrap();
        let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap().to_owned();
        let answer = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{line}", line.len());
        socket.write_all(answer.as_bytes()).await.unwrap();
        while socket.read(&mut request).await.is_ok_and(|read| read > 0) {}
    });
    url
}

#[tokio::test]
async fn nothing_shows_a_key_or_a_token() {
    for token in ["sesame", "sesame/==", &"sesame".repeat(40)] {
        let builder = Kite::builder("mykey", Credential::fixed(token), sample()).url(parrot().await);
        let mut shown = format!("{builder:?}");
        let kite = builder.build().unwrap();
        let error = expect("an answer", kite.open()).await.unwrap_err();
        assert!(kite.refuses_credential(&error) && error.to_string().contains("GET /?api_key="), "{error}");
        shown.push_str(&format!("{kite:?} {error} {error:?}"));
        assert!(!shown.contains("mykey") && !shown.contains("sesame"), "{shown}");
    }
}

#[test]
fn what_makes_no_sense_is_not_built() {
    let builder = |key: &str, url: &str| Kite::builder(key, Credential::fixed("token"), sample()).url(url).build();
    assert!(matches!(builder("", "ws://localhost"), Err(BuildError::NoKey)));
    assert!(matches!(builder("key", "https://localhost"), Err(BuildError::Url(_))));
    let roots =
        Kite::builder("key", Credential::fixed("token"), sample()).url("ws://localhost").extra_roots("x").build();
    assert!(matches!(roots, Err(BuildError::Dial(_))));
}
