//! Ending: closing, draining, dropping in awkward places.

use carom::pool::State;
use carom::{ClaimError, Pool};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{OnCheck, OnClose, OnConnect, Scripted};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

#[tokio::test(start_paused = true)]
async fn closing_fails_waiters_and_lets_claims_come_back() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim().await.map(drop) }
    });
    tokio::task::yield_now().await;
    pool.close();
    assert!(matches!(waiting.await.unwrap(), Err(ClaimError::Closed { .. })));
    assert!(matches!(pool.claim().await, Err(ClaimError::Closed { .. })));
    assert_eq!((pool.state(), script.open_total()), (State::Stopping, 1));
    drop(claim);
    pool.states().wait_for(|state| *state == State::Stopped).await.unwrap();
    assert_eq!(script.open_total(), 0);
}

#[tokio::test(start_paused = true)]
async fn draining_waits_and_reports_what_was_left_and_where_it_was_claimed() {
    let pool = Pool::builder(Scripted::new()).backends([address(1)]).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let line = line!() - 1;
    tokio::time::advance(ms(3000)).await;
    let start = Instant::now();
    let drained = pool.drain(start + ms(500)).await;
    assert!(start.elapsed() >= ms(500) && start.elapsed() < ms(502));
    assert_eq!(drained.left.len(), 1);
    let left = &drained.left[0];
    assert_eq!((left.site.file(), left.site.line(), left.backend.socket_addr()), (file!(), line, address(1)));
    assert!(left.lent_for >= ms(3000), "{:?}", left.lent_for);
    assert!(drained.to_string().starts_with("1 still lent:\n  10.0.0.1:80, claimed at "), "{drained}");
    drop(claim);
    assert!(pool.drain(Instant::now() + ms(500)).await.is_complete());
}

#[tokio::test(start_paused = true)]
async fn nothing_that_hangs_delays_draining() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    script.set(address(2), OnConnect::Fail("no"));
    script.set(address(3), OnCheck::Never);
    let pool = Pool::builder(script.clone())
        .backends([address(1), address(2), address(3)])
        .spares(6)
        .maximum(6)
        .check_after(ms(400))
        .check_timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    // A hanging connect, one in back-off, and a hanging check.
    script.until(|script| script.checks_started(address(3)) > 0).await;
    let start = Instant::now();
    let drained = pool.drain(start + Duration::from_secs(5)).await;
    assert!(drained.is_complete());
    assert!(start.elapsed() < ms(10), "{:?}", start.elapsed());
    assert_eq!(script.open_total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_goodbye_ends_at_the_check_timeout() {
    let script = Scripted::new();
    script.set(address(1), OnClose::Never);
    let pool = Pool::builder(script.clone()).backends([address(1)]).check_timeout(ms(300)).build().unwrap();
    drop(pool.claim().await.unwrap());
    let start = Instant::now();
    assert!(pool.drain(start + Duration::from_secs(5)).await.is_complete());
    assert!(start.elapsed() >= ms(300) && start.elapsed() < ms(310), "{:?}", start.elapsed());
    assert_eq!(script.open_total(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_still_closing_is_not_drained() {
    let script = Scripted::new();
    script.set(address(1), OnClose::Never);
    let pool = Pool::builder(script).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    let drained = pool.drain(Instant::now() + ms(200)).await;
    assert!(!drained.is_complete());
    assert_eq!(drained.to_string(), "1 still closing");
}

/// Panics when it is dropped.
struct Explosive(bool);

impl Drop for Explosive {
    fn drop(&mut self) {
        if std::mem::take(&mut self.0) {
            panic!("as a connection should not");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_panic_when_dropped_do_not_take_the_pool_with_them() {
    let connector = carom::connect_fn(|_| async { Ok::<_, std::io::Error>(Explosive(true)) });
    let pool =
        Pool::builder(connector).backends([address(1)]).spares(2).maximum(2).max_lifetime(ms(300)).build().unwrap();
    for _ in 0..5 {
        pool.claim().await.unwrap().fail("it explodes");
        pool.claim().await.unwrap().discard();
        drop(pool.claim().await.unwrap());
        tokio::time::sleep(ms(700)).await;
        assert_eq!(pool.state(), State::Running);
    }
    let mut claim = pool.claim().await.unwrap();
    claim.0 = false;
    drop(claim);
    assert!(pool.drain(Instant::now() + Duration::from_secs(5)).await.is_complete());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let mut states = pool.states();
    drop(pool.clone());
    tokio::task::yield_now().await;
    assert_eq!(*states.borrow_and_update(), State::Running);
    drop(pool);
    states.wait_for(|state| *state == State::Stopping).await.unwrap();
    drop(claim);
    script.until(|script| script.open_total() == 0).await;
}

#[test]
fn claims_are_dropped_outside_a_runtime() {
    let script = Scripted::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pool = Pool::builder(script.clone())
        .backends([address(1)])
        .spares(1)
        .maximum(1)
        .runtime(runtime.handle().clone())
        .build()
        .unwrap();
    let claim = runtime.block_on(async { pool.claim().await.unwrap() });
    drop(claim); // no runtime here
    let again = runtime.block_on(async { pool.claim().await.unwrap() });
    assert_eq!((again.id(), again.uses()), (1, 2));
    again.discard();
    let third = runtime.block_on(async { pool.claim().await.unwrap() });
    assert_eq!(third.id(), 2);
    std::thread::spawn(move || drop(third)).join().unwrap();
    drop(pool);
    runtime.block_on(script.until(|script| script.open_total() == 0));
}

#[test]
fn when_the_runtime_ends_claims_fail_and_nothing_leaks() {
    let script = Scripted::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let pool = Pool::builder(script.clone())
        .backends([address(1)])
        .spares(2)
        .maximum(2)
        .runtime(runtime.handle().clone())
        .build()
        .unwrap();
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (one, two) = other.block_on(async { (pool.claim().await.unwrap(), pool.claim().await.unwrap()) });
    drop(one);
    let waiting = std::thread::spawn({
        let pool = pool.clone();
        let _hold = pool.try_claim();
        move || {
            let _hold = _hold;
            tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap()
                .block_on(async { pool.claim().await.map(drop) })
        }
    });
    while pool.snapshot().pool.waiting == 0 {
        std::thread::yield_now();
    }
    drop(runtime);
    assert!(matches!(waiting.join().unwrap(), Err(ClaimError::Closed { .. })));
    assert!(matches!(other.block_on(async { pool.claim().await }), Err(ClaimError::Closed { .. })));
    assert!(matches!(pool.try_claim(), Err(ClaimError::Closed { .. })));
    assert_eq!(pool.state(), State::Stopped);
    drop(two);
    assert_eq!(script.open_total(), 0);
    let drained = other.block_on(pool.drain(std::time::Instant::now() + ms(100)));
    assert!(drained.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_claim_dropped_by_a_panic_is_discarded() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    let first = claim.id();
    let panicked = tokio::spawn(async move {
        let _claim = claim;
        panic!("as user code does");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let next = pool.claim().await.unwrap();
    assert_ne!(next.id(), first);
    assert_eq!((script.open_total(), script.closes_started(address(1))), (1, 0));
}
