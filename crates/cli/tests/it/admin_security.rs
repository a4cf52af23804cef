//! Who may ask at the admin address, and who may not.

use crate::admin::{ANY, Answer, Listener, ask, get, say};
use crate::serving::{folder, inside, ran};
use crate::up::{Backend, Up, tcp};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const TOKEN: &str = "correct-horse-battery-staple";
const SHOWN: &str = "authorization: Bearer correct-horse-battery-staple";

/// It runs, and its folder.
async fn with_token(test: &str, backend: &Backend) -> (Up, PathBuf) {
    let config = format!(
        "[admin]\nlisten = \"{ANY}\"\ntoken_file = \"token\"\nhosts = [\"Ops.example.com\"]\n{}",
        tcp("a", ANY, backend, "")
    );
    let folder =
        folder(test, &[("c.toml", &config), ("token", &format!("{TOKEN}\nthe second line is no part of it\n"))]);
    (Up::start(&folder).await, folder)
}

#[tokio::test]
async fn without_the_token_only_the_page_and_the_mere_status_are_shown() {
    let a = Backend::start("a").await;
    let (up, _) = with_token("security-token", &a).await;
    let at = up.admin();
    for part in ["  for those who show the token in ", &format!("token http://{at}\n")] {
        assert!(up.banner.contains(part), "{part}: {}", up.banner);
    }
    for path in ["/api/snapshot", "/api/events", "/metrics", "/kang/snapshot", "/kang/none"] {
        let refused = get(at, path, &[]).await.undated();
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        // Whatever is wrong with it, the answer is the same.
        for wrong in [
            "authorization: Bearer correct-horse-battery-stapl",
            "authorization: Bearer correct-horse-battery-staple2",
            "authorization: Bearer",
            "authorization: Bearer ",
            "authorization: Basic correct-horse-battery-staple",
            "authorization: correct-horse-battery-staple",
            "authorization: Bearer the second line is no part of it",
            "authorization: Bearer \u{e9}",
            "x-token: correct-horse-battery-staple",
            "authorization: Bearer correct-horse-battery-staple\r\nauthorization: Bearer correct-horse-battery-staple",
        ] {
            assert_eq!(get(at, path, &[wrong]).await.undated(), refused, "{path}: {wrong}");
        }
        let with_query = get(at, &format!("{path}?token={TOKEN}&access_token={TOKEN}"), &[]).await.undated();
        assert_eq!(with_query, refused, "a token in an address would be in histories and logs");
    }
    assert_eq!(get(at, "/", &[]).await.status, 200);
    assert_eq!(get(at, "/healthz", &[]).await.json(), json!({"status": "ok"}));
    assert_eq!(get(at, "/none", &[]).await.status, 404);
    for shown in [SHOWN, "Authorization: bearer  correct-horse-battery-staple"] {
        assert_eq!(get(at, "/api/snapshot", &[shown]).await.json()["services"][0]["name"], "a");
        assert_eq!(get(at, "/healthz", &[shown]).await.json()["services"][0]["name"], "a");
        assert!(Listener::start(at, &[shown]).await.next().await.is_some());
    }
}

#[tokio::test]
async fn a_token_that_is_another_after_a_reload_ends_those_who_listen_with_the_old_one() {
    let a = Backend::start("a").await;
    let (mut up, folder) = with_token("security-reload", &a).await;
    let at = up.admin();
    let config = std::fs::read_to_string(folder.join("c.toml")).unwrap();
    let mut listener = Listener::start(at, &[SHOWN]).await;
    assert!(listener.next().await.is_some());
    // As it was: nobody is disturbed.
    up.reload(&config).await;
    let reloaded = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let taken = |view: &Value| u128::from(view["monitor"]["taken_at_ms"].as_u64().unwrap());
    listener.until("another", |view| taken(view) > reloaded).await;
    std::fs::write(folder.join("token"), "short\n").unwrap();
    let told = up.reload(&config).await;
    assert!(told.contains("everything stays as it was: c.toml:3: admin.token_file: "), "{told}");
    assert!(told.contains("at least 16 characters") && !told.contains("short\n"), "{told}");
    assert_eq!(get(at, "/api/snapshot", &[SHOWN]).await.status, 200);
    std::fs::write(folder.join("token"), "another-token-of-some-length").unwrap();
    std::fs::write(folder.join("c.toml"), &config).unwrap();
    up.running.signal("-HUP").await;
    up.running.told("another token").await;
    while listener.next().await.is_some() {}
    assert_eq!(get(at, "/api/snapshot", &[SHOWN]).await.status, 401);
    let shown = "authorization: Bearer another-token-of-some-length";
    assert_eq!(get(at, "/api/snapshot", &[shown]).await.status, 200);
}

/// A page of somebody else, whose name was made to lead here, is not answered.
#[tokio::test]
async fn only_names_of_its_own_are_answered() {
    let a = Backend::start("a").await;
    let (up, _) = with_token("security-host", &a).await;
    let at = up.admin();
    let status = async |request: &str, head: &[&str]| ask(at, request, head).await.status;
    for host in ["127.0.0.1", "localhost:1", "[::1]:9464", "10.1.2.3:80", "ops.EXAMPLE.com"] {
        for path in ["/", "/healthz", "/api/snapshot"] {
            let answer = ask(at, &format!("GET {path} HTTP/1.1"), &[&format!("host: {host}"), SHOWN]).await;
            assert_eq!(answer.status, 200, "{path}: {host}");
        }
    }
    for path in ["/", "/healthz", "/api/snapshot", "/api/events", "/none"] {
        let request = format!("GET {path} HTTP/1.1");
        for host in ["evil.example", "example.com", "localhost.evil.example", "user@localhost"] {
            let refused = ask(at, &request, &[&format!("host: {host}"), SHOWN]).await;
            assert_eq!(refused.status, 421, "{path}: {host}");
            assert!(refused.json()["error"].is_string(), "{refused:?}");
        }
        assert_eq!(status(&request, &[SHOWN]).await, 400, "{path}");
        assert_eq!(status(&request, &["host: localhost", "host: localhost", SHOWN]).await, 400, "{path}");
        assert_eq!(status(&request, &["host: localhost", "host: evil.example", SHOWN]).await, 400, "{path}");
        let absolute = format!("GET http://evil.example{path} HTTP/1.1");
        assert_eq!(status(&absolute, &["host: localhost", SHOWN]).await, 421, "{path}");
    }
    assert_eq!(status("GET /healthz HTTP/1.0", &[]).await, 200, "as simple probes ask");
    assert_eq!(status("GET /api/snapshot HTTP/1.0", &[SHOWN]).await, 400);
    assert_eq!(status("GET /api/snapshot HTTP/1.0", &["host: localhost", SHOWN]).await, 200);
}

/// In the operator's own browser they could reach what nobody else can.
#[tokio::test]
async fn pages_of_other_places_get_nothing_and_take_no_place() {
    let a = Backend::start("a").await;
    let (up, _) = with_token("security-pages", &a).await;
    for path in ["/", "/healthz", "/api/snapshot", "/api/events", "/metrics"] {
        let refused = get(up.admin(), path, &["sec-fetch-site: cross-site", "sec-fetch-mode: no-cors", SHOWN]).await;
        assert_eq!(refused.status, 403, "{path}");
    }
    let link = ["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"];
    assert_eq!(get(up.admin(), "/", &link).await.status, 200, "a link leads to the dashboard");
    let own = ["sec-fetch-site: same-origin", "sec-fetch-mode: cors", SHOWN];
    assert!(Listener::start(up.admin(), &own).await.next().await.is_some());
}

/// There are 64 places.
#[tokio::test]
async fn a_crowd_without_the_token_keeps_nobody_out() {
    let a = Backend::start("a").await;
    let (up, _) = with_token("security-crowd", &a).await;
    let at = up.admin();
    let mut listener = Listener::start(at, &[SHOWN]).await;
    let mut crowd = Vec::new();
    for _ in 0..100 {
        let mut stranger = TcpStream::connect(at).await.unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut status = [0; 12];
        let answered = timeout(crate::program::PATIENCE, stranger.read_exact(&mut status)).await.expect("it is let in");
        assert!(answered.is_ok() && &status == b"HTTP/1.1 200", "{answered:?}: {status:?}");
        crowd.push(stranger);
    }
    assert_eq!(get(at, "/healthz", &[]).await.status, 200);
    assert_eq!(get(at, "/api/snapshot", &[SHOWN]).await.status, 200);
    assert!(listener.next().await.is_some(), "who listens is not disturbed");
    let mut rest = Vec::new();
    let ended = timeout(crate::program::PATIENCE, crowd[0].read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the first of them had to go");
}

#[tokio::test]
async fn nothing_but_questions_is_answered() {
    let a = Backend::start("a").await;
    let (up, _) = with_token("security-methods", &a).await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"] {
        for path in ["/", "/healthz", "/api/snapshot", "/api/events", "/none"] {
            let head = ["host: localhost", SHOWN, "origin: http://evil.example", "content-length: 0"];
            let Answer { status, headers, .. } = ask(up.admin(), &format!("{method} {path} HTTP/1.1"), &head).await;
            assert_eq!(status, 405, "{method} {path}");
            assert!(headers.contains(&("allow".to_owned(), "GET, HEAD".to_owned())), "{headers:?}");
            assert!(!headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{headers:?}");
        }
    }
    let with_body = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
    assert!(say(up.admin(), with_body).await.starts_with("HTTP/1.1 200 "), "a body is nobody's business");
}

#[tokio::test]
async fn who_can_be_reached_from_elsewhere_needs_a_token() {
    let service =
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:0\"\nprotocol = \"tcp\"\nresolve = \"127.0.0.1:1\"\n";
    let config = |listen: &str, more: &str| format!("[admin]\nlisten = \"{listen}\"\n{more}\n{service}");
    let folder = folder(
        "security-elsewhere",
        &[("token", TOKEN), ("short", "0123456789abcde\n"), ("odd", "a token with blanks in it")],
    );
    std::fs::create_dir(folder.join("folder")).unwrap();
    let check = async |config: &str| {
        std::fs::write(folder.join("c.toml"), config).unwrap();
        let ran = ran(&folder, &["check", "-c", "c.toml"]).await;
        let wants_token = ran.stdout.contains("  for those who show the token in ");
        assert_eq!(wants_token, ran.code == Some(0) && config.contains("token_file"), "{ran:?}");
        (ran.code, ran.stderr)
    };
    for listen in ["0.0.0.0:9464", "[::]:9464", "10.0.0.7:9464", "[2001:db8::1]:9464", "[::ffff:10.0.0.7]:9464"] {
        let (code, stderr) = check(&config(listen, "")).await;
        assert_eq!(code, Some(2), "{listen}: {stderr}");
        let problem = format!(
            "error: c.toml:2: admin.listen: {listen} can be reached from elsewhere, and there is no token_file"
        );
        assert!(stderr.starts_with(&problem), "{stderr}");
        assert_eq!(check(&config(listen, "token_file = \"token\"")).await.0, Some(0), "{listen}");
    }
    for listen in ["127.0.0.1:9464", "127.8.8.8:1", "[::1]:9464", "localhost:9464", "[::ffff:127.0.0.1]:9464"] {
        assert_eq!(check(&config(listen, "")).await, (Some(0), String::new()), "{listen}");
    }
    for (more, problem) in [
        ("token_file = \"none\"", "c.toml:3: admin.token_file: `none`: cannot be read: "),
        ("token_file = \"folder\"", "c.toml:3: admin.token_file: `folder`: it is not a regular file"),
        (
            "token_file = \"short\"",
            "c.toml:3: admin.token_file: `short`: its first line is too short for a token; accepted: ",
        ),
        ("token_file = \"odd\"", "c.toml:3: admin.token_file: `odd`: its first line is no token; accepted: "),
        ("token = \"correct-horse-battery-staple\"", "c.toml:3: admin.token: there is no such key; accepted: "),
        ("hosts = [\"ops.example.com:80\"]", "c.toml:3: admin.hosts: `ops.example.com:80` is no name; accepted: "),
        ("hosts = [\"*\"]", "c.toml:3: admin.hosts: `*` is no name; accepted: "),
        ("hosts = \"ops\"", "c.toml:3: admin.hosts: "),
    ] {
        let (code, stderr) = check(&config("127.0.0.1:0", more)).await;
        assert_eq!((code, stderr.starts_with(&format!("error: {problem}"))), (Some(2), true), "{more}: {stderr}");
        assert!(!stderr.contains("0123456789") && !stderr.contains("with blanks"), "{stderr}");
    }
    let gateway = crate::program::run(
        inside(&folder, &["gateway", "--listen", ANY, "--admin", "0.0.0.0:0"]).stderr(std::process::Stdio::piped()),
    )
    .await;
    assert_eq!(gateway.code, Some(2));
    assert!(gateway.stderr.contains("--admin: 0.0.0.0:0 can be reached from elsewhere"), "{gateway:?}");
}
