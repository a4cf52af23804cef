//! Noticing: checks, ends, death, revival, and addresses that change.

use carom::pool::State;
use carom::{Backend, Connect, Policy, Pool};
use carom_core::backend::BackendState;
use carom_core::slot::Phase;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{Behaviour, OnCheck, OnConnect, Scripted, Told};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_checked_and_lent_ones_are_not() {
    let script = Scripted::new();
    let pool =
        Pool::builder(script.clone()).backends([address(1)]).spares(2).maximum(2).check_after(ms(100)).build().unwrap();
    let _held = pool.claim().await.unwrap();
    tokio::time::sleep(ms(1000)).await;
    let checks = script.checks_started(address(1));
    assert!((5..=10).contains(&checks), "one idle connection was checked {checks} times in a second");
    assert_eq!((script.open_total(), script.opened_total()), (2, 2), "checking makes nothing grow");
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_check_was_cut_short_is_closed_and_never_lent() {
    let script = Scripted::new();
    script.set(address(1), OnCheck::Never);
    let pool = Pool::builder(script.clone())
        .backends([address(1)])
        .spares(1)
        .maximum(1)
        .check_after(ms(500))
        .check_timeout(ms(200))
        .build()
        .unwrap();
    let first = pool.claim().await.unwrap().id();
    script.until(|script| script.checks_started(address(1)) == 1).await;
    let claim = pool.claim().await.unwrap();
    assert_ne!(claim.id(), first, "the checked one is of unknown state");
    assert_eq!(script.open_total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_replaces_the_connection() {
    let script = Scripted::new();
    script.set(address(1), OnCheck::Fail);
    let pool =
        Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).check_after(ms(500)).build().unwrap();
    let first = pool.claim().await.unwrap().id();
    script.until(|script| script.checks_started(address(1)) == 1).await;
    script.set(address(1), OnCheck::Pass);
    assert_ne!(pool.claim().await.unwrap().id(), first);
    script.set(address(1), OnCheck::Panic);
    script.until(|script| script.checks_started(address(1)) == 2).await;
    script.set(address(1), OnCheck::Pass);
    assert!(pool.claim().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_idle_connection_is_noticed_before_anyone_claims_it() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let first = pool.claim().await.unwrap().id();
    tokio::time::sleep(ms(600)).await; // it has settled: it is watched
    let start = Instant::now();
    script.kill_all(address(1));
    script.until(|script| script.opened_total() == 2).await;
    assert!(start.elapsed() < ms(5), "reconnected at once, not with a delay: {:?}", start.elapsed());
    assert_ne!(pool.claim().await.unwrap().id(), first);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_an_earlier_idling_does_no_harm() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    tokio::time::sleep(ms(600)).await; // watched
    let claim = pool.claim().await.unwrap();
    claim.kill(); // ends while lent
    tokio::time::sleep(ms(600)).await;
    assert_eq!(pool.snapshot().pool.counts.of(Phase::Busy), 1, "it is its user's until it comes back");
    drop(claim);
    assert_ne!(pool.claim().await.unwrap().id(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_idled_is_asked_and_the_claim_goes_on_with_the_next() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(2).maximum(2).build().unwrap();
    script.until(|script| script.open_total() == 2).await;
    tokio::time::sleep(ms(600)).await;
    // Both are closed without a sign; asking tells.
    script.set(address(1), Behaviour::Open(false));
    let claiming = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim_within(ms(5000)).await }
    });
    script.until(|script| script.opened_total() == 4).await;
    script.set(address(1), Behaviour::Open(true));
    assert!(claiming.await.unwrap().unwrap().id() > 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_found_closed_at_release_is_not_lent_again() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    let claim = pool.claim().await.unwrap();
    tokio::time::sleep(ms(200)).await;
    claim.kill();
    drop(claim);
    assert_eq!(pool.claim().await.unwrap().id(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_dies_is_watched_and_used_again() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1), address(2)]).spares(4).maximum(6).build().unwrap();
    script.until(|script| (script.open(address(1)), script.open(address(2))) == (2, 2)).await;
    tokio::time::sleep(ms(600)).await;
    script.set(address(1), OnConnect::Fail("refused"));
    script.kill_all(address(1));
    script.until(|script| script.open(address(2)) == 4).await;
    let state_of = |last| {
        let snapshot = pool.snapshot().pool;
        let found = snapshot.backends.iter().find(|found| found.backend.socket_addr() == address(last));
        found.map(|found| (found.state, found.counts.total())).unwrap()
    };
    while state_of(1).0 != BackendState::Dead {
        tokio::time::sleep(ms(100)).await;
    }
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(state_of(1), (BackendState::Dead, 0), "it is probed without a slot");
    let tried = script.connects_started(address(1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tries = script.connects_started(address(1)) - tried;
    assert!((17..=23).contains(&tries), "{tries} attempts in a minute at a max_delay of 3 s");
    script.set(address(1), OnConnect::Succeed);
    script.until(|script| script.open(address(1)) == 2).await;
    assert_eq!(state_of(1).0, BackendState::Healthy);
}

#[tokio::test(start_paused = true)]
async fn one_hanging_backend_does_not_block_claims_that_another_can_serve() {
    for (spares, maximum) in [(0, 1), (0, 4), (1, 1), (2, 8)] {
        let script = Scripted::new();
        script.set(address(1), OnConnect::Never);
        for last in [2, 3] {
            script.set(address(last), OnConnect::Slow(ms(5)));
        }
        let pool = Pool::builder(script.clone())
            .backends([address(1), address(2), address(3)])
            .spares(spares)
            .maximum(maximum)
            .build()
            .unwrap();
        for _ in 0..5 {
            let start = Instant::now();
            drop(pool.claim_within(ms(3000)).await.unwrap());
            assert!(start.elapsed() < ms(1100), "waited {:?} with {spares} of {maximum}", start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_address_under_an_old_name_moves_traffic() {
    let script = Scripted::new();
    let at = |last| vec![Backend::new("db.example.com", address(last))];
    let (tell, told) = Told::new(at(1));
    let pool = Pool::builder(script.clone()).resolver(told).spares(2).maximum(4).build().unwrap();
    let held = pool.claim().await.unwrap();
    assert_eq!(held.backend().socket_addr(), address(1));
    tell.send_replace(at(2));
    script.until(|script| script.open(address(2)) == 2).await;
    for _ in 0..10 {
        assert_eq!(pool.claim().await.unwrap().backend().socket_addr(), address(2));
    }
    assert_eq!(script.open(address(1)), 1, "what is lent drains");
    drop(held);
    script.until(|script| script.open(address(1)) == 0).await;

    // Everyone leaves: claims wait for whoever comes, the pool has not failed.
    tell.send_replace(Vec::new());
    script.until(|script| script.open_total() == 0).await;
    assert!(pool.claim_within(ms(100)).await.is_err());
    assert_eq!(pool.state(), State::Running);
    tell.send_replace(at(3));
    assert_eq!(pool.claim().await.unwrap().backend().socket_addr(), address(3));
}

#[tokio::test(start_paused = true)]
async fn a_surplus_connection_is_released_after_idling() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone())
        .backends([address(1)])
        .spares(1)
        .maximum(8)
        .max_idle(Duration::from_secs(20))
        .max_lifetime(None)
        .build()
        .unwrap();
    let mut claims = Vec::new();
    for _ in 0..5 {
        claims.push(pool.claim().await.unwrap());
    }
    script.until(|script| script.open_total() == 6).await;
    drop(claims);
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert_eq!(script.open_total(), 6, "not before max_idle");
    script.until(|script| script.open_total() == 1).await;
    let took = start.elapsed();
    assert!(took <= Duration::from_secs(31), "max_idle and twice the interval: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn lifetimes_end_at_different_times() {
    let script = Scripted::new();
    let _pool = Pool::builder(script.clone())
        .backends([address(1)])
        .spares(20)
        .maximum(20)
        .max_lifetime(Duration::from_secs(100))
        .build()
        .unwrap();
    script.until(|script| script.open_total() == 20).await;
    tokio::time::sleep(Duration::from_secs(79)).await;
    assert_eq!(script.opened_total(), 20, "at most a fifth is taken off");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let renewed = script.opened_total() - 20;
    assert!((3..=17).contains(&renewed), "{renewed} of 20 renewed half way through the spread");
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(script.opened_total(), 40);
    assert_eq!(script.open_total(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_what_nobody_has_used_yet_is_not_hammered() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(2).maximum(4).build().unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(ms(20)).await;
        script.kill_all(address(1));
    }
    let opened = script.opened_total();
    // One attempt every 0.8 to 1 s, and the other spare's after each that succeeds.
    assert!(opened < 160, "{opened} connections in a minute");
    // When it keeps them all is well again, within the longest delay.
    let start = Instant::now();
    while !pool.claim().await.is_ok_and(|mut claim| script.liveness(&mut claim).is_usable()) {
        tokio::time::sleep(ms(100)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn claims_wait_while_the_only_backend_restarts_and_none_fails() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends([address(1)]).build().unwrap();
    let (start, back) = (Instant::now(), ms(3_000));
    let mut users = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let pool = pool.clone();
        users.spawn(async move {
            while start.elapsed() < back + ms(3_000) {
                let claim = pool.claim().await.unwrap();
                tokio::time::sleep(ms(5)).await;
                drop(claim);
            }
        });
    }
    tokio::time::sleep(ms(1_400)).await;
    script.set(address(1), OnConnect::Fail("refused"));
    script.kill_all(address(1));
    pool.states().wait_for(|state| *state == State::Failed).await.unwrap();
    tokio::time::sleep_until(start + back).await;
    script.set(address(1), OnConnect::Succeed);
    let begun = Instant::now();
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
    assert!(begun.elapsed() <= ms(1_000), "{:?}", begun.elapsed());
    while let Some(user) = users.join_next().await {
        user.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_after_each_use_is_dialled_once_for_each_use() {
    let script = Scripted::new();
    let policy = Policy::default().attempts(1);
    let pool =
        Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).recovery(policy).build().unwrap();
    let start = Instant::now();
    for _ in 0..50 {
        let claim = pool.claim().await.unwrap();
        tokio::time::sleep(ms(10)).await;
        claim.kill();
    }
    assert!(start.elapsed() < ms(600), "nobody waits for a delay: {:?}", start.elapsed());
    script.until(|script| script.open_total() == 1).await;
    assert_eq!(script.opened_total(), 51);
}

#[tokio::test(start_paused = true)]
async fn backend_that_refuses_every_client_after_connecting_is_connected_to_with_growing_delays() {
    let script = Scripted::new();
    let recovery = Policy::default().spread(0.0);
    let pool = Pool::builder(script.clone()).backends([address(1)]).spares(1).maximum(1).recovery(recovery);
    let pool = pool.outage_wait(Duration::from_secs(60)).build().unwrap();
    let mut gaps = Vec::new();
    for _ in 0..6 {
        let claim = pool.claim().await.unwrap();
        let failed_at = Instant::now();
        claim.fail("certificate required");
        let connects = script.connects_started(address(1));
        script.until(|script| script.connects_started(address(1)) > connects).await;
        gaps.push(failed_at.elapsed().as_millis());
    }
    // No claim waits meanwhile. It is dead after the third; while every backend is, connects are at most a second apart.
    assert_eq!(gaps, [100, 200, 400, 800, 1_000, 1_000]);
    // A connection that has served is replaced at once.
    drop(pool.claim().await.unwrap());
    pool.claim().await.unwrap().fail("reset");
    let start = Instant::now();
    let connects = script.connects_started(address(1));
    script.until(|script| script.connects_started(address(1)) > connects).await;
    assert!(start.elapsed() <= ms(1), "after {:?}", start.elapsed());
}
