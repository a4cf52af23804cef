//! Ends: of a feed, of its runtime, and of subscriptions that nobody waits for any more.

use carom::Feed;
use carom::feed::{Mode, State, SubscribeError, Subscribing, Topic};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;
use testkit::feed::{OnOpen, OnWrite, Upstream};
use testkit::wait::ms;
use tokio::time::Instant;

fn topic(number: usize) -> Topic {
    Topic::new("NSE", format!("S{number}"), Mode::Quote)
}

fn feed(upstream: &Upstream) -> Feed<Upstream> {
    upstream.max_topics(3);
    Feed::builder(upstream.clone()).max_topics_per_connection(3).linger(ms(100)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn closing_unsubscribes_everything_and_says_goodbye() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    for number in 0..5 {
        feed.subscribe(topic(number)).await.unwrap();
    }
    let mut ticks = feed.ticks();
    assert_eq!(feed.close(Instant::now() + ms(5_000)).await, 0);
    assert_eq!((feed.state(), upstream.open_now(), upstream.goodbyes()), (State::Stopped, 0, 2));
    let dropped: usize =
        upstream.written().iter().map(|write| write.changes.iter().filter(|change| change.to.is_none()).count()).sum();
    assert_eq!(dropped, 5);
    assert!(matches!(feed.subscribe(topic(9)).await, Err(SubscribeError::Closed { .. })));
    assert_eq!((ticks.next().await, feed.ticks().next().await), (None, None));
}

#[tokio::test(start_paused = true)]
async fn closing_returns_by_its_deadline_whatever_the_upstream_does() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    for number in 0..2 {
        feed.subscribe(topic(number)).await.unwrap();
    }
    upstream.on_write(OnWrite::Never);
    let began = Instant::now();
    assert_eq!(feed.close(Instant::now() + ms(500)).await, 2);
    assert_eq!(began.elapsed(), ms(500));
    upstream.until(|upstream| upstream.open_now() == 0).await;
    assert_eq!(feed.state(), State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_closes_the_feed() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    feed.subscribe(topic(1)).await.unwrap();
    drop(feed.clone());
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(upstream.open_now(), 1, "there is another handle");
    drop(feed);
    upstream.until(|upstream| upstream.open_now() == 0).await;
    assert_eq!(upstream.goodbyes(), 1);
}

#[test]
fn nobody_is_left_waiting_when_the_runtime_ends() {
    let upstream = Upstream::new();
    upstream.on_open(OnOpen::Never);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let feed = Feed::builder(upstream.clone()).runtime(runtime.handle().clone()).build().unwrap();
    let wanted = topic(1);
    let mut waiting = Box::pin(feed.subscribe(wanted));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    runtime.block_on(upstream.until(|upstream| upstream.attempts() == 1));
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(matches!(other.block_on(waiting), Err(SubscribeError::Closed { .. })));
    assert_eq!(feed.state(), State::Stopped);
}

/// How far the upstream is when somebody gives up.
#[derive(Clone, Copy, Debug)]
enum Upstreams {
    Opens(OnOpen),
    Writes(OnWrite),
}

const UPSTREAMS: [Upstreams; 10] = [
    Upstreams::Opens(OnOpen::Succeed),
    Upstreams::Opens(OnOpen::Fail),
    Upstreams::Opens(OnOpen::Slow(Duration::from_millis(40))),
    Upstreams::Opens(OnOpen::Never),
    Upstreams::Opens(OnOpen::Refuse),
    Upstreams::Opens(OnOpen::Panic),
    Upstreams::Writes(OnWrite::Slow(Duration::from_millis(40))),
    Upstreams::Writes(OnWrite::Never),
    Upstreams::Writes(OnWrite::Fail),
    Upstreams::Writes(OnWrite::Panic),
];

/// The cancellation grid: whatever the upstream does, a subscriber may give up at any time, and afterwards interest is exact.
#[tokio::test(start_paused = true)]
async fn giving_up_at_any_time_takes_the_interest_back() {
    for does in UPSTREAMS {
        for give_up in [0, 1, 20, 45, 100, 2_500, 5_000] {
            let at = format!("{does:?}, given up after {give_up} ms");
            let upstream = Upstream::new();
            match does {
                Upstreams::Opens(open) => upstream.on_open(open),
                Upstreams::Writes(write) => upstream.on_write(write),
            }
            let feed = feed(&upstream);
            // This one never looks what it was told, and gives up last.
            let mut heedless = Box::pin(feed.subscribe(topic(3)));
            let _ = heedless.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let callers = async {
                let (one, same, other) =
                    tokio::join!(feed.subscribe(topic(1)), feed.subscribe(topic(1)), feed.subscribe(topic(2)));
                (one.is_ok(), same.is_ok(), other.is_ok())
            };
            let told = tokio::time::timeout(ms(give_up), callers).await;
            let expected = match told {
                Ok((one, same, other)) => usize::from(one) + usize::from(same) + usize::from(other),
                Err(_) => 0,
            };
            let others = feed.topics().into_iter().filter(|shown| shown.instrument != topic(3).instrument);
            assert_eq!(others.map(|shown| shown.interest).sum::<usize>(), expected, "{at}");
            assert!(feed.snapshot().waiting <= 1, "{at}");

            // With the faults gone it works again, and nothing else is carried.
            upstream.on_open(OnOpen::Succeed);
            upstream.on_write(OnWrite::Accept);
            feed.resume();
            feed.unsubscribe_all().await;
            feed.subscribe(topic(3)).await.unwrap_or_else(|error| panic!("{error}: {at}"));
            drop(heedless);
            let left: Vec<_> = feed.topics().into_iter().map(|shown| (shown.instrument, shown.interest)).collect();
            assert_eq!((left, feed.snapshot().waiting), (vec![(topic(3).instrument, 1)], 0), "{at}");
            upstream.until(|upstream| !upstream.carried(&topic(3).instrument).is_empty()).await;
            tokio::time::sleep(ms(15_000)).await;
            let carried: usize = upstream.carried_by_each().into_values().sum();
            assert_eq!((carried, feed.snapshot().live), (1, 1), "{at}");
            assert_eq!(feed.close(Instant::now() + ms(5_000)).await, 0, "{at}");
            assert_eq!(upstream.open_now(), 0, "{at}");
        }
    }
}

/// Somebody who was told that it has the first topic, and has not looked yet.
async fn told<'feed>(feed: &'feed Feed<Upstream>, upstream: &Upstream) -> Pin<Box<Subscribing<'feed, Upstream>>> {
    let mut waiting = Box::pin(feed.subscribe(topic(1)));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    upstream.until(|upstream| !upstream.carried(&topic(1).instrument).is_empty()).await;
    tokio::time::sleep(ms(10)).await;
    assert_eq!((feed.snapshot().waiting, feed.topics()[0].interest), (0, 1), "it was told");
    waiting
}

#[tokio::test(start_paused = true)]
async fn who_was_told_and_did_not_look_has_given_up_too() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    let waiting = told(&feed, &upstream).await;
    drop(waiting);
    assert_eq!(feed.topics()[0].interest, 0);
    tokio::time::sleep(ms(1_000)).await;
    assert!(feed.topics().is_empty() && upstream.carried(&topic(1).instrument).is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_was_told_before_everything_was_unsubscribed_takes_nothing_from_who_came_later() {
    for looks in [false, true] {
        let upstream = Upstream::new();
        let feed = feed(&upstream);
        let waiting = told(&feed, &upstream).await;
        assert_eq!(feed.unsubscribe_all().await, 1);
        feed.subscribe(topic(1)).await.unwrap();
        if looks {
            assert!(matches!(waiting.await, Err(SubscribeError::Unsubscribed { .. })));
        } else {
            drop(waiting);
        }
        assert_eq!(feed.topics()[0].interest, 1, "looks: {looks}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_never_polled_does_nothing() {
    let upstream = Upstream::new();
    let feed = feed(&upstream);
    drop(feed.subscribe(topic(1)));
    tokio::time::sleep(ms(10)).await;
    assert_eq!((upstream.attempts(), feed.topics().len()), (0, 0));
}
