//! Views as the admin address tells them, written by hand: with one of everything, with very many, with nothing.

use serde_json::{Map, Value, json};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// A service in trouble, one that is well, one on HTTP/2, and one of every kind of object that belongs to none.
pub fn everything() -> Value {
    let objects = [
        seen(1, "api.example.com", "resolver", resolver()),
        seen(2, "api", "pool", api()),
        seen(3, "10.0.4.0", "resolver", fixed(2)),
        seen(4, "orders-db", "pool", orders()),
        seen(5, "search", "set", search()),
        seen(6, "simulated/demo", "feed", feed()),
        seen(7, "gateway", "gateway", gateway()),
        seen(8, "sovrin builder", "window", window()),
        seen(9, "sessions", "pool", sessions()),
        seen(10, "pulsar brokers", "set", brokers()),
    ];
    let services = [
        service("api", "http", 8080, "degraded", [14, 182_344, 61], Some(DOWN), &[2]),
        service("orders-db", "tcp", 5433, "ok", [6, 9_120, 0], None, &[4]),
        service("search", "http", 8081, "ok", [31, 1_204_881, 0], None, &[5]),
    ];
    let history = json!({"2": history(1, 3.2), "4": history(2, 0.08), "5": history(3, 0.4), "9": history(4, 0.02), "10": history(5, 0.3)});
    view("degraded", &services, history, &objects)
}

/// A pool with 1,000 slots at 4 backends, one with 100 backends, and names longer than any line.
pub fn many() -> Value {
    const PHASES: [&str; 8] = ["busy", "idle", "busy", "checking", "connecting", "idle", "held", "closing"];
    let phases = |count: usize| (0..count).map(|at| PHASES[at * 7 % PHASES.len()]).collect::<Vec<_>>();
    let wide: Vec<Value> =
        (1..=4).map(|node| pool_backend(&format!("10.1.0.{node}"), 5432, "healthy", &phases(250), None)).collect();
    let tall: Vec<Value> = (1..=100)
        .map(|node| match node % 33 {
            5 => pool_backend(&format!("10.2.0.{node}"), 80, "dead", &["backoff"], Some((DOWN, 2_400))),
            _ => pool_backend(&format!("10.2.0.{node}"), 80, "healthy", &phases(3), None),
        })
        .collect();
    let long = "a-name-that-somebody-found-to-be-a-good-idea-and-that-does-not-end.".repeat(4);
    let mut backend =
        pool_backend("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff", 65535, "dead", &["backoff"], Some((&long, 60_000)));
    backend["name"] = json!(long);
    let objects = [
        seen(1, "wide", "pool", pool(wide, 0)),
        seen(2, "tall", "pool", pool(tall, 0)),
        seen(3, &long, "pool", pool(vec![backend], 12)),
    ];
    let services = [
        service("wide", "tcp", 1, "ok", [1000, 1 << 40, 0], None, &[1]),
        service("tall", "http", 2, "degraded", [9, 9, 9], None, &[2]),
        service(&long, "http", 3, "degraded", [9, 9, 9], Some(&long), &[3]),
    ];
    view("degraded", &services, json!({}), &objects)
}

/// `many`, some time later: every slot does something else.
pub fn many_later() -> Value {
    let mut view = many();
    for object in view["monitor"]["objects"].as_array_mut().into_iter().flatten() {
        for backend in object["backends"].as_array_mut().into_iter().flatten() {
            if let Some(slots) = backend["slots"].as_array_mut() {
                slots.rotate_left(1);
            }
        }
    }
    view
}

/// A program that holds nothing.
pub fn empty() -> Value {
    view("ok", &[], json!({}), &[])
}

/// One of everything, where every name and reason tries to be more than text.
pub fn hostile() -> Value {
    const HARM: &str = "<script>window.harmed = 1</script><img src=x onerror=\"window.harmed = 1\">\u{202e}\"'&";
    fn poison(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(poison),
            Value::Object(all) => {
                for (key, value) in all.iter_mut() {
                    // These say what kind of thing it is: words of the program, never of a config or of DNS.
                    let chosen =
                        ["type", "state", "phase", "status", "kind", "idle", "protocol"].contains(&key.as_str());
                    match value {
                        Value::String(text) if !chosen => *text = format!("{text}{HARM}"),
                        Value::String(_) => {}
                        other => poison(other),
                    }
                }
            }
            Value::String(text) => *text += HARM,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut view = everything();
    poison(&mut view);
    view
}

const DOWN: &str = "cannot connect to 10.0.3.13:8080: connection refused";

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The same in all views: another one would be another program.
fn started_at_ms() -> u64 {
    static STARTED: OnceLock<u64> = OnceLock::new();
    *STARTED.get_or_init(|| now_ms() - 7_384_000)
}

fn view(status: &str, services: &[Value], history: Value, objects: &[Value]) -> Value {
    json!({
        "program": {"name": "carom up", "version": "0.1.0", "host": "edge-04.example.com", "pid": 4711, "started_at_ms": started_at_ms()},
        "status": status,
        "services": services,
        "leaving": [],
        "history": history,
        "monitor": {"taken_at_ms": now_ms(), "objects": objects},
    })
}

fn service(
    name: &str,
    protocol: &str,
    port: u16,
    status: &str,
    [clients, served, failed]: [u64; 3],
    trouble: Option<&str>,
    objects: &[u64],
) -> Value {
    json!({
        "name": name, "protocol": protocol, "listen": format!("127.0.0.1:{port}"), "status": status,
        "clients": clients, "served": served, "failed": failed, "trouble": trouble, "objects": objects,
    })
}

fn seen(id: u64, name: &str, kind: &str, object: Value) -> Value {
    let mut all =
        Map::from_iter([("id".into(), json!(id)), ("name".into(), json!(name)), ("type".into(), json!(kind))]);
    all.extend(object.as_object().expect("an object").clone());
    Value::Object(all)
}

/// Two minutes that look like some load; the same each time.
fn history(seed: u64, typical: f64) -> Value {
    let noise = |at: u64| ((at * seed * 7919 + at * at * 31) % 97) as f64 / 97.0;
    let surge = |at: u64| if (70..84).contains(&at) && seed == 1 { 9.0 } else { 1.0 };
    let waits: Vec<f64> = (0..120).map(|at| (typical * surge(at) * (0.4 + noise(at))).round_to(3)).collect();
    let served: Vec<f64> = (0..120).map(|at| (180.0 * (0.8 + 0.4 * noise(at + 3))).round()).collect();
    json!({"wait_ms": waits, "served": served, "waiting": vec![0.0; 120]})
}

trait RoundTo {
    fn round_to(self, digits: i32) -> f64;
}

impl RoundTo for f64 {
    fn round_to(self, digits: i32) -> f64 {
        (self * 10f64.powi(digits)).round() / 10f64.powi(digits)
    }
}

fn backend(address: &str, port: u16) -> Value {
    json!({"key": format!("{address}:{port}"), "name": address, "address": address, "port": port, "priority": 0, "weight": 0})
}

fn pool_backend(address: &str, port: u16, state: &str, phases: &[&str], trouble: Option<(&str, u64)>) -> Value {
    let mut all = backend(address, port);
    all["state"] = json!(state);
    all["slots"] = phases.iter().map(|phase| json!({"phase": phase, "ms": 1200})).collect();
    all["reason"] = json!(trouble.map(|(reason, _)| reason));
    all["next_attempt_ms"] = json!(trouble.map(|(_, next)| next));
    all["ejected_ms"] = Value::Null;
    all["typical_use_us"] = if trouble.is_some() { Value::Null } else { json!(1840) };
    all
}

fn pool(backends: Vec<Value>, waiting: usize) -> Value {
    let dead = backends.iter().filter(|backend| backend["state"] == "dead").count();
    json!({
        "state": "running", "options": {"spares": 4, "maximum": 1024, "claim_timeout_ms": 5000}, "resolver": null,
        "target": 16, "waiting": waiting, "longest_wait_ms": (waiting > 0).then_some(420), "dead": dead, "backends": backends,
        "last_plan_ms": 12_400, "cause": null,
        "counters": {"claims": 182_405, "waited": 4_112, "waited_ms": 10_402.5, "timeouts": 61, "refused": 0, "connects": 388,
                     "connect_failures": 41, "plans": 702, "overdue": 0},
    })
}

fn api() -> Value {
    let mut ejected = pool_backend("10.0.3.14", 8080, "ejected", &["idle", "idle"], None);
    ejected["reason"] = json!("5 answers in a row were errors: 503 Service Unavailable");
    ejected["ejected_ms"] = json!(18_300);
    let mut backends = vec![
        pool_backend("10.0.3.11", 8080, "healthy", &["busy", "busy", "idle", "busy", "idle", "busy", "checking"], None),
        pool_backend(
            "10.0.3.12",
            8080,
            "healthy",
            &["busy", "busy", "busy", "idle", "busy", "connecting", "held"],
            None,
        ),
        pool_backend("10.0.3.13", 8080, "dead", &["backoff"], Some((DOWN, 7_600))),
        ejected,
    ];
    for (backend, name) in backends.iter_mut().zip(["node-a", "node-b", "node-c", "node-d"]) {
        backend["name"] = json!(format!("{name}.api.example.com"));
    }
    let mut api = pool(backends, 2);
    api["resolver"] = json!(1);
    api["options"] = json!({"spares": 2, "maximum": 32, "claim_timeout_ms": 5000});
    api
}

fn orders() -> Value {
    let mut orders = pool(
        vec![
            pool_backend("10.0.4.1", 5432, "healthy", &["busy", "busy", "idle", "idle"], None),
            pool_backend("10.0.4.2", 5432, "healthy", &["busy", "idle", "idle", "closing"], None),
        ],
        0,
    );
    orders["resolver"] = json!(3);
    orders["options"] = json!({"spares": 4, "maximum": 256, "claim_timeout_ms": 30_000});
    orders["counters"] = json!({"claims": 9_120, "waited": 12, "waited_ms": 3.1, "timeouts": 0, "refused": 0, "connects": 22,
                                "connect_failures": 0, "plans": 80, "overdue": 0});
    orders
}

fn sessions() -> Value {
    let phases = ["idle"; 9].map(|idle| idle).into_iter().chain(["busy"; 5]).collect::<Vec<_>>();
    pool(vec![pool_backend("redis-1.example.com", 6379, "healthy", &phases, None)], 0)
}

fn connection(place: usize, idle: &str, leases: usize, kept: bool, idle_ms: Option<u64>) -> Value {
    json!({"place": place, "idle": idle, "draining": false, "kept": kept, "leases": leases, "age_ms": 3_600_000, "idle_ms": idle_ms})
}

fn set_backend(address: &str, port: u16, state: &str, connections: Vec<Value>, dialling: usize) -> Value {
    let mut all = backend(address, port);
    let more = json!({"state": state, "connections": connections, "dialling": dialling, "reason": null, "next_attempt_ms": null, "ejected_ms": null});
    all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    all
}

fn set(backends: Vec<Value>, target: Option<usize>, max_idle_ms: Option<u64>) -> Value {
    let leases: u64 = backends
        .iter()
        .flat_map(|backend| backend["connections"].as_array().expect("a list"))
        .filter_map(|connection| connection["leases"].as_u64())
        .sum();
    let dialling: u64 = backends.iter().filter_map(|backend| backend["dialling"].as_u64()).sum();
    json!({
        "state": "running", "options": {"per_backend": 2, "target": target, "maximum": target, "max_idle_ms": max_idle_ms},
        "resolver": null, "waiting": 0, "dialling": dialling, "leases": leases, "dead": 0, "backends": backends, "last_plan_ms": null,
        "cause": null,
        "counters": {"leases": 1_204_881, "waited": 311, "waited_ms": 120.4, "timeouts": 0, "refused": 0, "connects": 12,
                     "connect_failures": 0, "released": 8},
    })
}

fn search() -> Value {
    let backends = vec![
        set_backend("10.0.5.1", 8443, "healthy", vec![connection(0, "using", 17, true, None)], 0),
        set_backend("10.0.5.2", 8443, "healthy", vec![connection(0, "using", 14, true, None)], 0),
        set_backend("10.0.5.3", 8443, "healthy", vec![connection(0, "using", 0, true, Some(900))], 0),
    ];
    set(backends, Some(3), None)
}

fn brokers() -> Value {
    let mut busy = connection(0, "using", 9, false, None);
    busy["roles"] = json!({"producer": 6, "consumer": 3});
    let backends = vec![
        set_backend(
            "broker-1.example.com",
            6650,
            "healthy",
            vec![busy, connection(1, "marked", 0, false, Some(21_000))],
            0,
        ),
        set_backend(
            "broker-2.example.com",
            6650,
            "healthy",
            vec![connection(0, "before_release", 0, false, Some(61_000))],
            0,
        ),
        set_backend("broker-3.example.com", 6650, "unknown", Vec::new(), 1),
    ];
    set(backends, None, Some(60_000))
}

fn question(name: &str, kind: &str, state: &str, records: usize, next_ms: u64) -> Value {
    json!({"name": name, "kind": kind, "state": state, "records": records, "next_ms": next_ms, "trouble": null})
}

fn resolver() -> Value {
    let mut failed = question("node-d.api.example.com", "aaaa", "failed", 0, 4_200);
    failed["trouble"] = json!("10.0.0.53 did not answer within 2 s");
    json!({
        "state": "running", "stale_ms": null, "error": null,
        "backends": (11..=14).map(|node| backend(&format!("10.0.3.{node}"), 8080)).collect::<Vec<_>>(),
        "dns": {
            "domain": "api.example.com", "service": "_http._tcp", "default_port": 80, "nameservers": ["10.0.0.53", "10.0.1.53"],
            "questions": [
                question("_http._tcp.api.example.com", "srv", "answered", 4, 21_700),
                question("node-a.api.example.com", "a", "answered", 1, 48_300),
                question("node-b.api.example.com", "a", "answered", 1, 12_900),
                failed,
            ],
            "counters": {"asked": 1_204, "answered": 1_190, "failed": 14, "published": 6},
        },
    })
}

fn fixed(nodes: usize) -> Value {
    let backends: Vec<Value> = (1..=nodes).map(|node| backend(&format!("10.0.4.{node}"), 5432)).collect();
    json!({"state": "running", "stale_ms": null, "error": null, "backends": backends, "dns": null})
}

fn feed() -> Value {
    let connection = |index: usize, state: &str, topics: usize, heard: Option<u64>| {
        json!({"index": index, "state": state, "topics": topics, "unwritten": if state == "opening" { topics } else { 0 },
               "idle": heard.map(|_| "using"), "heard_ms": heard, "next_attempt_ms": null})
    };
    json!({
        "state": "running", "topics": 2_140, "live": 2_000, "waiting": 1, "max_topics_per_connection": 1000, "max_connections": 3,
        "capacity": 3000, "peak_topics": 2_611, "cause": null,
        "connections": [connection(1, "up", 1000, Some(40)), connection(2, "up", 1000, Some(120)), connection(3, "opening", 140, None)],
        "counters": {"ticks": 8_120_331, "connects": 5, "connect_failures": 1, "lost": 1},
    })
}

fn gateway() -> Value {
    let client = |id: u64, user: Option<&str>, subscriptions: usize, waiting: usize, conflated: u64| {
        json!({"id": id, "address": format!("10.0.9.{id}:{}", 51_000 + id), "user": user, "subscriptions": subscriptions, "waiting": waiting,
               "conflated": conflated})
    };
    json!({
        "state": "running", "listen": "127.0.0.1:8765", "clients": 212, "authenticated": 211, "subscriptions": 38_410, "ticks": 8_120_331,
        "delivered": 96_204_112, "conflated": 41_207, "lost": 0, "malformed": 0, "refused": 3, "slow_closed": 1, "wrong_keys": 2,
        "feeds": [{"broker": "simulated", "user": "demo", "feed": 6}],
        "worst": [client(17, Some("simulated / demo"), 1_850, 412, 38_114), client(42, Some("simulated / demo"), 640, 37, 2_912),
                  client(3, Some("simulated / demo"), 120, 2, 181), client(77, None, 0, 0, 0)],
    })
}

fn window() -> Value {
    let sockets = |nodes: &[(&str, usize)]| {
        nodes.iter().map(|(node, waiting)| json!({"node": node, "waiting": waiting})).collect::<Vec<_>>()
    };
    json!({
        "state": "running", "options": {"active_for_ms": 5000, "request_limit": 5, "max_windows": 8},
        "nodes": ["Node1", "Node2", "Node3", "Node4"], "asking": 4, "in_line": 0,
        "windows": [
            {"id": 311, "age_ms": 6_100, "active_ms": null, "started": 5, "asking": 1, "sockets": sockets(&[("Node3", 1)])},
            {"id": 312, "age_ms": 1_700, "active_ms": 3_300, "started": 3, "asking": 3, "sockets": sockets(&[("Node1", 2), ("Node2", 1), ("Node4", 1)])},
        ],
        "counters": {"requests": 1_420, "answered": 1_402, "failed": 14, "windows": 312, "sockets": 988},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::monitor::Snapshot;

    #[test]
    fn what_is_written_here_is_what_the_library_writes() {
        for view in [everything(), many(), empty(), hostile()] {
            let told = &view["monitor"];
            let read: Snapshot = serde_json::from_value(told.clone()).expect("it can be read");
            assert_eq!(read.objects.len(), told["objects"].as_array().expect("a list").len());
        }
    }
}
