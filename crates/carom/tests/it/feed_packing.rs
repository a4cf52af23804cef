//! Packing: connections that are not needed are freed and released, and what people see of it.

use carom::Feed;
use carom::feed::{ConnectionState, Mode, State, Topic};
use std::time::Duration;
use testkit::feed::{OnWrite, Upstream};
use testkit::wait::ms;
use tokio::time::Instant;

fn topic(number: usize) -> Topic {
    Topic::new("NSE", format!("S{number}"), Mode::Quote)
}

async fn with_topics(upstream: &Upstream, topics: usize) -> Feed<Upstream> {
    upstream.max_topics(4);
    let feed = Feed::builder(upstream.clone())
        .name("zerodha_asha")
        .max_topics_per_connection(4)
        .linger(Duration::ZERO)
        .stall_after(None)
        .build()
        .unwrap();
    for number in 0..topics {
        feed.subscribe(topic(number)).await.unwrap();
    }
    feed
}

#[tokio::test(start_paused = true)]
async fn topics_move_to_fewer_connections_without_a_gap_and_the_freed_one_is_released() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 6).await;
    assert_eq!(upstream.carried_by_each(), [(1, 4), (2, 2)].into());
    for number in [0, 1] {
        feed.unsubscribe(&topic(number)).await.unwrap();
    }
    let mut ticks = feed.ticks();
    let (began, moved) = (Instant::now(), topic(5).instrument);
    // A tick every second all the while: each comes once, whether one connection carries it or two.
    let mut number = 0;
    while upstream.open_now() > 1 {
        number += 1;
        upstream.tick(&moved, Mode::Quote, format!("{number}"));
        let tick = tokio::time::timeout(ms(1_000), ticks.next()).await.expect("it ticks");
        assert_eq!(tick.unwrap().payload, format!("{number}"));
        assert!(!upstream.carried(&moved).is_empty(), "made before it is broken");
        tokio::time::sleep(ms(1_000)).await;
        assert!(number < 300, "{:?}", feed.snapshot());
    }
    assert_eq!(upstream.carried_by_each(), [(1, 4)].into());
    let took = began.elapsed();
    assert!(took >= ms(120_000) && took <= ms(160_000), "60 s until compacted, 60 s without topics: {took:?}");
    assert_eq!((upstream.goodbyes(), feed.snapshot().live), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_feed_without_topics_lets_its_last_connection_go_and_opens_another_when_it_has_one() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 1).await;
    feed.unsubscribe(&topic(0)).await.unwrap();
    let left = Instant::now();
    upstream.until(|upstream| upstream.open_now() == 0).await;
    assert!(left.elapsed() >= ms(60_000) && left.elapsed() <= ms(92_000), "{:?}", left.elapsed());
    assert_eq!(feed.state(), State::Running);
    assert_eq!(feed.subscribe(topic(1)).await.unwrap().connection, 1);
    assert_eq!((upstream.opened(), upstream.peak()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_the_figures_of_get_stats() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 5).await;
    feed.unsubscribe(&topic(4)).await.unwrap();
    let snapshot = feed.snapshot();
    assert_eq!(&*snapshot.name, "zerodha_asha");
    assert_eq!((snapshot.active_connections, snapshot.max_connections), (2, 3));
    assert_eq!((snapshot.max_symbols_per_connection, snapshot.max_capacity), (4, 12));
    assert_eq!((snapshot.total_subscriptions, snapshot.capacity_used_percent), (4, 33.33));
    let shown: Vec<_> =
        snapshot.connections.iter().map(|shown| (shown.index, shown.symbols, shown.capacity_percent)).collect();
    assert_eq!(shown, [(1, 4, 100.0), (2, 0, 0.0)]);
    assert!(snapshot.connections.iter().all(|shown| shown.state == ConnectionState::Up && shown.heard.is_some()));
    assert_eq!((snapshot.state, snapshot.live, snapshot.waiting), (State::Running, 4, 0));
    assert_eq!((snapshot.peak.topics, snapshot.peak.connections, snapshot.peak.on_each), (5, 2, vec![4, 1]));
    assert!(snapshot.cause.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_written_is_shown() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 1).await;
    upstream.on_write(OnWrite::Slow(ms(1_000)));
    let (one, other) = (topic(1), topic(2));
    let shown = async {
        upstream.until(|upstream| upstream.written().len() == 2).await;
        let snapshot = feed.snapshot();
        assert_eq!((snapshot.live, snapshot.waiting, snapshot.connections[0].unwritten), (1, 2, 2));
    };
    let (first, second, ()) = tokio::join!(feed.subscribe(one), feed.subscribe(other), shown);
    assert!(!first.unwrap().pending && !second.unwrap().pending);
}
