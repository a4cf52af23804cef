//! A feed on several threads: whoever subscribes, gives up, leaves and kills at the same time, interest stays exact.
//!
//! `CAROM_SEED=n` runs one seed alone, `CAROM_SCHEDULES=n` more; threads make each run another all the same.

use carom::feed::{Mode, Pacing, Topic};
use carom::{Feed, Policy};
use carom_core::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::cases::cases;
use testkit::feed::Upstream;
use testkit::wait::ms;
use tokio::time::timeout;

const TOPICS: usize = 12;

fn topic(number: usize, mode: Mode) -> Topic {
    Topic::new("NSE", format!("S{number}"), mode)
}

/// Comes and goes for a while; what it wants in the end.
async fn caller(feed: Feed<Upstream>, upstream: Upstream, seed: u64) -> Vec<Topic> {
    let mut random = Random::new(seed);
    let mut held = Vec::new();
    for _ in 0..100 {
        match random.below(10) {
            0 => upstream.kill(1 + random.below(upstream.opened())),
            1..=3 if !held.is_empty() => {
                let left: Topic = held.swap_remove(random.below(held.len()));
                feed.unsubscribe(&left).await.expect("it has subscribed to it");
            }
            _ => {
                let wanted = topic(random.below(TOPICS), Mode::ALL[random.below(3)]);
                let patience = Duration::from_micros(random.below(3_000) as u64);
                match timeout(patience, feed.subscribe(wanted.clone())).await {
                    Ok(placed) => {
                        placed.expect("there is room for all of them");
                        held.push(wanted);
                    }
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        }
    }
    held
}

async fn everybody_at_once(seed: u64) {
    // Without a pace: a thread may be held up between a write's decision and its arrival, so real time does not keep one exactly.
    let upstream = Upstream::new().pacing(Pacing { batch: 3, pace: ms(0), heartbeat: Some(ms(5)) });
    upstream.max_topics(TOPICS / 3);
    let feed = Feed::builder(upstream.clone())
        .max_topics_per_connection(TOPICS / 3)
        .linger(ms(5))
        .recovery(Policy::default().delay(ms(1)).max_delay(ms(10)))
        .compact_after(ms(5))
        .overlap(ms(2))
        .build()
        .unwrap();
    let callers = (0..8).map(|number| tokio::spawn(caller(feed.clone(), upstream.clone(), seed * 100 + number)));
    let mut wanted: BTreeMap<_, Vec<Topic>> = BTreeMap::new();
    for caller in callers.collect::<Vec<_>>() {
        for topic in caller.await.unwrap() {
            wanted.entry(topic.instrument.clone()).or_default().push(topic);
        }
    }
    let counted = feed.topics().into_iter().filter(|shown| shown.interest > 0);
    let counted: BTreeMap<_, _> = counted.map(|shown| (shown.instrument, shown.interest)).collect();
    let expected: BTreeMap<_, _> = wanted.iter().map(|(instrument, by)| (instrument.clone(), by.len())).collect();
    assert_eq!(counted, expected, "seed {seed}");

    // Each is carried once, at the most that anybody wants, and nothing else is.
    let highest = |instrument| wanted[instrument].iter().map(|topic| topic.level).max();
    let carried_once = |upstream: &Upstream| {
        let once = |instrument| match upstream.carried(instrument)[..] {
            [(_, level)] => Some(level) == highest(instrument),
            _ => false,
        };
        upstream.carried_by_each().values().sum::<usize>() == wanted.len() && wanted.keys().all(once)
    };
    upstream.until(carried_once).await;
    assert_eq!(feed.snapshot().waiting, 0, "seed {seed}");
    feed.close(tokio::time::Instant::now() + ms(10_000)).await;
    assert_eq!(upstream.open_now(), 0, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn interest_is_exact_whoever_comes_and_goes_at_the_same_time() {
    for (case, _) in cases(5) {
        everybody_at_once(case.seed()).await;
    }
}
