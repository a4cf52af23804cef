//! Kang: the paths, the methods, and the fields that cueball's readers know.

use carom::dns::{Dns as ByDns, DnsOptions, Ipv6};
use carom::kang::{Body, Kang};
use carom::monitor::{
    Backend, BackendFlags, BackendState, Dns, DnsCounters, DnsKind, DnsQuestion, DnsState, Feed, FeedCounters, Id,
    Idle, Monitor, Object, Observe, Observed, Phase, Pool, PoolBackend, PoolCounters, PoolOptions, Resolver, Set,
    SetBackend, SetConnection, SetCounters, SetOptions, Slot, State,
};
use carom::resolver::{Publisher, Resolve, Resolver as Running};
use carom::{Connect, Share, connect_fn};
use http::{Method, Request, Response};
use serde_json::{Value, json};
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::dns::DnsServer;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower::{Service, ServiceExt};

/// What is seen of it can be changed, and taken away.
struct Shown(Mutex<Option<Observed>>);

impl Observe for Shown {
    fn observe(&self) -> Option<Observed> {
        self.0.lock().unwrap().clone()
    }
}

fn show(monitor: &Monitor, name: &str, object: Object) -> (Id, Arc<Shown>) {
    let shown = Arc::new(Shown(Mutex::new(Some(Observed { name: name.to_owned(), object }))));
    (monitor.register(&shown), shown)
}

fn backend(key: &str, address: &str) -> Backend {
    let name = format!("{key}.example.com");
    Backend { key: key.to_owned(), name, address: address.to_owned(), port: 8080, priority: 0, weight: 0 }
}

fn resolver() -> Object {
    let question = |kind, next_ms| DnsQuestion {
        name: "foobar".to_owned(),
        kind,
        state: DnsState::Answered,
        records: 1,
        next_ms,
        trouble: None,
    };
    let dns = Dns {
        domain: "foobar".to_owned(),
        service: Some("_foo._tcp".to_owned()),
        default_port: 8080,
        nameservers: vec!["10.0.0.53".to_owned()],
        questions: vec![
            question(DnsKind::Srv, Some(60_000)),
            question(DnsKind::Aaaa, None),
            question(DnsKind::A, Some(30_000)),
            question(DnsKind::A, Some(10_000)),
        ],
        counters: DnsCounters { asked: 4, answered: 4, failed: 0, published: 1 },
    };
    let backends = vec![backend("b1", "10.0.0.1")];
    Object::Resolver(Resolver { state: State::Running, backends, stale_ms: None, error: None, dns: Some(dns) })
}

fn pool(resolver: Option<Id>, state: State, phases: &[Phase]) -> Object {
    let slots = phases.iter().map(|phase| Slot { phase: *phase, ms: None }).collect();
    let of_backend = |key, address, state, slots| PoolBackend {
        backend: backend(key, address),
        state,
        slots,
        reason: None,
        next_attempt_ms: None,
        ejected_ms: None,
        flags: BackendFlags::default(),
        typical_use_us: None,
    };
    Object::Pool(Pool {
        state,
        options: PoolOptions { spares: 2, maximum: 2, claim_timeout_ms: 30_000 },
        resolver,
        target: 2,
        waiting: 0,
        longest_wait_ms: None,
        dead: 1,
        panic: false,
        backends: vec![
            of_backend("b1", "10.0.0.1", BackendState::Healthy, slots),
            of_backend("b2", "10.0.0.2", BackendState::Dead, Vec::new()),
        ],
        last_plan_ms: Some(5000),
        cause: None,
        check_cause: None,
        counters: PoolCounters { claims: 3, waited: 1, timeouts: 1, connects: 2, ..PoolCounters::default() },
    })
}

fn set(resolver: Option<Id>) -> Object {
    let connection = |place, draining| SetConnection {
        place,
        idle: Idle::Using,
        draining,
        kept: true,
        leases: 1,
        roles: Default::default(),
        age_ms: 100,
        idle_ms: None,
    };
    Object::Set(Set {
        state: State::Running,
        options: SetOptions { per_backend: 2, target: Some(2), maximum: Some(5), max_idle_ms: None },
        resolver,
        waiting: 0,
        dialling: 0,
        leases: 1,
        dead: 0,
        panic: false,
        backends: vec![SetBackend {
            backend: backend("b1", "10.0.0.1"),
            state: BackendState::Healthy,
            connections: vec![connection(0, false), connection(1, true)],
            dialling: 0,
            reason: None,
            next_attempt_ms: None,
            ejected_ms: None,
            flags: BackendFlags::default(),
        }],
        last_plan_ms: None,
        cause: None,
        counters: SetCounters::default(),
    })
}

fn feed() -> Object {
    Object::Feed(Feed {
        state: State::Running,
        topics: 3,
        live: 2,
        waiting: 0,
        max_topics_per_connection: 10,
        max_connections: 2,
        capacity: 20,
        peak_topics: 3,
        connections: Vec::new(),
        cause: None,
        counters: FeedCounters::default(),
        passed_over: Default::default(),
        outside: false,
    })
}

fn get(kang: &Kang, path: &str) -> (u16, Value) {
    let response = kang.answer(&Method::GET, path);
    (response.status().as_u16(), parsed(response))
}

fn parsed(response: Response<Body>) -> Value {
    assert_eq!(response.headers()["content-type"], "application/json");
    serde_json::from_slice(response.body().bytes()).expect("it is JSON")
}

#[test]
fn an_empty_snapshot_has_every_type_and_no_objects() {
    let kang = Monitor::new().kang().service("cueball").component("muppet").ident("zone1").version("1.0.0");
    let (status, all) = get(&kang, "/kang/snapshot");
    assert_eq!(status, 200);
    let expected = json!({"name": "cueball", "component": "muppet", "ident": "zone1", "version": "1.0.0"});
    assert_eq!(all["service"], expected);
    let types = ["pool", "set", "dns_res", "window", "feed", "gateway"];
    assert_eq!(all["types"], json!(types));
    assert!(types.iter().all(|kind| all[kind] == json!({})), "{all}");
    assert!(all["stats"]["started"].as_str().unwrap().ends_with('Z'));
    assert_eq!(get(&kang, "/kang/types").1, json!(types));
    assert_eq!(get(&kang, "/kang/objects/pool"), (200, json!([])));
}

#[test]
fn who_answers_is_known_without_being_told() {
    let (_, all) = get(&Monitor::new().kang(), "/kang/snapshot");
    let service = all["service"].as_object().unwrap();
    assert_eq!(service["name"], "carom");
    assert!(["ident", "version"].iter().all(|field| !service[*field].as_str().unwrap().is_empty()), "{all}");
    assert!(!service.contains_key("component"));
}

#[test]
fn a_pool_has_the_fields_that_cueball_gives_it() {
    let monitor = Monitor::new();
    let (resolver, _resolver) = show(&monitor, "foobar", resolver());
    let (id, shown) = show(&monitor, "orders", pool(Some(resolver), State::Starting, &[Phase::Connecting; 2]));
    let kang = monitor.kang();

    let (status, mut seen) = get(&kang, &format!("/kang/obj/pool/{id}"));
    assert_eq!(status, 200);
    // What cueball does not have.
    let fields = seen.as_object_mut().unwrap();
    assert_eq!(
        (fields.remove("panic"), fields.remove("backend_health").unwrap()["b2"]["state"].take()),
        (Some(json!(false)), json!("dead"))
    );
    let rebalanced = seen.as_object_mut().unwrap().remove("last_rebalance").unwrap().as_u64().unwrap();
    let now = monitor.snapshot().taken_at_ms / 1000;
    assert!((now - 60..now - 4).contains(&rebalanced), "{rebalanced}, {now}");
    let b = |key: &str, address: &str| json!({"name": format!("{key}.example.com"), "address": address, "port": 8080, "key": key});
    let expected = json!({
        "name": "orders",
        "backends": {"b1": b("b1", "10.0.0.1"), "b2": b("b2", "10.0.0.2")},
        "connections": {"b1": {"connecting": 2}},
        "dead_backends": ["b2"],
        "resolvers": ["10.0.0.53"],
        "state": "starting",
        "counters": {"claim": 4, "queued-claim": 2, "claim-timeout": 1, "connect": 2},
        "options": {"domain": "foobar", "service": "_foo._tcp", "defaultPort": 8080, "spares": 2, "maximum": 2},
    });
    assert_eq!(seen, expected);

    // And again when one has connected.
    let running = pool(Some(resolver), State::Running, &[Phase::Idle, Phase::Connecting]);
    *shown.0.lock().unwrap() = Some(Observed { name: "orders".to_owned(), object: running });
    let (_, all) = get(&kang, "/kang/snapshot");
    let seen = &all["pool"][id.to_string()];
    assert_eq!(seen["connections"], json!({"b1": {"idle": 1, "connecting": 1}}));
    assert_eq!(seen["state"], "running");
    assert_eq!(seen["options"]["domain"], "foobar");
}

#[test]
fn every_phase_of_a_slot_has_cueballs_name() {
    let monitor = Monitor::new();
    let phases =
        [Phase::Held, Phase::Connecting, Phase::Backoff, Phase::Idle, Phase::Busy, Phase::Checking, Phase::Closing];
    let (id, _shown) = show(&monitor, "orders", pool(None, State::Running, &phases));
    let (_, seen) = get(&monitor.kang(), &format!("/kang/obj/pool/{id}"));
    let expected = json!({"init": 1, "connecting": 1, "retrying": 1, "idle": 1, "busy": 2, "stopping": 1});
    assert_eq!(seen["connections"]["b1"], expected);
}

#[test]
fn a_set_has_its_fields_with_and_without_a_domain() {
    let monitor = Monitor::new();
    let (resolver, _resolver) = show(&monitor, "foobar", resolver());
    let (known, _known) = show(&monitor, "streams", set(Some(resolver)));
    let (plain, _plain) = show(&monitor, "fixed", set(None));
    let (_, all) = get(&monitor.kang(), "/kang/snapshot");

    let seen = &all["set"][known.to_string()];
    assert_eq!(seen["fsms"], json!({"b1": {"busy": 1, "stopping": 1}}));
    assert_eq!(seen["connections"], json!(["b1.1", "b1.2"]));
    assert_eq!((&seen["target"], &seen["maximum"]), (&json!(2), &json!(5)));
    assert_eq!(seen["options"], json!({"domain": "foobar", "service": "_foo._tcp", "defaultPort": 8080}));
    assert_eq!(seen["resolvers"], json!(["10.0.0.53"]));
    assert_eq!(
        (&seen["state"], &seen["dead_backends"], &seen["counters"]),
        (&json!("running"), &json!([]), &json!({}))
    );

    let seen = all["set"][plain.to_string()].as_object().unwrap();
    assert_eq!(seen["options"], json!({"domain": "fixed"}));
    assert!(!seen.contains_key("resolvers") && !seen.contains_key("last_rebalance"));
}

#[test]
fn a_backend_that_has_left_and_come_back_hides_nothing() {
    let monitor = Monitor::new();
    let Object::Pool(mut left) = pool(None, State::Running, &[Phase::Idle, Phase::Idle, Phase::Busy]) else {
        unreachable!("it is a pool")
    };
    let drains = vec![Slot { phase: Phase::Busy, ms: None }];
    left.backends.push(PoolBackend { state: BackendState::Removed, slots: drains, ..left.backends[0].clone() });
    left.backends[2].backend.name = "as it was".to_owned();
    let (id, _pool) = show(&monitor, "orders", Object::Pool(left));
    let (_, seen) = get(&monitor.kang(), &format!("/kang/obj/pool/{id}"));
    assert_eq!(seen["connections"], json!({"b1": {"idle": 2, "busy": 2}}));
    assert_eq!(seen["backends"]["b1"]["name"], "b1.example.com");

    // Of a set, its place may have been given to another as well.
    let Object::Set(mut left) = set(None) else { unreachable!("it is a set") };
    left.backends.push(SetBackend { state: BackendState::Removed, ..left.backends[0].clone() });
    left.backends[0].connections[1].place = 0;
    let (id, _set) = show(&monitor, "streams", Object::Set(left));
    let (_, seen) = get(&monitor.kang(), &format!("/kang/obj/set/{id}"));
    assert_eq!(seen["fsms"], json!({"b1": {"busy": 2, "stopping": 2}}));
    assert_eq!(seen["connections"], json!(["b1.1", "b1.2", "b1.3", "b1.4"]));
}

#[test]
fn a_resolver_says_when_it_asks_next() {
    let monitor = Monitor::new();
    let (id, _shown) = show(&monitor, "foobar", resolver());
    let (_, seen) = get(&monitor.kang(), &format!("/kang/obj/dns_res/{id}"));
    let next = seen["next"].as_object().unwrap();
    assert_eq!(next.keys().collect::<Vec<_>>(), ["srv", "v4"]);
    // The earlier one of both questions for addresses; text of one length sorts as the times do.
    assert!(next["v4"].as_str() < next["srv"].as_str(), "{next:?}");
    assert_eq!(next["v4"].as_str().unwrap().len(), "2026-01-01T00:00:00.000Z".len());
    assert_eq!((&seen["domain"], &seen["service"]), (&json!("foobar"), &json!("_foo._tcp")));
    assert_eq!((&seen["defaultPort"], &seen["state"]), (&json!(8080), &json!("sleep")));
    assert_eq!(seen["resolvers"], json!(["10.0.0.53"]));
    assert_eq!(seen["backends"]["b1"]["address"], "10.0.0.1");
    assert_eq!(seen["counters"]["lookup"], 4);
}

#[test]
fn a_resolver_of_ones_own_is_shown_as_far_as_it_goes() {
    let monitor = Monitor::new();
    let own = Resolver { state: State::Failed, backends: Vec::new(), stale_ms: None, error: None, dns: None };
    let (id, _shown) = show(&monitor, "own", Object::Resolver(own));
    let (_pool, _shown_too) = show(&monitor, "orders", pool(Some(id), State::Running, &[]));
    let (status, all) = get(&monitor.kang(), "/kang/snapshot");
    assert_eq!(status, 200);
    let expected = json!({"name": "own", "state": "failed", "backends": {}, "counters": {}});
    assert_eq!(all["dns_res"][id.to_string()], expected);
}

#[test]
fn other_objects_are_shown_as_the_monitor_sees_them() {
    let monitor = Monitor::new();
    let (id, _shown) = show(&monitor, "quotes", feed());
    let (_, seen) = get(&monitor.kang(), &format!("/kang/obj/feed/{id}"));
    assert_eq!((&seen["name"], &seen["topics"], &seen["capacity"]), (&json!("quotes"), &json!(3), &json!(20)));
}

#[test]
fn what_is_over_is_gone() {
    let monitor = Monitor::new();
    let (id, shown) = show(&monitor, "quotes", feed());
    let kang = monitor.kang();
    assert_eq!(get(&kang, "/kang/objects/feed").1, json!([id.to_string()]));
    *shown.0.lock().unwrap() = None;
    assert_eq!(get(&kang, "/kang/objects/feed").1, json!([]));
    assert_eq!(get(&kang, &format!("/kang/obj/feed/{id}")).0, 404);
}

#[test]
fn what_is_not_there_is_said_so() {
    let monitor = Monitor::new();
    let (id, _shown) = show(&monitor, "quotes", feed());
    let kang = monitor.kang();
    let long = format!("/kang/obj/feed/{}", "9".repeat(100_000));
    let wrong_type = format!("/kang/obj/pool/{id}");
    let garbage = format!("/kang/obj/feed/{id}/more");
    for path in ["/", "/kang", "/kang/objects/nothing", "/kang/obj/feed/0", &wrong_type, &garbage, &long] {
        let (status, told) = get(&kang, path);
        assert_eq!(status, 404, "{path:.60}");
        let error = told["error"].as_str().expect("an error");
        assert!(!error.is_empty() && error.len() < 200, "{error}");
    }
    assert_eq!(get(&kang, "/kang/objects/%66eed").0, 200);
}

#[test]
fn only_get_and_head() {
    let kang = Monitor::new().kang();
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE] {
        let response = kang.answer(&method, "/kang/snapshot");
        assert_eq!((response.status().as_u16(), &response.headers()["allow"].to_str().unwrap()), (405, &"GET, HEAD"));
        assert!(parsed(response)["error"].is_string());
    }
    let head = kang.answer(&Method::HEAD, "/kang/types");
    let whole = kang.answer(&Method::GET, "/kang/types");
    assert_eq!(head.status(), 200);
    assert!(head.body().bytes().is_empty());
    assert_eq!(head.headers()["content-length"], whole.body().bytes().len().to_string());
    assert_eq!(head.headers()["content-length"], whole.headers()["content-length"]);
}

#[tokio::test]
async fn it_is_a_service_of_requests_with_any_body() {
    let mut kang = Monitor::new().kang();
    for (path, expected) in [("/kang/types?now", 200), ("/elsewhere", 404)] {
        let request = Request::get(path).body("not read".to_owned()).unwrap();
        let Ok(response) = ServiceExt::<Request<String>>::ready(&mut kang).await.unwrap().call(request).await;
        assert_eq!(response.status(), expected);
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        assert!(serde_json::from_slice::<Value>(&body).is_ok());
    }
}

/// Looks until a field is as wanted; whatever is awaited here happens soon, even on a machine that has other things to do.
async fn until(kang: &Kang, path: &str, field: &str, wanted: &Value) -> Value {
    let look = async {
        loop {
            let seen = get(kang, path).1;
            if &seen[field] == wanted {
                return seen;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let found = timeout(Duration::from_secs(30), look).await;
    found.unwrap_or_else(|_| panic!("{field} is not {wanted}: {:#}", get(kang, path).1))
}

/// A connection for each permit.
fn gated(gate: &Arc<Semaphore>) -> impl Connect<Connection = String> + use<> {
    let gate = Arc::clone(gate);
    connect_fn(move |backend: carom::Backend| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.map_err(io::Error::other)?.forget();
            Ok::<_, io::Error>(backend.to_string())
        }
    })
}

/// Connections that many share.
struct Shared;

impl Connect for Shared {
    type Connection = ();
    type Error = io::Error;

    async fn connect(&self, _: &carom::Backend) -> io::Result<()> {
        Ok(())
    }
}

impl Share for Shared {
    fn shut(&self, _: &()) {}
}

#[tokio::test]
async fn a_pool_and_a_set_on_one_resolver_are_shown_as_cueball_would() {
    let server = DnsServer::start().await.unwrap();
    let zone = server.zone();
    zone.soa("test", 0, 300);
    zone.a("foobar.test", 60, ["10.0.0.1"]);
    let options = DnsOptions::default().nameservers([server.address()]).hosts("/nonexistent/hosts").ipv6(Ipv6::Never);
    let by_dns = ByDns::new("foobar.test", options.default_port(1234)).unwrap();
    let (monitor, gate) = (Monitor::new(), Arc::new(Semaphore::new(0)));
    let kang = monitor.kang();
    let resolver = Running::start_in(&Handle::current(), &monitor, by_dns);
    let builder = carom::Pool::builder(gated(&gate)).resolver(resolver.clone()).monitor(&monitor);
    let pool = builder.spares(2).maximum(2).connecting_per_backend(2).build().unwrap();
    let path = format!("/kang/obj/pool/{}", pool.id());

    let key = timeout(Duration::from_secs(30), async {
        loop {
            if let Some(key) = get_key(&get(&kang, &path).1) {
                return key;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    let key = key.await.expect("the resolver finds it");
    // One at a time until a backend has worked; the other waits for its turn.
    let seen = until(&kang, &path, "connections", &json!({&key: {"connecting": 1, "init": 1}})).await;
    assert_eq!((&seen["state"], &seen["options"]["domain"]), (&json!("starting"), &json!("foobar.test")));
    assert_eq!(seen["resolvers"], json!([server.address().to_string()]));
    assert_eq!(seen["options"]["defaultPort"], 1234);
    gate.add_permits(1);
    let seen = until(&kang, &path, "connections", &json!({&key: {"connecting": 1, "idle": 1}})).await;
    assert_eq!((&seen["state"], &seen["backends"][&key]["port"]), (&json!("running"), &json!(1234)));

    let set = carom::Set::builder(Shared).resolver(resolver.clone()).eager(true).monitor(&monitor).build().unwrap();
    let seen = until(&kang, &format!("/kang/obj/set/{}", set.id()), "fsms", &json!({&key: {"busy": 1}})).await;
    assert_eq!((&seen["state"], &seen["options"]["domain"]), (&json!("running"), &json!("foobar.test")));
    assert_eq!(seen["connections"], json!([format!("{key}.1")]));

    let path = format!("/kang/obj/dns_res/{}", resolver.id());
    let seen = until(&kang, &path, "state", &json!("sleep")).await;
    assert!(seen["next"]["v4"].is_string() && seen["backends"][&key].is_object(), "{seen}");

    // Nothing is left of what has stopped.
    drop((pool, set, resolver));
    gate.close();
    for kind in ["pool", "set", "dns_res"] {
        let path = format!("/kang/objects/{kind}");
        let gone = async {
            while get(&kang, &path).1 != json!([]) {
                sleep(Duration::from_millis(5)).await
            }
        };
        assert!(timeout(Duration::from_secs(30), gone).await.is_ok(), "{kind}: {}", get(&kang, &path).1);
    }
}

/// The key of the first backend, if there is one.
fn get_key(pool: &Value) -> Option<String> {
    pool["backends"].as_object()?.keys().next().cloned()
}

/// Knows of one backend, and asks nobody.
struct Own;

impl Resolve for Own {
    async fn run(self, publisher: Publisher) {
        publisher.publish([carom::Backend::fixed(([10, 0, 0, 1], 80).into())]);
        pending::<()>().await;
    }
}

#[tokio::test]
async fn a_set_on_a_resolver_without_a_domain_is_shown() {
    let monitor = Monitor::new();
    let set = carom::Set::builder(Shared).name("own").resolver(Own).eager(true).monitor(&monitor).build().unwrap();
    let path = format!("/kang/obj/set/{}", set.id());
    let seen = until(&monitor.kang(), &path, "state", &json!("running")).await;
    assert_eq!(seen["options"], json!({"domain": "own"}));
    assert_eq!(get(&monitor.kang(), "/kang/snapshot").0, 200);
}
