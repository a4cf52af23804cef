//! What can be asked at the admin address.

use crate::admin::{ANY, ask, get};
use crate::program::{PATIENCE, Running};
use crate::serving::{Serving, folder, inside};
use crate::up::{Backend, Client, Up, tcp};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use tokio::time::timeout;

/// Nobody serves there.
const NOBODY: &str = "127.0.0.1:1";

/// Every path, and what it is.
const PATHS: [(&str, u16, &str); 11] = [
    ("/", 200, "text/html; charset=utf-8"),
    ("/api/snapshot", 200, "application/json"),
    ("/healthz", 200, "application/json"),
    ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"),
    ("/kang/snapshot", 200, "application/json"),
    ("/kang/types", 200, "application/json"),
    ("/kang/objects/pool", 200, "application/json"),
    ("/kang/obj/pool/0", 404, "application/json"),
    ("/kang/", 404, "application/json"),
    ("/kang", 404, "application/json"),
    ("/none", 404, "application/json"),
];

#[tokio::test]
async fn each_path_is_of_its_type_and_nothing_is_kept_or_lent() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let up = Up::start(&folder("paths", &[("c.toml", &config)])).await;
    for (path, status, content_type) in PATHS {
        let answer = get(up.admin(), path, &["origin: http://evil.example"]).await;
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(content_type)), "{path}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}: {name}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"), "{policy}");
        let lent = answer.headers.iter().find(|(name, _)| name.starts_with("access-control-"));
        assert_eq!(lent, None, "{path}");
        assert_eq!(answer.header("content-length"), Some(&*answer.body.len().to_string()), "{path}");
        // The same again, without a body.
        let head = ask(up.admin(), &format!("HEAD {path} HTTP/1.1"), &["host: localhost"]).await;
        assert_eq!((head.status, head.header("content-type"), &*head.body), (status, Some(content_type), ""));
        assert!(head.header("content-length").is_some(), "{path}");
    }
    let events = ask(up.admin(), "HEAD /api/events HTTP/1.1", &["host: localhost"]).await;
    assert_eq!((events.status, events.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(get(up.admin(), "/api/snapshot?pretty#x", &[]).await.status, 200, "a query changes nothing");
}

#[tokio::test]
async fn a_snapshot_has_the_program_and_its_services() {
    let a = Backend::start("a").await;
    let lame = tcp("lame", ANY, &a, "").replace(&a.address.to_string(), NOBODY);
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}{lame}", tcp("a", ANY, &a, ""));
    let up = Up::start(&folder("paths-snapshot", &[("c.toml", &config)])).await;
    let _client = Client::of(up.service("a")).await;
    let mut events = crate::admin::Listener::start(up.admin(), &[]).await;
    let view = events.until("trouble", |view| !view["services"][1]["trouble"].is_null()).await;
    let program = &view["program"];
    assert_eq!((&program["name"], &program["pid"]), (&json!("carom up"), &json!(up.running.child.id().unwrap())));
    assert_eq!(program["version"], env!("CARGO_PKG_VERSION"));
    assert!(program["started_at_ms"].as_u64().unwrap() > 1_700_000_000_000 && program["host"] != "", "{program}");
    let [good, lame] = &view["services"].as_array().unwrap()[..] else { panic!("{view}") };
    let figures = ["name", "protocol", "status", "clients", "served", "failed", "trouble"].map(|key| &good[key]);
    assert_eq!(json!(figures), json!(["a", "tcp", "ok", 1, 1, 0, null]), "{good}");
    assert_eq!(good["listen"], up.service("a").to_string());
    assert_eq!((&lame["status"], &view["status"]), (&json!("unavailable"), &json!("unavailable")));
    assert!(lame["trouble"].as_str().unwrap().contains(NOBODY), "{lame}");
    let pool = |service: &serde_json::Value| {
        let objects = view["monitor"]["objects"].as_array().unwrap();
        objects.iter().find(|object| object["id"] == service["objects"][0]).cloned().expect("it is seen")
    };
    assert_eq!((&pool(good)["type"], &pool(good)["name"]), (&json!("pool"), &json!("a")));
    assert_eq!(pool(lame)["backends"][0]["port"], 1);
    let path = format!("/kang/obj/pool/{}", good["objects"][0]);
    assert_eq!(get(up.admin(), &path, &[]).await.status, 200, "kang knows it by the same number");
    assert_eq!(get(up.admin(), "/kang/snapshot", &[]).await.json()["service"]["name"], "carom up");
    let metrics = get(up.admin(), "/metrics", &[]).await.body;
    assert!(metrics.contains("db_client_connection_count{") && metrics.contains("\"lame\""), "{metrics}");
    for line in ["carom_service_degraded{carom_service_name=\"lame\"} 1", "carom_degraded 1"] {
        assert!(metrics.lines().any(|other| other == line), "{line}: {metrics}");
    }
    // The same without listening, whoever the program is when it is asked again.
    let again = get(up.admin(), "/api/snapshot", &[]).await.json();
    assert_eq!(again["program"], view["program"]);
    assert!(again["monitor"]["taken_at_ms"].as_u64() >= view["monitor"]["taken_at_ms"].as_u64());
}

/// Where the dashboard is, as a banner says.
fn dashboard(banner: &str) -> SocketAddr {
    let place = banner.lines().find_map(|line| line.strip_prefix("dashboard: http://")).expect("it is named");
    place.trim_end_matches('/').parse().unwrap()
}

#[tokio::test]
async fn a_gateway_alone_can_be_asked_too() {
    let folder = folder("paths-gateway", &[("c.toml", "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\n")]);
    for args in [&["--admin", ANY][..], &["-c", "c.toml"]] {
        let serving = Serving::gateway(&folder, args).await;
        let admin = dashboard(&serving.banner);
        assert_eq!(serving.watched(&serving.key(), &["--count", "1", "NSE:SBIN"]).await.code, Some(0));
        let view = get(admin, "/api/snapshot", &[]).await.json();
        assert_eq!((&view["program"]["name"], &view["status"]), (&json!("carom gateway"), &json!("ok")));
        let health = get(admin, "/healthz", &[]).await.json();
        assert_eq!((&health["gateway"]["feeds"], health["gateway"].get("failing")), (&json!(1), None), "{health}");
        all_there(admin, &serving.banner).await;
        assert_eq!(serving.running.end("-TERM").await.code, Some(0));
    }
}

#[tokio::test]
async fn a_gateway_whose_feed_cannot_connect_is_degraded() {
    let feed = format!("[[feed]]\nbroker = \"simulated\"\nuser = \"asha\"\nurl = \"ws://{NOBODY}\"\n");
    let folder = folder("paths-feed", &[("c.toml", &feed)]);
    let serving = Serving::gateway(&folder, &["-c", "c.toml", "--admin", ANY]).await;
    let admin = dashboard(&serving.banner);
    // Nobody has wanted anything of it yet.
    assert_eq!(get(admin, "/healthz", &[]).await.json()["status"], "ok");
    let mut events = crate::admin::Listener::start(admin, &[]).await;
    let _watch = Running::of(serving.watch(&serving.key(), &["NSE:SBIN"]));
    events.until("that it fails", |view| view["status"] == "degraded").await;
    // Between two attempts it is not known yet whether the next one works.
    let told = async {
        loop {
            let health = get(admin, "/healthz", &[]).await.json();
            if health["status"] == "degraded" {
                return health["gateway"]["failing"][0].clone();
            }
        }
    };
    let failing = timeout(PATIENCE, told).await.expect("it fails");
    assert_eq!((&failing["broker"], &failing["user"]), (&json!("simulated"), &json!("asha")));
    assert!(failing["reason"].as_str().unwrap().contains("refused"), "{failing}");
}

#[tokio::test]
async fn what_is_not_configured_does_not_listen() {
    let a = Backend::start("a").await;
    let up = Up::start(&folder("paths-none", &[("c.toml", &tcp("a", ANY, &a, ""))])).await;
    assert!(!up.banner.contains("admin: ") && !up.banner.contains("dashboard: "), "{}", up.banner);
}

/// Where everything is, as people copy it.
#[tokio::test]
async fn the_banner_names_what_can_be_asked() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let folder = folder("paths-banner", &[("c.toml", &config)]);
    let up = Up::of(&folder, inside(&folder, &["up", "-c", "c.toml"])).await;
    let at = up.admin();
    for part in [
        format!("admin: http://{at}/healthz (c.toml:2: admin.listen)\n"),
        format!("dashboard: http://{at}/\n"),
        format!("/metrics and /kang/snapshot; in a terminal, carom top http://{at}\n"),
    ] {
        assert!(up.banner.contains(&part), "{part}: {}", up.banner);
    }
    all_there(at, &up.banner).await;
    // What is measured is measured from the first connection on.
    let _client = Client::of(up.service("a")).await;
    let metrics = get(at, "/metrics", &[]).await.body;
    let made =
        |line: &str| line.starts_with("db_client_connection_create_time_seconds_count{") && !line.ends_with(" 0");
    assert!(metrics.lines().any(made), "{metrics}");
}

/// What help and the example of a config say of paths is so, too.
#[tokio::test]
async fn every_path_that_is_promised_answers() {
    let a = Backend::start("a").await;
    let config = format!("[admin]\nlisten = \"{ANY}\"\n{}", tcp("a", ANY, &a, ""));
    let up = Up::start(&folder("paths-promised", &[("c.toml", &config)])).await;
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/carom.toml");
    let mut texts = vec![std::fs::read_to_string(example).unwrap()];
    for command in ["up", "gateway"] {
        texts.push(crate::program::carom([command, "--help"]).await.stdout);
    }
    for text in texts {
        assert!(all_there(up.admin(), &text).await >= 5, "{text}");
    }
}

/// Asks for each path that a text names; how many they are.
async fn all_there(admin: SocketAddr, text: &str) -> usize {
    let ours = |word: &&str| ["/api/", "/kang/", "/metrics", "/healthz"].iter().any(|start| word.starts_with(start));
    let words = text.split(|c: char| c.is_whitespace() || "(),;:.\"`".contains(c));
    let words = words.map(|word| word.strip_prefix("//").and_then(|url| Some(&url[url.find('/')?..])).unwrap_or(word));
    let named: BTreeSet<&str> = words.filter(ours).collect();
    for path in &named {
        let path = path.replace("TYPE/ID", "pool/1").replace("TYPE", "pool");
        // What may not be there is not what nobody knows how to find.
        let known = if path.starts_with("/kang/obj/") { [200, 404] } else { [200, 200] };
        let status = match &*path {
            "/api/events" => crate::admin::Listener::start(admin, &[]).await.status,
            path => get(admin, path, &[]).await.status,
        };
        assert!(known.contains(&status), "{path}: {status}, named by {text}");
    }
    named.len()
}
