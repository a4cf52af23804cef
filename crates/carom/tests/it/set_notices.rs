//! Notices: who holds a connection learns that it is on its way out, and that it has ended.

use carom::set::{Event, State};
use carom::{Backend, LeaseError, Policy, Set};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{Ends, OnConnect, Scripted, Told};
use testkit::wait::ms;
use tokio::time::{Instant, timeout};

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6650))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

fn backends(last: &[u8]) -> Vec<Backend> {
    last.iter().map(|&last| backend(last)).collect()
}

async fn is_up(future: impl Future<Output = ()>) -> bool {
    timeout(ms(1), future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn every_holder_learns_at_once_that_the_far_side_has_closed() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let mut holders = Vec::new();
    for _ in 0..100 {
        let lease = set.lease().await.unwrap();
        assert!(is_up(lease.closed()).await && is_up(lease.draining()).await && !lease.is_closed());
        holders.push(tokio::spawn(async move {
            tokio::join!(lease.closed(), lease.draining());
            (Instant::now(), lease.is_closed())
        }));
    }
    tokio::time::sleep(ms(1000)).await;
    let killed = Instant::now();
    script.kill_all(address(1));
    for holder in holders {
        let (told, is_closed) = holder.await.unwrap();
        assert!(told - killed <= ms(1) && is_closed);
    }
    // It has ended by itself: nobody shuts it.
    assert_eq!(script.ends(), Ends { killed: 1, ..Ends::default() });
    assert!(set.connections().is_empty());
    // One that lived for a while is replaced at once.
    let start = Instant::now();
    assert_eq!(set.lease().await.unwrap().connection().id(), 2);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_dead_connection_is_no_longer_counted() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let dead = set.lease().await.unwrap();
    tokio::time::sleep(ms(1000)).await;
    dead.kill();
    dead.closed().await;
    let alive = set.lease().await.unwrap();
    assert_eq!(set.snapshot().leases, 1);
    drop(dead);
    assert_eq!((set.snapshot().leases, set.connections()[0].leases), (1, 1));
    drop(alive);
    assert_eq!(set.snapshot().leases, 0);
}

#[tokio::test(start_paused = true)]
async fn what_dies_as_soon_as_it_is_there_is_dialled_under_the_policy() {
    let script = Scripted::new();
    let set = Set::builder(script.clone())
        .backends([address(1)])
        .recovery(Policy::default().delay(ms(100)).max_delay(ms(400)).spread(0.0))
        .build()
        .unwrap();
    let mut dialled = Vec::new();
    for _ in 0..5 {
        let lease = set.lease().await.unwrap();
        dialled.push(Instant::now());
        lease.kill();
        lease.closed().await;
    }
    let gaps: Vec<_> = dialled.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert!(gaps[0] >= 100 && gaps.is_sorted() && gaps[3] >= 400 && gaps[3] <= 410, "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_taken_back_is_drained() {
    let script = Scripted::new();
    let (tell, resolver) = Told::new(backends(&[1, 2]));
    let set = Set::builder(script.clone()).resolver(resolver).drain_timeout(ms(5000)).build().unwrap();
    let leaves = set.lease_to(&backend(1)).await.unwrap();
    let stays = set.lease_to(&backend(1)).await.unwrap();
    let other = set.lease_to(&backend(2)).await.unwrap();
    drop(set.lease_to(&backend(2)).await.unwrap());

    tell.send_replace(backends(&[2]));
    let start = Instant::now();
    tokio::join!(leaves.draining(), stays.draining());
    assert!(start.elapsed() <= ms(1) && is_up(leaves.closed()).await && is_up(other.draining()).await);
    assert!(set.connections().iter().any(|connection| connection.draining && connection.leases == 2));
    // No new leases of it.
    assert_eq!(set.lease().await.unwrap().backend(), &backend(2));
    assert_eq!(script.open_total(), 2);
    drop(leaves);
    assert!(is_up(stays.closed()).await);
    // Its last holder lets go: it ends.
    let closed = stays.closed();
    drop(stays);
    closed.await;
    assert_eq!((script.open(address(1)), script.ends().shut), (0, 1));
    assert!(is_up(other.draining()).await);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_let_go_is_shut_out_at_the_drain_timeout() {
    let script = Scripted::new();
    let (tell, resolver) = Told::new(backends(&[1, 2]));
    let set = Set::builder(script.clone()).resolver(resolver).drain_timeout(ms(5000)).build().unwrap();
    let held = set.lease_to(&backend(1)).await.unwrap();
    let start = Instant::now();
    tell.send_replace(backends(&[2]));
    held.closed().await;
    assert!(start.elapsed() >= ms(5000) && start.elapsed() <= ms(5005), "{:?}", start.elapsed());
    assert!(held.is_shut() && held.is_closed());
    assert_eq!(script.ends(), Ends { shut: 1, ..Ends::default() });
    drop(held);
    assert_eq!((script.open_total(), script.ends().shut_again), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_comes_back_gets_a_new_connection() {
    let script = Scripted::new();
    let (tell, resolver) = Told::new(backends(&[1]));
    let set = Set::builder(script.clone()).resolver(resolver).build().unwrap();
    let old = set.lease_to(&backend(1)).await.unwrap();
    tell.send_replace(Vec::new());
    old.draining().await;
    tell.send_replace(backends(&[1]));
    let new = set.lease().await.unwrap();
    assert_ne!(new.id(), old.id());
    assert!(!old.is_closed() && !new.is_closed());
    drop(old);
    script.until(|script| script.open_total() == 1).await;
    assert!(!new.is_closed() && !new.is_shut());
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_somebody_waits_for_survives_its_backend_and_one_for_any_lease_does_not() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Slow(ms(300)));
    let (tell, resolver) = Told::new(backends(&[1]));
    let set = Set::builder(script.clone()).resolver(resolver).build().unwrap();
    let by_name = tokio::spawn({
        let set = set.clone();
        async move { set.lease_to(&backend(1)).await }
    });
    let by_chance = tokio::spawn({
        let set = set.clone();
        async move { set.lease().await }
    });
    script.until(|script| script.connects_started(address(1)) == 1).await;
    tell.send_replace(backends(&[2]));
    assert_eq!(by_chance.await.unwrap().unwrap().backend(), &backend(2));
    assert_eq!(by_name.await.unwrap().unwrap().backend(), &backend(1));
}

#[tokio::test(start_paused = true)]
async fn events_say_what_came_and_went() {
    let script = Scripted::new();
    let (tell, resolver) = Told::new(backends(&[1, 2]));
    let set = Set::builder(script.clone()).resolver(resolver).build().unwrap();
    let mut early = set.events();
    let one = set.lease_to(&backend(1)).await.unwrap();
    let added = |id, last| Some(Event::Added { connection: id, backend: backend(last).into() });
    assert_eq!(early.next().await, added(one.id(), 1));
    let mut late = set.events();
    assert_eq!(late.next().await, added(one.id(), 1), "those that are there come first");
    assert!(timeout(ms(1000), late.next()).await.is_err());

    let two = set.lease_to(&backend(2)).await.unwrap();
    assert_eq!((early.next().await, late.next().await), (added(two.id(), 2), added(two.id(), 2)));
    // Removed while it is alive, because it takes no more leases.
    tell.send_replace(backends(&[2]));
    assert_eq!(early.next().await, Some(Event::Removed { connection: one.id() }));
    assert!(!one.is_closed());
    drop(one);
    // Removed because it is dead.
    two.kill();
    assert_eq!(early.next().await, Some(Event::Removed { connection: two.id() }));
    let three = set.lease_to(&backend(2)).await.unwrap();
    assert_eq!(early.next().await, added(three.id(), 2));

    // One who was slow misses history, not the outcome.
    assert_eq!(late.next().await, added(three.id(), 2));
    let gone = [late.next().await.unwrap(), late.next().await.unwrap()];
    assert!(gone.contains(&Event::Removed { connection: two.id() }), "{gone:?}");
    drop((three, two));
    set.close();
    assert!(matches!(early.next().await, Some(Event::Removed { .. })));
    assert_eq!((early.next().await, early.next().await), (None, None));
    assert!(matches!(late.next().await, Some(Event::Removed { .. })));
    assert_eq!(late.next().await, None);
    assert_eq!(set.events().next().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_eager_set_connects_before_anybody_asks_and_keeps_it() {
    let script = Scripted::new();
    let set = Set::builder(script.clone())
        .backends([1, 2, 3].map(address))
        .eager(true)
        .target(2)
        .maximum(2)
        .max_idle(ms(1000))
        .build()
        .unwrap();
    script.until(|script| script.open_total() == 2).await;
    set.states().wait_for(|state| *state == State::Running).await.unwrap();
    tokio::time::sleep(ms(20_000)).await;
    assert_eq!((script.open_total(), script.opened_total()), (2, 2), "what it keeps is not released");
    assert!(set.connections().iter().all(|connection| connection.kept && connection.leases == 0));
    let start = Instant::now();
    let lease = set.lease().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    // What dies is dialled again without being asked.
    lease.kill();
    script.until(|script| script.open_total() == 3).await;
    drop(lease);
    script.until(|script| script.open_total() == 2).await;
}

/// A set that keeps one connection of four, now and then another.
fn moving_about() -> (Scripted, Set<Scripted>) {
    let script = Scripted::new();
    let set = Set::builder(script.clone())
        .backends([1, 2, 3, 4].map(address))
        .eager(true)
        .target(1)
        .maximum(1)
        .decoherence(ms(1000))
        .build()
        .unwrap();
    (script, set)
}

#[tokio::test(start_paused = true)]
async fn who_follows_the_events_of_a_swap_never_sees_none() {
    let (_script, set) = moving_about();
    let (mut events, mut up, mut moves) = (set.events(), 0, 0);
    while moves < 10 {
        match events.next().await.unwrap() {
            Event::Added { .. } => up += 1,
            Event::Removed { .. } => (up, moves) = (up - 1, moves + 1),
        }
        assert!((1..=2).contains(&up), "{up} after {moves} moves");
    }
}

#[tokio::test(start_paused = true)]
async fn an_eager_set_makes_before_it_breaks() {
    let (script, set) = moving_about();
    script.until(|script| script.open_total() == 1).await;
    (1..=4).for_each(|last| script.set(address(last), OnConnect::Slow(ms(300))));
    // Every now and then another is preferred; at no time is there none, nor more than one too many.
    for _ in 0..3000 {
        tokio::time::sleep(ms(20)).await;
        assert!((1..=2).contains(&script.open_total()), "{}", script.open_total());
        let start = Instant::now();
        drop(set.lease().await.unwrap());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
    assert!(script.opened_total() > 3, "it has moved: {}", script.opened_total());
    assert_eq!(script.peak(), 2);
    let Ends { shut, shut_again, killed, dropped } = script.ends();
    assert_eq!((shut_again, killed, dropped), (0, 0, 0));
    assert_eq!(shut + script.open_total(), script.opened_total());
}

#[tokio::test(start_paused = true)]
async fn a_move_tells_holders_and_waits_for_them() {
    let script = Scripted::new();
    let (tell, resolver) = Told::new(backends(&[1]));
    let set = Set::builder(script.clone())
        .resolver(resolver)
        .eager(true)
        .target(1)
        .maximum(1)
        .decoherence(ms(1000))
        .build()
        .unwrap();
    let held = set.lease().await.unwrap();
    tell.send_replace(backends(&[1, 2]));
    // Sooner or later the other one is preferred.
    held.draining().await;
    assert_eq!(script.open_total(), 2, "the other one works before this one is given up");
    assert!(timeout(ms(100_000), held.closed()).await.is_err(), "holders have as long as they want");
    drop(held);
    script.until(|script| script.open_total() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn states_follow_what_works() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("refused"));
    let set = Set::builder(script.clone())
        .backends([address(1)])
        .eager(true)
        .recovery(Policy::default().attempts(2).delay(ms(50)).max_delay(ms(200)))
        .outage_wait(ms(0))
        .build()
        .unwrap();
    let mut states = set.states();
    assert_eq!(*states.borrow_and_update(), State::Starting);
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), State::Failed);
    assert!(matches!(set.lease().await, Err(LeaseError::Failed { .. })));
    // It is watched: nobody needs to ask.
    script.set(address(1), OnConnect::Succeed);
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), State::Running);
    set.close();
    states.wait_for(|state| *state == State::Stopped).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_takes_all_back_leaves_nobody_for_any_lease() {
    let script = Scripted::new();
    let (tell, resolver) = Told::new(backends(&[1, 2, 3]));
    let set = Set::builder(script.clone()).resolver(resolver).eager(true).lease_timeout(ms(500)).build().unwrap();
    script.until(|script| script.open_total() == 3).await;
    tell.send_replace(Vec::new());
    script.until(|script| script.open_total() == 0).await;
    assert_eq!(script.ends(), Ends { shut: 3, ..Ends::default() });
    let error = set.lease().await.unwrap_err();
    assert!(matches!(error, LeaseError::TimedOut { .. }), "{error}");
    tell.send_replace(backends(&[4]));
    assert_eq!(set.lease().await.unwrap().backend(), &backend(4));
}
