//! What is logged: trouble is a warning once, not with every attempt, and everything is told within a span of its own.

use carom::feed::{Feed, Mode, Topic};
use carom::resolver::{Publisher, Resolve, Resolver, ResolverState};
use carom::{Backend, Policy, Requester};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::feed::{OnOpen, Upstream};
use testkit::logs::Logs;
use testkit::nodes::{Nodes, Question, Treats};
use testkit::wait::ms;
use tokio::time::sleep;

/// Fails, knows, fails again and again, and knows again.
struct Moody;

impl Resolve for Moody {
    async fn run(self, publisher: Publisher) {
        publisher.name("moody");
        let known = |last| [Backend::fixed(SocketAddr::from(([10, 0, 0, last], 80)))];
        for attempt in 0..3 {
            publisher.fail(format!("attempt {attempt}"));
            sleep(ms(10)).await;
        }
        publisher.publish(known(1));
        publisher.publish(known(2));
        for attempt in 3..6 {
            publisher.fail(format!("attempt {attempt}"));
            sleep(ms(10)).await;
        }
        publisher.publish(known(2));
        sleep(ms(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_of_a_resolver_is_a_warning_once() {
    let logs = Logs::capture();
    let resolver = Resolver::start(Moody).unwrap();
    // Whoever follows it says nothing of its own.
    let _follower = Resolver::start(resolver.clone()).unwrap();
    sleep(ms(1_000)).await;
    resolver.stop();
    resolver.wait_for(ResolverState::Stopped).await.unwrap();

    let all = logs.text();
    let span = "in [INFO resolver resolver=\"moody\"]";
    assert_eq!(logs.count(&["WARN message=resolver has failed", "error=\"attempt 0\"", span]), 1, "{all}");
    assert_eq!(logs.count(&["INFO message=it is known who serves", "backends=1", span]), 1, "{all}");
    assert_eq!(logs.count(&["DEBUG message=others serve now", span]), 1, "{all}");
    assert_eq!(logs.count(&["WARN message=who serves may be out of date", "attempt 3", span]), 1, "{all}");
    assert_eq!(logs.count(&["INFO message=who serves has been confirmed", span]), 1, "{all}");
    assert_eq!(logs.count(&["WARN"]), 2, "{all}");
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_feed_that_fail_are_a_warning_once() {
    let logs = Logs::capture();
    let upstream = Upstream::new();
    upstream.on_open(OnOpen::Fail);
    let policy = Policy::default().delay(ms(100)).max_delay(ms(100)).spread(0.0);
    let feed = Feed::builder(upstream.clone()).name("broker").recovery(policy).build().unwrap();
    let topic = Topic::new("NSE", "SBIN", Mode::Ltp);
    assert!(feed.subscribe(topic).await.unwrap().pending);
    sleep(ms(1_000)).await;
    let all = logs.text();
    let (span, failed) = ("in [INFO feed feed=\"broker\"]", "message=a connection failed");
    assert_eq!(logs.count(&["WARN", failed, "scripted: failed", span]), 1, "{all}");
    assert!(logs.count(&["DEBUG", failed, "again", span]) > 3, "{all}");
    assert_eq!(logs.count(&["DEBUG message=a subscription has ended", "subscribe", "NSE:SBIN"]), 1, "{all}");

    // It works, and then it is another matter.
    upstream.on_open(OnOpen::Succeed);
    upstream.until(|upstream| upstream.open_now() == 1).await;
    sleep(ms(500)).await;
    let opened = upstream.opened();
    upstream.kill(opened);
    sleep(ms(500)).await;
    let all = logs.text();
    assert_eq!(logs.count(&["WARN", failed, "scripted: killed"]), 1, "{all}");
    assert_eq!(logs.count(&["DEBUG message=a connection is up", "in [DEBUG connection number="]), 2, "{all}");
}

#[tokio::test(start_paused = true)]
async fn topics_that_are_refused_are_a_warning_now_and_then() {
    let logs = Logs::capture();
    let upstream = Upstream::new();
    let topic = |number: usize| Topic::new("NSE", format!("S{number}"), Mode::Ltp);
    (0..101).for_each(|number| upstream.refuse(&topic(number).instrument, Some("unknown")));
    let feed = Feed::builder(upstream.clone()).build().unwrap();
    for number in 0..100 {
        assert!(feed.subscribe(topic(number)).await.is_err());
    }
    let all = logs.text();
    assert_eq!(logs.count(&["WARN", "topics were refused", "NSE:S0", "unknown", "count=1"]), 1, "{all}");
    assert_eq!(logs.count(&["WARN"]), 1, "{all}");
    assert_eq!(logs.count(&["DEBUG", "a topic was refused"]), 99, "{all}");

    sleep(ms(60_000)).await;
    assert!(feed.subscribe(topic(100)).await.is_err());
    let all = logs.text();
    assert_eq!(logs.count(&["WARN", "topics were refused", "NSE:S100", "count=100"]), 1, "{all}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_are_a_warning_once() {
    let logs = Logs::capture();
    let nodes = Nodes::new();
    let requester = Requester::builder(nodes.clone()).nodes(Nodes::backends(2)).name("ledger").build().unwrap();
    let ask = |tag| {
        let requester = requester.clone();
        async move { requester.any(Question(tag), |_| true).await.is_ok() }
    };
    (1..=2).for_each(|node| nodes.treat(node, Treats::RefusesSockets));
    assert!(!ask(1).await && !ask(2).await && !ask(3).await);
    (1..=2).for_each(|node| nodes.treat(node, Treats::Answers("yes", Duration::ZERO)));
    assert!(ask(4).await && ask(5).await);
    (1..=2).for_each(|node| nodes.treat(node, Treats::Drops));
    assert!(!ask(6).await && !ask(7).await);
    drop(requester);
    sleep(ms(1)).await;

    let all = logs.text();
    let span = "in [INFO requester requester=\"ledger\"]";
    assert_eq!(logs.count(&["WARN message=a request has failed", span]), 2, "{all}");
    assert_eq!(logs.count(&["INFO message=requests are answered again", span]), 1, "{all}");
    assert_eq!(logs.count(&["INFO message=requester has closed", span]), 1, "{all}");
    let request = "in [DEBUG request requester=\"ledger\"]";
    assert_eq!(logs.count(&["DEBUG message=a request has ended", "succeeded=false", request]), 5, "{all}");
    assert_eq!(logs.count(&["DEBUG message=a request has ended", "succeeded=true", request]), 2, "{all}");
    assert!(logs.count(&["DEBUG message=a window is opened", span]) > 0, "{all}");
}
