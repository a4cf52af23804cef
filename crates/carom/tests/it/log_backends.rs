//! What the log says of backends: every turn they take, once, in its span; and nothing that requests carry.

use carom::pool::State;
use carom::{Backend, Ejection, Policy, Pool, Set};
use std::io;
use std::net::SocketAddr;
use testkit::backends::{OnConnect, Scripted};
use testkit::logs::{Event, Level, Logs};
use testkit::wait::ms;
use tokio::time::sleep;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

fn hasty() -> Policy {
    Policy::default().attempts(2).timeout(ms(100)).max_timeout(ms(100)).delay(ms(10)).max_delay(ms(100))
}

#[tokio::test(start_paused = true)]
async fn a_dead_backend_is_warned_of_once_however_often_it_is_tried() {
    let (logs, script) = (Logs::capture(), Scripted::new());
    script.set(address(2), OnConnect::Fail("password rejected"));
    let pool = Pool::builder(script.clone())
        .name("orders")
        .backends([address(1), address(2)])
        .recovery(hasty())
        .build()
        .unwrap();
    script.until(|script| script.connects_started(address(2)) >= 50).await;
    let warned = logs.at(Level::WARN);
    let [one] = &warned[..] else { panic!("{warned:#?}") };
    assert!(one.says("backend is dead") && one.has("backend", "10.0.0.2:80"), "{one:?}");
    assert!(one.has("reason", "password rejected") && one.has("pool", "orders"), "{one:?}");
    assert_eq!(one.spans, ["pool"], "it is in the pool's span");

    script.set(address(2), OnConnect::Succeed);
    sleep(ms(1000)).await;
    let informed = logs.at(Level::INFO);
    assert_eq!(informed.iter().filter(|event| event.says("backend is back")).count(), 1, "{informed:#?}");
    assert_eq!(logs.at(Level::WARN).len(), 1);
    let debug = logs.at(Level::DEBUG);
    let turns = |what: &str| debug.iter().filter(|event| event.says(what)).count();
    assert_eq!((turns("backend works"), turns("backend is doubted")), (1, 1), "of one each");
    let connected = debug.iter().filter(|event| event.says("connected")).count();
    assert_eq!(connected, script.opened_total());
    assert!(logs.spans().contains(&("connect", "pool")), "each attempt has a span in the pool's");
    drop(pool);
}

#[tokio::test(start_paused = true)]
async fn who_died_because_it_hung_is_said_to_have_hung() {
    let (logs, script) = (Logs::capture(), Scripted::new());
    script.set(address(1), OnConnect::Never);
    let builder = Pool::builder(script).name("orders").backends([address(1)]);
    let pool = builder.recovery(hasty().attempts(1)).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(error.to_string().contains("connecting timed out"), "who is refused for it is told too: {error}");
    let warned = logs.at(Level::WARN);
    let [dead, failed] = &warned[..] else { panic!("{warned:#?}") };
    assert!(dead.says("backend is dead") && dead.has("reason", "connecting timed out"), "{dead:?}");
    assert!(failed.says("pool has failed") && failed.has("cause", "connecting timed out"), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ejected_backend_is_warned_of_once_and_its_return_is_told() {
    let logs = Logs::capture();
    let ejection = Ejection::default().consecutive(2).time(ms(1000));
    let builder = Pool::builder(Scripted::new()).name("orders").backends([address(1), address(2)]);
    let pool = builder.spares(4).maximum(4).ejection(ejection.clone()).build().unwrap();
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
    sleep(ms(10)).await;
    let bad = pool.claim().await.unwrap().backend().clone();
    for _ in 0..2 {
        let claim = loop {
            let claim = pool.claim().await.unwrap();
            if *claim.backend() == bad {
                break claim;
            }
            claim.discard();
        };
        claim.fail(io::Error::other("it answered nonsense"));
    }
    sleep(ms(500)).await;
    let warned = logs.at(Level::WARN);
    let [one] = &warned[..] else { panic!("{warned:#?}") };
    assert!(one.says("backend ejected") && one.has("backend", &bad.to_string()), "{one:?}");
    assert!(one.has("reason", "nonsense") && one.has("time", "1s"), "{one:?}");
    sleep(ms(600)).await;
    let returned = |event: &&Event| event.says("backend takes part again");
    assert_eq!(logs.at(Level::INFO).iter().filter(returned).count(), 1);

    let builder = Set::builder(Scripted::new()).name("lines").backends([address(1), address(2)]);
    let set = builder.ejection(ejection).build().unwrap();
    let lease = set.lease_to(&Backend::fixed(address(1))).await.unwrap();
    lease.report_failure();
    lease.report_failure_with("status 503");
    sleep(ms(500)).await;
    let warned = logs.at(Level::WARN);
    assert!(
        warned.len() == 2 && warned[1].has("set", "lines") && warned[1].has("backend", "10.0.0.1:80"),
        "{warned:#?}"
    );
    assert!(warned[1].has("reason", "status 503"), "the last failure: {warned:#?}");
    sleep(ms(600)).await;
    assert_eq!(logs.at(Level::INFO).iter().filter(returned).count(), 2);
}

/// Those that say that a panic begins, and those that say that one is over.
fn panics(logs: &Logs) -> [Vec<Event>; 2] {
    let of = |level, message: &str| logs.at(level).into_iter().filter(|event| event.says(message)).collect();
    [of(Level::WARN, "panic: ejected and unhealthy backends are used"), of(Level::INFO, "panic is over")]
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_pool_is_logged_once_when_it_begins_and_once_when_it_ends() {
    let logs = Logs::capture();
    let builder = Pool::builder(Scripted::new()).name("orders").backends([address(1), address(2)]);
    let ejection = Ejection::default().consecutive(2).time(ms(1000));
    let pool = builder.spares(4).maximum(4).ejection(ejection).build().unwrap();
    pool.ready(2, ms(1000)).await.unwrap();
    let is_panic = || pool.snapshot().pool.is_panic;
    while !is_panic() {
        pool.claim().await.unwrap().report_failure();
    }
    // In the panic uses go on to fail, so that both are ejected again and again.
    for _ in 0..300 {
        pool.claim().await.unwrap().report_failure();
        sleep(ms(10)).await;
    }
    let [begun, over] = panics(&logs);
    let [begun] = &begun[..] else { panic!("{begun:#?}") };
    assert!(begun.has("pool", "orders") && begun.has("healthy", "0") && begun.has("known", "2"), "{begun:?}");
    assert_eq!((over.len(), &begun.spans[..]), (0, &["pool"][..]), "{over:?}");
    while is_panic() {
        drop(pool.claim().await.unwrap());
        sleep(ms(10)).await;
    }
    let [begun, over] = panics(&logs);
    let [over] = &over[..] else { panic!("{over:#?}") };
    assert!(over.has("pool", "orders") && over.has("known", "2") && begun.len() == 1, "{over:?}");
    assert!(over.has("healthy", "1") || over.has("healthy", "2"), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_set_is_logged_when_it_begins_and_when_it_ends() {
    let logs = Logs::capture();
    let builder = Set::builder(Scripted::new()).name("lines").backends([address(1), address(2)]);
    let set = builder.ejection(Ejection::default().consecutive(1).time(ms(1000))).build().unwrap();
    for last in 1..=2 {
        set.lease_to(&Backend::fixed(address(last))).await.unwrap().report_failure();
    }
    sleep(ms(500)).await;
    let [begun, over] = panics(&logs);
    let [begun] = &begun[..] else { panic!("{begun:#?}") };
    assert!(begun.has("set", "lines") && begun.has("healthy", "0") && begun.has("known", "2"), "{begun:?}");
    assert_eq!(over.len(), 0);
    sleep(ms(600)).await;
    let [_, over] = panics(&logs);
    assert!(over.len() == 1 && over[0].has("set", "lines"), "{over:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_backend_of_a_set_is_warned_of_once() {
    let (logs, script) = (Logs::capture(), Scripted::new());
    script.set(address(1), OnConnect::Fail("no route"));
    let builder = Set::builder(script.clone()).name("lines").backends([address(1), address(2)]);
    let set = builder.eager(true).recovery(hasty()).build().unwrap();
    script.until(|script| script.connects_started(address(1)) >= 50).await;
    for _ in 0..10 {
        assert!(set.lease_to(&Backend::fixed(address(1))).await.is_err());
    }
    let warned = logs.at(Level::WARN);
    let [one] = &warned[..] else { panic!("{warned:#?}") };
    assert!(one.says("backend is dead") && one.has("set", "lines") && one.has("reason", "no route"), "{one:?}");
    assert_eq!(one.spans, ["set"]);
    script.set(address(1), OnConnect::Succeed);
    sleep(ms(1000)).await;
    let informed = logs.at(Level::INFO);
    assert_eq!(informed.iter().filter(|event| event.says("backend is back")).count(), 1, "{informed:#?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_has_a_span_and_who_does_not_has_none() {
    let logs = Logs::capture();
    let builder = Pool::builder(Scripted::new()).name("orders").backends([address(1)]);
    let pool = builder.spares(1).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    let waited = || logs.spans().iter().filter(|(name, _)| *name == "claim").count();
    assert_eq!(waited(), 1, "for the connection to be made");
    for _ in 0..10 {
        drop(pool.claim().await.unwrap());
    }
    assert_eq!(waited(), 1);
}
