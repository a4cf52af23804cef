//! Metrics: what is recorded on the way, what is read off a snapshot, and what is not recorded at all.

use carom::monitor::{
    Backend, BackendFlags, BackendState, Feed, FeedCounters, Gateway, GatewayFeed, Monitor, Object, Observe, Observed,
    Phase, Pool as SeenPool, PoolBackend, PoolCounters, PoolOptions, Resolver, Slot, State,
};
use carom::{Pool, connect_fn};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Keeps everything, by name and labels: `name{label=value,...}`.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Values>>);

#[derive(Default)]
struct Values {
    described: BTreeMap<String, Option<Unit>>,
    gauges: BTreeMap<String, f64>,
    counters: BTreeMap<String, u64>,
    histograms: BTreeMap<String, Vec<f64>>,
}

struct Handle(Kept, String);

impl GaugeFn for Handle {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set")
    }
    fn decrement(&self, _: f64) {
        unreachable!("gauges are set")
    }
    fn set(&self, value: f64) {
        self.0.0.lock().unwrap().gauges.insert(self.1.clone(), value);
    }
}

impl CounterFn for Handle {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().counters.entry(self.1.clone()).or_default() += value;
    }
    fn absolute(&self, _: u64) {
        unreachable!("counters are incremented")
    }
}

impl HistogramFn for Handle {
    fn record(&self, value: f64) {
        self.0.0.lock().unwrap().histograms.entry(self.1.clone()).or_default().push(value);
    }
}

impl Kept {
    fn handle(&self, key: &Key) -> Arc<Handle> {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Handle(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn described(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        assert!(!help.is_empty());
        self.0.lock().unwrap().described.insert(name.as_str().to_owned(), unit);
    }

    fn gauge(&self, key: &str) -> Option<f64> {
        self.0.lock().unwrap().gauges.get(key).copied()
    }

    fn counter(&self, key: &str) -> Option<u64> {
        self.0.lock().unwrap().counters.get(key).copied()
    }

    fn histogram(&self, key: &str) -> Vec<f64> {
        self.0.lock().unwrap().histograms.get(key).cloned().unwrap_or_default()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.described(&name, unit, &help);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.described(&name, unit, &help);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.described(&name, unit, &help);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.handle(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.handle(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.handle(key))
    }
}

struct Shown(Mutex<Option<Observed>>);

impl Observe for Shown {
    fn observe(&self) -> Option<Observed> {
        self.0.lock().unwrap().clone()
    }
}

impl Shown {
    fn set(&self, name: &str, object: Object) {
        *self.0.lock().unwrap() = Some(Observed { name: name.to_owned(), object });
    }
}

fn show(monitor: &Monitor, name: &str, object: Object) -> Arc<Shown> {
    let shown = Arc::new(Shown(Mutex::new(None)));
    shown.set(name, object);
    monitor.register(&shown);
    shown
}

fn pool(address: &str, phases: &[Phase], timeouts: u64) -> Object {
    pool_of(vec![(address.to_owned(), phases)], timeouts)
}

fn pool_of(backends: Vec<(String, &[Phase])>, timeouts: u64) -> Object {
    let of_backend = |(address, phases): (String, &[Phase])| PoolBackend {
        backend: Backend { key: address.clone(), name: address.clone(), address, port: 80, priority: 0, weight: 0 },
        state: BackendState::Healthy,
        slots: phases.iter().map(|phase| Slot { phase: *phase, ms: None }).collect(),
        reason: None,
        next_attempt_ms: None,
        ejected_ms: None,
        flags: BackendFlags::default(),
        typical_use_us: None,
    };
    Object::Pool(SeenPool {
        state: State::Running,
        options: PoolOptions { spares: 2, maximum: 16, claim_timeout_ms: 1000 },
        resolver: None,
        target: 2,
        waiting: 3,
        longest_wait_ms: Some(1500),
        dead: 0,
        panic: false,
        backends: backends.into_iter().map(of_backend).collect(),
        last_plan_ms: None,
        cause: None,
        check_cause: None,
        counters: PoolCounters { timeouts, given_up: timeouts * 2, ..PoolCounters::default() },
    })
}

fn gateway(clients: usize, conflated: u64) -> Object {
    Object::Gateway(Gateway {
        state: State::Running,
        listen: "127.0.0.1:8765".to_owned(),
        clients,
        authenticated: clients,
        subscriptions: 0,
        ticks: 0,
        delivered: 0,
        conflated,
        lost: 0,
        malformed: 0,
        refused: 0,
        slow_closed: 0,
        wrong_keys: 0,
        feeds: vec![gateway_feed("asha", Some(1500)), gateway_feed("ravi", None)],
        worst: Vec::new(),
    })
}

fn gateway_feed(user: &str, last_tick_ms: Option<u64>) -> GatewayFeed {
    let (broker, user) = ("zerodha".to_owned(), user.to_owned());
    GatewayFeed { broker, user, feed: None, share: None, ticks: 9, last_tick_ms, bus: None }
}

fn feed(outside: bool, malformed: u64, orders: u64) -> Object {
    Object::Feed(Feed {
        state: State::Running,
        topics: 3,
        live: 3,
        waiting: 0,
        max_topics_per_connection: 10,
        max_connections: 2,
        capacity: 20,
        peak_topics: 3,
        connections: Vec::new(),
        cause: None,
        counters: FeedCounters::default(),
        passed_over: BTreeMap::from([("malformed".to_owned(), malformed), ("orders".to_owned(), orders)]),
        outside,
    })
}

const COUNT: &str = "db.client.connection.count";

fn count(pool: &str, backend: &str, state: &str) -> String {
    format!(
        "{COUNT}{{db.client.connection.pool.name={pool},carom.backend={backend},db.client.connection.state={state}}}"
    )
}

#[test]
fn a_snapshot_becomes_gauges_and_counters() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let phases = [Phase::Busy, Phase::Busy, Phase::Idle, Phase::Connecting];
    let _orders = show(&monitor, "orders", pool("10.0.0.1", &phases, 7));
    let _gateway = show(&monitor, "market", gateway(12, 5));
    let stale = Resolver { state: State::Running, backends: Vec::new(), stale_ms: Some(2500), error: None, dns: None };
    let _resolver = show(&monitor, "foobar", Object::Resolver(stale));
    with_local_recorder(&kept, || monitor.record());

    for (state, expected) in [("used", 2.0), ("idle", 1.0), ("connecting", 1.0)] {
        assert_eq!(kept.gauge(&count("orders", "10.0.0.1:80", state)), Some(expected), "{state}");
    }
    let of_pool = |name: &str| format!("db.client.connection.{name}{{db.client.connection.pool.name=orders}}");
    assert_eq!(kept.gauge(&of_pool("max")), Some(16.0));
    assert_eq!(kept.gauge(&of_pool("idle.min")), Some(2.0));
    assert_eq!(kept.gauge(&of_pool("pending_requests")), Some(3.0));
    assert_eq!(kept.counter(&of_pool("timeouts")), Some(7));
    let given_up = "carom.pool.given_up{db.client.connection.pool.name=orders}";
    assert_eq!(kept.counter(given_up), Some(14));
    assert_eq!(kept.gauge("carom.pool.longest_wait{db.client.connection.pool.name=orders}"), Some(1.5));
    assert_eq!(kept.gauge("carom.gateway.clients{carom.gateway.name=market}"), Some(12.0));
    assert_eq!(kept.counter("carom.gateway.conflated{carom.gateway.name=market}"), Some(5));
    assert_eq!(kept.gauge("carom.resolver.stale{carom.resolver.name=foobar}"), Some(2.5));
}

#[test]
fn flags_of_backends_and_failed_checks_have_series() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let Object::Pool(mut seen) = pool("10.0.0.1", &[], 0) else { panic!("it is a pool") };
    (seen.panic, seen.backends[0].flags.stalled, seen.backends[0].flags.failing) = (true, true, true);
    seen.backends[0].flags.held_off_ms = Some(9_500);
    (seen.counters.checks, seen.counters.check_failures) = (9, 4);
    let _orders = show(&monitor, "orders", Object::Pool(seen));
    let _others = show(&monitor, "others", pool("10.0.0.1", &[], 0));
    with_local_recorder(&kept, || monitor.record());
    for (name, flag) in [("orders", 1.0), ("others", 0.0)] {
        let of_pool = |metric: &str| format!("carom.{metric}{{db.client.connection.pool.name={name}}}");
        let of_backend = |metric: &str| {
            format!("carom.backend.{metric}{{db.client.connection.pool.name={name},carom.backend=10.0.0.1:80}}")
        };
        assert_eq!(kept.gauge(&of_pool("pool.panic")), Some(flag));
        assert_eq!(kept.gauge(&of_backend("stalled")), Some(flag));
        assert_eq!(kept.gauge(&of_backend("failing")), Some(flag));
        assert_eq!(kept.gauge(&of_backend("held_off")), Some(flag));
        assert_eq!(kept.gauge(&of_pool("backend.unhealthy")), Some(0.0));
    }
    let checks =
        ["checks", "check_failures"].map(|name| format!("carom.pool.{name}{{db.client.connection.pool.name=orders}}"));
    assert_eq!(checks.map(|name| kept.counter(&name)), [Some(9), Some(4)]);
}

#[test]
fn feeds_are_told_apart_and_what_became_no_tick_by_what_it_was() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let shown = show(&monitor, "zerodha/asha", feed(false, 2, 5));
    let _outside = show(&monitor, "outside/asha", feed(true, 0, 0));
    let _gateway = show(&monitor, "market", gateway(1, 0));
    with_local_recorder(&kept, || monitor.record());
    shown.set("zerodha/asha", feed(false, 3, 5));
    with_local_recorder(&kept, || monitor.record());

    let passed_over = |what: &str| format!("carom.feed.passed_over{{carom.feed.name=zerodha/asha,what={what}}}");
    assert_eq!((kept.counter(&passed_over("malformed")), kept.counter(&passed_over("orders"))), (Some(3), Some(5)));
    let of_user = |name: &str, user: &str| {
        format!("carom.gateway.{name}{{carom.gateway.name=market,carom.feed.name=zerodha/{user}}}")
    };
    assert_eq!(kept.gauge(&of_user("last_tick", "asha")), Some(1.5));
    assert_eq!(kept.gauge(&of_user("last_tick", "ravi")), None, "there was none");
    assert_eq!(kept.counter(&of_user("feed_ticks", "ravi")), Some(9));
    for (feed, expected) in [("zerodha/asha", Some(20.0)), ("outside/asha", None)] {
        assert_eq!(kept.gauge(&format!("carom.feed.capacity{{carom.feed.name={feed}}}")), expected);
        assert_eq!(kept.gauge(&format!("carom.feed.topics{{carom.feed.name={feed}}}")), Some(3.0));
    }
}

#[test]
fn everything_that_is_recorded_is_described() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let _orders = show(&monitor, "orders", pool("10.0.0.1", &[Phase::Idle], 0));
    let _gateway = show(&monitor, "market", gateway(1, 0));
    let _feed = show(&monitor, "zerodha/asha", feed(false, 1, 1));
    with_local_recorder(&kept, || monitor.record());
    let values = kept.0.lock().unwrap();
    let named = values.gauges.keys().chain(values.counters.keys()).map(|key| key.split('{').next().unwrap());
    for name in named {
        assert!(values.described.get(name).is_some_and(Option::is_some), "{name}");
    }
    for name in ["create_time", "wait_time", "use_time"] {
        assert_eq!(values.described[&format!("db.client.connection.{name}")], Some(Unit::Seconds));
    }
}

#[test]
fn counters_go_on_and_what_is_gone_is_zero() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let timeouts = "db.client.connection.timeouts{db.client.connection.pool.name=orders}";
    let record = || with_local_recorder(&kept, || monitor.record());
    // Two pools of one name are one to whoever looks at metrics.
    let one = show(&monitor, "orders", pool("10.0.0.1", &[Phase::Busy], 2));
    let two = show(&monitor, "orders", pool("10.0.0.1", &[Phase::Busy], 3));
    record();
    assert_eq!((kept.counter(timeouts), kept.gauge(&count("orders", "10.0.0.1:80", "used"))), (Some(5), Some(2.0)));
    record();
    assert_eq!(kept.counter(timeouts), Some(5));
    one.set("orders", pool("10.0.0.2", &[Phase::Busy], 4));
    drop(two);
    record();
    assert_eq!(kept.counter(timeouts), Some(7));
    assert_eq!(kept.gauge(&count("orders", "10.0.0.1:80", "used")), Some(0.0));
    assert_eq!(kept.gauge(&count("orders", "10.0.0.2:80", "used")), Some(1.0));
    drop(one);
    record();
    assert_eq!(kept.gauge(&count("orders", "10.0.0.2:80", "used")), Some(0.0));
    assert_eq!(kept.counter(timeouts), Some(7));
}

/// Whoever looks at it first is overtaken by somebody else, who sees more of it.
struct Overtaken {
    looks: AtomicU64,
    overtake: Box<dyn Fn() + Send + Sync>,
}

impl Observe for Overtaken {
    fn observe(&self) -> Option<Observed> {
        let look = self.looks.fetch_add(1, Ordering::SeqCst);
        if look == 0 {
            (self.overtake)();
        }
        Some(Observed { name: "orders".to_owned(), object: pool("10.0.0.1", &[], 10 * (look + 1)) })
    }
}

#[test]
fn two_who_record_at_a_time_count_nothing_twice() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let timeouts = "db.client.connection.timeouts{db.client.connection.pool.name=orders}";
    let others = Arc::new(Mutex::new(Vec::new()));
    let overtake = {
        let (others, monitor, kept) = (Arc::clone(&others), monitor.clone(), kept.clone());
        move || {
            let (monitor, kept) = (monitor.clone(), kept.clone());
            let (says, started) = mpsc::channel();
            let other = std::thread::spawn(move || {
                says.send(()).unwrap();
                with_local_recorder(&kept, || monitor.record());
            });
            started.recv().unwrap();
            // If nothing keeps it from recording, it has time to end; otherwise it goes on when this look is recorded.
            for _ in 0..50 {
                if other.is_finished() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            others.lock().unwrap().push(other);
        }
    };
    let orders = Arc::new(Overtaken { looks: AtomicU64::new(0), overtake: Box::new(overtake) });
    monitor.register(&orders);
    with_local_recorder(&kept, || monitor.record());
    others.lock().unwrap().drain(..).for_each(|other| other.join().unwrap());
    with_local_recorder(&kept, || monitor.record());
    assert_eq!((orders.looks.load(Ordering::SeqCst), kept.counter(timeouts)), (3, Some(30)));
}

#[test]
fn a_count_that_goes_by_another_label_goes_on() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let record = || with_local_recorder(&kept, || monitor.record());
    let mut many: Vec<_> = (0..1001).map(|n| show(&monitor, &format!("pool {n}"), pool("10.1.0.1", &[], 5))).collect();
    record();
    let timeouts =
        |pool: &str| kept.counter(&format!("db.client.connection.timeouts{{db.client.connection.pool.name={pool}}}"));
    assert_eq!((timeouts("other"), timeouts("pool 1000")), (Some(5), None));
    drop(many.remove(0));
    many[999].set("pool 1000", pool("10.1.0.1", &[], 7));
    record();
    assert_eq!((timeouts("other"), timeouts("pool 1000")), (Some(5), Some(2)), "there is room for it now");
}

#[test]
fn labels_stay_bounded() {
    let (kept, monitor) = (Kept::default(), Monitor::new());
    let backends = (0..300).map(|n| (format!("10.0.{}.{}", n / 250, n % 250), [Phase::Idle].as_slice())).collect();
    let _wide = show(&monitor, "wide", pool_of(backends, 0));
    let _many: Vec<_> = (0..1100).map(|n| show(&monitor, &format!("pool {n}"), pool("10.1.0.1", &[], 1))).collect();
    with_local_recorder(&kept, || monitor.record());
    let values = kept.0.lock().unwrap();
    let label = |key: &str, name: &str| {
        let of = key.split(['{', ',', '}']).find_map(|label| label.strip_prefix(name)).map(str::to_owned);
        of.expect("it has the label")
    };
    let wide = values.gauges.keys().filter(|key| key.contains("pool.name=wide") && key.starts_with(COUNT));
    let backends: BTreeSet<String> = wide.map(|key| label(key, "carom.backend=")).collect();
    assert_eq!(backends.len(), 257);
    assert_eq!(values.gauges[&count("wide", "other", "idle")], 44.0);
    let timeouts = values.counters.iter().filter(|(key, _)| key.starts_with("db.client.connection.timeouts"));
    let pools: BTreeMap<String, u64> =
        timeouts.map(|(key, count)| (label(key, "db.client.connection.pool.name="), *count)).collect();
    assert_eq!((pools.len(), pools["other"]), (1001, 101));
}

/// In one test, since there is one recorder for a process's tasks.
#[tokio::test(start_paused = true)]
async fn times_are_recorded_on_the_way_if_the_monitor_meters() {
    let kept = Kept::default();
    metrics::set_global_recorder(kept.clone()).map_err(|_| "there is another").unwrap();
    let slow = connect_fn(|backend: carom::Backend| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok::<_, std::io::Error>(backend.to_string())
    });
    let here: std::net::SocketAddr = "10.0.0.1:80".parse().unwrap();
    let build = |name: &str| Pool::builder(slow).name(name.to_owned()).backends([here]).spares(1).maximum(1);
    let pool = build("metered").monitor(&Monitor::metered()).build().unwrap();

    // The first one waits for the connection to be made, the second is served at once, the third waits for it.
    let held = pool.claim().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(held);
    let held = pool.claim().await.unwrap();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { drop(pool.claim().await.unwrap()) }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(held);
    waiting.await.unwrap();

    let of = |name: &str| {
        let key =
            format!("db.client.connection.{name}{{db.client.connection.pool.name=metered,carom.backend=10.0.0.1:80}}");
        kept.histogram(&key).into_iter().map(|seconds| (seconds * 1000.0).round()).collect::<Vec<_>>()
    };
    assert_eq!(of("create_time"), [50.0]);
    assert_eq!(of("wait_time"), [50.0, 0.0, 100.0]);
    assert_eq!(of("use_time"), [200.0, 100.0, 0.0]);

    // A claim that is given up while it waits was neither served nor used.
    let held = pool.claim().await.unwrap();
    let mut waits = Box::pin(pool.claim());
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
    drop(held);
    drop(waits);
    assert_eq!((of("wait_time").len(), of("use_time").len()), (4, 4));

    let quiet = build("quiet").monitor(&Monitor::new()).build().unwrap();
    drop(quiet.claim().await.unwrap());
    assert!(kept.0.lock().unwrap().histograms.keys().all(|key| key.contains("=metered,")));
}
