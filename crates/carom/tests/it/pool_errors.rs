//! Failing: what claims and builders say, and what they name as the cause.

use carom::Cause;
use carom::pool::State;
use carom::resolver::{Publisher, Resolve};
use carom::{Backend, BuildError, ClaimError, Connect, Policy, Pool, connect_fn};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{OnCheck, OnConnect, ScriptError, Scripted, Told};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 5432))
}

#[tokio::test(start_paused = true)]
async fn a_timeout_carries_why_connecting_failed() {
    let script = Scripted::new();
    script.set(address(2), OnConnect::Fail("password rejected"));
    let pool = Pool::builder(script).name("orders").backends([address(2)]).build().unwrap();
    let error = pool.claim_within(ms(50)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "timed out after 50ms waiting for `orders` (0 busy of 16, 0 waiting ahead, 1 connecting); \
         last connect error: 10.0.0.2:5432: password rejected"
    );
    assert_eq!(error.source().unwrap().downcast_ref::<ScriptError>(), Some(&ScriptError("password rejected")));
}

#[tokio::test(start_paused = true)]
async fn when_every_backend_is_dead_claims_fail_after_outage_wait_with_the_cause() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("refused"));
    script.set(address(2), OnConnect::Fail("refused"));
    let pool = Pool::builder(script.clone()).name("orders").backends([address(1), address(2)]).build().unwrap();
    pool.states().wait_for(|state| *state == State::Failed).await.unwrap();
    let begun = Instant::now();
    let error = pool.claim().await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 5);
    let ClaimError::Failed { waited, dead, known, .. } = &error else { panic!("{error}") };
    assert_eq!((waited.as_secs(), *dead, *known), (5, 2, 2));
    let text = error.to_string();
    let expected = "`orders` has failed: waited 5.0s; 2 of 2 backends dead; last connect error: 10.0.0.";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(error.source().unwrap().to_string(), "refused");
    assert_eq!(pool.state(), State::Failed);
    let error = pool.claim_within(ms(50)).await.unwrap_err();
    assert!(error.to_string().starts_with("`orders` has failed: waited 50ms; 2 of 2 backends dead; "), "{error}");
    let error = pool.try_claim().unwrap_err();
    assert!(error.to_string().starts_with("`orders` has failed: did not wait; 2 of 2 backends dead; "), "{error}");

    // One that answers ends it.
    script.set(address(2), OnConnect::Succeed);
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
    assert_eq!(pool.claim().await.unwrap().backend().socket_addr(), address(2));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_connect_is_named_as_such() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    let pool = Pool::builder(script).backends([address(1)]).build().unwrap();
    let error = pool.claim_within(ms(2500)).await.unwrap_err();
    assert!(error.to_string().ends_with("last connect error: 10.0.0.1:5432: connecting timed out after 2s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_recycle_is_named_as_such() {
    struct NeverClean;

    impl Connect for NeverClean {
        type Connection = ();
        type Error = std::io::Error;

        async fn connect(&self, _backend: &Backend) -> Result<(), std::io::Error> {
            Ok(())
        }

        fn recycle(&self, _: &mut ()) -> Option<impl Future<Output = Result<(), std::io::Error>> + Send> {
            Some(std::future::pending())
        }
    }

    let pool = Pool::builder(NeverClean).backends([address(1)]).spares(0).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    tokio::time::sleep(Duration::from_secs(3)).await;
    tokio::time::sleep(ms(1)).await;
    let cause = pool.snapshot().cause.expect("something went wrong").to_string();
    assert_eq!(cause, "last failed recycle: 10.0.0.1:5432: the recycle timed out after 3s");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_connect_is_a_failed_one() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Panic);
    let pool = Pool::builder(script.clone()).backends([address(1)]).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(error.to_string().ends_with("10.0.0.1:5432: the connector panicked"), "{error}");
    script.set(address(1), OnConnect::Succeed);
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
    assert!(pool.claim().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_was_mended_is_not_named() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("starting up"));
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    assert!(pool.claim_within(ms(10)).await.is_err());
    assert!(matches!(pool.snapshot().cause, Some(Cause::Connect { .. })));
    script.set(address(1), OnConnect::Succeed);
    let _claim = pool.claim().await.unwrap();
    let error = pool.claim_within(ms(10)).await.unwrap_err();
    assert!(!error.to_string().contains("starting up"), "{error}");
    assert!(error.source().is_none());
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
struct Mute;

impl Resolve for Mute {
    async fn run(self, _publisher: Publisher) {}
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_fails_first_fails_the_pool_with_its_error() {
    let pool = Pool::builder(Scripted::new()).name("orders").resolver(Broken).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    let (head, tail) = ("`orders` has failed: ", "; no backends are known; last resolver error: no such name");
    let text = error.to_string();
    assert!(text.starts_with(head) && text.ends_with(tail), "{text}");
    assert_eq!(error.source().unwrap().to_string(), "no such name");
    let pool = Pool::builder(Scripted::new()).name("orders").resolver(Mute).build().unwrap();
    let error = pool.claim().await.unwrap_err();
    assert!(error.to_string().ends_with("last resolver error: the resolver ended without an answer"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn claim_in_an_outage_fails_with_the_cause_of_an_attempt_that_began_after_it() {
    for wait in [Duration::from_secs(5), Duration::ZERO] {
        let script = Scripted::new();
        script.set(address(1), OnConnect::Fail("refused"));
        let pool = Pool::builder(script.clone()).backends([address(1)]).outage_wait(wait).build().unwrap();
        pool.states().wait_for(|state| *state == State::Failed).await.unwrap();
        script.set(address(1), OnConnect::Fail("starting up"));
        let begun = Instant::now();
        let error = pool.claim().await.unwrap_err();
        assert!(matches!(error, ClaimError::Failed { dead: 1, known: 1, .. }), "{error}");
        assert_eq!(error.source().unwrap().to_string(), "starting up");
        assert!(begun.elapsed() <= wait.max(ms(200)), "{:?} with outage_wait {wait:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn try_claim_in_an_outage_fails_at_once_and_triggers_an_attempt() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("refused"));
    let pool = Pool::builder(script.clone()).backends([address(1)]).build().unwrap();
    pool.states().wait_for(|state| *state == State::Failed).await.unwrap();
    tokio::time::sleep(ms(200)).await;
    script.set(address(1), OnConnect::Succeed);
    let begun = Instant::now();
    assert!(matches!(pool.try_claim(), Err(ClaimError::Failed { .. })));
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
    assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_fixed_list_is_known_from_the_beginning() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).build().unwrap();
    let options = carom::ClaimOptions::default().error_on_empty(true);
    assert!(pool.claim_with(options).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_cause_is_that_of_a_backend_that_is_still_known() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("first is down"));
    script.set(address(2), OnConnect::Fail("second is down"));
    let both: Vec<carom::Backend> = [1, 2].map(address).map(carom::Backend::fixed).to_vec();
    for gone in [0, 1] {
        let (tell, told) = Told::new(both.clone());
        let pool = Pool::builder(script.clone()).resolver(told).build().unwrap();
        assert!(matches!(pool.claim().await, Err(ClaimError::Failed { .. })));
        let mut left = both.clone();
        left.remove(gone);
        tell.send_replace(left);
        tokio::time::sleep(ms(10)).await;
        let error = pool.claim().await.unwrap_err();
        let expected = ["second is down", "first is down"][gone];
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_use_is_not_called_a_failure_to_connect() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    script.set(address(1), OnConnect::Never);
    claim.fail("deadlock detected");
    let error = pool.claim_within(ms(10)).await.unwrap_err();
    assert!(error.to_string().ends_with("; last failed use: 10.0.0.1:5432: deadlock detected"), "{error}");
    assert!(matches!(pool.snapshot().cause, Some(Cause::Use { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_is_called_that() {
    let script = Scripted::new();
    let pool =
        Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).check_after(ms(500)).build().unwrap();
    drop(pool.claim().await.unwrap());
    script.set(address(1), OnCheck::Fail);
    script.set(address(1), OnConnect::Never);
    script.until(|script| script.checks_started(address(1)) == 1).await;
    let error = pool.claim_within(ms(10)).await.unwrap_err();
    assert!(error.to_string().contains("; last failed check: 10.0.0.1:5432: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_panics_does_not_cost_a_slot() {
    struct Panics;
    impl From<Panics> for Box<dyn Error + Send + Sync> {
        fn from(_: Panics) -> Self {
            panic!("as told")
        }
    }
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    for _ in 0..3 {
        let claim = pool.claim().await.unwrap();
        let failing = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| claim.fail(Panics)));
        assert!(failing.is_err());
        assert!(pool.lent().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_may_own_a_claim_of_the_same_pool() {
    #[derive(Debug, thiserror::Error)]
    #[error("keeps its connection")]
    struct Keeps(#[allow(dead_code)] carom::Claim<Scripted>);
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(3).maximum(3).build().unwrap();
    for _ in 0..3 {
        let (one, other) = (pool.claim().await.unwrap(), pool.claim().await.unwrap());
        one.fail(Keeps(other)); // drops the error before it, and with it a claim
    }
    assert!(pool.claim().await.is_ok());
}

#[tokio::test]
async fn nonsense_is_refused_by_name() {
    let builder = || Pool::builder(Scripted::new()).backends([address(1)]);
    let said = |error: BuildError| error.to_string();
    assert_eq!(said(builder().maximum(0).spares(0).build().unwrap_err()), "maximum must be at least 1");
    assert_eq!(said(builder().spares(20).build().unwrap_err()), "spares must not be above maximum (20 > 16)");
    assert_eq!(said(builder().claim_timeout(Duration::ZERO).build().unwrap_err()), "claim_timeout must be above zero");
    assert_eq!(
        said(builder().spares(0).max_waiters(0).build().unwrap_err()),
        "spares must be at least 1 with max_waiters 0: nobody could wait for a connection, so none would be made"
    );
    let policy = Policy::default().delay(Duration::from_secs(20));
    assert_eq!(
        said(builder().recovery(policy).build().unwrap_err()),
        "recovery default policy: max_delay must not be below delay"
    );
    let nobody = Pool::builder(Scripted::new()).build().unwrap_err();
    assert_eq!(nobody, BuildError::NoResolver);
}

#[test]
fn building_outside_a_runtime_is_an_error_not_a_panic() {
    let built = Pool::builder(Scripted::new()).backends([address(1)]).build();
    assert_eq!(built.unwrap_err(), BuildError::NoRuntime);
}

#[tokio::test]
async fn errors_can_be_sent_and_shared() {
    fn check<T: Send + Sync + Clone + 'static>(_: &T) {}
    let connector = connect_fn(|_| async { Err::<(), _>(std::io::Error::other("no")) });
    let policy = Policy::default().attempts(1).delay(ms(1));
    let pool = Pool::builder(connector).backends([address(1)]).recovery(policy).outage_wait(Duration::ZERO);
    let pool = pool.build().unwrap();
    let error = pool.claim().await.unwrap_err();
    check(&error);
    check(&pool);
}
