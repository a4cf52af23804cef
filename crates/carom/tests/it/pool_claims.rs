//! Claiming: at once, in line, in order, within a deadline, not at all.

use carom::pool::{ClaimOptions, State};
use carom::resolver::{Publisher, Resolve};
use carom::{Backend, ClaimError, Pick, Pool};
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{OnConnect, Scripted};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

async fn running(pool: &Pool<Scripted>) {
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_lent_and_comes_back() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let first = pool.claim().await.unwrap().id();
    let again = pool.claim().await.unwrap();
    assert_eq!((again.id(), again.uses(), again.backend().socket_addr()), (first, 2, address(1)));
    tokio::time::advance(ms(1500)).await;
    assert_eq!(again.age(), ms(1500));
}

#[tokio::test(start_paused = true)]
async fn claims_spread_over_the_backends() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1), address(2)]).spares(0).maximum(4).build().unwrap();
    let mut claims = Vec::new();
    for _ in 0..4 {
        claims.push(pool.claim().await.unwrap());
    }
    assert_eq!((script.open(address(1)), script.open(address(2))), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn claiming_the_idle_one_starts_its_replacement_at_once() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(2).maximum(10).build().unwrap();
    script.until(|script| script.open_total() == 2).await;
    let start = Instant::now();
    let _claim = pool.claim().await.unwrap();
    script.until(|script| script.open_total() == 3).await;
    assert!(start.elapsed() < ms(5), "took {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order() {
    let script = Scripted::new();
    let pool = Pool::builder(script).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..5 {
        let (pool, sender) = (pool.clone(), sender.clone());
        tokio::spawn(async move {
            let _claim = pool.claim().await.unwrap();
            sender.send(number).unwrap();
        });
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.snapshot().pool.waiting, 5);
    drop(claim);
    for expected in 0..5 {
        assert_eq!(order.recv().await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_overtakes_who_waits() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim().await.map(|claim| claim.uses()) }
    });
    tokio::task::yield_now().await;
    drop(claim);
    // The connection is the waiter's already, although it has not run yet.
    assert!(matches!(pool.try_claim(), Err(ClaimError::Busy { .. })));
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_covers_waiting_and_connecting() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    let pool = Pool::builder(script).backends([address(1)]).build().unwrap();
    let start = Instant::now();
    let error = pool.claim_within(ms(700)).await.unwrap_err();
    assert!(matches!(error, ClaimError::TimedOut { .. }), "{error}");
    assert!(start.elapsed() >= ms(700) && start.elapsed() < ms(702), "{:?}", start.elapsed());
    let error = pool.claim_within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, ClaimError::TimedOut { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_longest_timeout_is_no_problem() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).maximum(2).build().unwrap();
    let _claim = pool.claim_within(Duration::MAX).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_line_refuses_at_once() {
    let pool =
        Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).max_waiters(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim().await.map(drop) }
    });
    tokio::task::yield_now().await;
    let error = pool.claim().await.unwrap_err();
    assert_eq!(error.to_string(), "`10.0.0.1:80` is full: 1 are waiting already");
    drop(claim);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn trying_never_waits() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    assert!(matches!(pool.try_claim(), Err(ClaimError::Busy { .. })), "nothing is connected yet");
    assert_eq!(pool.try_claim().unwrap_err().to_string(), format!("no connection of `{}` is idle", pool.name()));
    running(&pool).await;
    let claim = pool.try_claim().unwrap();
    assert!(matches!(pool.try_claim(), Err(ClaimError::Busy { .. })));
    drop(claim);
    assert!(pool.try_claim().is_ok());
    pool.close();
    assert!(matches!(pool.try_claim(), Err(ClaimError::Closed { .. })));
}

/// Says nothing, ever.
struct Silent;

impl Resolve for Silent {
    async fn run(self, _publisher: Publisher) {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_pool_waits_unless_told_not_to() {
    let pool = Pool::builder(Scripted::new()).name("empty").resolver(Silent).build().unwrap();
    let error = pool.claim_with(ClaimOptions::default().error_on_empty(true)).await.unwrap_err();
    assert_eq!(error.to_string(), "no backends are known for `empty`");
    let start = Instant::now();
    let error = pool.claim_within(ms(100)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "timed out after 100ms waiting for `empty` (0 busy of 16, 0 waiting ahead, no backends known)"
    );
    assert!(start.elapsed() >= ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_claim_future_leaves_the_line_at_once() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let given_up = tokio::time::timeout(ms(10), pool.claim()).await;
    assert!(given_up.is_err());
    assert_eq!(pool.snapshot().pool.waiting, 0);
    drop(claim);
    assert!(pool.try_claim().is_ok(), "nobody stands in the way");
}

#[tokio::test(start_paused = true)]
async fn what_was_handed_to_a_dropped_future_goes_to_the_next() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let mut first = Box::pin(pool.claim());
    let mut second = Box::pin(pool.claim());
    assert!(futures_poll(&mut first).is_none());
    assert!(futures_poll(&mut second).is_none());
    drop(claim); // handed to the first, which never looks
    drop(first);
    let served = futures_poll(&mut second).expect("the second is served").unwrap();
    assert_eq!(served.uses(), 3, "lent, handed to the first, handed to the second");
}

/// Polls once with a waker that does nothing.
fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test(start_paused = true)]
async fn discard_detach_and_fail_each_make_room() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    pool.claim().await.unwrap().discard();
    assert_eq!(pool.claim().await.unwrap().id(), 2);
    let kept = pool.claim().await.unwrap().detach();
    assert_eq!(kept.id(), 2);
    let claim = pool.claim().await.unwrap();
    assert_eq!((claim.id(), script.open_total()), (3, 2));
    claim.fail("it answered nonsense");
    let claim = pool.claim().await.unwrap();
    assert_eq!(claim.id(), 4);
    assert_eq!(
        (script.closes_started(address(1)), script.open_total()),
        (1, 2),
        "only the discarded one is said goodbye"
    );
}

#[tokio::test(start_paused = true)]
async fn resizing_works_at_run_time() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1), address(2)]).spares(1).maximum(1).build().unwrap();
    let _one = pool.claim().await.unwrap();
    assert!(pool.claim_within(ms(50)).await.is_err());
    pool.resize(2, 4).unwrap();
    let _two = pool.claim().await.unwrap();
    script.until(|script| script.open_total() == 4).await;
    assert_eq!(pool.resize(5, 4).unwrap_err().to_string(), "spares must not be above maximum (5 > 4)");
    pool.resize(0, 2).unwrap();
    script.until(|script| script.open_total() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn fifo_takes_turns() {
    let script = Scripted::new();
    let pool =
        Pool::builder(script.clone()).backends([address(1)]).spares(3).maximum(3).pick(Pick::Fifo).build().unwrap();
    script.until(|script| script.open_total() == 3).await;
    running(&pool).await;
    tokio::task::yield_now().await;
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(pool.claim().await.unwrap().id());
    }
    assert_eq!(order[..3], order[3..]);
    let mut distinct = order[..3].to_vec();
    distinct.sort_unstable();
    assert_eq!(distinct, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn max_uses_retires() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).spares(1).maximum(1).max_uses(2).build().unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(pool.claim().await.unwrap().id());
    }
    assert_eq!(ids, [1, 1, 2, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn names_of_backends_show() {
    let backend = Backend::new("db-1.example.com", address(1));
    let pool = Pool::builder(Scripted::new()).backends([backend]).build().unwrap();
    let claim = pool.claim().await.unwrap();
    assert_eq!(claim.backend().to_string(), "db-1.example.com (10.0.0.1:80)");
    assert_eq!(pool.name(), "db-1.example.com");
}
