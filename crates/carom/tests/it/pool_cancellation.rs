//! The cancellation grid: whatever connecting, checking, using and closing do, a caller may give up at any await, and
//! afterwards every count is exact and nothing is left behind.

use carom::pool::State;
use carom::{Policy, Pool};
use carom_core::slot::Phase;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use testkit::backends::{Behaviour, OnCheck, OnClose, OnConnect, Scripted};
use tokio::time::Instant;

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Succeed,
    Fail,
    Slow,
    Never,
}

const OUTCOMES: [Outcome; 4] = [Outcome::Succeed, Outcome::Fail, Outcome::Slow, Outcome::Never];
const SLOW: Duration = Duration::from_millis(40);

fn on_connect(outcome: Outcome) -> OnConnect {
    match outcome {
        Outcome::Succeed => OnConnect::Succeed,
        Outcome::Fail => OnConnect::Fail("no"),
        Outcome::Slow => OnConnect::Slow(SLOW),
        Outcome::Never => OnConnect::Never,
    }
}

fn on_check(outcome: Outcome) -> OnCheck {
    match outcome {
        Outcome::Succeed => OnCheck::Pass,
        Outcome::Fail => OnCheck::Fail,
        Outcome::Slow => OnCheck::Slow(SLOW),
        Outcome::Never => OnCheck::Never,
    }
}

fn on_close(outcome: Outcome) -> OnClose {
    match outcome {
        Outcome::Succeed => OnClose::Quick,
        Outcome::Fail => OnClose::Panic,
        Outcome::Slow => OnClose::Slow(SLOW),
        Outcome::Never => OnClose::Never,
    }
}

/// A caller that claims, uses and ends its use as told.
async fn caller(pool: Pool<Scripted>, using: Outcome) {
    let Ok(claim) = pool.claim_within(Duration::from_millis(400)).await else { return };
    match using {
        Outcome::Succeed => drop(claim),
        Outcome::Fail => claim.fail("as told"),
        Outcome::Slow => {
            tokio::time::sleep(SLOW).await;
            claim.discard();
        }
        Outcome::Never => {
            let _claim = claim;
            std::future::pending::<()>().await;
        }
    }
}

/// Runs one cell of the grid: two callers on one connection, three times over, given up after so many short waits or so much
/// time.
async fn cell(connect: Outcome, check: Outcome, using: Outcome, close: Outcome, give_up: GiveUp) {
    let at = format!("connect {connect:?}, check {check:?}, use {using:?}, close {close:?}, {give_up:?}");
    let script = Scripted::new();
    script.set(ADDRESS, on_connect(connect));
    script.set(ADDRESS, on_check(check));
    script.set(ADDRESS, on_close(close));
    let policy = Policy::default()
        .timeout(Duration::from_millis(60))
        .max_timeout(Duration::from_millis(60))
        .delay(Duration::from_millis(5))
        .max_delay(Duration::from_millis(20));
    let pool = Pool::builder(script.clone())
        .backends([ADDRESS])
        .spares(1)
        .maximum(1)
        .check_after(Duration::from_millis(30))
        .check_timeout(Duration::from_millis(60))
        .recovery(policy)
        .build()
        .unwrap();
    for round in 0..3 {
        let mut first = pin!(caller(pool.clone(), using));
        let mut second = pin!(caller(pool.clone(), using));
        match give_up {
            GiveUp::AfterPolls(polls) => {
                for _ in 0..polls {
                    tokio::select! {
                        biased;
                        () = &mut first => break,
                        () = &mut second => break,
                        () = tokio::time::sleep(Duration::from_millis(7)) => {}
                    }
                }
            }
            GiveUp::After(time) => {
                tokio::select! {
                    () = async { tokio::join!(first, second); } => {}
                    () = tokio::time::sleep(time) => {}
                }
            }
        }
        assert_eq!(script.peak().max(1), 1, "more than the maximum was open in round {round}: {at}");
    }
    // Everyone has given up or ended.
    let snapshot = pool.snapshot().pool;
    assert_eq!((snapshot.waiting, snapshot.counts.of(Phase::Busy)), (0, 0), "{at}");
    assert!(snapshot.counts.total() <= 1, "{snapshot:?} {at}");

    // With the faults gone it works again.
    script.set(ADDRESS, OnConnect::Succeed);
    script.set(ADDRESS, OnCheck::Pass);
    script.set(ADDRESS, OnClose::Quick);
    script.set(ADDRESS, Behaviour::Open(true));
    let start = Instant::now();
    while pool.state() != State::Running {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(pool.claim().await.unwrap_or_else(|error| panic!("{error} {at}")));
    assert!(start.elapsed() < Duration::from_millis(500), "{:?} {at}", start.elapsed());

    assert!(pool.drain(Instant::now() + Duration::from_secs(1)).await.is_complete(), "{at}");
    assert_eq!(script.open_total(), 0, "{at}");
    let snapshot = pool.snapshot().pool;
    assert_eq!((snapshot.counts.total(), snapshot.draining.total(), snapshot.waiting), (0, 0, 0), "{at}");
}

#[derive(Clone, Copy, Debug)]
enum GiveUp {
    AfterPolls(usize),
    After(Duration),
}

const GIVE_UP: [GiveUp; 7] = [
    GiveUp::AfterPolls(0),
    GiveUp::AfterPolls(1),
    GiveUp::AfterPolls(2),
    GiveUp::AfterPolls(5),
    GiveUp::After(Duration::from_millis(45)),
    GiveUp::After(Duration::from_millis(130)),
    GiveUp::After(Duration::from_millis(1000)),
];

/// One row of the grid per way that connecting can go, so that they run side by side.
async fn row(connect: Outcome) {
    for check in OUTCOMES {
        for using in OUTCOMES {
            for close in OUTCOMES {
                for give_up in GIVE_UP {
                    cell(connect, check, using, close, give_up).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_succeeds() {
    row(Outcome::Succeed).await;
}

#[tokio::test(start_paused = true)]
async fn connecting_fails() {
    row(Outcome::Fail).await;
}

#[tokio::test(start_paused = true)]
async fn connecting_is_slow() {
    row(Outcome::Slow).await;
}

#[tokio::test(start_paused = true)]
async fn connecting_never_ends() {
    row(Outcome::Never).await;
}
