//! Leases: one dial however many ask, the least used first, places that are kept, and nobody held up by a backend that hangs.

use carom::set::{LeaseOptions, State};
use carom::{Backend, Ejection, Lease, LeaseError, Policy, Set};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{OnConnect, Scripted};
use testkit::wait::ms;
use tokio::task::JoinSet;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6650))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

fn is_shareable<T: Send + Sync + 'static>() {}

#[test]
fn sets_and_leases_go_wherever_their_users_go() {
    is_shareable::<Set<Scripted>>();
    is_shareable::<Lease<Scripted>>();
    is_shareable::<LeaseError>();
}

/// Asks for a lease of each of these at the same time.
async fn crowd(set: &Set<Scripted>, wants: Vec<LeaseOptions>) -> Vec<Result<Lease<Scripted>, LeaseError>> {
    let mut crowd = JoinSet::new();
    for want in wants {
        let set = set.clone();
        crowd.spawn(async move { set.lease_with(want).await });
    }
    crowd.join_all().await
}

#[tokio::test(start_paused = true)]
async fn a_thousand_leases_of_a_cold_backend_are_one_dial() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Slow(ms(20)));
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    for want in [LeaseOptions::default(), LeaseOptions::default().backend(backend(1))] {
        let opened = script.connects_started(address(1));
        let leases: Vec<_> = crowd(&set, vec![want; 1000]).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(script.connects_started(address(1)), opened + 1);
        let ids: BTreeSet<_> = leases.iter().map(|lease| (lease.id(), lease.connection().id())).collect();
        assert_eq!(ids.len(), 1);
        assert_eq!((set.snapshot().leases, set.snapshot().waiting), (1000, 0));
        drop(leases);
        assert_eq!(set.snapshot().leases, 0);
        script.kill_all(address(1));
        script.until(|script| script.open_total() == 0).await;
        tokio::time::sleep(ms(200)).await; // the delay after a connection that lived for no time
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_leases_get_the_outcome_of_the_one_dial_that_failed_and_it_is_not_kept() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Fail("refused"));
    let set = Set::builder(script.clone())
        .backends([address(1)])
        .recovery(Policy::default().attempts(1).delay(ms(10)).max_delay(ms(10)))
        .build()
        .unwrap();
    let refused = crowd(&set, vec![LeaseOptions::default().backend(backend(1)); 1000]).await;
    assert!(refused.iter().all(|lease| matches!(lease, Err(LeaseError::Unreachable { .. }))));
    assert_eq!(script.connects_started(address(1)), 1);
    assert_eq!((set.snapshot().waiting, set.snapshot().dialling), (0, 0));

    script.set(address(1), OnConnect::Succeed);
    let start = Instant::now();
    assert!(set.lease_to(&backend(1)).await.is_ok());
    assert!(start.elapsed() <= ms(15), "the delay of the policy and no more: {:?}", start.elapsed());
    assert_eq!(script.connects_started(address(1)), 2);
}

/// The delay of the policy is an hour: a single backoff would show.
#[tokio::test(start_paused = true)]
async fn connections_closed_after_use_are_replaced_without_backoff() {
    let hour = Duration::from_secs(3600);
    let script = Scripted::new();
    let policy = Policy::default().delay(hour).max_delay(hour);
    let set = Set::builder(script.clone()).backends([address(1)]).recovery(policy).build().unwrap();
    let start = Instant::now();
    for round in 1..=20 {
        let lease = set.lease().await.unwrap();
        assert_eq!(script.connects_started(address(1)), round);
        // Either of the two shows that the connection was used.
        if round % 2 == 0 {
            lease.report_success();
        } else {
            drop(set.lease().await.unwrap());
        }
        script.kill_all(address(1));
        lease.closed().await;
    }
    // A report of use may arrive after the end.
    let lease = set.lease().await.unwrap();
    script.kill_all(address(1));
    lease.closed().await;
    let next = tokio::spawn({
        let set = set.clone();
        async move { set.lease().await.map(drop) }
    });
    tokio::task::yield_now().await;
    lease.report_success();
    next.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(1000), "waited {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_any_backend_is_of_the_least_used() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([1, 2, 3].map(address)).build().unwrap();
    // Lazy: what is there is shared rather than more dialled.
    let first = set.lease().await.unwrap();
    let second = set.lease().await.unwrap();
    assert_eq!((first.id(), script.opened_total()), (second.id(), 1));
    drop((first, second));

    for last in 1..=3 {
        drop(set.lease_to(&backend(last)).await.unwrap());
    }
    let busy = set.lease_to(&backend(2)).await.unwrap();
    let mut leases = Vec::new();
    for _ in 0..29 {
        leases.push(set.lease().await.unwrap());
    }
    let counts: Vec<usize> = set.connections().iter().map(|connection| connection.leases).collect();
    assert_eq!(counts, [10, 10, 10]);
    assert_eq!(script.opened_total(), 3);
    drop(busy);
    assert_eq!(set.lease().await.unwrap().backend(), &backend(2));
}

#[tokio::test(start_paused = true)]
async fn leases_of_a_backend_are_shared_out_over_its_connections() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).per_backend(3).build().unwrap();
    let leases = crowd(&set, vec![LeaseOptions::default().backend(backend(1)); 9]).await;
    let places: BTreeSet<_> = leases.iter().map(|lease| lease.as_ref().unwrap().place()).collect();
    assert_eq!(places, BTreeSet::from([0, 1, 2]));
    assert_eq!((script.opened_total(), script.open_total()), (3, 3));
    assert!(set.connections().iter().all(|connection| connection.leases == 3), "{:?}", set.connections());
}

#[tokio::test(start_paused = true)]
async fn somebody_who_had_a_place_comes_back_to_it() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).per_backend(10).build().unwrap();
    let mut others = Vec::new();
    for place in 0..10 {
        others.push(set.lease_with(LeaseOptions::default().backend(backend(1)).place(place)).await.unwrap());
        assert_eq!(others[place].place(), place);
    }
    // The least used is always another one.
    let crowded = (0..3).map(|_| set.lease_with(LeaseOptions::default().backend(backend(1)).place(7)));
    for lease in crowded {
        others.push(lease.await.unwrap());
    }
    for _ in 0..20 {
        let before = set.lease_with(LeaseOptions::default().backend(backend(1)).place(7)).await.unwrap();
        tokio::time::sleep(ms(300)).await;
        before.kill();
        before.closed().await;
        let after = set.lease_with(LeaseOptions::default().backend(backend(1)).place(7)).await.unwrap();
        assert_eq!(after.place(), 7);
        assert_ne!(after.id(), before.id());
        assert_eq!(set.connections().iter().filter(|connection| connection.place == 7).count(), 1);
    }
    assert_eq!(script.open(address(1)), 10 + 1, "the first at the place is still held, if dead");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_not_there_is_refused() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).name("brokers").backends([address(1)]).per_backend(2).build().unwrap();
    let misplaced = set.lease_with(LeaseOptions::default().backend(backend(1)).place(2)).await.unwrap_err();
    assert_eq!(misplaced.to_string(), "`brokers` has no place 2: a backend has 2, counted from 0");
    let nowhere = set.lease_with(LeaseOptions::default().place(1)).await.unwrap_err();
    assert_eq!(nowhere.to_string(), "`brokers` was asked for place 1 of no backend in particular");
    assert_eq!(script.opened_total(), 0);

    // One who has had a connection to itself comes back with the only place there was.
    let alone = Set::builder(script).backends([address(1)]).per_backend(0).build().unwrap();
    let first = alone.lease_to(&backend(1)).await.unwrap();
    let second = alone.lease_to(&backend(1)).await.unwrap();
    for before in [first, second] {
        let again = LeaseOptions::default().backend(backend(1)).place(before.place());
        assert_ne!(alone.lease_with(again).await.unwrap().id(), before.id());
    }
}

#[tokio::test(start_paused = true)]
async fn with_none_per_backend_every_lease_has_its_own() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1), address(2)]).per_backend(0).build().unwrap();
    let mut leases = Vec::new();
    for _ in 0..4 {
        leases.push(set.lease().await.unwrap());
    }
    leases.push(set.lease_to(&backend(3)).await.unwrap());
    let ids: BTreeSet<_> = leases.iter().map(Lease::id).collect();
    assert_eq!((ids.len(), script.opened_total()), (5, 5));
    assert_eq!((script.open(address(1)), script.open(address(2))), (2, 2));
    drop(leases);
    script.until(|script| script.open_total() == 0).await;
    assert_eq!(script.ends().shut, 5);
    assert!(set.connections().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_nobody_knows_is_dialled_for_who_asks() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let broker = Backend::new("broker-9.example.com", address(9));
    let lease = set.lease_to(&broker).await.unwrap();
    assert_eq!((lease.backend().name(), script.open(address(9))), ("broker-9.example.com", 1));
    assert_eq!(set.lease_to(&broker).await.unwrap().id(), lease.id());
    // It is for who asks by name: any lease is of those that are known.
    assert_eq!(set.lease().await.unwrap().backend(), &backend(1));
    // Another name for the same address is another backend.
    let other = set.lease_to(&Backend::new("broker-8.example.com", address(9))).await.unwrap();
    assert_ne!(other.id(), lease.id());
    assert_eq!((set.snapshot().known, set.connections().len()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn snapshots_say_who_holds_what_and_for_what() {
    let set = Set::builder(Scripted::new()).backends([address(1)]).build().unwrap();
    let role = |role: &str| LeaseOptions::default().role(role);
    let one = set.lease_with(role("producer")).await.unwrap();
    let two = set.lease_with(role("producer")).await.unwrap();
    let three = set.lease_with(role("consumer")).await.unwrap();
    let four = set.lease().await.unwrap();
    assert_eq!((one.role(), four.role()), (Some("producer"), None));
    let roles = || {
        let connection = &set.connections()[0];
        let count = |role: &str| connection.roles.get(role).copied();
        (connection.leases, count("producer"), count("consumer"))
    };
    assert_eq!(roles(), (4, Some(2), Some(1)));
    drop((one, three));
    assert_eq!(roles(), (2, Some(1), None));
    drop((two, four));
    assert_eq!(roles(), (0, None, None));
}

#[tokio::test(start_paused = true)]
async fn one_hanging_backend_never_blocks_leases_that_another_can_serve() {
    for _ in 0..10 {
        let script = Scripted::new();
        script.set(address(1), OnConnect::Never);
        let set = Set::builder(script.clone()).backends([1, 2].map(address)).build().unwrap();
        let hanging = tokio::spawn({
            let set = set.clone();
            async move { set.lease_to(&backend(1)).await.map(drop) }
        });
        script.until(|script| script.connects_started(address(1)) > 0).await;
        let start = Instant::now();
        assert_eq!(set.lease().await.unwrap().backend(), &backend(2));
        assert!(start.elapsed() <= ms(510), "a quarter of the connect timeout: {:?}", start.elapsed());
        let start = Instant::now();
        assert!(set.lease_to(&backend(2)).await.is_ok());
        assert_eq!(start.elapsed(), Duration::ZERO);
        hanging.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_lease_holds_and_ends_the_dial() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Never);
    let set = Set::builder(script.clone()).backends([address(1)]).lease_timeout(ms(700)).build().unwrap();
    for (want, expected) in [(LeaseOptions::default(), 700), (LeaseOptions::default().timeout(ms(50)), 50)] {
        for want in [want.clone(), want.backend(backend(1))] {
            let start = Instant::now();
            let error = set.lease_with(want).await.unwrap_err();
            let LeaseError::TimedOut { waited, .. } = &error else { panic!("{error}") };
            let took = start.elapsed();
            assert!(took >= ms(expected) && took <= ms(expected + 2) && *waited == took, "{took:?}, {waited:?}");
            assert_eq!((set.snapshot().waiting, set.snapshot().dialling), (0, 0));
        }
    }
    let start = Instant::now();
    assert!(set.lease_with(LeaseOptions::default().timeout(Duration::ZERO)).await.is_err());
    assert!(start.elapsed() <= ms(2));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_may_mean_for_ever() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Slow(ms(1500)));
    let set = Set::builder(script).backends([address(1)]).build().unwrap();
    assert!(set.lease_with(LeaseOptions::default().timeout(Duration::MAX)).await.is_ok());
    assert_eq!(set.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn at_most_so_many_dials_to_a_backend_are_under_way() {
    let script = Scripted::new();
    script.set(address(1), OnConnect::Slow(ms(100)));
    let set =
        Set::builder(script.clone()).backends([address(1)]).per_backend(0).connecting_per_backend(2).build().unwrap();
    let start = Instant::now();
    let leases = crowd(&set, vec![LeaseOptions::default(); 6]).await;
    assert!(leases.iter().all(Result::is_ok));
    assert!(start.elapsed() >= ms(300) && start.elapsed() <= ms(305), "{:?}", start.elapsed());
}

/// An eager set that is connected to three backends.
async fn three(ejection: Option<Ejection>) -> Set<Scripted> {
    let script = Scripted::new();
    let nodes = [1, 2, 3].map(address);
    let set = Set::builder(script).backends(nodes).eager(true).ejection(ejection).build().unwrap();
    let all = async {
        while set.connections().len() < 3 {
            tokio::time::sleep(ms(1)).await;
        }
    };
    all.await;
    set
}

/// Where leases go that are taken and let go of one after another.
async fn rounds(set: &Set<Scripted>, want: LeaseOptions) -> Vec<u8> {
    let mut went = Vec::new();
    for _ in 0..6 {
        let lease = set.lease_with(want.clone()).await.unwrap();
        let SocketAddr::V4(address) = lease.backend().socket_addr() else { panic!() };
        went.push(address.ip().octets()[3]);
    }
    went.sort_unstable();
    went
}

#[tokio::test(start_paused = true)]
async fn leases_one_after_another_go_round_but_for_what_is_avoided() {
    let set = three(None).await;
    assert_eq!(rounds(&set, LeaseOptions::default()).await, [1, 1, 2, 2, 3, 3]);
    assert_eq!(rounds(&set, LeaseOptions::default().avoid(backend(2))).await, [1, 1, 1, 3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn leases_go_past_what_is_full() {
    let set = three(None).await;
    let full = set.lease_to(&backend(2)).await.unwrap();
    full.limit(1);
    assert_eq!(rounds(&set, LeaseOptions::default()).await, [1, 1, 1, 3, 3, 3]);
    full.limit(100);
    drop(full);
    assert_eq!(rounds(&set, LeaseOptions::default()).await, [1, 1, 2, 2, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_with_reported_failures_is_left_out_for_a_while() {
    let set = three(Some(Ejection::default().consecutive(2).time(ms(1_000)))).await;
    let lease = set.lease_to(&backend(2)).await.unwrap();
    lease.report_failure();
    lease.report_success();
    lease.report_failure();
    assert!(set.snapshot().ejected.is_empty(), "not in a row");
    lease.report_failure();
    let ejected: Vec<_> = set.snapshot().ejected.iter().map(|(backend, _)| backend.socket_addr()).collect();
    assert_eq!(ejected, [address(2)]);
    assert_eq!(rounds(&set, LeaseOptions::default()).await, [1, 1, 1, 3, 3, 3]);
    tokio::time::timeout(ms(1), lease.draining()).await.expect("whoever has it is told");
    drop(lease);
    tokio::time::sleep(ms(1_100)).await;
    assert!(set.snapshot().ejected.is_empty());
    assert_eq!(rounds(&set, LeaseOptions::default()).await, [1, 1, 2, 2, 3, 3]);
}
