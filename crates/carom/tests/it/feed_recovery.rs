//! Connections that die: what was on them comes back, on their successors or elsewhere.

use carom::feed::{ConnectionState, Mode, Pacing, Pending, Standing, State, Topic};
use carom::{Feed, Policy};
use std::time::Duration;
use testkit::feed::{OnClose, OnHeartbeat, OnOpen, OnWrite, Upstream, UpstreamError};
use testkit::wait::ms;
use tokio::time::Instant;

fn topic(number: usize) -> Topic {
    Topic::new("NSE", format!("S{number}"), Mode::Quote)
}

/// 2 attempts of 1 s, 100 ms apart, then one every second.
fn policy() -> Policy {
    Policy::default()
        .attempts(2)
        .timeout(ms(1_000))
        .max_timeout(ms(1_000))
        .delay(ms(100))
        .max_delay(ms(1_000))
        .spread(0.0)
}

async fn with_topics(upstream: &Upstream, per_connection: usize, topics: usize) -> Feed<Upstream> {
    upstream.max_topics(per_connection);
    let feed = Feed::builder(upstream.clone())
        .max_topics_per_connection(per_connection)
        .recovery(policy())
        .compact_after(None)
        .build()
        .unwrap();
    for number in 0..topics {
        feed.subscribe(topic(number)).await.unwrap();
    }
    tokio::time::sleep(ms(1_500)).await; // what ends young is another matter
    feed
}

fn live(feed: &Feed<Upstream>) -> usize {
    feed.snapshot().live
}

#[tokio::test(start_paused = true)]
async fn topics_of_a_dead_connection_are_subscribed_on_its_successor_in_batches() {
    let upstream = Upstream::new().pacing(Pacing { batch: 4, pace: ms(10), heartbeat: None });
    let feed = with_topics(&upstream, 10, 15).await;
    assert_eq!(upstream.carried_by_each(), [(1, 10), (2, 5)].into());
    let before = upstream.written().len();
    upstream.kill(1);
    upstream.until(|upstream| upstream.carried_by_each() == [(2, 5), (3, 10)].into()).await;
    let again: Vec<usize> = upstream.written()[before..].iter().map(|write| write.changes.len()).collect();
    assert_eq!(again, [4, 4, 2], "in batches, not one by one");
    tokio::task::yield_now().await;
    assert_eq!(live(&feed), 15);
    assert_eq!(upstream.peak(), 2);
}

#[tokio::test(start_paused = true)]
async fn while_a_connection_cannot_be_reopened_its_topics_move_to_where_there_is_room() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 4, 6).await;
    upstream.on_open(OnOpen::Fail);
    upstream.kill(1);
    // Two of the four have room on the other connection.
    upstream.until(|upstream| upstream.carried_by_each() == [(2, 4)].into()).await;
    tokio::time::sleep(ms(50)).await;
    assert_eq!(live(&feed), 4);
    let stranded: Vec<_> = feed.topics().into_iter().filter(|topic| topic.standing == Standing::Pending).collect();
    assert_eq!(stranded.len(), 2);
    assert!(stranded.iter().all(|topic| topic.connection == 1 && topic.carried.is_none()));
    let snapshot = feed.snapshot();
    assert_eq!(snapshot.connections[0].state, ConnectionState::Waiting);
    assert_eq!(snapshot.cause.unwrap().to_string(), UpstreamError::Failed.to_string());

    let back = Instant::now();
    upstream.on_open(OnOpen::Succeed);
    upstream.until(|upstream| upstream.carried_by_each().into_values().sum::<usize>() == 6).await;
    assert!(back.elapsed() <= ms(1_100), "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_not_tried_again_until_told_to_go_on() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 10, 3).await;
    let mut states = feed.states();
    upstream.on_open(OnOpen::Refuse);
    upstream.kill(1);
    states.wait_for(|state| *state == State::Refused).await.unwrap();
    let attempts = upstream.attempts();
    // What is subscribed to meanwhile is pending at once, and not lost.
    let (asked, placed) = (Instant::now(), feed.subscribe(topic(7)).await.unwrap());
    assert!(placed.pending && asked.elapsed().is_zero());
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(upstream.attempts(), attempts, "an hour without another attempt");

    upstream.on_open(OnOpen::Succeed);
    feed.resume();
    upstream.until(|upstream| upstream.carried_by_each().into_values().eq([4])).await;
    assert_eq!(feed.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn who_waits_when_the_credential_is_refused_is_told_at_once() {
    let upstream = Upstream::new();
    upstream.on_open(OnOpen::Refuse);
    let feed = Feed::builder(upstream.clone()).build().unwrap();
    let asked = Instant::now();
    assert!(feed.subscribe(topic(1)).await.unwrap().pending);
    assert!(asked.elapsed() < ms(1_000));
    assert_eq!(feed.state(), State::Refused);
}

#[tokio::test(start_paused = true)]
async fn while_the_upstream_is_down_subscriptions_do_not_wait_one_after_the_other() {
    let upstream = Upstream::new();
    upstream.on_open(OnOpen::Fail);
    let feed = Feed::builder(upstream.clone()).build().unwrap();
    let asked = Instant::now();
    for number in 0..8 {
        let placed = feed.subscribe(topic(number)).await.unwrap();
        assert_eq!((placed.pending, placed.why), (true, Some(Pending::Down)));
    }
    assert!(
        asked.elapsed() <= ms(3_100),
        "the first may be answered any moment, the others not: {:?}",
        asked.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_a_short_silence() {
    let upstream = Upstream::new();
    let feed = Feed::builder(upstream.clone()).build().unwrap();
    feed.subscribe(topic(0)).await.unwrap();
    tokio::time::sleep(ms(11_000)).await; // what ends young is another matter
    upstream.on_open(OnOpen::Fail);
    upstream.kill(1);
    tokio::time::sleep(ms(1_000)).await;
    upstream.on_open(OnOpen::Succeed);
    let back = Instant::now();
    upstream.until(|upstream| upstream.carried_by_each().into_values().eq([1])).await;
    assert!(back.elapsed() <= ms(1_500), "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_sign_of_life_is_dead_and_one_with_is_not() {
    let upstream = Upstream::new();
    let feed = with_topics(&upstream, 10, 2).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        upstream.show_life();
    }
    assert_eq!(upstream.opened(), 1);
    tokio::task::yield_now().await;
    let silent = Instant::now();
    upstream.until(|upstream| upstream.carried_by_each() == [(2, 2)].into()).await;
    assert_eq!(silent.elapsed(), ms(90_100), "given up, and opened again after a delay");
    assert_eq!((upstream.goodbyes(), upstream.peak()), (0, 1));
    drop(feed);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_connection_gets_no_goodbye_and_its_topics_move_at_once() {
    let upstream = Upstream::new();
    upstream.on_close(OnClose::Never);
    let feed = with_topics(&upstream, 4, 6).await;
    for number in 0..2 {
        feed.unsubscribe(&topic(number)).await.unwrap();
    }
    tokio::time::sleep(ms(10_000)).await;
    assert_eq!(upstream.carried_by_each(), [(1, 2), (2, 2)].into());
    // The first goes on ticking, the second does not.
    upstream.on_open(OnOpen::Never);
    let began = Instant::now();
    while upstream.carried_by_each() != [(1, 4)].into() {
        upstream.tick_on(1, &topic(2).instrument, "1");
        tokio::time::sleep(ms(100)).await;
        assert!(began.elapsed() <= ms(81_000), "{:?}", upstream.carried_by_each());
    }
    assert_eq!((upstream.goodbyes(), live(&feed)), (0, 4));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_hangs_or_fails_ends_the_connection() {
    for heartbeat in [OnHeartbeat::Never, OnHeartbeat::Fail] {
        let upstream = Upstream::new().pacing(Pacing { heartbeat: Some(ms(10_000)), ..Pacing::default() });
        let feed = with_topics(&upstream, 10, 1).await;
        upstream.on_heartbeat(heartbeat);
        upstream.until(|upstream| upstream.heartbeats() == 1).await;
        let began = Instant::now();
        upstream.until(|upstream| upstream.carried_by_each() == [(2, 1)].into()).await;
        assert!(began.elapsed() <= ms(11_000), "{heartbeat:?}: {:?}", began.elapsed());
        drop(feed);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_keep_their_pace_though_a_heartbeat_holds_one_up() {
    let pacing = Pacing { batch: 1, pace: ms(200), heartbeat: Some(ms(1_000)) };
    let upstream = Upstream::new().pacing(pacing);
    let feed = Feed::builder(upstream.clone()).build().unwrap();
    feed.subscribe(topic(0)).await.unwrap();
    upstream.on_heartbeat(OnHeartbeat::Slow(ms(150)));
    upstream.until(|upstream| upstream.heartbeats() == 1).await;
    // Asked for while the heartbeat is under way, so written when it is over; the next comes 200 ms after that.
    let (one, other) = tokio::join!(feed.subscribe(topic(1)), feed.subscribe(topic(2)));
    assert!(!one.unwrap().pending && !other.unwrap().pending);
    let times: Vec<_> = upstream.written().iter().map(|write| write.at).collect();
    assert!(times[2] - times[1] >= ms(200), "{:?}", times[2] - times[1]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_fails_or_panics_ends_the_connection_and_is_made_up_for() {
    for write in [OnWrite::Never, OnWrite::Fail, OnWrite::Panic] {
        let upstream = Upstream::new();
        let feed = with_topics(&upstream, 10, 1).await;
        upstream.on_write(write);
        let placed = tokio::spawn({
            let feed = feed.clone();
            async move { feed.subscribe(topic(1)).await }
        });
        upstream.until(|upstream| upstream.written().len() >= 2).await;
        upstream.on_write(OnWrite::Accept);
        placed.await.unwrap().unwrap();
        upstream.until(|upstream| upstream.carried_by_each().into_values().eq([2])).await;
        tokio::task::yield_now().await;
        assert_eq!(live(&feed), 2, "{write:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_hang_or_panic_are_given_up_and_made_again() {
    for open in [OnOpen::Never, OnOpen::Panic, OnOpen::Fail] {
        let upstream = Upstream::new();
        upstream.on_open(open);
        let feed = Feed::builder(upstream.clone()).recovery(policy()).build().unwrap();
        assert!(feed.subscribe(topic(1)).await.unwrap().pending, "{open:?}");
        upstream.on_open(OnOpen::Succeed);
        upstream.until(|upstream| upstream.carried_by_each().into_values().eq([1])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_upstream_sees_heartbeats_as_often_as_it_wants() {
    let upstream = Upstream::new().pacing(Pacing { heartbeat: Some(ms(10_000)), ..Pacing::default() });
    let feed = with_topics(&upstream, 10, 1).await;
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(upstream.heartbeats(), 6);
    drop(feed);
}
