//! Idling: a connection that nobody holds is found, marked and released, unless somebody comes back for it.

use carom::set::{Idleness, State};
use carom::{Backend, Connect, Set, Share};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::backends::{Ends, OnConnect, Scripted};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6650))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

/// Released after 10 s, looked at every second.
fn quick(script: &Scripted) -> Set<Scripted> {
    Set::builder(script.clone()).backends([address(1)]).max_idle(ms(10_000)).idle_interval(ms(1000)).build().unwrap()
}

fn idleness(set: &Set<Scripted>) -> Option<Idleness> {
    set.connections().first().map(|connection| connection.idleness)
}

#[tokio::test(start_paused = true)]
async fn a_connection_goes_from_using_to_marked_to_released() {
    let script = Scripted::new();
    let set = quick(&script);
    let lease = set.lease().await.unwrap();
    let created = Instant::now().into_std();
    tokio::time::sleep(ms(30_000)).await;
    let shown = &set.connections()[0];
    assert_eq!((shown.idleness, shown.idle_since, shown.created), (Idleness::Using, None, created));

    drop(lease);
    let dropped = Instant::now();
    let since = dropped.into_std();
    let shown = &set.connections()[0];
    assert_eq!((shown.idleness, shown.idle_since, shown.last_used), (Idleness::Using, Some(since), since));
    tokio::time::sleep(ms(1001)).await;
    let shown = &set.connections()[0];
    assert_eq!((shown.idleness, shown.idle_since), (Idleness::IdleMarked { since }, Some(since)));
    assert_eq!(script.open_total(), 1);

    script.until(|script| script.open_total() == 0).await;
    let lived = dropped.elapsed();
    assert!(lived >= ms(10_000) && lived <= ms(12_000), "{lived:?}");
    assert_eq!(script.ends(), Ends { shut: 1, ..Ends::default() });
    assert!(set.connections().is_empty());

    // A lease after that dials anew.
    assert_eq!(set.lease().await.unwrap().connection().id(), 2);
    assert_eq!(set.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn after_its_last_use_a_connection_lives_for_max_idle_and_at_most_two_looks() {
    for (max_idle, interval) in
        [(10_000, Some(1000)), (10_000, Some(10_000)), (60_000, None), (500, Some(200)), (500, None)]
    {
        for offset in [0, 1, 333, 777, 4999] {
            let script = Scripted::new();
            let set = Set::builder(script.clone())
                .backends([address(1)])
                .max_idle(ms(max_idle))
                .idle_interval(interval.map(ms))
                .build()
                .unwrap();
            let lease = set.lease().await.unwrap();
            tokio::time::sleep(ms(offset)).await;
            drop(lease);
            let dropped = Instant::now();
            script.until(|script| script.ends().shut == 1).await;
            let interval = interval.unwrap_or((max_idle / 4).clamp(1000, 60_000));
            let (lived, slack) = (dropped.elapsed(), ms(2));
            let bound = ms(max_idle + 2 * interval) + slack;
            assert!(lived >= ms(max_idle) && lived <= bound, "{lived:?} of {max_idle} and {interval}, {offset}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_wins_a_marked_connection_back() {
    let script = Scripted::new();
    let set = quick(&script);
    let first = set.lease().await.unwrap().id();
    for _ in 0..50 {
        tokio::time::sleep(ms(9_500)).await;
        assert!(matches!(idleness(&set), Some(Idleness::IdleMarked { .. })), "{:?}", idleness(&set));
        let lease = set.lease().await.unwrap();
        assert_eq!((lease.id(), idleness(&set)), (first, Some(Idleness::Using)));
    }
    assert_eq!((script.opened_total(), script.ends()), (1, Ends::default()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_wins_a_connection_back_that_is_about_to_be_released() {
    let script = Scripted::new();
    let set = quick(&script);
    let mut won = 0;
    while won < 10 {
        drop(set.lease().await.unwrap());
        // The driver and this task are woken at the same moments, in whatever order.
        while !matches!(idleness(&set), None | Some(Idleness::BeforeRelease { .. })) {
            tokio::time::sleep(ms(1)).await;
            tokio::task::yield_now().await;
        }
        if idleness(&set).is_some() {
            let again = set.lease().await.unwrap();
            assert_eq!(again.connection().id(), script.opened_total() as u64, "it is the very connection");
            tokio::time::sleep(ms(5000)).await;
            assert!(!again.is_closed() && !again.is_shut());
            won += 1;
        }
        assert!(script.opened_total() < 100, "the step before the release is not seen: {won}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_far_side_that_closes_what_is_being_released_ends_it_once() {
    // Killed at every millisecond around the release: before it is due, while it is about to be released, and after.
    let script = Scripted::new();
    let set = quick(&script);
    let (mut caught, mut late) = (0, 0);
    for round in 1..=200 {
        let lease = set.lease().await.unwrap();
        let closed = lease.closed();
        assert_eq!((lease.connection().id(), script.open_total()), (round, 1), "a connection of its own, and no other");
        drop(lease);
        let early = Duration::from_millis(round % 200);
        tokio::time::sleep(ms(11_100) - early).await;
        while !matches!(idleness(&set), None | Some(Idleness::BeforeRelease { .. })) && round % 3 == 0 {
            tokio::time::sleep(ms(1)).await;
            tokio::task::yield_now().await;
        }
        match idleness(&set) {
            Some(_) => caught += 1,
            None => late += 1,
        }
        script.kill_all(address(1));
        closed.await;
        script.until(|script| script.open_total() == 0).await;
        assert!(set.connections().is_empty());
    }
    let ends = script.ends();
    assert_eq!((ends.shut + ends.killed, ends.shut_again, ends.dropped), (200, 0, 0));
    assert!(caught > 0 && late > 0, "both sides come first at times: {caught} and {late}");
}

#[tokio::test(start_paused = true)]
async fn what_goes_over_the_wire_is_not_use() {
    let script = Scripted::new();
    let set = quick(&script);
    let lease = set.lease().await.unwrap();
    let dropped = Instant::now();
    let closed = lease.closed();
    drop(lease);
    // Whoever watches a connection, or looks at snapshots, does not use it either.
    let watching = tokio::spawn(closed);
    while script.open_total() > 0 {
        assert!(dropped.elapsed() <= ms(12_000));
        let _ = (set.connections(), set.snapshot());
        tokio::time::sleep(ms(100)).await;
    }
    watching.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_max_idle_everything_is_kept() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).max_idle(None).build().unwrap();
    drop(set.lease().await.unwrap());
    drop(set.lease_to(&backend(9)).await.unwrap());
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!((script.open_total(), script.ends()), (2, Ends::default()));
}

#[tokio::test(start_paused = true)]
async fn held_connections_and_dials_are_not_for_the_detector() {
    let script = Scripted::new();
    script.set(address(2), OnConnect::Slow(ms(1900)));
    let set =
        Set::builder(script.clone()).backends([address(1)]).max_idle(ms(10)).idle_interval(ms(5)).build().unwrap();
    let held = set.lease().await.unwrap();
    // Hundreds of looks while it is dialled.
    let slow = set.lease_to(&backend(2)).await.unwrap();
    tokio::time::sleep(ms(10_000)).await;
    assert!(!held.is_closed() && !slow.is_closed());
    assert_eq!(script.open_total(), 2);
    drop(slow);
    script.until(|script| script.open_total() == 1).await;
    assert_eq!(script.open(address(1)), 1);
    assert!(!held.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_came_for_is_released_too() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Slow(ms(100)));
    let set = Set::builder(script.clone()).backends([address(1)]).max_idle(ms(1000)).build().unwrap();
    // Granted and dropped before it is collected.
    let mut leasing = Box::pin(set.lease());
    tokio::select! {
        biased;
        _ = &mut leasing => panic!("it takes 100 ms"),
        () = tokio::time::sleep(ms(50)) => {}
    }
    script.until(|script| script.open_total() == 1).await;
    tokio::time::sleep(ms(1)).await;
    assert_eq!(set.snapshot().leases, 1, "counted when it is handed out");
    drop(leasing);
    assert_eq!(set.snapshot().leases, 0);
    script.until(|script| script.ends().shut == 1).await;
}

/// Counts what it shuts, by connection.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Connect for Counting {
    type Connection = AtomicUsize;
    type Error = std::io::Error;

    async fn connect(&self, _backend: &Backend) -> Result<AtomicUsize, std::io::Error> {
        Ok(AtomicUsize::new(0))
    }
}

impl Share for Counting {
    fn shut(&self, connection: &AtomicUsize) {
        assert_eq!(connection.fetch_add(1, Ordering::Relaxed), 0, "shut once");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_idle_connections_are_let_go_together() {
    let counting = Counting::default();
    let set = Set::builder(counting.clone())
        .backends([address(1)])
        .max_idle(ms(60_000))
        .idle_interval(ms(15_000))
        .build()
        .unwrap();
    for n in 0..10_000_u16 {
        let there = SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 6650));
        drop(set.lease_to(&Backend::fixed(there)).await.unwrap());
    }
    assert_eq!(set.connections().len(), 10_000);
    let kept = set.lease_to(&Backend::fixed(SocketAddr::from(([10, 1, 0, 77], 6650)))).await.unwrap();
    tokio::time::sleep(ms(59_000)).await;
    assert_eq!((set.connections().len(), counting.0.load(Ordering::Relaxed)), (10_000, 0));
    tokio::time::sleep(ms(32_000)).await;
    assert_eq!((set.connections().len(), counting.0.load(Ordering::Relaxed)), (1, 9_999));
    assert!(!kept.is_closed());
}
