//! What looking costs: a snapshot of a large pool, how long its lock is held for it, and what claims feel of somebody who looks
//! without pause: when all is well, and when everything is down, which is when people look.

use crate::bars::{Bar, Limit};
use crate::report;
use crate::waits::Waits;
use carom::monitor::{Monitor, Object, Phase};
use carom::{Backend, Claim, Connect, Policy, Pool, connect_fn};
use carom_core::pool::{Action, Claimed, Machine, Options, Request};
use serde_json::json;
use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BACKENDS: u16 = 10;
const SLOTS: usize = 1000;
/// Of these, so many are lent all the time.
const LENT: usize = 500;
const LOOKS: usize = 3000;
const CLAIMING: Duration = Duration::from_secs(3);
/// From one claim to the next: they come at any moment of a look, instead of thousands between two and one beside each.
const PAUSE: Duration = Duration::from_micros(20);

/// Prints and keeps the times.
pub fn report() -> io::Result<()> {
    println!();
    let held = held();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let monitor = Monitor::new();
    let (looks, alone, beside) = runtime.block_on(async {
        let (pool, _lent) = large_pool(&monitor).await.map_err(io::Error::other)?;
        let looks = looks(&monitor);
        drop(pool.claim().await.map_err(io::Error::other)?);
        let alone = claims(&pool).await;
        Ok::<_, io::Error>((looks, alone, beside_a_watcher(&pool, &monitor).await?))
    })?;
    let monitor = Monitor::new();
    let (refused, refused_beside) = runtime.block_on(async {
        let pool = failed_pool(&monitor).await;
        Ok::<_, io::Error>((claims(&pool).await, beside_a_watcher(&pool, &monitor).await?))
    })?;
    let at_most = |what: &str, figure: f64, most: f64| {
        let what = format!("{SLOTS} slots of {BACKENDS} backends, {what}");
        println!("{}", Bar { what, figure: Some(figure), limit: Limit::AtMost(most) });
    };
    at_most("snapshot, median: us", looks.quantile_us(0.5), 1000.0);
    at_most("snapshot, p99: us", looks.quantile_us(0.99), 1000.0);
    at_most("under the lock, p99: us", held.quantile_us(0.99), 100.0);
    let added = beside.quantile_us(0.99) - alone.quantile_us(0.99);
    at_most("what a claim waits for it, p99: us more", added, 100.0);
    let added = refused_beside.quantile_us(0.99) - refused.quantile_us(0.99);
    let what = format!("{SLOTS} backends that all fail, what a claim waits for it, p99: us more");
    println!("{}", Bar { what, figure: Some(added), limit: Limit::AtMost(100.0) });
    for (what, alone, beside) in [("claim and release", &alone, &beside), ("refusal", &refused, &refused_beside)] {
        println!(
            "{what}, p99 and longest: {:.1} us, {:.0} us alone; {:.1} us, {:.0} us beside who looks without pause",
            alone.quantile_us(0.99),
            alone.max_us(),
            beside.quantile_us(0.99),
            beside.max_us(),
        );
    }
    let row = |case: &str, times: &Waits| {
        json!({
            "case": case,
            "count": times.count(),
            "p50_us": times.quantile_us(0.5),
            "p99_us": times.quantile_us(0.99),
            "p999_us": times.quantile_us(0.999),
            "max_us": times.max_us(),
        })
    };
    let rows = vec![
        row("snapshot", &looks),
        row("under the lock", &held),
        row("claim and release alone", &alone),
        row("claim and release beside snapshots", &beside),
        row("refusal alone", &refused),
        row("refusal beside snapshots", &refused_beside),
    ];
    report::write("monitor.json", rows)
}

/// A pool with all its connections, some of which are lent.
async fn large_pool(monitor: &Monitor) -> Result<(Pool<impl Connect>, Vec<Claim<impl Connect>>), carom::ClaimError> {
    let pool = Pool::builder(connect_fn(|backend: Backend| async move { Ok::<_, io::Error>(backend.port()) }))
        .name("large")
        .backends((1..=BACKENDS).map(node))
        .spares(SLOTS)
        .maximum(SLOTS)
        .monitor(monitor)
        .build()
        .expect("the options make sense");
    let mut lent = Vec::new();
    for _ in 0..LENT {
        lent.push(pool.claim().await?);
    }
    while pool.snapshot().pool.counts.working() < SLOTS {
        tokio::task::yield_now().await;
    }
    Ok((pool, lent))
}

/// A pool of as many backends as the other has slots, each of which refuses.
async fn failed_pool(monitor: &Monitor) -> Pool<impl Connect> {
    let pool = Pool::builder(connect_fn(|_: Backend| async { Err::<(), _>(io::Error::other("connection refused")) }))
        .name("down")
        .backends((1..=SLOTS as u16).map(node))
        .spares(SLOTS)
        .maximum(SLOTS)
        .recovery(Policy::default().attempts(1))
        .monitor(monitor)
        .build()
        .expect("the options make sense");
    while pool.snapshot().pool.dead < SLOTS {
        tokio::task::yield_now().await;
    }
    pool
}

fn node(number: u16) -> Backend {
    Backend::fixed(([10, 0, 0, 1], number).into())
}

fn looks(monitor: &Monitor) -> Waits {
    let mut times = Waits::new();
    for _ in 0..LOOKS {
        let start = Instant::now();
        let snapshot = black_box(monitor.snapshot());
        times.record(start.elapsed());
        let Some(Object::Pool(pool)) = snapshot.objects.first().map(|seen| &seen.object) else {
            panic!("a pool is there to be seen")
        };
        let slots = pool.backends.iter().flat_map(|backend| &backend.slots);
        let lent = slots.clone().filter(|slot| slot.phase == Phase::Busy).count();
        assert_eq!((slots.count(), lent), (SLOTS, LENT), "everything is seen");
    }
    times
}

async fn claims<C: Connect>(pool: &Pool<C>) -> Waits {
    let (began, mut times) = (Instant::now(), Waits::new());
    while began.elapsed() < CLAIMING {
        let start = Instant::now();
        drop(black_box(pool.claim().await));
        times.record(start.elapsed());
        while start.elapsed() < PAUSE {
            spin_loop();
        }
    }
    times
}

/// The same, while somebody looks without pause.
async fn beside_a_watcher<C: Connect>(pool: &Pool<C>, monitor: &Monitor) -> io::Result<Waits> {
    let over = Arc::new(AtomicBool::new(false));
    let watcher = thread::spawn({
        let (monitor, over) = (monitor.clone(), Arc::clone(&over));
        move || {
            while !over.load(Ordering::Relaxed) {
                black_box(monitor.snapshot());
            }
        }
    });
    let times = claims(pool).await;
    over.store(true, Ordering::Relaxed);
    watcher.join().map_err(|_| io::Error::other("the one who looked panicked"))?;
    Ok(times)
}

/// How long the machine takes to copy what is needed: all that is done under the lock where no backend fails.
fn held() -> Waits {
    let now = Instant::now();
    let options = Options { spares: SLOTS, maximum: SLOTS, ..Options::default() };
    let mut machine = Machine::new(options, 1, now).expect("the options make sense");
    let nodes: Vec<Backend> = (1..=BACKENDS).map(node).collect();
    machine.handle_backends(now, &nodes);
    while machine.counts().working() < SLOTS {
        machine.handle_timeout(now);
        while let Some(action) = machine.poll_action() {
            if let Action::Connect { slot, .. } = action {
                machine.handle_connected(now, slot, false);
            }
        }
    }
    for _ in 0..LENT {
        let claimed = machine.claim(now, Request::within(CLAIMING));
        assert!(matches!(claimed, Claimed::Granted { .. }), "there are enough");
    }
    let mut times = Waits::new();
    for _ in 0..LOOKS {
        let start = Instant::now();
        let observation = black_box(machine.observe());
        times.record(start.elapsed());
        drop(observation);
    }
    times
}
