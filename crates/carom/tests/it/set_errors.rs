//! Failing: what leases and builders say, and what they name as the cause.

use carom::Cause;
use carom::resolver::{Publisher, Resolve};
use carom::set::{LeaseOptions, State};
use carom::{Backend, BuildError, LeaseError, Policy, Set};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{OnConnect, ScriptError, Scripted};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6650))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

fn brief() -> Policy {
    Policy::default().attempts(2).timeout(ms(500)).max_timeout(ms(500)).delay(ms(20)).max_delay(ms(100)).spread(0.0)
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_cannot_be_reached_is_named_with_the_cause() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("password rejected"));
    let set = Set::builder(script.clone()).name("brokers").backends([address(1)]).recovery(brief()).build().unwrap();
    let start = Instant::now();
    let error = set.lease_to(&backend(1)).await.unwrap_err();
    assert_eq!(start.elapsed().as_millis(), 20, "two attempts, one delay");
    assert_eq!(
        error.to_string(),
        "`brokers` cannot reach 10.0.0.1:6650; last connect error: 10.0.0.1:6650: password rejected"
    );
    assert_eq!(error.source().unwrap().downcast_ref::<ScriptError>(), Some(&ScriptError("password rejected")));
    let LeaseError::Unreachable { backend: named, summary, .. } = &error else { panic!("{error}") };
    assert_eq!((&**named, summary.dead, summary.known, summary.connected), (&backend(1), 1, 1, 0));
    assert_eq!(set.state(), State::Failed);
}

#[tokio::test(start_paused = true)]
async fn when_nobody_can_be_reached_any_lease_says_so_with_figures() {
    let script = Scripted::new();
    (1..=3).for_each(|last| script.set(address(last), OnConnect::Fail("refused")));
    let set = Set::builder(script.clone())
        .name("brokers")
        .backends([1, 2, 3].map(address))
        .recovery(brief())
        .outage_wait(Duration::ZERO)
        .build()
        .unwrap();
    let error = set.lease().await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("`brokers` has failed: 3 of 3 backends dead; last connect error: 10.0.0."), "{text}");
    assert!(text.ends_with(": refused") && error.source().is_some(), "{text}");
    assert_eq!((1..=3).map(|last| script.connects_started(address(last))).sum::<usize>(), 6);
    assert_eq!((set.state(), set.snapshot().dead), (State::Failed, 3));

    // Failing is not kept: one that answers ends it.
    script.set(address(2), OnConnect::Succeed);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(set.lease().await.unwrap().backend(), &backend(2));
    assert_eq!(set.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_says_what_was_waited_for() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("refused"));
    script.set(address(2), OnConnect::Fail("not this one"));
    let set = Set::builder(script.clone()).name("brokers").backends([address(1)]).build().unwrap();
    let waited = |backend| LeaseOptions::default().backend(backend).timeout(ms(50));
    let error = set.lease_with(waited(backend(1))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "timed out after 50ms waiting for `brokers` (0 connected, 0 connecting, 0 of 1 backends dead); \
         last connect error: 10.0.0.1:6650: refused"
    );
    // What another backend said is not why.
    assert!(set.lease_with(waited(backend(2))).await.is_err());
    script.set(address(3), OnConnect::Never);
    let error = set.lease_with(waited(backend(3))).await.unwrap_err();
    assert!(error.source().is_none(), "{error}");
    // Nor is one that nobody knows why those that are known fail.
    assert!(matches!(set.snapshot().cause, Some(Cause::Connect { backend: named, .. }) if *named == backend(1)));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_connect_is_named_as_such() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    let set = Set::builder(script).backends([address(1)]).recovery(brief()).build().unwrap();
    let error = set.lease().await.unwrap_err();
    assert!(error.to_string().ends_with("10.0.0.1:6650: connecting timed out after 500ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_connect_is_a_failed_one() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Panic);
    let set = Set::builder(script.clone()).backends([address(1)]).recovery(brief()).build().unwrap();
    let error = set.lease().await.unwrap_err();
    assert!(error.to_string().ends_with("10.0.0.1:6650: the connector panicked"), "{error}");
    script.set(address(1), OnConnect::Succeed);
    assert!(set.lease_to(&backend(1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_was_mended_is_not_named() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("starting up"));
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    assert!(set.lease_with(LeaseOptions::default().timeout(ms(10))).await.is_err());
    assert!(set.snapshot().cause.is_some());
    script.set(address(1), OnConnect::Succeed);
    assert!(set.lease().await.is_ok());
    assert!(set.snapshot().cause.is_none());
}

#[tokio::test(start_paused = true)]
async fn every_backend_that_was_asked_for_by_name_has_its_own_cause() {
    let script = Scripted::new();
    let set = Set::builder(script.clone())
        .backends([address(1)])
        .recovery(brief().attempts(1).delay(ms(1)).max_delay(ms(1)))
        .build()
        .unwrap();
    for n in 0..2000_u16 {
        let address = SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 6650));
        script.set(address, OnConnect::Fail("refused"));
        let error = set.lease_to(&Backend::fixed(address)).await.unwrap_err();
        assert!(error.source().is_some(), "{error}");
    }
}

/// Fails, then says nothing more.
struct Broken;

impl Resolve for Broken {
    async fn run(self, publisher: Publisher) {
        publisher.fail("no such name");
        std::future::pending().await
    }
}

/// Ends without a word.
struct Silent;

impl Resolve for Silent {
    async fn run(self, _publisher: Publisher) {}
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_fails_is_named() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).name("brokers").resolver(Broken).build().unwrap();
    // Before it has failed and after.
    for _ in 0..2 {
        let error = set.lease().await.unwrap_err();
        let expected = "`brokers` has failed: no backends are known; last resolver error: no such name";
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.source().unwrap().to_string(), "no such name");
        assert_eq!(set.state(), State::Failed);
    }
    // Who knows where to go is not in need of it.
    assert!(set.lease_to(&backend(1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_ends_without_a_word_has_failed() {
    let set = Set::builder(Scripted::new()).resolver(Silent).build().unwrap();
    let error = set.lease().await.unwrap_err();
    assert!(matches!(error, LeaseError::Failed { .. }), "{error}");
    assert!(error.source().is_some());
}

#[test]
fn building_refuses_what_makes_no_sense() {
    let builder = || Set::builder(Scripted::new()).backends([address(1)]);
    let refused = |error: BuildError, option: &str| assert!(error.to_string().contains(option), "{error}");
    assert!(matches!(builder().build().unwrap_err(), BuildError::NoRuntime));
    assert!(matches!(Set::builder(Scripted::new()).build().unwrap_err(), BuildError::NoResolver));
    refused(builder().max_idle(Duration::ZERO).build().unwrap_err(), "max_idle");
    refused(builder().idle_interval(Duration::ZERO).build().unwrap_err(), "idle_interval");
    refused(builder().lease_timeout(Duration::ZERO).build().unwrap_err(), "lease_timeout");
    refused(builder().target(2).build().unwrap_err(), "target");
    refused(builder().eager(true).target(3).maximum(2).build().unwrap_err(), "target");
    refused(builder().eager(true).per_backend(0).build().unwrap_err(), "per_backend");
    refused(builder().connecting_per_backend(0).build().unwrap_err(), "connecting_per_backend");
    refused(builder().per_backend(usize::MAX).build().unwrap_err(), "per_backend");
    refused(builder().recovery(Policy::default().attempts(0)).build().unwrap_err(), "attempts");
}
