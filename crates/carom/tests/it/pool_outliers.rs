//! Outliers: slow and failing backends among good ones, leaks, and callers who avoid a backend.

use carom::pool::{BackendState, ClaimOptions, State};
use carom::{Backend, Ejection, Pick, Pool};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::backends::{OnConnect, Scripted};
use testkit::wait::ms;
use tokio::time::{Instant, sleep};

const SLOW: u8 = 1;
const FAILING: u8 = 2;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// Five backends, of which one takes twenty times as long and one fails every use at once. The share of claims each gets.
async fn shares(pick: Pick, ejection: Option<Ejection>) -> (Pool<Scripted>, BTreeMap<SocketAddr, f64>) {
    let pool = Pool::builder(Scripted::new())
        .backends((1..=5).map(address))
        .spares(10)
        .maximum(20)
        .pick(pick)
        .ejection(ejection)
        .build()
        .unwrap();
    pool.states().wait_for(|state| *state == State::Running).await.unwrap();
    sleep(ms(100)).await;
    let mut counts = BTreeMap::<SocketAddr, usize>::new();
    let mut users = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let pool = pool.clone();
        users.spawn(async move {
            let (start, mut got) = (Instant::now(), Vec::new());
            while start.elapsed() < Duration::from_secs(20) {
                let claim = pool.claim().await.unwrap();
                let backend = claim.backend().socket_addr();
                got.push(backend);
                if backend == address(FAILING) {
                    claim.fail("it answers nonsense");
                } else {
                    sleep(ms(if backend == address(SLOW) { 200 } else { 10 })).await;
                }
            }
            got
        });
    }
    for got in users.join_all().await.into_iter().flatten() {
        *counts.entry(got).or_default() += 1;
    }
    let total: usize = counts.values().sum();
    (pool, counts.into_iter().map(|(backend, count)| (backend, count as f64 / total as f64)).collect())
}

#[tokio::test(start_paused = true)]
async fn a_slow_and_a_failing_backend_get_little() {
    let (_pool, shares) = shares(Pick::LeastLoaded, None).await;
    let share = |last| shares.get(&address(last)).copied().unwrap_or(0.0);
    println!("least loaded: slow {:.3}, failing {:.3}", share(SLOW), share(FAILING));
    assert!(share(SLOW) < 0.10, "the slow one gets {:.3}", share(SLOW));
    assert!(share(FAILING) < 0.10, "failing fast is not being fast: {:.3}", share(FAILING));
    assert!((3..=5).all(|last| share(last) > 0.2), "{shares:?}");
}

#[tokio::test(start_paused = true)]
async fn long_sessions_that_end_do_not_make_a_backend_look_slow_when_latency_is_not_learned() {
    let pool = Pool::builder(Scripted::new())
        .backends((1..=2).map(address))
        .spares(4)
        .maximum(64)
        .learn_latency(false)
        .build()
        .unwrap();
    let mut claims = Vec::new();
    for _ in 0..48 {
        claims.push(pool.claim().await.unwrap());
    }
    let (sessions, others): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|claim| claim.backend().socket_addr() == address(1));
    assert_eq!(sessions.len(), 24);
    drop(others);
    for _ in 0..100 {
        let claim = pool.claim().await.unwrap();
        sleep(ms(300)).await;
        drop(claim);
    }
    sessions.into_iter().for_each(carom::Claim::discard);
    let mut got = 0;
    for _ in 0..400 {
        let claim = pool.claim().await.unwrap();
        got += usize::from(claim.backend().socket_addr() == address(1));
        sleep(ms(1)).await;
    }
    // Half of them, six standard deviations off at most.
    assert!((140..=260).contains(&got), "{got} of 400");
}

#[tokio::test(start_paused = true)]
async fn an_ejected_backend_gets_nothing_for_a_while() {
    // Taking turns, nothing but ejection keeps users from a backend that fails them.
    let (_, before) = shares(Pick::Fifo, None).await;
    let (pool, after) = shares(Pick::Fifo, Some(Ejection::default().time(Duration::from_secs(30)))).await;
    let share = |shares: &BTreeMap<SocketAddr, f64>| shares.get(&address(FAILING)).copied().unwrap_or(0.0);
    println!("in turn: failing {:.4}, with ejection {:.4}", share(&before), share(&after));
    assert!(share(&after) < share(&before) / 2.0, "{} with ejection, {} without", share(&after), share(&before));
    let state_of = |last| {
        let snapshot = pool.snapshot().pool;
        snapshot.backends.iter().find(|found| found.backend.socket_addr() == address(last)).unwrap().state
    };
    assert_eq!(state_of(FAILING), BackendState::Ejected);
    sleep(Duration::from_secs(31)).await;
    assert_eq!(state_of(FAILING), BackendState::Healthy, "it gets another chance");
}

#[tokio::test(start_paused = true)]
async fn at_most_half_are_left_out_however_many_fail() {
    let pool = Pool::builder(Scripted::new())
        .backends((1..=4).map(address))
        .spares(8)
        .maximum(8)
        .ejection(Ejection::default().consecutive(2))
        .build()
        .unwrap();
    let (mut most, mut ejected) = (0, 0);
    for _ in 0..200 {
        let claim = pool.claim().await.unwrap();
        sleep(ms(150)).await;
        claim.fail("everything is bad");
        let snapshot = pool.snapshot().pool;
        most = most.max(snapshot.backends.iter().filter(|backend| backend.is_out).count());
        ejected = ejected.max(snapshot.backends.iter().filter(|backend| backend.ejected_until.is_some()).count());
    }
    assert_eq!((most, ejected), (2, 4), "all are ejected, and more than half are used in a panic");
}

#[tokio::test(start_paused = true)]
async fn when_too_few_are_healthy_all_are_used() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone())
        .backends((1..=2).map(address))
        .spares(2)
        .maximum(4)
        .ejection(Ejection::default().consecutive(1).time(Duration::from_secs(600)))
        .build()
        .unwrap();
    script.until(|script| script.open_total() == 2).await;
    let out = loop {
        let claim = pool.claim().await.unwrap();
        let backend = claim.backend().socket_addr();
        claim.fail("once is enough");
        if pool.snapshot().pool.backends.iter().any(|backend| backend.state == BackendState::Ejected) {
            break backend;
        }
    };
    let other = if out == address(1) { address(2) } else { address(1) };
    sleep(ms(600)).await;
    assert_eq!(pool.claim().await.unwrap().backend().socket_addr(), other);
    sleep(ms(600)).await;
    // The healthy one dies: better the ejected one than none.
    script.set(other, OnConnect::Fail("gone"));
    script.kill_all(other);
    let claim = pool.claim_within(Duration::from_secs(10)).await.unwrap();
    assert_eq!(claim.backend().socket_addr(), out);
}

#[tokio::test(start_paused = true)]
async fn a_backend_is_avoided_while_another_can_serve() {
    let script = Scripted::new();
    let pool = Pool::builder(script.clone()).backends((1..=2).map(address)).spares(2).maximum(2).build().unwrap();
    script.until(|script| script.open_total() == 2).await;
    tokio::task::yield_now().await;
    let avoiding = |last| ClaimOptions::default().avoid(Backend::fixed(address(last)));
    for last in [1, 2, 1, 2] {
        let claim = pool.claim_with(avoiding(last)).await.unwrap();
        assert_ne!(claim.backend().socket_addr(), address(last));
    }
    // The other is busy: it is waited for, although something is idle.
    let held = pool.claim_with(avoiding(1)).await.unwrap();
    assert_eq!(held.backend().socket_addr(), address(2));
    let waiting = tokio::spawn({
        let (pool, options) = (pool.clone(), avoiding(1));
        async move { pool.claim_with(options).await.map(|claim| claim.backend().socket_addr()) }
    });
    sleep(ms(50)).await;
    assert!(!waiting.is_finished());
    // Who does not mind is served meanwhile.
    assert_eq!(pool.claim().await.unwrap().backend().socket_addr(), address(1));
    drop(held);
    assert_eq!(waiting.await.unwrap().unwrap(), address(2));
    // When nobody else can serve, it is better than nothing.
    script.set(address(2), OnConnect::Fail("gone"));
    sleep(ms(600)).await;
    script.kill_all(address(2));
    let claim = pool.claim_with(avoiding(1)).await.unwrap();
    assert_eq!(claim.backend().socket_addr(), address(1));
}

#[tokio::test(start_paused = true)]
async fn a_claim_held_for_long_is_reported_once_with_its_place() {
    let pool = Pool::builder(Scripted::new())
        .backends([address(1)])
        .spares(1)
        .maximum(2)
        .leak_after(Duration::from_secs(5))
        .build()
        .unwrap();
    drop(pool.claim().await.unwrap());
    let claim = pool.claim().await.unwrap();
    let line = line!() - 1;
    sleep(ms(4900)).await;
    assert_eq!(pool.snapshot().overdue, 0);
    sleep(ms(200)).await;
    assert_eq!(pool.snapshot().overdue, 1);
    let lent = pool.lent();
    assert_eq!((lent.len(), lent[0].site.line(), lent[0].site.file()), (1, line, file!()));
    assert_eq!(lent[0].lent_for, ms(5100));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(pool.snapshot().overdue, 1, "once");
    drop(claim);
    assert!(pool.lent().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_given_up_while_a_connection_is_cleaned_costs_nothing() {
    use carom::connect::Connect;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Cleans slowly.
    #[derive(Clone, Default)]
    struct Cleaning {
        opened: Arc<AtomicUsize>,
        cleaned: Arc<AtomicUsize>,
    }

    impl Connect for Cleaning {
        type Connection = usize;
        type Error = std::io::Error;

        async fn connect(&self, _backend: &Backend) -> Result<usize, std::io::Error> {
            Ok(self.opened.fetch_add(1, Ordering::Relaxed))
        }

        fn recycle(&self, _: &mut usize) -> Option<impl Future<Output = Result<(), std::io::Error>> + Send> {
            Some(async {
                sleep(ms(100)).await;
                self.cleaned.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        }
    }

    let cleaning = Cleaning::default();
    let pool = Pool::builder(cleaning.clone()).backends([address(1)]).spares(1).maximum(1).build().unwrap();
    drop(pool.claim().await.unwrap());
    let given_up = tokio::time::timeout(ms(50), pool.claim()).await;
    assert!(given_up.is_err(), "it is being cleaned");
    let start = Instant::now();
    drop(pool.claim().await.unwrap());
    assert!(start.elapsed() <= ms(60), "{:?}", start.elapsed());
    assert_eq!((cleaning.opened.load(Ordering::Relaxed), cleaning.cleaned.load(Ordering::Relaxed)), (1, 1));
}
