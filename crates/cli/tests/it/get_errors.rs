//! `carom get`, when there is no answer: the step that failed is named, and stdout has nothing that is none.

use crate::program::carom;
use crate::web::{Service, file, get, lines_of};
use serde_json::json;
use std::time::Duration;
use testkit::http::{Script, Server};

#[tokio::test]
async fn a_name_that_does_not_exist() {
    let service = Service::start(1).await;
    let ran = service.carom("get", &["http://nowhere.test/"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: resolve: http://nowhere.test: "), "{ran:?}");
    assert!(ran.stderr.contains("NXDOMAIN"), "{ran:?}");
}

#[tokio::test]
async fn nobody_listens() {
    let server = Server::start("alone").await.unwrap();
    server.kill().await;
    let ran = get(&[&server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error: connect: http://{}: ", server.address())), "{ran:?}");
    assert!(ran.stderr.contains("refused"), "{ran:?}");
}

#[tokio::test]
async fn not_a_word_of_tls() {
    let server = Server::start("alone").await.unwrap();
    let ran = get(&["-k", &server.url("/").replace("http:", "https:")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: tls: "), "{ran:?}");
}

#[tokio::test]
async fn garbage_half_an_answer_and_none() {
    let server = Server::start("alone").await.unwrap();
    for (script, step) in [
        (Script::new().request().say("\u{1b}]0;not\u{7}HTTP at all\r\n\r\n").close(), "receive"),
        (Script::new().request().close(), "receive"),
        (Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").close(), "receive"),
        (Script::new().request().hold(), "timeout"),
        (Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").hold(), "timeout"),
    ] {
        server.script(script.clone());
        let timeout = if step == "timeout" { "300ms" } else { "30s" };
        let ran = get(&["--timeout", timeout, &server.url("/")]).await;
        assert_eq!(ran.code, Some(1), "{script:?}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("error: {step}: ")), "{script:?}: {ran:?}");
        assert!(!ran.stderr.contains('\u{1b}') && ran.stderr.lines().count() == 1, "{script:?}: {ran:?}");
        // What came of a body was printed as it came.
        assert!(["", "half"].contains(&&*ran.stdout), "{script:?}: {ran:?}");
        let ran = get(&["--json", "--timeout", timeout, &server.url("/")]).await;
        let told = &lines_of(&ran)[..];
        assert_eq!((ran.code, told.len(), &told[0]["error"]["step"]), (Some(1), 1, &json!(step)), "{ran:?}");
    }
}

#[tokio::test]
async fn asked_several_times_those_that_failed_are_counted() {
    let server = Server::start("alone").await.unwrap();
    let good =
        Script::new().request().say("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").close();
    let half = Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").close();
    server.scripts(move |number| if number == 1 { half.clone() } else { good.clone() });
    let ran = get(&["-n", "3", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), "okok"), "{ran:?}");
    assert!(ran.stderr.contains("error: receive: "), "{ran:?}");
    assert!(ran.stderr.ends_with("error: 1 of 3 requests failed\n"), "{ran:?}");
}

#[tokio::test]
async fn a_slow_body_is_no_failure_while_it_comes() {
    let server = Server::start("alone").await.unwrap();
    let mut script = Script::new().request().say("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n");
    for _ in 0..8 {
        script = script.wait(Duration::from_millis(200)).say("x");
    }
    server.script(script.close());
    let ran = get(&["--timeout", "1s", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "xxxxxxxx"), "{ran:?}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written() {
    let server = Server::start("alone").await.unwrap();
    let ran = get(&["-o", "/nowhere/at/all", &server.url("/")]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: `/nowhere/at/all`: cannot be written: "), "{ran:?}");
    // Without an answer no file is made, and one that is there stays as it is.
    server.kill().await;
    let kept = file("kept");
    let ran = get(&["-o", kept.to_str().unwrap(), &server.url("/")]).await;
    assert_eq!((ran.code, kept.exists()), (Some(1), false), "{ran:?}");
}

#[tokio::test]
async fn command_lines_that_make_no_sense() {
    for (args, problem) in [
        (&["get"][..], "<URL>"),
        (&["get", "ftp://api.test/"], "`ftp://api.test/`: a URL begins with http:// or https://"),
        (&["get", "http://"], "`http://`: "),
        (&["get", "http://a\u{1b}[2J/"], "`http://a\\u{1b}[2J/`: "),
        (&["get", "http://api.test:70000/"], "`http://api.test:70000/`: "),
        (&["get", "http://me:secret@api.test/"], "not in a URL"),
        (&["get", "-H", "no colon", "http://api.test/"], "`no colon` is no header"),
        (&["get", "-H", "a: b\nc: d", "http://api.test/"], "is no header"),
        (&["get", "-X", "GE T", "http://api.test/"], "`GE T` is no method"),
        (&["get", "-X", "CONNECT", "http://api.test/"], "`CONNECT` is no method"),
        (&["get", "-d", "@/nowhere/at/all", "http://api.test/"], "`/nowhere/at/all`: cannot be read: "),
        (&["get", "--ca", "/nowhere/at/all", "https://api.test/"], "`/nowhere/at/all`: cannot be read: "),
        (&["get", "--ca", "/dev/null", "https://api.test/"], "`/dev/null`: "),
        (&["get", "--ca", "/dev/null", "http://api.test/"], "--ca is for https://"),
        (&["get", "-k", "http://api.test/"], "--insecure is for https://"),
        (&["get", "-k", "--ca", "/dev/null", "https://api.test/"], "cannot be used with"),
        (&["get", "--http1", "--http2", "http://api.test/"], "cannot be used with"),
        (&["get", "--json", "-o", "-", "http://api.test/"], "cannot both go to stdout"),
        (&["get", "--json", "-i", "http://api.test/"], "cannot be used with"),
        (&["get", "-n", "0", "http://api.test/"], "'0'"),
        (&["get", "-t", "0", "http://api.test/"], "'0'"),
        (&["get", "-r", "ns..test", "http://api.test/"], "`ns..test`: a label is empty"),
        (&["get", "-r", ",", "http://api.test/"], "--resolvers names nobody"),
        (&["load", "ftp://api.test/"], "a URL begins with http:// or https://"),
        (&["load", "-c", "0", "http://api.test/"], "'0'"),
        (&["load", "-d", "0s", "http://api.test/"], "'0s'"),
        (&["load", "-n", "0", "http://api.test/"], "'0'"),
        (&["load", "--rate", "0", "http://api.test/"], "'0'"),
    ] {
        let ran = carom(args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(problem), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains('\u{1b}'), "{args:?}: {ran:?}");
    }
}
