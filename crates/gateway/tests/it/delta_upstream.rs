//! A feed on Delta Exchange's protocol, over real sockets: batches, modes, what is merged, refusals, and everything that ends or
//! hangs.

use carom::feed::{Adapter, Feed, Instrument, Mode, SubscribeError, Tick, Ticks, Topic};
use carom::{Policy, feed};
use carom_gateway::delta::{Delta, EXCHANGE, Instruments};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::delta::{Exchange, Refusing};
use testkit::http::Authority;
use testkit::wait::{expect, ms};
use tokio::time::{Instant, timeout};

fn name(number: usize) -> String {
    format!("C{number}USD")
}

/// So many contracts.
fn instruments(count: usize) -> Instruments {
    let products: Vec<_> = (0..count).map(|number| json!({"symbol": name(number), "state": "live"})).collect();
    Instruments::read(json!({"success": true, "result": products}).to_string().as_bytes()).unwrap()
}

fn adapter(exchange: &Exchange) -> Delta {
    adapter_with(exchange, instruments(1_000), ms(30_000))
}

/// One that knows these contracts, and waits so long for answers.
fn adapter_with(exchange: &Exchange, instruments: Instruments, answer_timeout: Duration) -> Delta {
    let adapter = Delta::builder(instruments.into()).url(exchange.url()).pace(ms(20)).answer_timeout(answer_timeout);
    adapter.build().unwrap()
}

fn builder(exchange: &Exchange) -> feed::Builder<Delta> {
    feed_on(adapter(exchange))
}

/// Small delays, so that recovery is seen soon; nothing is pending as long as somebody might answer.
fn feed_on(adapter: Delta) -> feed::Builder<Delta> {
    let policy = Policy::default().attempts(3).timeout(ms(5_000)).delay(ms(20)).max_delay(ms(200));
    let builder = Feed::builder(adapter).recovery(policy).linger(Duration::ZERO);
    builder.pending_after(Duration::from_secs(60)).write_timeout(Duration::from_secs(60))
}

fn topic(number: usize, mode: Mode) -> Topic {
    Topic::new(EXCHANGE, name(number), mode)
}

async fn subscribe(feed: &Feed<Delta>, topics: impl IntoIterator<Item = Topic>) {
    let subscribing = join_all(topics.into_iter().map(|topic| feed.subscribe(topic)));
    for placed in expect("subscribing", subscribing).await {
        assert!(!placed.unwrap().pending);
    }
}

/// Why a topic is refused.
async fn refusal(feed: &Feed<Delta>, topic: Topic) -> String {
    match expect("a refusal", feed.subscribe(topic)).await.unwrap_err() {
        SubscribeError::Refused { reason, .. } => reason.to_string(),
        other => panic!("{other}"),
    }
}

async fn next(ticks: &mut Ticks) -> (Instrument, Mode, Value) {
    let Tick { instrument, mode, payload } = expect("a tick", ticks.next()).await.expect("the feed goes on");
    (instrument, mode, serde_json::from_slice(&payload).expect("it is JSON"))
}

/// The next tick is of this mode; what it says.
async fn tick(ticks: &mut Ticks, mode: Mode) -> Value {
    let (_, at, payload) = next(ticks).await;
    assert_eq!((at, &payload["mode"]), (mode, &json!(mode.number())), "{payload}");
    payload
}

/// Why the last connection failed; waits until one has.
async fn cause_of(feed: &Feed<Delta>) -> String {
    let mut states = feed.states();
    loop {
        if let Some(cause) = feed.snapshot().cause {
            return cause.to_string();
        }
        let _ = timeout(ms(20), states.changed()).await;
    }
}

#[tokio::test]
async fn contracts_are_subscribed_in_batches_and_again_when_the_connection_is_cut() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    let mut ticks = feed.ticks();
    let books = (0..20).map(|number| topic(number, Mode::Depth));
    subscribe(&feed, books.chain((20..400).map(|number| topic(number, Mode::Quote)))).await;
    let seen = exchange.seen();
    assert_eq!((seen.carried("ticker"), seen.carried("ob_l2")), (vec![400], vec![20]));
    // The first batch may have gone out before all had asked.
    let batches = seen.sizes(1, "subscribe", "ticker");
    assert!(batches.len() <= 4 && batches.iter().all(|&size| size <= 150), "{batches:?}");
    assert_eq!(seen.sizes(1, "subscribe", "ob_l2"), [1; 20]);

    exchange.cut(1);
    let seen = exchange
        .until(|seen| seen.opened == 2 && seen.carried("ticker") == [400] && seen.carried("ob_l2") == [20])
        .await;
    assert_eq!((seen.opened, seen.sizes(2, "subscribe", "ticker")), (2, vec![150, 150, 100]));
    assert_eq!(seen.sizes(2, "subscribe", "ob_l2"), [1; 20]);
    for number in 0..400 {
        exchange.ticker(&name(number), json!({"m": number.to_string()}));
    }
    let mut missing: BTreeSet<String> = (0..400).map(name).collect();
    while !missing.is_empty() {
        missing.remove(next(&mut ticks).await.0.symbol());
    }
    assert_eq!(exchange.seen().asked.iter().filter(|asked| asked.verb == "unsubscribe").count(), 0);
}

#[tokio::test]
async fn more_contracts_than_a_connection_takes_go_to_another() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).max_topics_per_connection(100).max_connections(3).build().unwrap();
    subscribe(&feed, (0..250).map(|number| topic(number, Mode::Ltp))).await;
    assert_eq!(exchange.seen().carried("ticker"), [100, 100, 50]);
}

#[tokio::test]
async fn what_is_said_in_part_is_told_whole() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Quote)]).await;
    exchange.ticker(&name(1), json!({"q": ["101", "5", "99", "7", null]}));
    exchange.ticker(&name(1), json!({"m": "100.50", "ohlc": [98, 103.5, "97", "100"], "oi": ["876853", "1"]}));
    let all = json!({"symbol": "C1USD", "exchange": "CRYPTO", "mode": 2, "ltp": 100.5, "open": 98, "high": 103.5, "low": 97,
        "close": 100, "oi": 876_853, "ask_price": 101, "ask_qty": 5, "bid_price": 99, "bid_qty": 7, "spot_price": 79_777.9,
        "timestamp": 1_788_725_367_575_u64});
    assert_eq!(tick(&mut ticks, Mode::Quote).await, all, "nothing is said before there is a price");
    exchange.ticker(&name(1), json!({"q": [null, null, "99.5", "6", null]}));
    let payload = tick(&mut ticks, Mode::Quote).await;
    assert_eq!((&payload["ltp"], &payload["high"]), (&json!(100.5), &json!(103.5)), "what is missing has not changed");
    assert_eq!((payload.get("ask_price"), &payload["bid_price"]), (None, &json!(99.5)), "there is no offer");

    // Another connection knows nothing of what was said on this one.
    exchange.cut(1);
    exchange.until(|seen| seen.opened == 2 && seen.carried("ticker") == [1]).await;
    exchange.ticker(&name(1), json!({"m": "1"}));
    let payload = tick(&mut ticks, Mode::Quote).await;
    assert_eq!((&payload["ltp"], payload.get("high")), (&json!(1), None));
}

#[tokio::test]
async fn one_message_may_be_about_many_contracts() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Ltp), topic(2, Mode::Quote)]).await;
    let contract = |number, mark| json!({"s": name(number), "m": mark});
    exchange.tickers("BTCUSD", &[contract(1, "7"), contract(3, "8"), contract(2, "9")]);
    assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 7);
    assert_eq!(tick(&mut ticks, Mode::Quote).await["ltp"], 9, "what nobody subscribed to is nobody's");
}

#[tokio::test]
async fn modes_go_up_and_down_with_what_is_wanted() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    exchange.ticker(&name(1), json!({"m": "100"}));
    let price =
        json!({"symbol": "C1USD", "exchange": "CRYPTO", "mode": 1, "ltp": 100, "timestamp": 1_788_725_367_575_u64});
    assert_eq!(tick(&mut ticks, Mode::Ltp).await, price);

    let deep = topic(1, Mode::Depth).depth(2);
    subscribe(&feed, [deep.clone()]).await;
    exchange.ticker(&name(1), json!({"m": "101"}));
    assert_eq!(tick(&mut ticks, Mode::Quote).await["ltp"], 101, "there is no book yet");
    exchange.book(&name(1), &[["102", "1"], ["103", "2"], ["104", "3"]], &[["100", "4"]]);
    let payload = tick(&mut ticks, Mode::Depth).await;
    let row = |price, quantity| json!({"price": price, "quantity": quantity});
    let book = json!({"buy": [row(100, 4)], "sell": [row(102, 1), row(103, 2)]});
    assert_eq!((&payload["ltp"], &payload["depth"]), (&json!(101), &book));
    exchange.ticker(&name(1), json!({"m": "102"}));
    assert_eq!(tick(&mut ticks, Mode::Depth).await["depth"], book, "books stay while prices change");

    let asked = exchange.seen().asked.len();
    subscribe(&feed, [topic(1, Mode::Depth).depth(15)]).await;
    exchange.ticker(&name(1), json!({}));
    assert_eq!(tick(&mut ticks, Mode::Depth).await["depth"]["sell"].as_array().unwrap().len(), 3);
    assert_eq!(exchange.seen().asked.len(), asked, "they are as deep as they are in any case");

    feed.unsubscribe(&deep).await.unwrap();
    feed.unsubscribe(&topic(1, Mode::Depth).depth(15)).await.unwrap();
    exchange.until(|seen| seen.carried("ob_l2") == [0]).await;
    exchange.ticker(&name(1), json!({"m": "103"}));
    assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 103);
    feed.unsubscribe(&topic(1, Mode::Ltp)).await.unwrap();
    let seen = exchange.until(|seen| seen.carried("ticker") == [0]).await;
    let asked: Vec<_> = seen.asked.iter().map(|asked| (&*asked.verb, &*asked.channel)).collect();
    let expected =
        [("subscribe", "ticker"), ("subscribe", "ob_l2"), ("unsubscribe", "ob_l2"), ("unsubscribe", "ticker")];
    assert_eq!(asked, expected, "each once");
}

#[tokio::test]
async fn two_names_of_one_contract_share_its_stream() {
    let exchange = Exchange::start().await;
    let list = r#"{"result":[{"symbol":"BTCUSD","contract_type":"perpetual_futures"}]}"#;
    let adapter = adapter_with(&exchange, Instruments::read(list.as_bytes()).unwrap(), ms(30_000));
    let feed = feed_on(adapter).build().unwrap();
    let mut ticks = feed.ticks();
    let (own, theirs) = (Topic::new(EXCHANGE, "BTCUSD", Mode::Depth), Topic::new(EXCHANGE, "BTCUSDFUT", Mode::Ltp));
    subscribe(&feed, [own.clone(), theirs.clone()]).await;
    exchange.ticker("BTCUSD", json!({"m": "7"}));
    let told = [next(&mut ticks).await, next(&mut ticks).await];
    let told: BTreeSet<_> =
        told.iter().map(|(name, mode, payload)| (name.symbol(), *mode, payload["symbol"].as_str())).collect();
    let expected = [("BTCUSD", Mode::Quote, Some("BTCUSD")), ("BTCUSDFUT", Mode::Ltp, Some("BTCUSDFUT"))];
    assert_eq!(told, expected.into());
    exchange.book("BTCUSD", &[["8", "1"]], &[]);
    assert_eq!(tick(&mut ticks, Mode::Depth).await["symbol"], "BTCUSD", "a book is for whoever wants one");

    feed.unsubscribe(&own).await.unwrap();
    let seen = exchange.until(|seen| seen.carried("ob_l2") == [0]).await;
    assert_eq!((seen.carried("ticker"), seen.sizes(1, "subscribe", "ticker")), (vec![1], vec![1]), "once for both");
    feed.unsubscribe(&theirs).await.unwrap();
    exchange.until(|seen| seen.carried("ticker") == [0]).await;
}

#[tokio::test]
async fn another_list_is_looked_up_in_from_then_on() {
    let exchange = Exchange::start().await;
    let adapter = adapter(&exchange);
    let listing = adapter.listing();
    let feed = feed_on(adapter).build().unwrap();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    listing.replace(Instruments::read(r#"{"result":[{"symbol":"NEW"}]}"#.as_bytes()).unwrap().into());
    subscribe(&feed, [Topic::new(EXCHANGE, "NEW", Mode::Ltp)]).await;
    assert!(refusal(&feed, topic(2, Mode::Ltp)).await.contains("none of the 1 contracts"));
    feed.unsubscribe(&topic(1, Mode::Ltp)).await.unwrap();
    exchange.until(|seen| seen.carried("ticker") == [1]).await;
}

#[tokio::test]
async fn a_book_waits_for_its_price() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Depth)]).await;
    exchange.book(&name(1), &[["102", "1"]], &[]);
    exchange.ticker(&name(1), json!({"m": "101"}));
    let payload = tick(&mut ticks, Mode::Depth).await;
    assert_eq!(payload["depth"], json!({"buy": [], "sell": [{"price": 102, "quantity": 1}]}));
}

#[tokio::test]
async fn names_that_are_nobodys_are_refused_without_asking() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    let unknown = refusal(&feed, Topic::new(EXCHANGE, "C77USDT", Mode::Ltp)).await;
    assert!(unknown.starts_with("`C77USDT` is none of the 1000 contracts"), "{unknown}");
    assert!(unknown.contains("did you mean `C77USD`"), "{unknown}");
    let far = refusal(&feed, Topic::new(EXCHANGE, "RELIANCE", Mode::Ltp)).await;
    assert!(!far.contains("did you mean") && far.len() < 200, "{far}");
    let long = refusal(&feed, Topic::new(EXCHANGE, "X".repeat(100_000), Mode::Ltp)).await;
    assert!(long.len() < 400, "{long}");
    let elsewhere = refusal(&feed, Topic::new("NSE", name(1), Mode::Ltp)).await;
    assert_eq!(elsewhere, "`NSE` is not traded here: contracts are of `CRYPTO`");
    assert_eq!(exchange.seen().asked, []);
}

#[tokio::test]
async fn what_the_exchange_refuses_is_refused_however_it_says_so() {
    for how in [Refusing::Named, Refusing::Unnamed, Refusing::Complaining] {
        let exchange = Exchange::start().await;
        let feed = builder(&exchange).build().unwrap();
        subscribe(&feed, [topic(1, Mode::Ltp)]).await;
        exchange.refuse("ticker", &name(2), how);
        assert_eq!(refusal(&feed, topic(2, Mode::Ltp)).await, "no such symbol");

        // A book that is refused takes what was accepted beside it back, and leaves what was there before.
        for number in [1, 3] {
            exchange.refuse("ob_l2", &name(number), how);
        }
        assert_eq!(refusal(&feed, topic(3, Mode::Depth)).await, "no such symbol");
        let carried = |seen: &testkit::delta::Seen| seen.carried("ticker") == [1] && seen.carried("ob_l2") == [0];
        exchange.until(carried).await;
        assert_eq!(refusal(&feed, topic(1, Mode::Depth)).await, "no such symbol");
        let mut ticks = feed.ticks();
        exchange.ticker(&name(1), json!({"m": "1"}));
        assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 1);
        assert!(carried(&exchange.seen()), "{how:?}");
    }
}

#[tokio::test]
async fn an_exchange_that_does_not_answer_is_taken_to_have_heard() {
    let exchange = Exchange::start().await;
    exchange.answer(false);
    let feed = feed_on(adapter_with(&exchange, instruments(10), ms(20))).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    exchange.ticker(&name(1), json!({"m": "1"}));
    assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 1);
    assert_eq!(exchange.seen().opened, 1);
}

#[tokio::test]
async fn nonsense_is_passed_over_and_what_makes_sense_goes_on() {
    let exchange = Exchange::start().await;
    let adapter = adapter(&exchange);
    let malformed = adapter.malformed();
    let feed = feed_on(adapter).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    for nonsense in
        ["", "{", "[]", r#"{"type":7}"#, r#"{"type":"ticker","d":7}"#, r#"{"type":"ticker","d":[{"m":[]}]}"#]
    {
        exchange.say(1, nonsense);
    }
    exchange.say_bytes(1, &[1, 2, 3]);
    for strange in [
        r#"{"type":"trades"}"#,
        r#"{"type":"error"}"#,
        r#"{"type":"subscriptions","channels":[{"name":"orders","error":"no"}]}"#,
        r#"{"type":"ticker","d":[{"m":"5"}]}"#,
        // What contracts are on is the name of none of several.
        r#"{"type":"ticker","sy":"C1USD","d":[{"m":"5"},{"s":"C7USD","m":"5"}]}"#,
    ] {
        exchange.say(1, strange);
    }
    exchange.say(1, r#"{"type":"ticker","sy":"BTCUSD","d":[{"s":"C2USD","m":{}},{"s":"C1USD","m":"1"}]}"#);
    assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 1, "what makes sense in a message is heard");
    assert_eq!((exchange.seen().opened, malformed.count()), (1, 8));
    assert_eq!(feed.snapshot().passed_over, [("malformed", 8)]);
}

#[tokio::test]
async fn a_complaint_about_what_is_dropped_refuses_nothing() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    subscribe(&feed, [topic(1, Mode::Ltp), topic(2, Mode::Depth)]).await;
    exchange.complain_of_dropping(true);
    feed.unsubscribe(&topic(1, Mode::Ltp)).await.unwrap();
    feed.unsubscribe(&topic(2, Mode::Depth)).await.unwrap();
    subscribe(&feed, (3..100).map(|number| topic(number, Mode::Ltp))).await;
    let seen = exchange.until(|seen| seen.carried("ticker") == [97] && seen.carried("ob_l2") == [0]).await;
    assert_eq!(seen.opened, 1);
}

#[tokio::test]
async fn what_is_refused_without_a_name_is_not_streamed_either() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    exchange.answer(false);
    let (refused, _) = tokio::join!(refusal(&feed, topic(2, Mode::Ltp)), async {
        exchange.until(|seen| seen.carried("ticker") == [2]).await;
        exchange.say(1, r#"{"type":"error","message":"slow down"}"#);
    });
    assert_eq!(refused, "slow down");
    exchange.until(|seen| seen.carried("ticker") == [1]).await;
}

#[tokio::test]
async fn what_is_refused_too_late_is_refused_on_another_connection() {
    let exchange = Exchange::start().await;
    exchange.answer(false);
    let feed = feed_on(adapter_with(&exchange, instruments(10), ms(20))).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Ltp), topic(2, Mode::Ltp)]).await;
    exchange
        .say(1, r#"{"type":"subscriptions","channels":[{"name":"ticker","symbols":["C2USD"],"error":"it is gone"}]}"#);
    let seen = exchange.until(|seen| seen.opened == 2 && seen.carried("ticker") == [1]).await;
    let again = seen.asked.iter().filter(|asked| asked.connection == 2);
    assert_eq!(again.flat_map(|asked| asked.symbols.clone()).collect::<Vec<_>>(), [name(1)], "the others go on");
    exchange.ticker(&name(1), json!({"m": "1"}));
    assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 1);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_replaced() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).stall_after(ms(2_000)).build().unwrap();
    let mut ticks = feed.ticks();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    exchange.silence(1);
    exchange.until(|seen| seen.opened > 1 && seen.carried("ticker").last() == Some(&1)).await;
    // Said over and over: on a busy machine that one may seem silent too.
    let mut trades = tokio::time::interval(ms(50));
    let told = async {
        loop {
            tokio::select! {
                tick = ticks.next() => return tick,
                _ = trades.tick() => exchange.ticker(&name(1), json!({"m": "1"})),
            }
        }
    };
    assert_eq!(expect("a tick", told).await.unwrap().mode, Mode::Ltp);
}

#[tokio::test]
async fn nonsense_is_no_sign_of_life() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).stall_after(ms(1_000)).build().unwrap();
    subscribe(&feed, [topic(1, Mode::Ltp)]).await;
    expect("another connection", async {
        let mut babble = tokio::time::interval(ms(50));
        while exchange.seen().opened == 1 {
            babble.tick().await;
            if exchange.seen().connections.contains_key(&1) {
                exchange.say(1, "{");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_ping_is_answered_and_that_is_a_sign_of_life() {
    let exchange = Exchange::start().await;
    let adapter = adapter(&exchange);
    assert_eq!(adapter.pacing().heartbeat, Some(Duration::from_secs(30)));
    let (mut writer, mut reader) = adapter.open().await.unwrap();
    adapter.heartbeat(&mut writer).await.unwrap();
    let mut ticks = Vec::new();
    expect("a pong", adapter.read(&mut reader, &mut ticks)).await.unwrap();
    assert_eq!((ticks, exchange.seen().pings), (Vec::new(), 1));
}

#[tokio::test]
async fn why_there_is_no_connection_is_said() {
    let exchange = Exchange::start().await;
    exchange.turn_away(true);
    let feed = builder(&exchange).pending_after(ms(50)).build().unwrap();
    assert!(feed.subscribe(topic(1, Mode::Ltp)).await.unwrap().pending);
    let cause = expect("it is turned away", cause_of(&feed)).await;
    assert_eq!(cause, "the upstream turns us away with 503: closed for maintenance");
    exchange.turn_away(false);
    exchange.until(|seen| seen.carried("ticker") == [1]).await;

    let adapter = adapter(&exchange);
    let (_writer, mut reader) = adapter.open().await.unwrap();
    let opened = exchange.until(|seen| seen.connections.len() == 2).await.opened;
    exchange.close(opened, 1012, "we are\nback soon");
    let error = expect("the end", adapter.read(&mut reader, &mut Vec::new())).await.unwrap_err();
    assert_eq!(error.to_string(), "the upstream closed the connection (1012): we are back soon");
}

#[tokio::test]
async fn an_exchange_is_spoken_to_with_tls_if_it_is_trusted() {
    let authority = Authority::new();
    let exchange = Exchange::start_tls(authority.issue(["localhost"]).serving([])).await;
    let build = || Delta::builder(instruments(2).into()).url(exchange.url());
    let feed = feed_on(build().extra_roots(authority.pem()).build().unwrap()).build().unwrap();
    let mut ticks = feed.ticks();
    expect("subscribing", feed.subscribe(topic(1, Mode::Ltp))).await.unwrap();
    exchange.ticker(&name(1), json!({"m": "1"}));
    assert_eq!(tick(&mut ticks, Mode::Ltp).await["ltp"], 1);
    let stranger = build().extra_roots(Authority::new().pem()).build().unwrap();
    let error = stranger.open().await.unwrap_err();
    assert_eq!(error.to_string(), "tls with the upstream failed");
}

#[tokio::test]
async fn a_feed_that_closes_says_goodbye() {
    let exchange = Exchange::start().await;
    let feed = builder(&exchange).build().unwrap();
    subscribe(&feed, (0..200).map(|number| topic(number, Mode::Quote))).await;
    assert_eq!(feed.close(Instant::now() + Duration::from_secs(30)).await, 0);
    let seen = exchange.until(|seen| seen.connections.is_empty()).await;
    assert_eq!((seen.opened, seen.goodbyes), (1, 1));
}

#[tokio::test]
async fn addresses_that_make_no_sense_are_refused_before_anything_is_connected_to() {
    let build = |url: &str| Delta::builder(instruments(1).into()).url(url).build();
    for url in ["", "127.0.0.1:7001", "http://127.0.0.1", "ws://127.0.0.1:70001", "ws://me:pw@127.0.0.1"] {
        let error = build(url).unwrap_err().to_string();
        assert!(error.contains("such as wss://public-socket.india.delta.exchange"), "{error}");
    }
    let plain = Delta::builder(instruments(1).into()).url("ws://127.0.0.1:1").extra_roots("no pem").build();
    assert_eq!(plain.unwrap_err().to_string(), "the exchange cannot be spoken to");
}
