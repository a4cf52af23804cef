//! What the monitor sees of sets: connections with who holds them, idle marks, dials, and backends that fail.

use carom::monitor::{BackendState, Idle, Monitor, Object, Set as Seen, SetBackend, State};
use carom::set::LeaseOptions;
use carom::{Backend, Ejection, LeaseError, Policy, Set};
use std::net::SocketAddr;
use testkit::backends::{OnConnect, Scripted};
use testkit::wait::ms;
use tokio::time::{Instant, sleep};

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 6650))
}

fn backend(last: u8) -> Backend {
    Backend::fixed(address(last))
}

/// The set that is called so.
fn seen(monitor: &Monitor, name: &str) -> Option<Seen> {
    let mut objects = monitor.snapshot().objects.into_iter();
    match objects.find(|seen| seen.name == name)?.object {
        Object::Set(set) => Some(set),
        other => panic!("this is no set: {other:?}"),
    }
}

fn find(set: &Seen, last: u8) -> &SetBackend {
    let wanted = format!("10.0.0.{last}");
    set.backends.iter().find(|backend| backend.backend.address == wanted).expect("it is seen")
}

#[tokio::test(start_paused = true)]
async fn a_set_is_seen_connected_with_who_holds_what() {
    let monitor = Monitor::new();
    let set = Set::builder(Scripted::new())
        .name("lines")
        .backends([address(1), address(2)])
        .max_idle(ms(60_000))
        .monitor(&monitor)
        .build()
        .unwrap();
    let before = seen(&monitor, "lines").unwrap();
    assert_eq!((before.state, before.leases, before.backends.len()), (State::Starting, 0, 2));
    assert_eq!((before.options.target, before.options.max_idle_ms, before.last_plan_ms), (None, Some(60_000), None));

    let reader = LeaseOptions::default().backend(backend(1)).role("reader");
    let reading = set.lease_with(reader.clone()).await.unwrap();
    sleep(ms(30)).await;
    let other = set.lease_with(reader).await.unwrap();
    let plain = set.lease_to(&backend(1)).await.unwrap();
    let now = seen(&monitor, "lines").unwrap();
    assert_eq!((now.state, now.leases, now.counters.leases, now.counters.waited), (State::Running, 3, 3, 1));
    let one = find(&now, 1);
    let [connection] = &one.connections[..] else { panic!("{one:?}") };
    assert_eq!((one.state, connection.leases, connection.roles.get("reader")), (BackendState::Healthy, 3, Some(&2)));
    assert_eq!((connection.age_ms, connection.idle_ms, connection.idle), (30, None, Idle::Using));
    assert!(!connection.draining && !connection.kept);
    assert_eq!((find(&now, 2).state, find(&now, 2).connections.len()), (BackendState::Unknown, 0));
    drop((reading, other, plain));
    sleep(ms(20)).await;
    assert_eq!(find(&seen(&monitor, "lines").unwrap(), 1).connections[0].idle_ms, Some(20));
    assert_eq!(monitor.object(set.id()).unwrap().name, "lines");
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_seen_marked_and_counted_when_they_are_released() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    let builder = Set::builder(script.clone()).name("lines").backends([address(1)]);
    let set = builder.max_idle(ms(1000)).idle_interval(ms(100)).monitor(&monitor).build().unwrap();
    drop(set.lease().await.unwrap());
    sleep(ms(150)).await;
    let marked = seen(&monitor, "lines").unwrap();
    assert_eq!((find(&marked, 1).connections[0].idle, marked.counters.released), (Idle::Marked, 0));
    script.until(|script| script.open_total() == 0).await;
    let after = seen(&monitor, "lines").unwrap();
    assert_eq!((find(&after, 1).connections.len(), after.counters.released), (0, 1));
    assert_eq!(find(&after, 1).state, BackendState::Healthy, "it has worked and is not known not to");
}

#[tokio::test(start_paused = true)]
async fn an_eager_set_is_seen_keeping_and_watching() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    script.set(address(2), OnConnect::Fail("no route"));
    let policy = Policy::default().attempts(2).timeout(ms(100)).max_timeout(ms(100)).delay(ms(10)).max_delay(ms(1000));
    let set = Set::builder(script.clone())
        .name("lines")
        .backends([address(1), address(2)])
        .eager(true)
        .recovery(policy.spread(0.0))
        .monitor(&monitor)
        .build()
        .unwrap();
    script.until(|script| script.connects_started(address(2)) == 2).await;
    sleep(ms(1)).await;
    let now = seen(&monitor, "lines").unwrap();
    assert_eq!((now.options.target, now.last_plan_ms.is_some(), now.dead), (Some(2), true, 1));
    assert!(find(&now, 1).connections[0].kept);
    let dead = find(&now, 2);
    assert_eq!((dead.state, dead.connections.len()), (BackendState::Dead, 0));
    assert_eq!((dead.dialling, now.dialling), (0, 0), "it waits for its next attempt");
    assert!(dead.reason.as_ref().is_some_and(|reason| reason.contains("no route")), "{dead:?}");
    let next = dead.next_attempt_ms.expect("it is watched");
    assert!((1..=1000).contains(&next), "in {next} ms");
    assert_eq!((now.counters.connects, now.counters.connect_failures), (3, 2));
    script.set(address(2), OnConnect::Succeed);
    sleep(ms(next + 10)).await;
    let after = seen(&monitor, "lines").unwrap();
    let back = find(&after, 2);
    assert_eq!((back.state, &back.reason, back.next_attempt_ms, after.dead), (BackendState::Healthy, &None, None, 0));
    drop(set);
}

#[tokio::test(start_paused = true)]
async fn who_waits_and_what_is_dialled_is_seen_and_counted() {
    let (script, monitor) = (Scripted::new(), Monitor::new());
    script.set(address(1), OnConnect::Slow(ms(80)));
    script.set(address(9), OnConnect::Never);
    let builder = Set::builder(script).name("lines").backends([address(1)]);
    let set = builder.lease_timeout(ms(5000)).monitor(&monitor).build().unwrap();
    let waits = tokio::spawn({
        let set = set.clone();
        async move { set.lease().await.map(drop) }
    });
    sleep(ms(30)).await;
    let now = seen(&monitor, "lines").unwrap();
    assert_eq!((now.waiting, now.dialling, find(&now, 1).dialling), (1, 1, 1));
    waits.await.unwrap().unwrap();
    // One that the resolver does not know is seen for as long as it is dialled.
    let hangs = set.lease_with(LeaseOptions::default().backend(backend(9)).timeout(ms(200)));
    assert!(matches!(tokio::join!(hangs, sleep(ms(100))).0, Err(LeaseError::TimedOut { .. })));
    let foreign = tokio::spawn({
        let set = set.clone();
        async move { set.lease_to(&backend(9)).await.map(drop) }
    });
    sleep(ms(600)).await;
    let now = seen(&monitor, "lines").unwrap();
    let hanging = find(&now, 9);
    assert_eq!((hanging.dialling, hanging.state, hanging.flags.failing), (1, BackendState::Unknown, true), "it hangs");
    foreign.abort();
    assert!(foreign.await.is_err());
    assert_eq!(seen(&monitor, "lines").unwrap().counters.given_up, 1, "it was not told to");
    set.close();
    assert!(matches!(set.lease().await, Err(LeaseError::Closed { .. })));
    let counters = now.counters;
    assert_eq!((counters.leases, counters.waited, counters.timeouts, counters.refused), (1, 1, 1, 0));
    assert!((79.0..=81.0).contains(&counters.waited_ms), "{} ms", counters.waited_ms);
}

#[tokio::test(start_paused = true)]
async fn an_ejected_backend_is_seen_until_it_is_back() {
    let monitor = Monitor::new();
    let set = Set::builder(Scripted::new())
        .name("lines")
        .backends([address(1), address(2)])
        .ejection(Ejection::default().consecutive(1).time(ms(2000)))
        .monitor(&monitor)
        .build()
        .unwrap();
    let lease = set.lease_to(&backend(1)).await.unwrap();
    lease.report_failure();
    sleep(ms(500)).await;
    let now = seen(&monitor, "lines").unwrap();
    assert_eq!((find(&now, 1).state, find(&now, 1).ejected_ms), (BackendState::Ejected, Some(1500)));
    sleep(ms(1600)).await;
    let after = seen(&monitor, "lines").unwrap();
    assert_eq!((find(&after, 1).state, find(&after, 1).ejected_ms), (BackendState::Healthy, None));
}

#[tokio::test(start_paused = true)]
async fn a_removed_backend_is_seen_while_it_drains_and_a_stopped_set_is_not() {
    let monitor = Monitor::new();
    let (publish, set) = {
        let (publish, published) = tokio::sync::watch::channel(vec![backend(1), backend(2)]);
        let builder = Set::builder(Scripted::new()).name("lines").resolver(Published(published));
        (publish, builder.monitor(&monitor).build().unwrap())
    };
    let lease = set.lease_to(&backend(1)).await.unwrap();
    publish.send_replace(vec![backend(2)]);
    lease.draining().await;
    let now = seen(&monitor, "lines").unwrap();
    assert_eq!(find(&now, 1).state, BackendState::Removed);
    assert!(find(&now, 1).connections[0].draining);
    assert_eq!(find(&now, 2).state, BackendState::Unknown);
    set.close();
    assert_eq!(seen(&monitor, "lines").unwrap().state, State::Stopping);
    drop(lease);
    assert_eq!(set.drain(Instant::now() + ms(1000)).await, 0);
    assert_eq!(seen(&monitor, "lines"), None);
    assert!(monitor.object(set.id()).is_none());
}

struct Published(tokio::sync::watch::Receiver<Vec<Backend>>);

impl carom::Resolve for Published {
    async fn run(mut self, publisher: carom::resolver::Publisher) {
        loop {
            publisher.publish(self.0.borrow_and_update().clone());
            if self.0.changed().await.is_err() {
                return;
            }
        }
    }
}
