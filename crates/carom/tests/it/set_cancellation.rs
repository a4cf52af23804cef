//! The cancellation grid: whatever connecting does and however a connection ends, a caller may give up at any await, and
//! afterwards every count is exact and nothing is left behind.

use carom::set::{LeaseOptions, State};
use carom::{Backend, Policy, Set};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use testkit::backends::{OnConnect, Scripted};
use tokio::time::Instant;

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
const OTHER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 2);
const SLOW: Duration = Duration::from_millis(40);

const CONNECTS: [OnConnect; 5] =
    [OnConnect::Succeed, OnConnect::Fail("no"), OnConnect::Slow(SLOW), OnConnect::Never, OnConnect::Panic];

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
enum Want {
    Any,
    Known,
    Foreign,
    Place,
}

/// What a caller does with what it gets.
#[derive(Clone, Copy, Debug)]
enum Using {
    Drop,
    Hold,
    Kill,
    Brief,
}

#[derive(Clone, Copy, Debug)]
enum GiveUp {
    AfterWaits(usize),
    After(Duration),
}

const GIVE_UP: [GiveUp; 7] = [
    GiveUp::AfterWaits(0),
    GiveUp::AfterWaits(1),
    GiveUp::AfterWaits(2),
    GiveUp::AfterWaits(5),
    GiveUp::After(Duration::from_millis(45)),
    GiveUp::After(Duration::from_millis(130)),
    GiveUp::After(Duration::from_millis(1000)),
];

async fn caller(set: Set<Scripted>, want: Want, using: Using) {
    let options = LeaseOptions::default().role("caller").timeout(Duration::from_millis(400));
    let options = match want {
        Want::Any => options,
        Want::Known => options.backend(Backend::fixed(ADDRESS)),
        Want::Foreign => options.backend(Backend::fixed(OTHER)),
        Want::Place => options.backend(Backend::fixed(ADDRESS)).place(1),
    };
    let Ok(lease) = set.lease_with(options).await else { return };
    match using {
        Using::Drop => drop(lease),
        Using::Hold => std::future::pending().await,
        Using::Kill => {
            lease.kill();
            lease.closed().await;
        }
        Using::Brief => {
            tokio::select! {
                () = lease.draining() => {}
                () = tokio::time::sleep(SLOW) => {}
            }
        }
    }
}

/// Runs one cell of the grid: three callers, three times over, given up after so many short waits or so much time.
async fn cell(connect: OnConnect, per_backend: usize, want: Want, using: Using, give_up: GiveUp) {
    let at = format!("connect {connect:?}, {per_backend} per backend, want {want:?}, use {using:?}, {give_up:?}");
    let script = Scripted::new();
    script.set(ADDRESS, connect);
    script.set(OTHER, connect);
    let policy = Policy::default()
        .timeout(Duration::from_millis(60))
        .max_timeout(Duration::from_millis(60))
        .delay(Duration::from_millis(5))
        .max_delay(Duration::from_millis(20));
    let set = Set::builder(script.clone())
        .backends([ADDRESS])
        .per_backend(per_backend)
        .max_idle(Duration::from_millis(50))
        .idle_interval(Duration::from_millis(10))
        .recovery(policy)
        .build()
        .unwrap();
    for round in 0..3 {
        let mut first = pin!(caller(set.clone(), want, using));
        let mut second = pin!(caller(set.clone(), want, using));
        let mut third = pin!(caller(set.clone(), Want::Any, Using::Drop));
        match give_up {
            GiveUp::AfterWaits(waits) => {
                for _ in 0..waits {
                    tokio::select! {
                        biased;
                        () = &mut first => break,
                        () = &mut second => break,
                        () = &mut third => break,
                        () = tokio::time::sleep(Duration::from_millis(7)) => {}
                    }
                }
            }
            GiveUp::After(time) => {
                tokio::select! {
                    () = async { tokio::join!(first, second, third); } => {}
                    () = tokio::time::sleep(time) => {}
                }
            }
        }
        if per_backend > 0 {
            // What is dead and held, and what takes its place.
            assert!(script.peak() <= 2 * (per_backend + 1), "{} were open in round {round}: {at}", script.peak());
        }
    }
    // Everyone has given up or ended: nothing waits, nothing is held, and no dial goes on for nobody.
    let snapshot = set.snapshot();
    assert_eq!((snapshot.waiting, snapshot.leases, snapshot.dialling), (0, 0, 0), "{at}");
    assert!(
        snapshot.connections.iter().all(|connection| connection.leases == 0 && connection.roles.is_empty()),
        "{at}"
    );

    // With the faults gone it works again, and what is not used goes.
    script.set(ADDRESS, OnConnect::Succeed);
    tokio::time::sleep(Duration::from_millis(25)).await;
    drop(set.lease().await.unwrap_or_else(|error| panic!("{error} {at}")));
    assert_eq!(set.state(), State::Running, "{at}");
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!((script.open_total(), set.connections().len()), (0, 0), "{at}");

    assert_eq!(set.drain(Instant::now() + Duration::from_secs(1)).await, 0, "{at}");
    let ends = script.ends();
    assert_eq!((ends.shut + ends.killed, ends.shut_again, ends.dropped), (script.opened_total(), 0, 0), "{at}");
}

async fn row(per_backend: usize) {
    for connect in CONNECTS {
        for want in [Want::Any, Want::Known, Want::Foreign, Want::Place] {
            for using in [Using::Drop, Using::Hold, Using::Kill, Using::Brief] {
                for give_up in GIVE_UP {
                    cell(connect, per_backend, want, using, give_up).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_one_connection_per_backend() {
    row(1).await;
}

#[tokio::test(start_paused = true)]
async fn with_three_connections_per_backend() {
    row(3).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_connection_for_each_lease() {
    row(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_dial_goes_on_for_as_long_as_somebody_wants_it() {
    let script = Scripted::new();
    script.set(ADDRESS, OnConnect::Slow(Duration::from_millis(1000)));
    let set = Set::builder(script.clone()).backends([ADDRESS]).build().unwrap();
    let backend = Backend::fixed(ADDRESS);
    let mut context = Context::from_waker(Waker::noop());
    let (mut one, mut two) = (Box::pin(set.lease_to(&backend)), Box::pin(set.lease()));
    assert!(one.as_mut().poll(&mut context).is_pending() && two.as_mut().poll(&mut context).is_pending());
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(one);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!((set.snapshot().dialling, set.snapshot().waiting), (1, 1));
    drop(two);
    assert_eq!((set.snapshot().dialling, set.snapshot().waiting), (0, 0));
    tokio::time::sleep(Duration::from_millis(2000)).await;
    assert_eq!((script.connects_started(ADDRESS), script.opened_total()), (1, 0), "given up, not left to end");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_never_polled_does_nothing() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([ADDRESS]).build().unwrap();
    drop(set.lease());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!((script.connects_started(ADDRESS), set.snapshot().waiting), (0, 0));
}
