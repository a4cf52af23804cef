//! Milestones: what a feed tells people, as tracing events in the way of OpenAlgo's `[POOL]` lines.

use carom::Feed;
use carom::feed::{Adapter, Change, Mode, Refused, Tick, Topic};
use std::io;
use std::time::Duration;
use testkit::feed::{OnOpen, Upstream};
use testkit::logs::{Event, Logs};

/// Every event of a feed, as `LEVEL field=value ...`.
fn events_of_feeds(logs: &Logs) -> Vec<String> {
    let events = logs.events().into_iter().filter(|event| event.target.starts_with("carom::feed"));
    let words = |event: Event| {
        let fields = event.fields.iter().map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", event.level, fields.collect::<String>())
    };
    events.map(words).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_again_and_again_is_a_warning_once() {
    let logs = Logs::capture();
    let upstream = Upstream::new();
    upstream.on_open(OnOpen::Fail);
    let feed = Feed::builder(upstream.clone()).build().unwrap();
    let topic = Topic::new("NSE", "NONE", Mode::Ltp);
    assert!(feed.subscribe(topic.clone()).await.unwrap().pending);
    upstream.refuse(&topic.instrument, Some("unknown symbol"));
    upstream.on_open(OnOpen::Succeed);
    tokio::time::sleep(Duration::from_secs(80)).await;
    let heard = events_of_feeds(&logs);
    let count = |words: &str| heard.iter().filter(|line| line.contains(words)).count();
    assert_eq!(count("WARN message=[POOL] topics were refused feed"), 1, "{heard:#?}");
    let again = count("DEBUG message=[POOL] a topic was refused again");
    assert!((6..=12).contains(&again), "0.1 s, and twice as long each time: {heard:#?}");
}

#[tokio::test(start_paused = true)]
async fn milestones_are_told_with_their_figures() {
    let logs = Logs::capture();
    let upstream = Upstream::new();
    let feed = Feed::builder(upstream.clone())
        .name("demo")
        .max_topics_per_connection(200)
        .max_connections(2)
        .linger(Duration::ZERO)
        .build()
        .unwrap();
    let topic = |number: usize, mode| Topic::new("NSE", format!("S{number}"), mode);
    for number in 0..201 {
        feed.subscribe(topic(number, Mode::Ltp)).await.unwrap();
    }
    feed.subscribe(topic(0, Mode::Quote)).await.unwrap();
    feed.unsubscribe_all().await;
    feed.close(tokio::time::Instant::now() + Duration::from_secs(5)).await;

    let heard = events_of_feeds(&logs);
    assert!(heard.iter().all(|line| line.contains("feed=\"demo\"")), "{heard:#?}");
    let milestones = heard.iter().filter(|line| !line.starts_with("DEBUG"));
    assert!(milestones.into_iter().all(|line| line.contains("[POOL] ")), "{heard:#?}");
    let expected = [
        "[POOL] created feed=\"demo\" max_topics_per_connection=200 max_connections=2 capacity=400",
        "[POOL] opening a connection feed=\"demo\" connection=1 most=2 limit=200 topics=0",
        "[POOL] a connection has its first topic feed=\"demo\" connection=1 first=NSE:S0",
        "[POOL] a connection fills feed=\"demo\" connection=1 on_connection=100 limit=200 percent=50.0 topics=100 connections=1",
        "[POOL] a connection fills feed=\"demo\" connection=1 on_connection=200 limit=200 percent=100.0 topics=200 connections=1",
        "[POOL] opening a connection feed=\"demo\" connection=2 most=2 on_previous=200 limit=200 topics=200",
        "[POOL] a connection has its first topic feed=\"demo\" connection=2 first=NSE:S200",
        "[POOL] upgraded feed=\"demo\" instrument=NSE:S0 from=LTP to=QUOTE depth=5 connection=1",
        "[POOL] everything was unsubscribed feed=\"demo\" topics=201",
        "[POOL] closed feed=\"demo\" peak_topics=201 peak_connections=2 on_each=[200, 1]",
    ];
    let heard: Vec<_> = heard.iter().map(|line| line.trim_end().trim_start_matches("INFO message=")).collect();
    for line in expected {
        assert!(heard.contains(&line), "not told: {line}\n{heard:#?}");
    }
}

/// An upstream that nobody gets to, or that lets nobody stay.
struct Failing {
    opens: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the connection failed")]
struct Failed(#[source] io::Error);

impl Adapter for Failing {
    type Writer = ();
    type Reader = ();
    type Error = Failed;

    async fn open(&self) -> Result<((), ()), Failed> {
        if self.opens { Ok(((), ())) } else { Err(Failed(io::Error::other("the cable is out"))) }
    }

    async fn write(&self, (): &mut (), _: &[Change]) -> Result<Vec<Refused>, Failed> {
        Ok(Vec::new())
    }

    async fn read(&self, (): &mut (), _: &mut Vec<Tick>) -> Result<(), Failed> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Err(Failed(io::Error::other("somebody else has this session")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_fails_is_told_with_the_reason_behind_it() {
    let logs = Logs::capture();
    let feed = Feed::builder(Failing { opens: false }).name("demo").build().unwrap();
    assert!(feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp)).await.unwrap().pending);
    let heard = events_of_feeds(&logs);
    let told = "WARN message=a connection failed feed=\"demo\" error=\"the connection failed: the cable is out\"";
    assert!(heard.iter().any(|line| line.trim_end() == told), "{heard:#?}");
}

#[tokio::test(start_paused = true)]
async fn connections_that_do_not_last_are_a_warning_once() {
    let logs = Logs::capture();
    let feed = Feed::builder(Failing { opens: true }).build().unwrap();
    feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let heard = events_of_feeds(&logs);
    let count = |words: &str| heard.iter().filter(|line| line.contains(words)).count();
    assert_eq!(count("WARN message=a connection failed feed"), 1, "{heard:#?}");
    assert_eq!(count("WARN message=[POOL] a connection was lost feed"), 1, "{heard:#?}");
    let again = count("DEBUG message=a connection failed again");
    assert!(again > 3 && count("DEBUG message=[POOL] a connection was lost again") == again, "{heard:#?}");
}
