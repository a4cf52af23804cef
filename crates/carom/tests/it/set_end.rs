//! Ending: closing, draining, dropping in awkward places, and connectors that panic. Every connection is shut exactly once.

use carom::set::State;
use carom::{Backend, Connect, LeaseError, Liveness, Policy, Set, Share};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::backends::{Connection, Ends, OnConnect, ScriptError, Scripted};
use testkit::wait::ms;
use tokio::time::Instant;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6650))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

fn shut(shut: usize) -> Ends {
    Ends { shut, ..Ends::default() }
}

async fn stopped(set: &Set<impl Share>) {
    set.states().wait_for(|state| *state == State::Stopped).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_a_set_that_has_nothing_ends_it_at_once() {
    for eager in [false, true] {
        let script = Scripted::new();
        script.set(address(1), OnConnect::Never);
        let set = Set::builder(script.clone()).backends([address(1)]).eager(eager).build().unwrap();
        tokio::time::sleep(ms(10)).await;
        let start = Instant::now();
        assert_eq!(set.drain(start + ms(5000)).await, 0);
        assert_eq!((start.elapsed(), set.state()), (Duration::ZERO, State::Stopped));
    }
}

#[tokio::test(start_paused = true)]
async fn closing_refuses_who_waits_and_leaves_holders_what_they_have() {
    let script = Scripted::new();
    script.set(address(2), OnConnect::Never);
    let set = Set::builder(script.clone()).backends([1, 2, 3].map(address)).build().unwrap();
    let held = set.lease_to(&backend(1)).await.unwrap();
    drop(set.lease_to(&backend(3)).await.unwrap());
    let waiting = tokio::spawn({
        let set = set.clone();
        async move { set.lease_to(&backend(2)).await.map(drop) }
    });
    script.until(|script| script.connects_started(address(2)) == 1).await;
    set.close();
    assert!(matches!(waiting.await.unwrap(), Err(LeaseError::Closed { .. })));
    let error = set.lease().await.unwrap_err();
    assert_eq!(error.to_string(), "`10.0.0.1:6650 and 2 more` is closed");
    assert!(matches!(set.lease_to(&backend(1)).await, Err(LeaseError::Closed { .. })));
    script.until(|script| script.open_total() == 1).await;
    assert_eq!((set.state(), script.ends()), (State::Stopping, shut(1)));
    held.draining().await;
    assert!(!held.is_closed());
    drop(held);
    stopped(&set).await;
    assert_eq!((script.open_total(), script.ends()), (0, shut(2)));
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_the_last_lease() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let held = set.lease().await.unwrap();
    tokio::spawn(async move {
        held.draining().await;
        tokio::time::sleep(ms(300)).await;
        drop(held);
    });
    let start = Instant::now();
    assert_eq!(set.drain(start + ms(5000)).await, 0);
    assert!(start.elapsed() >= ms(300) && start.elapsed() <= ms(302), "{:?}", start.elapsed());
    assert_eq!((script.open_total(), script.ends()), (0, shut(1)));
}

#[tokio::test(start_paused = true)]
async fn draining_ends_at_its_deadline_says_how_many_leases_were_out_and_shuts_them_out() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1), address(2)]).build().unwrap();
    let one = [set.lease_to(&backend(1)).await.unwrap(), set.lease_to(&backend(1)).await.unwrap()];
    let two = set.lease_to(&backend(2)).await.unwrap();
    let start = Instant::now();
    assert_eq!(set.drain(start + ms(500)).await, 3);
    assert!(start.elapsed() >= ms(500) && start.elapsed() <= ms(502), "{:?}", start.elapsed());
    tokio::join!(one[0].closed(), one[1].closed(), two.closed());
    assert!(one[0].is_shut() && two.is_shut());
    stopped(&set).await;
    drop((one, two));
    assert_eq!((script.open_total(), script.ends()), (0, shut(2)));
    assert_eq!(set.drain(Instant::now()).await, 0);
}

#[tokio::test(start_paused = true)]
async fn draining_may_be_given_up_and_the_set_stays_closed() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let held = set.lease().await.unwrap();
    assert!(tokio::time::timeout(ms(50), set.drain(Instant::now() + ms(5000))).await.is_err());
    assert!(matches!(set.lease().await, Err(LeaseError::Closed { .. })));
    assert!(!held.is_closed());
    drop(held);
    stopped(&set).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let held = set.lease().await.unwrap();
    let (mut states, mut events) = (set.states(), set.events());
    drop(set.clone());
    tokio::time::sleep(ms(1)).await;
    assert_eq!(*states.borrow_and_update(), State::Running);
    drop(set);
    held.draining().await;
    assert!(!held.is_closed());
    drop(held);
    states.wait_for(|state| *state == State::Stopped).await.unwrap();
    assert_eq!(script.ends(), shut(1));
    while events.next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_ends_while_the_set_closes_is_shut() {
    // At every moment around the end of the dial.
    for closes_at in 0..=12 {
        let script = Scripted::new();
        script.set(address(1), OnConnect::Slow(ms(6)));
        let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
        let leasing = tokio::spawn({
            let set = set.clone();
            async move { set.lease().await.map(drop) }
        });
        tokio::time::sleep(ms(closes_at)).await;
        for _ in 0..closes_at % 3 {
            tokio::task::yield_now().await;
        }
        set.close();
        let _ = leasing.await.unwrap();
        stopped(&set).await;
        drop(set);
        tokio::time::sleep(ms(20)).await;
        assert_eq!((script.open_total(), script.ends()), (0, shut(script.opened_total())), "{closes_at}");
    }
}

#[test]
fn leases_are_dropped_outside_a_runtime() {
    let script = Scripted::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let set = Set::builder(script.clone())
        .backends([address(1)])
        .per_backend(0)
        .runtime(runtime.handle().clone())
        .build()
        .unwrap();
    let (one, two) = runtime.block_on(async { (set.lease().await.unwrap(), set.lease().await.unwrap()) });
    drop(one); // no runtime here
    std::thread::spawn(move || drop(two)).join().unwrap();
    assert_eq!(set.snapshot().leases, 0);
    drop(set);
    runtime.block_on(script.until(|script| script.open_total() == 0));
    assert_eq!(script.ends(), shut(2));
}

#[tokio::test(start_paused = true)]
async fn a_lease_dropped_by_a_panic_lets_go_and_the_others_keep_theirs() {
    let script = Scripted::new();
    let set = Set::builder(script.clone()).backends([address(1)]).build().unwrap();
    let (lease, other) = (set.lease().await.unwrap(), set.lease().await.unwrap());
    let panicked = tokio::spawn(async move {
        let _lease = lease;
        panic!("as user code does");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(set.snapshot().leases, 1);
    assert!(!other.is_closed());
    assert_eq!(set.lease().await.unwrap().id(), other.id());
}

#[test]
fn when_the_runtime_ends_nobody_hangs_and_everything_is_shut() {
    let script = Scripted::new();
    script.set(address(2), OnConnect::Never);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let set = Set::builder(script.clone())
        .backends([address(1), address(2)])
        .runtime(runtime.handle().clone())
        .build()
        .unwrap();
    let elsewhere = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let other = elsewhere();
    let held = other.block_on(async { set.lease_to(&backend(1)).await.unwrap() });
    let waiting = std::thread::spawn({
        let set = set.clone();
        move || elsewhere().block_on(async { set.lease_to(&backend(2)).await.map(drop) })
    });
    let watching = std::thread::spawn({
        let (closed, draining, mut events) = (held.closed(), held.draining(), set.events());
        move || {
            elsewhere().block_on(async {
                tokio::join!(closed, draining);
                while events.next().await.is_some() {}
            })
        }
    });
    while set.snapshot().waiting == 0 {
        std::thread::yield_now();
    }
    drop(runtime);
    assert!(matches!(waiting.join().unwrap(), Err(LeaseError::Closed { .. })));
    watching.join().unwrap();
    assert!(held.is_closed() && held.is_shut());
    assert!(matches!(other.block_on(async { set.lease().await }), Err(LeaseError::Closed { .. })));
    assert_eq!(set.state(), State::Stopped);
    drop(held);
    assert_eq!((script.open_total(), script.ends()), (0, shut(1)));
    assert_eq!(other.block_on(set.drain(std::time::Instant::now() + ms(100))), 0);
}

/// Panics where it is told to.
#[derive(Clone)]
struct Explosive {
    script: Scripted,
    at: Where,
    shut: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Connect,
    Closed,
    ClosedPolled,
    Shut,
}

impl Connect for Explosive {
    type Connection = Connection;
    type Error = ScriptError;

    async fn connect(&self, backend: &Backend) -> Result<Connection, ScriptError> {
        assert!(self.at != Where::Connect, "connecting");
        self.script.connect(backend).await
    }

    fn closed(&self, connection: &Connection) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        assert!(self.at != Where::Closed, "asked for its end");
        let (closed, at) = (self.script.closed(connection), self.at);
        Some(async move {
            assert!(at != Where::ClosedPolled, "waited for its end");
            closed.unwrap().await
        })
    }
}

impl Share for Explosive {
    fn shut(&self, connection: &Connection) {
        self.shut.fetch_add(1, Ordering::Relaxed);
        assert!(self.at != Where::Shut, "shutting");
        self.script.shut(connection);
    }
}

#[tokio::test(start_paused = true)]
async fn panics_of_a_connector_go_no_further() {
    for at in [Where::Connect, Where::Closed, Where::ClosedPolled, Where::Shut] {
        let connector = Explosive { script: Scripted::new(), at, shut: Arc::default() };
        let set = Set::builder(connector.clone())
            .backends([address(1)])
            .max_idle(ms(1000))
            .recovery(Policy::default().attempts(1))
            .build()
            .unwrap();
        let lease = set.lease_to(&backend(1)).await;
        assert_eq!(lease.is_err(), at == Where::Connect, "{at:?}");
        let lives = usize::from(lease.is_ok());
        drop(lease);
        tokio::time::sleep(ms(5000)).await; // released
        assert_eq!(connector.shut.load(Ordering::Relaxed), lives, "{at:?}");
        assert_eq!(connector.script.open_total(), 0, "{at:?}");
        // It goes on, and ends as it should.
        let again = set.lease_to(&backend(1)).await;
        assert_eq!(again.is_err(), at == Where::Connect, "{at:?}");
        assert_eq!(set.drain(Instant::now() + ms(100)).await, lives, "{at:?}");
        stopped(&set).await;
        assert_eq!(connector.shut.load(Ordering::Relaxed), 2 * lives, "{at:?}");
    }
}

/// A connection that panics when it is dropped.
struct Frail;

struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("as a connection should not");
    }
}

impl Connect for Frail {
    type Connection = Fragile;
    type Error = std::io::Error;

    async fn connect(&self, _backend: &Backend) -> Result<Fragile, std::io::Error> {
        Ok(Fragile)
    }
}

impl Share for Frail {
    fn shut(&self, _connection: &Fragile) {}
}

#[tokio::test(start_paused = true)]
async fn connections_that_panic_when_dropped_do_not_take_the_set_with_them() {
    let set = Set::builder(Frail).backends([address(1)]).max_idle(ms(1000)).build().unwrap();
    for _ in 0..5 {
        drop(set.lease().await.unwrap());
        tokio::time::sleep(ms(5000)).await;
        assert!(set.connections().is_empty());
    }
    assert_eq!(set.drain(Instant::now() + ms(100)).await, 0);
    stopped(&set).await;
}
