//! What the monitor sees of pools: every slot, every backend and why it fails, and nothing of those that are over.

use carom::monitor::{BackendState, Monitor, Object, Phase, Pool as Seen, PoolBackend, State};
use carom::pool::State as PoolState;
use carom::{Backend, ClaimError, Ejection, Policy, Pool, connect_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::backends::{OnCheck, OnClose, OnConnect, Scripted};
use testkit::wait::ms;
use tokio::time::{Instant, sleep};

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

fn hasty() -> Policy {
    Policy::default().attempts(2).timeout(ms(100)).max_timeout(ms(100)).delay(ms(10)).max_delay(ms(1000)).spread(0.0)
}

/// The pool that is called so.
fn seen(monitor: &Monitor, name: &str) -> Option<Seen> {
    let objects = monitor.snapshot().objects.into_iter();
    let mut found = objects.filter(|seen| seen.name == name).map(|seen| seen.object);
    match found.next()? {
        Object::Pool(pool) => Some(pool),
        other => panic!("this is no pool: {other:?}"),
    }
}

fn phases(backend: &PoolBackend) -> Vec<Phase> {
    let mut phases: Vec<Phase> = backend.slots.iter().map(|slot| slot.phase).collect();
    phases.sort();
    phases
}

#[tokio::test(start_paused = true)]
async fn a_monitor_sees_nothing_where_there_is_nothing() {
    let monitor = Monitor::new();
    assert!(monitor.snapshot().objects.is_empty());
    let elsewhere = Monitor::new();
    let _pool = Pool::builder(Scripted::new()).backends([address(1)]).monitor(&elsewhere).build().unwrap();
    assert!(monitor.snapshot().objects.is_empty(), "it is another monitor's");
    assert_eq!(elsewhere.snapshot().objects.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_seen_connecting_and_connected() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    script.set(address(1), OnConnect::Slow(ms(40)));
    let pool = Pool::builder(script.clone())
        .name("orders")
        .backends([address(1)])
        .spares(2)
        .maximum(2)
        .claim_timeout(ms(700))
        .monitor(&monitor)
        .build()
        .unwrap();
    sleep(ms(10)).await;
    let before = seen(&monitor, "orders").unwrap();
    assert_eq!((before.state, before.target, before.dead), (State::Starting, 2, 0));
    assert_eq!((before.options.spares, before.options.maximum, before.options.claim_timeout_ms), (2, 2, 700));
    let [backend] = &before.backends[..] else { panic!("{before:?}") };
    // One at a time, until it has worked once.
    assert_eq!((phases(backend), backend.state), (vec![Phase::Held, Phase::Connecting], BackendState::Unknown));
    let dialling = backend.slots.iter().find(|slot| slot.phase == Phase::Connecting).unwrap();
    assert_eq!(dialling.ms, Some(10), "for so long");
    assert_eq!((backend.backend.address.as_str(), backend.backend.port), ("10.0.0.1", 80));
    let key = carom::resolver::BackendKey::of(&Backend::fixed(address(1)));
    assert_eq!(backend.backend.key, key.to_string());
    assert_eq!((before.counters.connects, before.last_plan_ms.is_some()), (1, true));

    sleep(ms(40)).await;
    let after = seen(&monitor, "orders").unwrap();
    assert_eq!(after.state, State::Running);
    assert_eq!(phases(&after.backends[0]), [Phase::Connecting, Phase::Idle]);
    assert_eq!((after.backends[0].state, after.counters.connects), (BackendState::Healthy, 2));

    let all = monitor.snapshot().objects;
    let own = monitor.object(pool.id()).expect("it is there");
    assert_eq!(all.iter().find(|seen| seen.id == pool.id()).map(|seen| &seen.name), Some(&own.name));
}

#[tokio::test(start_paused = true)]
async fn a_dead_backend_is_seen_with_its_reason_and_its_next_attempt() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    script.set(address(2), OnConnect::Fail("password rejected"));
    let pool = Pool::builder(script.clone())
        .name("orders")
        .backends([address(1), address(2)])
        .spares(2)
        .maximum(4)
        .recovery(hasty())
        .monitor(&monitor)
        .build()
        .unwrap();
    script.until(|script| script.connects_started(address(2)) == 2).await;
    sleep(ms(1)).await;
    let before = seen(&monitor, "orders").unwrap();
    let dead = before.backends.iter().find(|backend| backend.backend.address == "10.0.0.2").unwrap();
    assert_eq!((dead.state, before.dead, before.state), (BackendState::Dead, 1, State::Running));
    assert!(dead.reason.as_ref().is_some_and(|reason| reason.contains("password rejected")), "{dead:?}");
    let next = dead.next_attempt_ms.expect("it is watched");
    assert!((1..=1000).contains(&next), "in {next} ms");
    assert_eq!(phases(dead), [Phase::Backoff]);
    assert_eq!(dead.slots[0].ms, Some(next), "of backoff, how long it will yet take");
    assert!(before.cause.as_ref().is_some_and(|cause| cause.contains("10.0.0.2")), "{:?}", before.cause);
    let alive = before.backends.iter().find(|backend| backend.backend.address == "10.0.0.1").unwrap();
    assert_eq!((alive.state, &alive.reason, alive.next_attempt_ms), (BackendState::Healthy, &None, None));
    assert_eq!(before.counters.connect_failures, 2);

    script.set(address(2), OnConnect::Succeed);
    sleep(ms(next + 10)).await;
    let after = seen(&monitor, "orders").unwrap();
    let back = after.backends.iter().find(|backend| backend.backend.address == "10.0.0.2").unwrap();
    assert_eq!((back.state, &back.reason, after.dead), (BackendState::Healthy, &None, 0));
    assert_eq!(after.cause, None);
    drop(pool);
}

#[tokio::test(start_paused = true)]
async fn one_whose_connections_end_at_once_is_seen_dead_with_that_as_its_reason() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    let builder = Pool::builder(script.clone()).name("orders").backends([address(1)]).spares(2).maximum(2);
    let policy = hasty().attempts(1).delay(ms(1000));
    let pool = builder.recovery(policy).monitor(&monitor).build().unwrap();
    pool.states().wait_for(|state| *state == PoolState::Running).await.unwrap();
    // They are watched when they have settled, and are yet too young to prove anything.
    sleep(ms(900)).await;
    script.kill_all(address(1));
    pool.states().wait_for(|state| *state == PoolState::Failed).await.unwrap();
    let now = seen(&monitor, "orders").unwrap();
    let [dead] = &now.backends[..] else { panic!("{now:?}") };
    assert_eq!(dead.state, BackendState::Dead);
    assert_eq!(dead.reason.as_deref(), Some("the connection ended before anybody used it"));
}

#[tokio::test(start_paused = true)]
async fn slots_are_seen_lent_checked_and_closing() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    script.set(address(1), OnCheck::Never);
    script.set(address(1), OnClose::Never);
    let pool = Pool::builder(script.clone())
        .name("orders")
        .backends([address(1)])
        .spares(1)
        .maximum(3)
        .check_after(ms(300))
        .check_timeout(ms(5000))
        .monitor(&monitor)
        .build()
        .unwrap();
    let lent = pool.claim().await.unwrap();
    let discarded = pool.claim().await.unwrap();
    sleep(ms(100)).await;
    discarded.discard();
    script.until(|script| script.checks_started(address(1)) == 1).await;
    sleep(ms(50)).await;
    let now = seen(&monitor, "orders").unwrap();
    assert_eq!(phases(&now.backends[0]), [Phase::Busy, Phase::Checking, Phase::Closing]);
    let in_phase = |phase| now.backends[0].slots.iter().find(|slot| slot.phase == phase).unwrap().ms.unwrap();
    assert!(in_phase(Phase::Busy) > in_phase(Phase::Closing), "lent before the other was closed");
    assert_eq!(in_phase(Phase::Checking), 50);
    assert_eq!(now.counters.claims, 2);
    drop(lent);
}

#[tokio::test(start_paused = true)]
async fn waiting_is_seen_and_counted() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    let pool = Pool::builder(script)
        .name("orders")
        .backends([address(1)])
        .spares(1)
        .maximum(1)
        .max_waiters(2)
        .monitor(&monitor)
        .build()
        .unwrap();
    let held = pool.claim().await.unwrap();
    let patient = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim().await.map(drop) }
    });
    sleep(ms(100)).await;
    let hasty = tokio::spawn({
        let pool = pool.clone();
        async move { pool.claim_within(ms(200)).await.map(drop) }
    });
    sleep(ms(50)).await;
    let now = seen(&monitor, "orders").unwrap();
    assert_eq!((now.waiting, now.longest_wait_ms), (2, Some(150)));
    assert!(matches!(pool.claim().await, Err(ClaimError::Full { .. })));
    assert!(matches!(hasty.await.unwrap(), Err(ClaimError::TimedOut { .. })));
    assert!(matches!(pool.try_claim(), Err(ClaimError::Busy { .. })));
    assert!(tokio::time::timeout(ms(50), pool.claim()).await.is_err(), "it has had enough");
    drop(held);
    patient.await.unwrap().unwrap();
    let after = seen(&monitor, "orders").unwrap();
    let counters = after.counters;
    assert_eq!((after.waiting, after.longest_wait_ms), (0, None));
    assert_eq!((counters.claims, counters.waited), (2, 2), "the first waited for its connection");
    assert_eq!((counters.timeouts, counters.refused, counters.given_up), (1, 2, 1));
    assert!((349.0..=351.0).contains(&counters.waited_ms), "{} ms", counters.waited_ms);
}

#[tokio::test(start_paused = true)]
async fn an_ejected_backend_is_seen_until_it_is_back() {
    let monitor = Monitor::new();
    let pool = Pool::builder(Scripted::new())
        .name("orders")
        .backends([address(1), address(2)])
        .spares(4)
        .maximum(4)
        .ejection(Ejection::default().consecutive(1).time(ms(2000)))
        .monitor(&monitor)
        .build()
        .unwrap();
    pool.states().wait_for(|state| *state == PoolState::Running).await.unwrap();
    sleep(ms(10)).await;
    let claim = pool.claim().await.unwrap();
    let bad = claim.backend().to_string();
    claim.fail(io::Error::other("it answered nonsense"));
    sleep(ms(500)).await;
    let find = |pool: &Seen| {
        let is_it = |backend: &&PoolBackend| format!("{}:{}", backend.backend.address, backend.backend.port) == bad;
        pool.backends.iter().find(is_it).cloned().unwrap()
    };
    let out = find(&seen(&monitor, "orders").unwrap());
    assert_eq!((out.state, out.ejected_ms), (BackendState::Ejected, Some(1500)));
    assert!(out.reason.is_some_and(|reason| reason.contains("nonsense")));
    sleep(ms(1600)).await;
    let back = find(&seen(&monitor, "orders").unwrap());
    assert_eq!((back.state, back.ejected_ms), (BackendState::Healthy, None));
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_seen_until_it_has_stopped() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    let pool = Pool::builder(script.clone()).name("orders").backends([address(1)]).monitor(&monitor).build().unwrap();
    let claim = pool.claim().await.unwrap();
    pool.close();
    assert_eq!(seen(&monitor, "orders").unwrap().state, State::Stopping);
    drop(claim);
    assert!(pool.drain(Instant::now() + ms(1000)).await.is_complete());
    assert_eq!(seen(&monitor, "orders"), None);
    assert!(monitor.object(pool.id()).is_none());
    assert!(monitor.snapshot().objects.is_empty());
}

#[test]
fn a_pool_whose_runtime_has_ended_is_not_seen() {
    let monitor = Monitor::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let builder = Pool::builder(Scripted::new()).backends([address(1)]).runtime(runtime.handle().clone());
    let pool = builder.monitor(&monitor).build().unwrap();
    assert_eq!(monitor.snapshot().objects.len(), 1, "it can be looked at without a runtime");
    drop(runtime);
    assert!(monitor.snapshot().objects.is_empty());
    drop(pool);
}

#[test]
fn pools_that_come_and_go_leave_nothing_behind() {
    let (monitor, token) = (Monitor::new(), Arc::new(()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut last = None;
    let mut come_and_go = |many: usize| {
        for _ in 0..many {
            let token = Arc::clone(&token);
            let connector = connect_fn(move |_: Backend| {
                let token = Arc::clone(&token);
                async move { Ok::<_, io::Error>(token) }
            });
            runtime.block_on(async {
                let pool = Pool::builder(connector).backends([address(1)]).spares(0).monitor(&monitor).build().unwrap();
                assert!(last < Some(pool.id()), "no id is used twice");
                last = Some(pool.id());
                assert!(pool.drain(Instant::now() + Duration::from_secs(30)).await.is_complete());
            });
        }
    };
    come_and_go(1_000);
    let kept = allocation_counter::measure(|| come_and_go(10_000)).bytes_current;
    assert!(kept < 100_000, "{kept} bytes are left of them");
    drop(runtime);
    assert_eq!(Arc::strong_count(&token), 1, "nothing of them is kept alive");
}

/// Threads claim and release while others look, and pools end meanwhile. Whoever looks never sees figures that do not agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn figures_agree_while_threads_claim_and_pools_end() {
    let (monitor, over) = (Monitor::new(), Arc::new(AtomicBool::new(false)));
    let watchers: Vec<_> = (0..2)
        .map(|_| {
            let (monitor, over) = (monitor.clone(), Arc::clone(&over));
            std::thread::spawn(move || {
                let mut looks = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    for seen in monitor.snapshot().objects {
                        let Object::Pool(pool) = seen.object else { panic!("{seen:?}") };
                        agree(&pool);
                        looks += 1;
                    }
                }
                looks
            })
        })
        .collect();
    for round in 0..20_u64 {
        let pool = Pool::builder(connect_fn(|backend: Backend| async move {
            tokio::task::yield_now().await;
            Ok::<_, io::Error>(backend.port())
        }))
        .backends([address(1), address(2), address(3)])
        .spares(2)
        .maximum(6)
        .monitor(&monitor)
        .build()
        .unwrap();
        let users: Vec<_> = (0..8)
            .map(|user| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for turn in 0..200_u64 {
                        // Chance as good as any, and the same every time.
                        let chance = (round * 31 + user * 17 + turn * 7) % 23;
                        let claim = pool.claim().await.unwrap();
                        match chance {
                            0 => claim.discard(),
                            1 => drop(claim.detach()),
                            2..8 => tokio::task::yield_now().await,
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        for user in users {
            user.await.unwrap();
        }
        let served = monitor.object(pool.id()).map(|seen| seen.object);
        assert!(matches!(served, Some(Object::Pool(pool)) if pool.counters.claims == 1600), "each counts once");
        drop(pool);
    }
    over.store(true, Ordering::Relaxed);
    for watcher in watchers {
        assert!(watcher.join().unwrap() > 0);
    }
}

fn agree(pool: &Seen) {
    let slots = pool.backends.iter().flat_map(|backend| &backend.slots);
    let many = |phase| slots.clone().filter(|slot| slot.phase == phase).count();
    assert!(slots.clone().count() <= pool.options.maximum, "{pool:?}");
    let load = (many(Phase::Busy) + pool.waiting + pool.options.spares).min(pool.options.maximum);
    assert_eq!(pool.target, load, "what is lent, who waits and the target: {pool:?}");
    let dead = pool.backends.iter().filter(|backend| backend.state == BackendState::Dead).count();
    assert_eq!(dead, pool.dead);
    let counters = pool.counters;
    assert!(counters.claims >= many(Phase::Busy) as u64 && counters.waited <= counters.claims, "{counters:?}");
    let connected = many(Phase::Idle) + many(Phase::Busy) + many(Phase::Checking);
    assert!(counters.connects >= (connected + many(Phase::Connecting)) as u64, "{counters:?}");
    assert_eq!(pool.longest_wait_ms.is_some(), pool.waiting > 0);
}
