//! `carom get`, when there is an answer: the body, who gave it, and what took how long.

use crate::program::{Running, command, run};
use crate::web::{Service, file, get, lines_of};
use serde_json::json;
use std::process::Stdio;
use testkit::http::{Script, Server};

#[tokio::test]
async fn the_body_is_printed_and_who_gave_it_is_told() {
    let service = Service::start(3).await;
    let ran = service.carom("get", &["http://api.test/orders?x=1"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let node = ran.stdout.strip_prefix("hello from ").expect("the body and nothing else");
    let seen = service.nodes.iter().flat_map(Server::seen).collect::<Vec<_>>();
    assert_eq!((seen.len(), &*seen[0].target, seen[0].header("host")), (1, "/orders?x=1", Some("api.test")));
    assert!(seen[0].header("user-agent").is_some_and(|agent| agent.starts_with("carom/")), "{seen:?}");
    let port = service.nodes.iter().find(|server| &*server.name() == node).unwrap().address().port();
    let told: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(told.len(), 2, "{ran:?}");
    let who = format!("200 OK from 127.0.0.1:{port} ({node}.api.test), HTTP/1.1, fresh connection, 17 B");
    assert_eq!(told[0], who);
    for step in ["resolve ", "claim ", "connect ", "first byte ", "body ", "total "] {
        assert!(told[1].contains(step), "{step}: {ran:?}");
    }
    assert!(!told[1].contains("tls"), "there was none: {ran:?}");
}

#[tokio::test]
async fn asked_again_it_reuses_the_connection() {
    let server = Server::start("alone").await.unwrap();
    let ran = get(&["-n", "3", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "hello from alone".repeat(3).as_str()), "{ran:?}");
    let told: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("200 OK from ")).collect();
    assert_eq!(told.len(), 3, "{ran:?}");
    assert!(told[0].contains("fresh connection"), "{ran:?}");
    assert!(told[1..].iter().all(|line| line.contains("reused connection")), "{ran:?}");
    assert_eq!((server.accepted(), server.requests()), (1, 3));
}

#[tokio::test]
async fn json_has_everything_and_a_line_each() {
    let service = Service::start(1).await;
    let ran = service.carom("get", &["--json", "-n", "2", "http://api.test/bytes/1000"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    let [fresh, reused] = &lines_of(&ran)[..] else { panic!("{ran:?}") };
    assert_eq!((&fresh["reused"], &reused["reused"]), (&json!(false), &json!(true)));
    for told in [fresh, reused] {
        assert_eq!((&told["url"], &told["method"]), (&json!("http://api.test/bytes/1000"), &json!("GET")));
        assert_eq!(
            (&told["status"], &told["protocol"], &told["attempts"]),
            (&json!(200), &json!("HTTP/1.1"), &json!(1))
        );
        assert_eq!(told["body_bytes"], json!(1000));
        let backend = &told["backend"];
        assert_eq!((&backend["name"], &backend["address"]), (&json!("node-1.api.test"), &json!("127.0.0.1")));
        assert_eq!(backend["port"], json!(service.nodes[0].address().port()));
        assert!(told["headers"].as_array().unwrap().contains(&json!(["x-node", "node-1"])), "{told}");
        let timings = &told["timings"];
        let total = timings["total"].as_f64().unwrap();
        for step in ["claim", "first_byte", "body"] {
            let time = timings[step].as_f64().unwrap_or_else(|| panic!("{step}: {told}"));
            assert!((0.0..=total).contains(&time), "{step}: {told}");
        }
        assert!(timings["tls"].is_null(), "{told}");
    }
    assert!(fresh["timings"]["resolve"].is_number() && fresh["timings"]["connect"].is_number(), "{fresh}");
    assert!(reused["timings"]["connect"].is_null(), "{reused}");
}

#[tokio::test]
async fn the_request_is_what_was_typed() {
    let server = Server::start("alone").await.unwrap();
    let order = file("order");
    std::fs::write(&order, b"\xff\0from a file").unwrap();
    let at = format!("@{}", order.display());
    let url = server.url("/orders");
    for args in [
        &["-d", "a body", "-H", "X-One: 1", "-H", "x-one: 2", &url][..],
        &["-o", "/dev/null", "-X", "PUT", "-d", &at, "-H", "user-agent: me", "-H", "host: other.test", &url],
        &["-X", "HEAD", &url],
        &["-X", "PURGE", &url],
        // Without a scheme.
        &[url.strip_prefix("http://").unwrap()],
    ] {
        let ran = get(args).await;
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    }
    let seen = server.seen();
    let methods: Vec<_> = seen.iter().map(|seen| seen.method.as_str()).collect();
    assert_eq!(methods, ["POST", "PUT", "HEAD", "PURGE", "GET"]);
    let ones: Vec<_> = seen[0].headers.get_all("x-one").iter().collect();
    assert_eq!(ones, ["1", "2"]);
    assert_eq!(seen[0].body, b"a body");
    assert_eq!(seen[0].header("content-type"), None, "nobody said what it is");
    assert_eq!((&*seen[1].body, seen[1].header("user-agent")), (&b"\xff\0from a file"[..], Some("me")));
    assert_eq!(seen[1].header("host"), Some("other.test"));
    std::fs::remove_file(order).unwrap();
}

#[tokio::test]
async fn a_body_comes_from_stdin() {
    let server = Server::start("alone").await.unwrap();
    let order = file("stdin");
    std::fs::write(&order, "{\"n\":1}").unwrap();
    let mut command = command(["get", "-d", "@-", &server.url("/")]);
    command.stdin(std::fs::File::open(&order).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = run(&mut command).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "{\"n\":1}"), "{ran:?}");
    std::fs::remove_file(order).unwrap();
}

#[tokio::test]
async fn the_head_is_printed_when_it_is_asked_for() {
    let server = Server::start("alone").await.unwrap();
    let ran = get(&["-i", "-q", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    let (head, body) = ran.stdout.split_once("\n\n").unwrap();
    assert_eq!(body, "hello from alone");
    assert!(head.starts_with("HTTP/1.1 200 OK\n") && head.contains("\nx-node: alone\n"), "{head}");
}

#[tokio::test]
async fn a_body_goes_to_a_file_byte_by_byte() {
    let server = Server::start("alone").await.unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
    server.script(Script::new().request().say(head).say(bytes.clone()).close());
    let kept = file("kept");
    let ran = get(&["-o", kept.to_str().unwrap(), &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.contains(", 100 kB\n"), "{ran:?}");
    assert!(std::fs::read(&kept).unwrap() == bytes);
    // With JSON it can go there too.
    let ran = get(&["--json", "-o", kept.to_str().unwrap(), &server.url("/")]).await;
    assert_eq!((ran.code, &lines_of(&ran)[0]["body_bytes"]), (Some(0), &json!(100_000)), "{ran:?}");
    assert!(std::fs::read(&kept).unwrap() == bytes);
    std::fs::remove_file(kept).unwrap();
}

#[tokio::test]
async fn a_redirect_is_shown_and_not_followed() {
    let server = Server::start("alone").await.unwrap();
    let elsewhere = "HTTP/1.1 302 Found\r\nlocation: /else\u{1b}[2Jwhere\r\ncontent-length: 5\r\n\r\nmoved";
    server.script(Script::new().request().say(elsewhere.replace('\u{1b}', "é")).close());
    let ran = get(&[&server.url("/here")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "moved"), "{ran:?}");
    assert!(ran.stderr.contains("302 Found from ") && ran.stderr.ends_with(", and not followed\n"), "{ran:?}");
    assert!(ran.stderr.contains("note: redirected to /else"), "{ran:?}");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_status_is_a_failure_for_those_who_say_so() {
    let server = Server::start("alone").await.unwrap();
    for (status, code) in [(200, 0), (304, 0), (404, 1), (503, 1)] {
        let url = server.url(&format!("/status/{status}"));
        assert_eq!(get(&[&url]).await.code, Some(0), "{status}");
        let ran = get(&["--fail", &url]).await;
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(ran.stderr.contains("\nerror: the answer is "), code == 1, "{ran:?}");
    }
    let ran = get(&["--fail", "--json", &server.url("/status/503")]).await;
    assert_eq!((ran.code, &lines_of(&ran)[0]["status"]), (Some(1), &json!(503)), "{ran:?}");
    assert_eq!(ran.stderr, "error: the answer is 503 Service Unavailable\n");
}

#[tokio::test]
async fn http2_is_spoken_when_it_is_asked_for() {
    let server = Server::start("alone").await.unwrap();
    let ran = get(&["--http2", "-n", "2", &server.url("/chunked/100000")]).await;
    assert_eq!((ran.code, ran.stdout.len()), (Some(0), 200_000), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches(", HTTP/2, ").count(), 2, "{}", ran.stderr);
    assert_eq!((server.accepted(), server.requests()), (1, 2));
}

#[tokio::test]
async fn a_dead_node_is_not_the_callers_problem() {
    let service = Service::start(3).await;
    service.nodes[1].kill().await;
    let ran = service.carom("get", &["-q", "-n", "12", "http://api.test/"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    assert_eq!((ran.stdout.matches("hello from ").count(), service.requests()[1]), (12, 0), "{ran:?}");
}

#[tokio::test]
async fn an_endless_body_ends_with_its_reader() {
    let server = Server::start("alone").await.unwrap();
    server.script(Script::new().request().say("HTTP/1.1 200 OK\r\n\r\n").endless("a line\n".repeat(1000)));
    let mut running = Running::start(["get", &server.url("/")]);
    for _ in 0..100_000 {
        assert_eq!(running.line().await, "a line");
    }
    assert_eq!(running.left().await, Some(0));
    server.until(|server| server.connections() == 0).await;
}

#[tokio::test]
async fn a_reader_that_is_gone_is_no_failure() {
    let server = Server::start("alone").await.unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = run(command(["get", "-q", &server.url("/bytes/1000000")]).stdout(writer).stderr(Stdio::piped())).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
}

#[tokio::test]
async fn control_characters_in_headers_are_escaped_everywhere() {
    let server = Server::start("alone").await.unwrap();
    // C1 controls and an override of the direction, as UTF-8: HTTP allows both.
    let answer = "HTTP/1.1 302 Found\r\nlocation: /\u{9b}2J\u{202e}\r\ncontent-length: 3\r\n\r\n\u{1b}ok";
    server.script(Script::new().request().say(answer).again());
    let ran = get(&["-i", &server.url("/")]).await;
    let (head, body) = ran.stdout.split_once("\n\n").unwrap();
    assert!(head.contains("location: /\\u{9b}2J\\u{202e}"), "{ran:?}");
    assert!(ran.stderr.contains("redirected to /\\u{9b}2J\\u{202e}"), "{ran:?}");
    assert_eq!(body, "\u{1b}ok", "the body is written as it is");
    let ran = get(&["--json", &server.url("/")]).await;
    assert!(ran.stdout.contains(r#"/\u009b2J\u202e"#) && !ran.stdout.contains('\u{9b}'), "{ran:?}");
    assert!(lines_of(&ran)[0]["headers"].to_string().contains("/\u{9b}2J\u{202e}"), "{ran:?}");
}
