//! A feed, as a monitor sees it: topics that fill its connections, and connections that are lost and opened again.

use carom::feed::{Mode, Pacing, SubscribeError, Topic};
use carom::monitor::{Feed as Seen, FeedConnectionState, Idle, Monitor, Object, State};
use carom::{Feed, Policy};
use std::time::Duration;
use testkit::feed::{OnOpen, OnWrite, Upstream};
use testkit::wait::ms;
use tokio::time::{Instant, sleep};

fn topic(number: usize) -> Topic {
    Topic::new("NSE", format!("S{number}"), Mode::Quote)
}

fn feed(upstream: &Upstream, monitor: &Monitor) -> Feed<Upstream> {
    let policy = Policy::default().attempts(2).timeout(ms(1_000)).max_timeout(ms(1_000));
    Feed::builder(upstream.clone())
        .name("broker")
        .monitor(monitor)
        .max_topics_per_connection(2)
        .max_connections(2)
        .linger(Duration::ZERO)
        .compact_after(None)
        .recovery(policy.delay(ms(400)).max_delay(ms(1_000)).spread(0.0))
        .build()
        .unwrap()
}

fn seen(monitor: &Monitor, feed: &Feed<Upstream>) -> Seen {
    let seen = monitor.object(feed.id()).expect("it is there");
    assert_eq!(seen.name, "broker");
    match seen.object {
        Object::Feed(feed) => feed,
        other => panic!("{other:?}"),
    }
}

/// Of each connection its number, state and topics.
fn connections(seen: &Seen) -> Vec<(usize, FeedConnectionState, usize)> {
    seen.connections.iter().map(|one| (one.index, one.state, one.topics)).collect()
}

#[tokio::test(start_paused = true)]
async fn it_fills_up_to_its_capacity() {
    let (upstream, monitor) = (Upstream::new(), Monitor::new());
    let feed = feed(&upstream, &monitor);
    let now = seen(&monitor, &feed);
    assert_eq!((now.state, now.topics, now.connections.len()), (State::Starting, 0, 0));
    assert_eq!((now.max_topics_per_connection, now.max_connections, now.capacity), (2, 2, 4));

    for number in 0..3 {
        feed.subscribe(topic(number)).await.unwrap();
    }
    let now = seen(&monitor, &feed);
    assert_eq!((now.state, now.topics, now.live, now.waiting, now.peak_topics), (State::Running, 3, 3, 0, 3));
    assert_eq!(connections(&now), [(1, FeedConnectionState::Up, 2), (2, FeedConnectionState::Up, 1)]);
    assert_eq!((now.connections[0].unwritten, now.connections[0].idle), (0, Some(Idle::Using)));
    assert_eq!((now.counters.connects, now.counters.connect_failures, now.counters.lost), (2, 0, 0));

    feed.subscribe(topic(3)).await.unwrap();
    let full = feed.subscribe(topic(4)).await.unwrap_err();
    assert!(matches!(full, SubscribeError::CapacityReached { .. }), "{full}");
    assert_eq!(seen(&monitor, &feed).topics, 4);

    upstream.tick(&topic(0).instrument, Mode::Quote, "1");
    upstream.tick(&topic(9).instrument, Mode::Quote, "nobody wants it");
    while seen(&monitor, &feed).counters.ticks == 0 {
        tokio::task::yield_now().await;
    }
    sleep(ms(700)).await;
    let now = seen(&monitor, &feed);
    assert_eq!((now.counters.ticks, now.connections[0].heard_ms), (1, Some(700)));

    feed.unsubscribe_all().await;
    let now = seen(&monitor, &feed);
    assert_eq!((now.topics, now.peak_topics), (0, 4));
    // Nobody wants anything, for long enough to be found out.
    while seen(&monitor, &feed).connections.iter().any(|one| one.idle == Some(Idle::Using)) {
        sleep(ms(100)).await;
    }
    sleep(Duration::from_secs(120)).await;
    let now = seen(&monitor, &feed);
    assert_eq!((now.state, now.connections.len(), now.counters.lost), (State::Running, 0, 0), "released, not lost");
}

#[tokio::test(start_paused = true)]
async fn what_waits_to_be_written_is_seen() {
    let (upstream, monitor) = (Upstream::new().pacing(Pacing { batch: 1, ..Pacing::default() }), Monitor::new());
    let feed = feed(&upstream, &monitor);
    upstream.on_write(OnWrite::Never);
    let (one, other) = (feed.clone(), feed.clone());
    let waiting = [
        tokio::spawn(async move { one.subscribe(topic(1)).await }),
        tokio::spawn(async move { other.subscribe(topic(2)).await }),
    ];
    sleep(ms(100)).await;
    let now = seen(&monitor, &feed);
    assert_eq!((now.topics, now.live, now.waiting, now.connections[0].unwritten), (2, 0, 2, 2));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_is_seen_with_the_next_attempt() {
    let (upstream, monitor) = (Upstream::new(), Monitor::new());
    let feed = feed(&upstream, &monitor);
    feed.subscribe(topic(0)).await.unwrap();
    sleep(ms(1_500)).await;
    upstream.on_open(OnOpen::Fail);
    upstream.kill(1);
    let lost = Instant::now();
    while seen(&monitor, &feed).state != State::Failed {
        sleep(ms(1)).await;
    }
    let now = seen(&monitor, &feed);
    assert_eq!(connections(&now), [(1, FeedConnectionState::Waiting, 1)]);
    let next = now.connections[0].next_attempt_ms.expect("it is tried again");
    let since = lost.elapsed().as_millis() as u64;
    assert!((395..=400).contains(&(next + since)), "{next} ms from now, {since} ms after the first");
    assert_eq!((now.connections[0].heard_ms, now.connections[0].idle, now.live), (None, None, 0));
    assert_eq!(now.cause.as_deref(), Some("scripted: failed"));
    let counters = now.counters;
    assert_eq!((counters.connects, counters.connect_failures, counters.lost), (2, 1, 1));

    upstream.on_open(OnOpen::Succeed);
    upstream.until(|upstream| upstream.open_now() == 1).await;
    while seen(&monitor, &feed).live == 0 {
        sleep(ms(1)).await;
    }
    let now = seen(&monitor, &feed);
    assert_eq!((now.state, connections(&now)), (State::Running, vec![(1, FeedConnectionState::Up, 1)]));
    assert_eq!(now.cause, None, "it is over");
}

#[tokio::test(start_paused = true)]
async fn the_cause_stays_while_one_topic_is_not_carried() {
    let (upstream, monitor) = (Upstream::new(), Monitor::new());
    let feed = feed(&upstream, &monitor);
    for number in 0..3 {
        feed.subscribe(topic(number)).await.unwrap();
    }
    upstream.on_open(OnOpen::Fail);
    upstream.kill(2);
    while seen(&monitor, &feed).cause.as_deref() != Some("scripted: failed") {
        sleep(ms(1)).await;
    }
    // The other connection goes on, and is spoken to.
    feed.subscribe(topic(0)).await.unwrap();
    let now = seen(&monitor, &feed);
    assert_eq!((now.live, now.topics, now.cause.as_deref()), (2, 3, Some("scripted: failed")));

    upstream.on_open(OnOpen::Succeed);
    while seen(&monitor, &feed).live < 3 {
        sleep(ms(1)).await;
    }
    assert_eq!(seen(&monitor, &feed).cause, None);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_is_refused_is_seen_and_no_attempt_is_promised() {
    let (upstream, monitor) = (Upstream::new(), Monitor::new());
    let feed = feed(&upstream, &monitor);
    upstream.on_open(OnOpen::Refuse);
    let placed = feed.subscribe(topic(0)).await.unwrap();
    assert!(placed.why.is_some(), "{placed:?}");
    let now = seen(&monitor, &feed);
    assert_eq!((now.state, connections(&now)), (State::Refused, vec![(1, FeedConnectionState::Waiting, 1)]));
    assert_eq!((now.connections[0].next_attempt_ms, now.cause.as_deref()), (None, Some("scripted: token expired")));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_closed_is_gone() {
    let (upstream, monitor) = (Upstream::new(), Monitor::new());
    let feed = feed(&upstream, &monitor);
    feed.subscribe(topic(0)).await.unwrap();
    feed.close(Instant::now() + ms(1_000)).await;
    assert_eq!(monitor.object(feed.id()), None);
    assert_eq!(monitor.snapshot().objects, []);
}
