//! A feed on a simulated exchange, over real sockets: packing, limits, and every fault that the exchange can be told to have.

use carom::feed::{Adapter, Change, Feed, Instrument, Level, Mode, State, SubscribeError, Topic};
use carom::{Policy, feed};
use carom_gateway::Gateway;
use carom_gateway::credential::Credential;
use carom_gateway::simulated::{Exchange, Market, Options, Simulated, Snapshot};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;
use testkit::temp_dir::TempDir;
use testkit::wait::{expect, ms};
use tokio::time::timeout;

fn adapter(exchange: &Exchange) -> Simulated {
    Simulated::new(&exchange.url(), Credential::fixed("token")).unwrap()
}

/// Small delays, so that recovery is seen soon.
fn builder(exchange: &Exchange) -> feed::Builder<Simulated> {
    let policy = Policy::default().attempts(3).timeout(ms(2_000)).delay(ms(20)).max_delay(ms(200));
    Feed::builder(adapter(exchange)).recovery(policy).backlog(200_000)
}

fn names(count: usize) -> Vec<Instrument> {
    Market::new(count, 1).instruments().cloned().collect()
}

fn topic(instrument: &Instrument, mode: Mode) -> Topic {
    Topic { instrument: instrument.clone(), level: Level { mode, depth: 5 } }
}

async fn subscribe(feed: &Feed<Simulated>, instruments: &[Instrument]) {
    let subscribing = instruments.iter().map(|instrument| feed.subscribe(topic(instrument, Mode::Ltp)));
    for placed in expect("subscribing", join_all(subscribing)).await {
        placed.unwrap();
    }
}

/// Waits until each of these has ticked, from now on.
async fn all_tick(feed: &Feed<Simulated>, instruments: &[Instrument]) {
    let mut ticks = feed.ticks();
    let mut missing: BTreeSet<Instrument> = instruments.iter().cloned().collect();
    expect("every symbol ticks", async {
        while !missing.is_empty() {
            missing.remove(&ticks.next().await.expect("the feed goes on").instrument);
        }
    })
    .await;
}

fn topics(snapshot: &Snapshot) -> Vec<usize> {
    snapshot.connections.iter().map(|line| line.topics).collect()
}

async fn has_topics(exchange: &Exchange, wanted: &[usize]) -> Snapshot {
    expect("the exchange carries it", exchange.until(|snapshot| topics(snapshot) == wanted)).await
}

/// Reads until the connection ends; why.
async fn end_of<A: Adapter>(adapter: &A, reader: &mut A::Reader) -> String {
    let mut ticks = Vec::new();
    loop {
        if let Err(error) = adapter.read(reader, &mut ticks).await {
            return error.to_string();
        }
    }
}

/// Why a connection failed; waits until one has.
async fn cause_of(feed: &Feed<Simulated>) -> String {
    let mut states = feed.states();
    loop {
        if let Some(cause) = feed.snapshot().cause {
            return cause.to_string();
        }
        let _ = timeout(ms(20), states.changed()).await;
    }
}

async fn is(feed: &Feed<Simulated>, state: State) {
    expect("the feed's state", feed.states().wait_for(|at| *at == state)).await.unwrap();
}

#[tokio::test]
async fn thousands_of_symbols_go_on_three_connections_and_come_back_when_one_is_killed() {
    let exchange = Exchange::start(Options::default().symbols(3_001).rate(10_000.0)).await.unwrap();
    let feed = builder(&exchange).build().unwrap();
    let names = names(3_001);
    subscribe(&feed, &names[..2_500]).await;
    has_topics(&exchange, &[1_000, 1_000, 500]).await;
    all_tick(&feed, &names[..2_500]).await;

    assert!(exchange.kill(2));
    let after = has_topics(&exchange, &[1_000, 500, 1_000]).await;
    assert_eq!((after.accepted, after.over_capacity), (4, 0));
    all_tick(&feed, &names[..2_500]).await;

    subscribe(&feed, &names[2_500..3_000]).await;
    let full = feed.subscribe(topic(&names[3_000], Mode::Ltp)).await.unwrap_err();
    assert!(full.to_string().contains("3000 topics on at most 3 connections of 1000 each"), "{full}");
    let figures = exchange.snapshot();
    assert_eq!((figures.most_connections, figures.most_topics, figures.turned_away), (3, 1_000, 0));
}

#[tokio::test]
async fn symbols_that_are_not_listed_are_refused_with_a_reason_and_the_others_are_not() {
    let exchange = Exchange::start(Options::default()).await.unwrap();
    let feed = builder(&exchange).build().unwrap();
    let long = "X".repeat(1_000_000);
    let wanted =
        ["SBIN", "NOSUCH", "TCS", "", &long, "quo\"ted\n"].map(|symbol| Topic::new("NSE", symbol, Mode::Quote));
    let outcomes = expect("subscribing", join_all(wanted.into_iter().map(|topic| feed.subscribe(topic)))).await;
    let reasons: Vec<Option<String>> = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Ok(placed) => {
                assert!(!placed.pending);
                None
            }
            Err(SubscribeError::Refused { reason, .. }) => Some(reason.to_string()),
            Err(other) => panic!("{other}"),
        })
        .collect();
    let (unknown, nameless) = (Some("unknown symbol".to_owned()), Some("no symbol has such a name".to_owned()));
    assert_eq!(reasons, [None, unknown.clone(), None, nameless.clone(), nameless, unknown]);
    assert_eq!(exchange.snapshot().accepted, 1, "the connection lives");
    all_tick(&feed, &[Instrument::new("NSE", "SBIN"), Instrument::new("NSE", "TCS")]).await;
}

#[tokio::test]
async fn a_feed_that_believes_in_a_higher_limit_is_told_the_real_one() {
    let exchange = Exchange::start(Options::default().max_topics_per_connection(5)).await.unwrap();
    let feed = builder(&exchange).max_topics_per_connection(10).build().unwrap();
    let names = names(8);
    let subscribing = names.iter().map(|instrument| feed.subscribe(topic(instrument, Mode::Ltp)));
    let outcomes = expect("subscribing", join_all(subscribing)).await;
    let refused: Vec<String> = outcomes.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
    assert_eq!(refused.len(), 3);
    assert!(refused.iter().all(|error| error.contains("carries 5 symbols, and no more are allowed")), "{refused:?}");
    assert_eq!((topics(&exchange.snapshot()), exchange.snapshot().over_capacity), (vec![5], 3));
}

#[tokio::test]
async fn a_higher_mode_is_streamed_in_place_of_a_lower_one_with_as_much_depth_as_is_asked_for() {
    let exchange = Exchange::start(Options::default().rate(500.0)).await.unwrap();
    let feed = builder(&exchange).linger(Duration::ZERO).build().unwrap();
    let sbin = Instrument::new("NSE", "SBIN");
    let mut ticks = feed.ticks();
    let wanted = [
        (topic(&sbin, Mode::Ltp), 0),
        (topic(&sbin, Mode::Quote), 0),
        (topic(&sbin, Mode::Depth), 5),
        (topic(&sbin, Mode::Depth).depth(20), 20),
        (topic(&sbin, Mode::Depth).depth(33), 50),
        (topic(&sbin, Mode::Depth).depth(200), 50),
    ];
    for (topic, levels) in &wanted {
        feed.subscribe(topic.clone()).await.unwrap();
        expect("a tick of that depth", async {
            loop {
                let tick = ticks.next().await.unwrap();
                let payload: serde_json::Value = serde_json::from_slice(&tick.payload).unwrap();
                assert_eq!(payload["mode"], tick.mode.number());
                let shown = payload["depth"]["buy"].as_array().map_or(0, Vec::len);
                if (tick.mode, shown) == (topic.mode(), *levels) {
                    return;
                }
            }
        })
        .await;
    }
    assert_eq!(topics(&exchange.snapshot()), [1]);
    for (topic, _) in &wanted[1..] {
        feed.unsubscribe(topic).await.unwrap();
    }
    expect("back to the price alone", async { while ticks.next().await.unwrap().mode != Mode::Ltp {} }).await;
    feed.unsubscribe(&wanted[0].0).await.unwrap();
    has_topics(&exchange, &[0]).await;
}

#[tokio::test]
async fn what_is_subscribed_to_ticks_at_once_even_where_nothing_is_traded() {
    let exchange = Exchange::start(Options::default().rate(0.0)).await.unwrap();
    let feed = builder(&exchange).build().unwrap();
    let mut ticks = feed.ticks();
    let names = names(400);
    subscribe(&feed, &names).await;
    let mut seen = BTreeSet::new();
    expect("first ticks", async {
        while seen.len() < names.len() {
            assert!(seen.insert(ticks.next().await.unwrap().instrument), "each once");
        }
    })
    .await;
}

#[tokio::test]
async fn no_tick_is_older_than_one_before_it_however_late_the_ack_comes() {
    let exchange = Exchange::start(Options::default().rate(2_000.0).ack_delay(ms(200))).await.unwrap();
    let adapter = adapter(&exchange);
    let (mut writer, mut reader) = adapter.open().await.unwrap();
    let sbin = names(1).remove(0);
    let changes = [Change { instrument: sbin, from: None, to: Some(Level { mode: Mode::Quote, depth: 5 }) }];
    let mut ticks = Vec::new();
    let acked = adapter.write(&mut writer, &changes);
    expect("the ack, and a tick after it", async {
        tokio::pin!(acked);
        let refused = loop {
            tokio::select! {
                biased;
                read = adapter.read(&mut reader, &mut ticks) => read.unwrap(),
                refused = &mut acked => break refused.unwrap(),
            }
        };
        assert_eq!(refused, []);
        let before = ticks.len();
        assert!(before > 0, "there were trades meanwhile");
        while ticks.len() < before + 200 {
            adapter.read(&mut reader, &mut ticks).await.unwrap();
        }
    })
    .await;
    let volumes: Vec<u64> = ticks
        .iter()
        .map(|tick| serde_json::from_slice::<serde_json::Value>(&tick.payload).unwrap()["volume"].as_u64().unwrap())
        .collect();
    assert!(volumes.is_sorted(), "{volumes:?}");
}

#[tokio::test]
async fn limits_hold_while_topics_move() {
    let limited = Options::default().max_connections(3).max_topics_per_connection(20).rate(2_000.0);
    let exchange = Exchange::start(limited).await.unwrap();
    let feed = builder(&exchange)
        .max_topics_per_connection(20)
        .linger(Duration::ZERO)
        .compact_after(ms(20))
        .max_idle(ms(50))
        .build()
        .unwrap();
    let names = names(60);
    subscribe(&feed, &names).await;
    for round in 0..5 {
        exchange.kill_any();
        // A third of each connection goes: what is left fits on two, and moves there.
        let (gone, kept): (Vec<_>, Vec<_>) = (0..60).partition(|number| number % 3 == round % 3);
        for &number in &gone {
            feed.unsubscribe(&topic(&names[number], Mode::Ltp)).await.unwrap();
        }
        has_two_full(&exchange).await;
        let kept: Vec<Instrument> = kept.iter().map(|&number| names[number].clone()).collect();
        all_tick(&feed, &kept).await;
        let again: Vec<Instrument> = gone.iter().map(|&number| names[number].clone()).collect();
        subscribe(&feed, &again).await;
        all_tick(&feed, &names).await;
    }
    let figures = exchange.snapshot();
    assert_eq!((figures.over_capacity, figures.most_connections, figures.most_topics), (0, 3, 20));
}

async fn has_two_full(exchange: &Exchange) {
    let compact = |snapshot: &Snapshot| topics(snapshot).iter().filter(|&&topics| topics > 0).eq(&[20, 20]);
    expect("what is left fits on two", exchange.until(compact)).await;
}

#[tokio::test]
async fn topics_go_elsewhere_while_the_exchange_takes_no_connections() {
    let exchange = Exchange::start(Options::default().rate(2_000.0)).await.unwrap();
    let feed = builder(&exchange).max_topics_per_connection(30).compact_after(None).max_idle(None).build().unwrap();
    let names = names(80);
    subscribe(&feed, &names).await;
    feed.unsubscribe_all().await;
    has_topics(&exchange, &[0, 0, 0]).await;
    subscribe(&feed, &names[..35]).await;
    has_topics(&exchange, &[30, 5, 0]).await;
    exchange.refuse_connections(true);
    assert!(exchange.kill(2));
    has_topics(&exchange, &[30, 5]).await;
    all_tick(&feed, &names[..35]).await;
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_replaced() {
    let exchange = Exchange::start(Options::default().heartbeat(ms(50)).rate(1_000.0)).await.unwrap();
    let feed = builder(&exchange).stall_after(ms(1_000)).build().unwrap();
    let names = names(50);
    subscribe(&feed, &names).await;
    assert!(exchange.silence(1));
    expect("another connection", exchange.until(|snapshot| snapshot.accepted > 1)).await;
    all_tick(&feed, &names).await;
}

#[tokio::test]
async fn heartbeats_show_that_an_exchange_lives_where_nothing_is_traded() {
    let exchange = Exchange::start(Options::default().rate(0.0).heartbeat(ms(20))).await.unwrap();
    let adapter = adapter(&exchange);
    let (_writer, mut reader) = adapter.open().await.unwrap();
    let mut ticks = Vec::new();
    for _ in 0..5 {
        expect("a heartbeat", adapter.read(&mut reader, &mut ticks)).await.unwrap();
    }
    assert_eq!(ticks, []);
}

#[tokio::test]
async fn a_client_lives_while_its_heartbeats_come_and_not_longer() {
    let patience = ms(3_000);
    let exchange = Exchange::start(Options::default().patience(patience)).await.unwrap();
    let adapter = adapter(&exchange);
    let (mut writer, mut reader) = adapter.open().await.unwrap();
    // Many for each time that it would be patient without them: a slow machine may be late with a few.
    let mut beats = tokio::time::interval(patience / 30);
    for _ in 0..40 {
        beats.tick().await;
        adapter.heartbeat(&mut writer).await.unwrap();
    }
    assert_eq!(exchange.snapshot().connections.len(), 1);
    let ended = expect("the end", end_of(&adapter, &mut reader)).await;
    assert!(ended.contains("(1008): nothing was heard"), "{ended}");
}

#[tokio::test]
async fn a_connection_cut_while_it_is_written_to_fails_nobody() {
    let exchange = Exchange::start(Options::default()).await.unwrap();
    let feed = builder(&exchange).build().unwrap();
    exchange.cut_next_request();
    let names = names(300);
    subscribe(&feed, &names).await;
    has_topics(&exchange, &[300]).await;
    assert_eq!(exchange.snapshot().accepted, 2);
}

#[tokio::test]
async fn a_subscription_counts_when_it_is_accepted_and_is_pending_before() {
    let exchange = Exchange::start(Options::default().ack_delay(Duration::from_secs(3_600))).await.unwrap();
    let feed = builder(&exchange).pending_after(ms(100)).build().unwrap();
    let placed = feed.subscribe(topic(&names(1)[0], Mode::Ltp)).await.unwrap();
    assert!(placed.pending);
    has_topics(&exchange, &[1]).await;
    exchange.delay_acks(Duration::ZERO);
    assert!(exchange.kill(1), "its ack would come much later");
    all_tick(&feed, &names(1)).await;
}

#[tokio::test]
async fn more_connections_than_allowed_are_turned_away_with_the_limit() {
    let exchange = Exchange::start(Options::default().max_connections(1)).await.unwrap();
    let [first, second] = [(); 2].map(|()| builder(&exchange).pending_after(ms(200)).build().unwrap());
    subscribe(&first, &names(1)).await;
    assert!(second.subscribe(topic(&names(2)[1], Mode::Ltp)).await.unwrap().pending);
    expect("it is turned away", exchange.until(|snapshot| snapshot.turned_away > 0)).await;
    let cause = expect("the feed hears of it", cause_of(&second)).await;
    assert!(cause.contains("allows no more connections: there are 1 connections"), "{cause}");
    drop(first);
    has_topics(&exchange, &[1]).await;
    all_tick(&second, &names(2)[1..]).await;
}

#[tokio::test]
async fn a_token_that_expires_is_read_again_from_its_file_and_the_feed_goes_on() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday\n");
    let options = Options::default().token("monday".to_owned()).rate(2_000.0);
    let exchange = Exchange::start(options).await.unwrap();
    let credential = Credential::file(&path).retry_interval(ms(500));
    let adapter = Simulated::new(&exchange.url(), credential.clone()).unwrap();
    let feed = Feed::builder(adapter).max_topics_per_connection(100).build().unwrap();
    let _watcher = credential.watch(&feed);
    let names = names(250);
    subscribe(&feed, &names).await;

    exchange.change_token("tuesday");
    is(&feed, State::Refused).await;
    expect("all are closed", exchange.until(|snapshot| snapshot.connections.is_empty())).await;
    let cause = feed.snapshot().cause.unwrap().to_string();
    assert!(cause.contains("refuses the credential") && !cause.contains("monday"), "{cause}");
    folder.write("token", "tuesday\n");
    is(&feed, State::Running).await;
    all_tick(&feed, &names).await;

    // And the other way round: the file is new before the exchange is.
    folder.write("token", "wednesday\n");
    let before = exchange.snapshot().turned_away;
    assert!(exchange.kill_any());
    expect("it is not valid yet", exchange.until(|snapshot| snapshot.turned_away > before)).await;
    exchange.change_token("wednesday");
    expect("they come back", exchange.until(|snapshot| topics(snapshot).iter().sum::<usize>() == 250)).await;
    all_tick(&feed, &names).await;
}

#[tokio::test]
async fn a_token_that_stays_the_same_closes_nobody() {
    let exchange = Exchange::start(Options::default()).await.unwrap();
    let [stays, goes] = ["monday", "sunday"].map(|token| {
        let adapter = Simulated::new(&exchange.url(), Credential::fixed(token)).unwrap();
        Feed::builder(adapter).build().unwrap()
    });
    subscribe(&stays, &names(1)).await;
    subscribe(&goes, &names(1)).await;
    // Nobody had to present one so far; the first to be asked for closes those who have presented another.
    exchange.change_token("monday");
    is(&goes, State::Refused).await;
    expect("one is closed", exchange.until(|snapshot| snapshot.connections.len() == 1)).await;
    exchange.change_token("monday");
    // A connection hears orders before anything else, so that an answer shows that there were none.
    subscribe(&stays, &names(3)).await;
    let after = exchange.snapshot();
    assert_eq!((after.accepted, stays.state()), (2, State::Running));
    assert_eq!(after.connections[0].number, 1);
}

#[tokio::test]
async fn nothing_shows_a_token() {
    let options = Options::default().token("sesame".to_owned());
    assert!(!format!("{options:?}").contains("sesame"));
    let exchange = Exchange::start(options).await.unwrap();
    let adapter = Simulated::new(&exchange.url(), Credential::fixed("sesame")).unwrap();
    let (writer, reader) = adapter.open().await.unwrap();
    let shown = format!("{exchange:?} {adapter:?} {writer:?} {reader:?}");
    assert!(shown.contains("Token") && !shown.contains("sesame"), "{shown}");
    exchange.change_token("open");
    assert!(!format!("{exchange:?}").contains("\"open\""));
}

#[tokio::test]
async fn a_refused_credential_is_not_tried_again_until_somebody_says_so() {
    let exchange = Exchange::start(Options::default().token("another".to_owned())).await.unwrap();
    let feed = builder(&exchange).pending_after(ms(50)).build().unwrap();
    assert!(feed.subscribe(topic(&names(1)[0], Mode::Ltp)).await.unwrap().pending);
    is(&feed, State::Refused).await;
    assert_eq!(exchange.snapshot().turned_away, 1);
    exchange.change_token("token");
    exchange.refuse_credential(true);
    feed.resume();
    expect("it was tried", exchange.until(|snapshot| snapshot.turned_away == 2)).await;
    is(&feed, State::Refused).await;
    exchange.refuse_credential(false);
    feed.resume();
    all_tick(&feed, &names(1)).await;
}

#[tokio::test]
async fn connections_that_are_cut_every_so_often_come_back_every_time() {
    let exchange = Exchange::start(Options::default().kill_every(ms(100)).rate(20_000.0)).await.unwrap();
    let feed = builder(&exchange).max_topics_per_connection(40).build().unwrap();
    let names = names(100);
    subscribe(&feed, &names).await;
    expect("several were cut", exchange.until(|snapshot| snapshot.accepted >= 8)).await;
    all_tick(&feed, &names).await;
    assert_eq!(exchange.snapshot().over_capacity, 0);
}

#[tokio::test]
async fn an_exchange_that_stops_says_so_and_a_port_in_use_is_an_error() {
    let exchange = Exchange::start(Options::default()).await.unwrap();
    let busy = Exchange::start(Options::default().listen(exchange.local_addr())).await.unwrap_err();
    assert!(busy.to_string().contains(&exchange.local_addr().to_string()) && busy.source().is_some());
    let adapter = adapter(&exchange);
    let (_writer, mut reader) = adapter.open().await.unwrap();
    let hears = end_of(&adapter, &mut reader);
    let ((), heard) = expect("stopping", async { tokio::join!(exchange.stop(), hears) }).await;
    assert!(heard.contains("(1001): the exchange stops"), "{heard}");
}

#[tokio::test]
async fn options_that_make_no_sense_are_named_once() {
    let wrong = Exchange::start(Options::default().symbols(0)).await.unwrap_err();
    assert_eq!(wrong.to_string(), "symbols must be from 1 to 1000000, not 0");
    assert!(wrong.source().is_none(), "or whoever shows causes too says it twice");
    let nothing = Gateway::builder().auth_grace(Duration::ZERO).start().await.unwrap_err();
    assert!(nothing.to_string().starts_with("auth_grace ") && nothing.source().is_none(), "{nothing}");
    let exchange = Exchange::start(Options::default()).await.unwrap();
    let empty = builder(&exchange).max_connections(0).build().unwrap_err();
    assert!(empty.to_string().starts_with("max_connections ") && empty.source().is_none(), "{empty}");
}

#[tokio::test]
async fn a_feed_that_closes_leaves_nothing_behind() {
    let exchange = Exchange::start(Options::default()).await.unwrap();
    let feed = builder(&exchange).build().unwrap();
    subscribe(&feed, &names(1_500)).await;
    let cut = feed.close(tokio::time::Instant::now() + Duration::from_secs(30)).await;
    assert_eq!(cut, 0);
    expect("it is empty", exchange.until(|snapshot| snapshot.connections.is_empty())).await;
}
