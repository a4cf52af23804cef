//! `carom top --once`: what is seen now, for people and for programs; and what it says when there is nothing to see.

use crate::program::run;
use crate::serving::folder;
use crate::top::{answer, command_of, events, saying, snapshot, top, view};
use crate::up::{Backend, Up, tcp};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use testkit::http::{Script, Server};

#[tokio::test]
async fn everything_is_printed_as_text() {
    let server = saying(snapshot(&view())).await;
    let ran = top(&["--once", &server.url("")]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "degraded or not: {ran:?}");
    for text in [
        "carom up DEGRADED, up 3 m 20 s, on web-7, process 4711, version 0.1.0, at 23:59:59 UTC\n\nServices (2)\n",
        "      BBI IC W  wait ▁▂▂█▂ 2.00 ms",
        "! 10.0.0.3:80 (n3.orders.test)  DEAD, next attempt in 5 s: connection refused (os error 111)\n",
        "    A    n3.orders.test  FAILED, asked again in 0.8 s: SERVFAIL\n",
        "    [########............] 1200 of 3000 topics\n",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    assert_eq!(server.seen()[0].header("authorization"), None);
}

#[tokio::test]
async fn json_is_what_the_server_said_in_one_line() {
    let mut said = view();
    said["program"]["host"] = json!("\u{9b}2J\u{202e}");
    said["later"] = json!({"than": "this"});
    let pretty = serde_json::to_string_pretty(&said).unwrap();
    let server = saying(answer("200 OK", "application/json; charset=utf-8", &pretty)).await;
    let ran = top(&["--once", "--json", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    assert_eq!((ran.stdout.matches('\n').count(), ran.stdout.contains('\u{9b}')), (1, false));
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), said);
}

#[tokio::test]
async fn a_token_comes_from_a_file_or_a_variable_and_is_not_shown() {
    let server = saying(snapshot(&view())).await;
    let folder = folder(
        "top-token",
        &[("token", "  hush-1\nthe second line is no part of it\n"), ("empty", "\n"), ("two", "a b")],
    );
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let ran = top(&["--once", "--token-file", &file("token"), &server.url("")]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut by_variable = command_of(&["--once", &server.url("")]);
    let ran = run(by_variable.env("CAROM_ADMIN_TOKEN", "hush-2").stdout(Stdio::piped()).stderr(Stdio::piped())).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let seen = server.seen();
    let shown: Vec<_> = seen.iter().map(|request| request.header("authorization")).collect();
    assert_eq!(shown, [Some("Bearer hush-1"), Some("Bearer hush-2")]);

    let refusing = saying(answer("401 Unauthorized", "application/json", "{}")).await;
    let ran = top(&["--once", &refusing.url("")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("wants a token: --token-file FILE, or the variable CAROM_ADMIN_TOKEN"), "{ran:?}");
    let ran = top(&["--once", "--token-file", &file("token"), &refusing.url("")]).await;
    assert!(ran.stderr.contains("the token is not the one") && !ran.stderr.contains("hush"), "{ran:?}");
    for name in ["empty", "two", "nowhere"] {
        let ran = top(&["--once", "--token-file", &file(name), &server.url("")]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{name}: {ran:?}");
    }
}

#[tokio::test]
async fn what_a_later_version_has_is_left_out_and_the_rest_is_seen() {
    let mut later = view();
    let objects = later["monitor"]["objects"].as_array_mut().unwrap();
    objects[0]["state"] = json!("hibernating");
    objects.push(json!({"id": 99, "name": "mill", "type": "treadmill", "state": "running"}));
    let known = later["monitor"]["objects"][1]["name"].as_str().unwrap().to_owned();
    let server = saying(snapshot(&later)).await;
    let ran = top(&["--once", &server.url("")]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.contains(&known) && !ran.stdout.contains("mill"), "{}", ran.stdout);
}

#[tokio::test]
async fn whoever_is_not_carom_is_told_apart() {
    for (script, problem) in [
        (answer("421 Misdirected Request", "application/json", "{}"), "nobody of the name `127.0.0.1` is there"),
        (
            answer("404 Not Found", "text/html", "no"),
            "no admin address of carom, or one of another version: there is no /api/",
        ),
        (answer("200 OK", "text/html\u{9b}", "<p>hello</p>"), "the answer is text/html\\u{9b}, not application/json"),
        (
            answer("200 OK", "application/json", "{}"),
            "no admin address of carom, or one of another version: missing field",
        ),
        (
            answer("200 OK", "application/json", "\u{1b}[2J"),
            "no admin address of carom, or one of another version: expected",
        ),
        (answer("503 Service Unavailable", "application/json", "{}"), "the answer is 503 Service Unavailable\n"),
        (
            answer("503 Service Unavailable", "application/json", r#"{"error":"not\u001b now"}"#),
            "the answer is 503 Service Unavailable: not\\u{1b} now\n",
        ),
        (events(&[view()]), "the answer is text/event-stream, not application/json"),
        (Script::new().request().say("\u{1b}]0;hello\u{7}\n").close(), "receive: "),
        (Script::new().request().reset(), "receive: "),
    ] {
        let server = saying(script).await;
        let ran = top(&["--once", &server.url("")]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{problem}: {ran:?}");
        let begin = format!("error: http://{}: ", server.address());
        assert!(ran.stderr.starts_with(&begin) && ran.stderr.contains(problem), "{problem}: {ran:?}");
        assert!(!ran.stderr.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{ran:?}");
    }
}

#[tokio::test]
async fn nobody_there_and_command_lines_that_make_no_sense() {
    let server = Server::start("admin").await.unwrap();
    server.kill().await;
    let ran = top(&["--once", &server.url("")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains(": connect: ") && ran.stderr.contains("refused"), "{ran:?}");
    assert_eq!(ran.stderr.matches("http://").count(), 1, "{ran:?}");
    for (args, problem) in [
        (&["--json"][..], "--once"),
        (&["--once", "ftp://127.0.0.1/"], "a URL begins with http:// or https://"),
        (&["--once", "http://me:hush@127.0.0.1/"], "an admin address has no name and password in it"),
        (&["--once", "http://127.0.0.1/?token=hush"], "an admin address has no query"),
        (&["--once", "--ca", "/dev/null"], "--ca is for https://"),
        (&["--token-file", "-"], "--token-file - is for --once"),
        (&[], "there is no terminal to draw on; --once prints what is seen now"),
    ] {
        let ran = top(args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(problem), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains("hush") && !ran.stderr.contains("-H"), "{args:?}: {ran:?}");
    }
}

#[tokio::test]
async fn of_a_sidecar_that_runs_it_shows_its_services() {
    let node = Backend::start("node").await;
    let any = "127.0.0.1:0";
    let config = format!("[admin]\nlisten = \"{any}\"\n{}", tcp("billing", any, &node, ""));
    let up = Up::start(&folder("top-once", &[("c.toml", &config)])).await;
    let admin = up.admin().to_string();
    let looking = async {
        loop {
            let ran = top(&["--once", &admin]).await;
            assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{ran:?}");
            if ran.stdout.contains(" idle") {
                return ran.stdout;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let text = tokio::time::timeout(crate::program::PATIENCE, looking).await.expect("it connects");
    assert!(text.starts_with("carom up ok, up ") && text.contains("\n  billing "), "{text}");
    let ran = top(&["--once", "--json", &admin]).await;
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&said["services"][0]["name"], &said["status"]), (&json!("billing"), &json!("ok")));
}
