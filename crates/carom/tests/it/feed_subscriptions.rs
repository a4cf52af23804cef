//! Subscribing: where topics are placed, how modes ride along, and what the upstream is told of it.

use carom::Feed;
use carom::feed::{Instrument, Level, Mode, Pacing, Standing, SubscribeError, Topic};
use std::time::Duration;
use testkit::feed::{OnOpen, OnWrite, Upstream};
use testkit::wait::ms;
use tokio::time::Instant;

fn topic(number: usize, mode: Mode) -> Topic {
    Topic::new("NSE", format!("S{number}"), mode)
}

fn feed(upstream: &Upstream) -> Feed<Upstream> {
    upstream.max_topics(2);
    Feed::builder(upstream.clone()).max_topics_per_connection(2).max_connections(2).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn topics_fill_one_connection_after_the_other() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    let mut placed = Vec::new();
    for number in 0..4 {
        let placement = feed.subscribe(topic(number, Mode::Quote)).await.unwrap();
        assert!(!placement.already && !placement.pending);
        placed.push((placement.connection, placement.total_connections, placement.on_connection));
    }
    assert_eq!(placed, [(1, 1, 1), (1, 1, 2), (2, 2, 1), (2, 2, 2)]);
    assert_eq!(upstream.carried_by_each().into_values().collect::<Vec<_>>(), [2, 2]);

    let error = feed.subscribe(topic(4, Mode::Quote)).await.unwrap_err();
    assert_eq!(error.to_string(), "`feed` is full: 4 topics on at most 2 connections of 2 each");
    assert!(matches!(
        error,
        SubscribeError::CapacityReached { max_connections: 2, max_topics_per_connection: 2, topics: 4, .. }
    ));
    // A higher mode of what is there needs no room.
    feed.subscribe(topic(3, Mode::Depth)).await.unwrap();
    assert_eq!(upstream.open_now(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_again_says_already_and_calls_nobody() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    feed.subscribe(topic(1, Mode::Quote)).await.unwrap();
    let written = upstream.written().len();
    let again = feed.subscribe(topic(1, Mode::Quote)).await.unwrap();
    assert!(again.already && again.on_connection == 1);
    let covered = feed.subscribe(topic(1, Mode::Ltp)).await.unwrap();
    assert!(!covered.already);
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(upstream.written().len(), written);
}

#[tokio::test(start_paused = true)]
async fn modes_are_upgraded_in_place_and_downgraded_to_the_next_with_its_own_depth() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    let (book, deep) = (topic(1, Mode::Depth).depth(7), topic(1, Mode::Depth).depth(20));
    feed.subscribe(topic(1, Mode::Ltp)).await.unwrap();
    feed.subscribe(book.clone()).await.unwrap();
    feed.subscribe(deep.clone()).await.unwrap();
    assert_eq!(upstream.carried(&deep.instrument), [(1, Level { mode: Mode::Depth, depth: 20 })]);

    feed.unsubscribe(&deep).await.unwrap();
    tokio::time::sleep(ms(4_900)).await;
    assert_eq!(upstream.carried(&deep.instrument), [(1, deep.level)], "it lingers");
    tokio::time::sleep(ms(300)).await;
    assert_eq!(upstream.carried(&deep.instrument), [(1, Level { mode: Mode::Depth, depth: 7 })]);
    feed.unsubscribe(&book).await.unwrap();
    tokio::time::sleep(ms(5_200)).await;
    assert_eq!(upstream.carried(&deep.instrument), [(1, Level { mode: Mode::Ltp, depth: 5 })]);
    assert_eq!(upstream.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_one_to_leave_unsubscribes_after_the_linger_and_who_comes_back_in_time_calls_nobody() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    let wanted = topic(1, Mode::Quote);
    feed.subscribe(wanted.clone()).await.unwrap();
    feed.subscribe(wanted.clone()).await.unwrap();
    feed.unsubscribe(&wanted).await.unwrap();
    tokio::time::sleep(ms(20_000)).await;
    assert_eq!(upstream.carried(&wanted.instrument).len(), 1, "somebody wants it");

    feed.unsubscribe(&wanted).await.unwrap();
    tokio::time::sleep(ms(4_000)).await;
    assert_eq!(feed.topic(&wanted.instrument).unwrap().standing, Standing::Lingering);
    let written = upstream.written().len();
    assert!(feed.subscribe(wanted.clone()).await.unwrap().already);
    tokio::time::sleep(ms(20_000)).await;
    assert_eq!(upstream.written().len(), written);

    feed.unsubscribe(&wanted).await.unwrap();
    let error = feed.unsubscribe(&wanted).await.unwrap_err();
    assert_eq!(error.to_string(), "nobody is subscribed to NSE:S1:QUOTE of `feed`");
    upstream.until(|upstream| upstream.carried(&wanted.instrument).is_empty()).await;
    assert!(feed.topics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_lingers_makes_room_when_room_is_short() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    for number in 0..4 {
        feed.subscribe(topic(number, Mode::Ltp)).await.unwrap();
    }
    feed.unsubscribe(&topic(2, Mode::Ltp)).await.unwrap();
    let placed = feed.subscribe(topic(9, Mode::Ltp)).await.unwrap();
    assert_eq!((placed.connection, placed.pending), (2, false));
    assert_eq!(upstream.carried_by_each().into_values().collect::<Vec<_>>(), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_subscriptions_are_written_in_batches_at_the_upstreams_pace() {
    let pacing = Pacing { batch: 200, pace: ms(500), heartbeat: None };
    let upstream = Upstream::new().pacing(pacing);
    upstream.max_topics(3_000);
    let feed = Feed::builder(upstream.clone())
        .max_connections(4)
        .max_topics_per_connection(3_000)
        .pending_after(Duration::from_secs(60))
        .build()
        .unwrap();
    let mut subscribing = tokio::task::JoinSet::new();
    for number in 0..10_000 {
        let feed = feed.clone();
        subscribing.spawn(async move { feed.subscribe(topic(number, Mode::Ltp)).await });
    }
    while let Some(placed) = subscribing.join_next().await {
        assert!(!placed.unwrap().unwrap().pending);
    }
    assert_eq!(upstream.carried_by_each().into_values().collect::<Vec<_>>(), [3_000, 3_000, 3_000, 1_000]);
    let written = upstream.written();
    assert!(written.iter().all(|write| write.changes.len() <= 200));
    assert_eq!(written.len(), 3 * 15 + 5, "no batch is smaller than it must be");
    for connection in 1..=4 {
        let times: Vec<Instant> = written.iter().filter(|write| write.connection == connection).map(|w| w.at).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= ms(500)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_the_upstream_is_slow_to_accept_is_pending_after_three_seconds_and_live_later() {
    let upstream = Upstream::new();
    upstream.on_write(OnWrite::Slow(ms(5_000)));
    let feed = feed(&upstream);
    let (began, wanted) = (Instant::now(), topic(1, Mode::Ltp));
    let placed = feed.subscribe(wanted.clone()).await.unwrap();
    assert!(placed.pending);
    assert_eq!(began.elapsed(), ms(3_000));
    assert_eq!(feed.topic(&wanted.instrument).unwrap().standing, Standing::Pending);
    upstream.until(|upstream| !upstream.carried(&wanted.instrument).is_empty()).await;
    tokio::task::yield_now().await;
    assert_eq!(feed.topic(&wanted.instrument).unwrap().standing, Standing::Live);
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_what_the_upstream_does_not_want_is_told_and_nothing_is_left_of_it() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    let (wanted, other) = (topic(1, Mode::Ltp), topic(2, Mode::Ltp));
    upstream.refuse(&wanted.instrument, Some("no such symbol"));
    let (refused, placed) = tokio::join!(feed.subscribe(wanted.clone()), feed.subscribe(other));
    assert_eq!(refused.unwrap_err().to_string(), "the upstream of `feed` refuses NSE:S1:LTP: no such symbol");
    assert!(!placed.unwrap().pending, "others in the same batch are accepted");
    assert!(feed.topic(&wanted.instrument).is_none());

    // Once it exists it is accepted, and an upgrade that is refused leaves what was there.
    upstream.refuse(&wanted.instrument, None);
    feed.subscribe(wanted.clone()).await.unwrap();
    upstream.refuse(&wanted.instrument, Some("no depth"));
    assert!(feed.subscribe(topic(1, Mode::Depth)).await.is_err());
    assert_eq!(upstream.carried(&wanted.instrument), [(1, wanted.level)]);
    assert_eq!(feed.topic(&wanted.instrument).unwrap().standing, Standing::Live);
}

#[tokio::test(start_paused = true)]
async fn unsubscribing_everything_is_at_once_and_tells_who_waits() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    for number in 0..3 {
        feed.subscribe(topic(number, Mode::Ltp)).await.unwrap();
    }
    upstream.on_open(OnOpen::Never);
    upstream.on_write(OnWrite::Never);
    let waiting = tokio::spawn({
        let feed = feed.clone();
        async move { feed.subscribe(topic(3, Mode::Ltp)).await }
    });
    upstream.until(|upstream| upstream.written().len() > 3).await;
    upstream.on_write(OnWrite::Accept);
    assert_eq!(feed.unsubscribe_all().await, 4);
    assert!(matches!(waiting.await.unwrap(), Err(SubscribeError::Unsubscribed { .. })));
    upstream.until(|upstream| upstream.carried_by_each().values().all(|carried| *carried == 0)).await;
    assert_eq!(feed.snapshot().total_subscriptions, 0);
}

#[tokio::test(start_paused = true)]
async fn ticks_of_what_is_wanted_reach_every_reader_and_others_reach_nobody() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    let (mut one, mut other) = (feed.ticks(), feed.ticks());
    let wanted = topic(1, Mode::Quote);
    feed.subscribe(wanted.clone()).await.unwrap();
    upstream.tick_on(1, &Instrument::new("NSE", "UNASKED"), "0");
    upstream.tick(&wanted.instrument, Mode::Quote, "1");
    for ticks in [&mut one, &mut other] {
        let tick = ticks.next().await.unwrap();
        assert_eq!((tick.bus_topic(), &*tick.payload), ("NSE_S1_QUOTE".to_owned(), &b"1"[..]));
        assert_eq!(ticks.missed(), 0);
    }
    let seen = feed.topic(&wanted.instrument).unwrap().last_tick;
    assert_eq!(seen, Some(Instant::now().into_std()));
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_is_slow_misses_the_oldest_ticks_and_knows_how_many() {
    let upstream = Upstream::new();
    let feed = Feed::builder(upstream.clone()).backlog(2).build().unwrap();
    let (mut slow, mut quick) = (feed.ticks(), feed.ticks());
    let wanted = topic(1, Mode::Ltp);
    feed.subscribe(wanted.clone()).await.unwrap();
    for payload in ["1", "2", "3"] {
        upstream.tick(&wanted.instrument, Mode::Ltp, payload);
        assert_eq!(quick.next().await.unwrap().payload, payload);
    }
    assert_eq!((slow.next().await.unwrap().payload, slow.missed(), quick.missed()), ("2".into(), 1, 0));
}
