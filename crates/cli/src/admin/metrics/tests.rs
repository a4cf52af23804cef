//! The text as Prometheus wants it, and the dashboard in `contrib` as what is rendered here.

mod documented;

use super::recorder::Recorder;
use super::services::Services;
use super::services::tests::reading;
use super::text;
use carom::monitor::{
    Backend, BackendFlags, BackendState, Dns, DnsCounters, Feed, FeedCounters, Gateway, GatewayBus, GatewayFeed,
    GatewayShare, Object, Observe, Observed, Resolver, Set, SetBackend, SetCounters, SetOptions, State, Window,
    WindowCounters, WindowOptions,
};
use carom::{Monitor, Pool, connect_fn};
use metrics::{Key, Label, Unit, counter, describe_gauge, describe_histogram, gauge, histogram, with_local_recorder};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn values_are_lines_with_help_type_and_unit() {
    let recorder = Recorder::default();
    with_local_recorder(&recorder, || {
        describe_gauge!("some.level", Unit::Seconds, "A level,\nin \\ two lines.");
        gauge!("some.level", "pool.name" => "a \"b\"\\\n").set(1.5);
        counter!("some.events").increment(3);
    });
    let expected = concat!(
        "# HELP some_level_seconds A level,\\nin \\\\ two lines.\n",
        "# TYPE some_level_seconds gauge\n",
        "some_level_seconds{pool_name=\"a \\\"b\\\"\\\\\\n\"} 1.5\n",
        "# TYPE some_events_total counter\n",
        "some_events_total 3\n",
    );
    assert_eq!(text::of(&recorder, Instant::now()), expected);
}

#[test]
fn a_histogram_has_buckets_that_add_up() {
    let recorder = Recorder::default();
    with_local_recorder(&recorder, || {
        describe_histogram!("wait", Unit::Seconds, "How long.");
        let waits = histogram!("wait", "pool" => "a");
        [0.0, 0.0, 0.000_01, 0.03, 90.0].into_iter().for_each(|wait| waits.record(wait));
    });
    let text = text::of(&recorder, Instant::now());
    for line in [
        "# TYPE wait_seconds histogram",
        "wait_seconds_bucket{pool=\"a\",le=\"0.00001\"} 3",
        "wait_seconds_bucket{pool=\"a\",le=\"0.025\"} 3",
        "wait_seconds_bucket{pool=\"a\",le=\"0.05\"} 4",
        "wait_seconds_bucket{pool=\"a\",le=\"60\"} 4",
        "wait_seconds_bucket{pool=\"a\",le=\"+Inf\"} 5",
        "wait_seconds_sum{pool=\"a\"} 90.03001",
        "wait_seconds_count{pool=\"a\"} 5",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
    }
}

#[test]
fn what_is_held_is_kept_and_what_nobody_asks_for_is_forgotten() {
    let recorder = Recorder::default();
    let (begun, later) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
    let key = |name| Key::from_parts(name, vec![Label::new("pool", "a")]);
    let held = recorder.histograms.get(&key("held"), begun);
    drop(recorder.histograms.get(&key("left"), begun));
    drop(recorder.gauges.get(&key("level"), begun));
    assert_eq!(recorder.histograms.all(begun).len(), 2);
    let names: Vec<String> = recorder.histograms.all(later).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["held"]);
    assert!(recorder.gauges.all(later).is_empty());
    drop(held);
    assert!(recorder.histograms.all(later).is_empty());
}

/// Shows what it was given.
struct Shown(Observed);

impl Observe for Shown {
    fn observe(&self) -> Option<Observed> {
        Some(self.0.clone())
    }
}

/// One of every kind there is; a pool is not among them.
fn one_of_each() -> Vec<Object> {
    let state = State::Running;
    let (name, address) = ("a.example.com".to_owned(), "10.0.0.1".to_owned());
    let backend = Backend { key: "a".to_owned(), name, address, port: 80, priority: 0, weight: 0 };
    let dns = Dns {
        domain: "example.com".to_owned(),
        service: None,
        default_port: 80,
        nameservers: Vec::new(),
        questions: Vec::new(),
        counters: DnsCounters::default(),
    };
    vec![
        Object::Set(Set {
            state,
            options: SetOptions::default(),
            resolver: None,
            waiting: 0,
            dialling: 0,
            leases: 0,
            dead: 0,
            panic: false,
            backends: vec![SetBackend {
                backend,
                state: BackendState::Healthy,
                connections: Vec::new(),
                dialling: 0,
                reason: None,
                next_attempt_ms: None,
                ejected_ms: None,
                flags: BackendFlags::default(),
            }],
            last_plan_ms: None,
            cause: None,
            counters: SetCounters::default(),
        }),
        Object::Resolver(Resolver { state, backends: Vec::new(), stale_ms: None, error: None, dns: Some(dns) }),
        Object::Window(Window {
            state,
            options: WindowOptions::default(),
            nodes: Vec::new(),
            unresponsive: Vec::new(),
            unhealthy: Vec::new(),
            asking: 0,
            in_line: 0,
            windows: Vec::new(),
            cause: None,
            counters: WindowCounters::default(),
        }),
        Object::Feed(Feed {
            state,
            topics: 0,
            live: 0,
            waiting: 0,
            max_topics_per_connection: 1,
            max_connections: 1,
            capacity: 1,
            peak_topics: 0,
            connections: Vec::new(),
            cause: None,
            counters: FeedCounters::default(),
            passed_over: [("malformed".to_owned(), 1)].into(),
            outside: false,
        }),
        Object::Gateway(Gateway {
            state,
            listen: "127.0.0.1:8765".to_owned(),
            clients: 0,
            authenticated: 0,
            subscriptions: 0,
            ticks: 0,
            delivered: 0,
            conflated: 0,
            lost: 0,
            malformed: 0,
            refused: 0,
            slow_closed: 0,
            wrong_keys: 0,
            feeds: vec![GatewayFeed {
                broker: "zerodha".to_owned(),
                user: "asha".to_owned(),
                feed: None,
                share: Some(GatewayShare {
                    member: "here-1".to_owned(),
                    owner: Some("here-1".to_owned()),
                    owns: true,
                    epoch: Some(7),
                    sessions: 0,
                }),
                ticks: 1,
                last_tick_ms: Some(1),
                bus: Some(GatewayBus { kind: "nats".to_owned(), peers: 1, dropped: 0, refused: 0 }),
            }],
            worst: Vec::new(),
        }),
    ]
}

/// What a program with something of every kind renders.
async fn text_of_everything() -> String {
    let recorder = Recorder::default();
    // On this thread alone, which is the only one of the test's runtime.
    let _here = metrics::set_default_local_recorder(&recorder);
    let monitor = Monitor::metered();
    let connector = connect_fn(|backend: carom::Backend| async move { Ok::<_, std::io::Error>(backend.to_string()) });
    let node: SocketAddr = "10.0.0.1:80".parse().expect("it is an address");
    // Pools of one name share what they record into, and tests run at the same time, each with a recorder of its own.
    static POOLS: AtomicUsize = AtomicUsize::new(0);
    let name = format!("orders-{}", POOLS.fetch_add(1, Ordering::Relaxed));
    let pool = Pool::builder(connector).name(name).backends([node]).monitor(&monitor).build().expect("it is built");
    drop(pool.claim().await.expect("it is served"));
    let shown = one_of_each().into_iter().map(|object| Arc::new(Shown(Observed { name: "one".to_owned(), object })));
    let shown: Vec<_> = shown.collect();
    for shown in &shown {
        monitor.register(shown);
    }
    monitor.record();
    Services::default().record([reading(0, 1, 1, false)], false);
    let text = text::of(&recorder, Instant::now());
    drop(shown);
    text
}

#[tokio::test]
async fn who_owns_a_feed_is_said_by_its_broker_and_user() {
    let text = text_of_everything().await;
    for line in [
        "carom_gateway_owns{carom_gateway_name=\"one\",carom_feed_name=\"zerodha/asha\"} 1",
        "carom_gateway_nats_connected{carom_gateway_name=\"one\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
    }
}

/// Every name in it.
async fn rendered() -> BTreeSet<String> {
    let text = text_of_everything().await;
    let named =
        |line: &str, what: &str| line.strip_prefix(what).and_then(|rest| rest.split(' ').next().map(str::to_owned));
    let typed: BTreeSet<String> = text.lines().filter_map(|line| named(line, "# TYPE ")).collect();
    let helped: BTreeSet<String> = text.lines().filter_map(|line| named(line, "# HELP ")).collect();
    assert_eq!(typed, helped, "everything has its help");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(['{', ' ']).next().map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_dashboard_shows_what_is_rendered() {
    let rendered = rendered().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/carom.json");
    let text = std::fs::read_to_string(path).expect("it is there");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 38), "as Grafana 10 has it");

    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let with_targets = panels.iter().filter(|panel| panel["type"] != "row");
    assert!(with_targets.clone().all(|panel| panel["targets"].as_array().is_some_and(|targets| !targets.is_empty())));
    assert!(expressions.len() > with_targets.count(), "panels and variables ask for something");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut asked = BTreeSet::new();
    for expression in &expressions {
        // Names of metrics stand before `{` or `[`, and the first in `label_values(`; those of labels do not begin like this.
        let ours = expression.split(|c| !is_word(c)).filter(|word| {
            (word.starts_with("db_client_connection_") || word.starts_with("carom_"))
                && expression.contains(&format!("{word}{{"))
        });
        let before = asked.len();
        asked.extend(ours.map(str::to_owned));
        assert!(asked.len() > before || asked.iter().any(|name| expression.contains(name)), "{expression}");
    }
    let unknown: Vec<&String> = asked.difference(&rendered).collect();
    assert!(unknown.is_empty(), "nobody renders {unknown:?}");
}

/// All that Prometheus is asked for: in panels and in variables.
fn collect(value: &serde_json::Value, expressions: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    serde_json::Value::String(text) if name == "expr" || name == "definition" => {
                        expressions.push(text.clone());
                    }
                    value => collect(value, expressions),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, expressions)),
        _ => {}
    }
}
