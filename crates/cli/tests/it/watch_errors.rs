//! `carom watch`, when it cannot: what is said, and what it exits with.

use crate::peer::{Client, KEY, Peer};
use crate::program::{Ran, carom, command, run};
use serde_json::json;
use std::process::Stdio;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn watch(url: &str, args: &[&str]) -> Ran {
    carom(["watch", "--url", url, "--key", KEY].iter().chain(args)).await
}

#[tokio::test]
async fn a_bad_key() {
    let peer = Peer::start().await;
    let url = peer.url();
    for reply in [
        json!({"type": "auth", "status": "error", "code": "AUTHENTICATION_ERROR", "message": "Invalid API key"}),
        json!({"status": "error", "code": "AUTHENTICATION_ERROR", "message": "Invalid API key"}),
    ] {
        let serving = async {
            let mut client = Client::accept(peer.wire().await).await;
            client.hear().await;
            client.say(reply).await;
            client
        };
        let (ran, _client) = tokio::join!(watch(&url, &["NSE:SBIN"]), serving);
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        let expected = "error: the gateway refuses the key: Invalid API key (AUTHENTICATION_ERROR)\n";
        assert_eq!(ran.stderr, expected);
    }
}

#[tokio::test]
async fn nothing_but_refused_symbols() {
    let peer = Peer::start().await;
    let url = peer.url();
    let refused = |symbol: &str| json!({"symbol": symbol, "exchange": "NSE", "status": "error", "message": "unknown"});
    for (symbols, refusals, problem) in [
        (&["NSE:A"][..], json!([refused("A")]), "error: the gateway refuses NSE:A: unknown\n"),
        (&["NSE:A", "NSE:B"], json!([refused("A"), refused("B")]), "error: the gateway refuses all 2 symbols\n"),
    ] {
        let serving = async {
            let mut client = Client::accept(peer.wire().await).await;
            client.subscribed(refusals).await;
            client
        };
        let (ran, _client) = tokio::join!(watch(&url, symbols), serving);
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains("refused: NSE:A: unknown\n") && ran.stderr.ends_with(problem), "{ran:?}");
    }
}

#[tokio::test]
async fn an_error_of_the_gateway_is_shown_without_what_a_terminal_would_obey() {
    let peer = Peer::start().await;
    let url = peer.url();
    let serving = async {
        let (mut client, _) = peer.client().await;
        client.say(json!({"status": "error", "code": "RATE_LIMITED", "message": "too fast\u{1b}[2J"})).await;
        client
    };
    let (ran, _client) = tokio::join!(watch(&url, &["NSE:SBIN"]), serving);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.stderr, "error: the gateway says: too fast\\u{1b}[2J (RATE_LIMITED)\n");
}

#[tokio::test]
async fn no_gateway_or_one_that_is_full() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let serving = async {
        let (mut wire, _) = listener.accept().await.unwrap();
        let _ = wire.read(&mut [0; 4096]).await.unwrap();
        let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 24\r\nConnection: close\r\n\r\n";
        wire.write_all(format!("{answer}at most 10 clients here\n").as_bytes()).await.unwrap();
        wire
    };
    let (ran, _wire) = tokio::join!(watch(&url, &["NSE:SBIN"]), serving);
    let expected = format!("error: {url}: the answer is 503 Service Unavailable: at most 10 clients here\n");
    assert_eq!((ran.code, &*ran.stderr), (Some(1), &*expected));
    drop(listener);
    let ran = watch(&url, &["NSE:SBIN"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error: {url}: ")) && ran.stderr.contains("refused"), "{ran:?}");
}

#[tokio::test]
async fn a_gateway_that_says_nothing_is_none() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let ran = watch(&url, &["--for", "500ms", "NSE:SBIN"]).await;
    assert_eq!((ran.code, ran.stderr), (Some(1), format!("error: {url}: no connection within 500ms\n")));
}

#[tokio::test]
async fn command_lines_that_make_no_sense() {
    for (args, problem) in [
        (&["-k", "x"][..], "<EXCHANGE:SYMBOL>"),
        (&["NSE:SBIN"], "a key is missing: --key-file FILE, the variable CAROM_KEY, or --key KEY"),
        (&["-k", "", "NSE:SBIN"], "the key is empty"),
        (&["-k", "x", "SBIN"], "`SBIN` is no EXCHANGE:SYMBOL, such as NSE:SBIN"),
        (&["-k", "x", "-u", "http://a", "NSE:SBIN"], "--url: `http://a` begins with neither ws:// nor wss://"),
        (&["-k", "x", "--ca", "f", "NSE:SBIN"], "--ca is for wss://"),
        (&["-k", "x", "-u", "wss://a", "--ca", "/no/such/file", "NSE:SBIN"], "`/no/such/file`: cannot be read"),
        (&["--key-file", "/no/such/file", "NSE:SBIN"], "`/no/such/file`: cannot be read"),
        (&["-k", "x", "--key-file", "f", "NSE:SBIN"], "cannot be used with"),
        (&["-k", "x", "-m", "all", "NSE:SBIN"], "'all'"),
        (&["-k", "x", "-c", "0", "NSE:SBIN"], "'0'"),
        (&["-k", "x", "--for", "1h", "NSE:SBIN"], "'1h'"),
    ] {
        let mut command = command(["watch"].iter().chain(args));
        let ran = run(command.env_remove("CAROM_KEY").stdout(Stdio::piped()).stderr(Stdio::piped())).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(problem), "{args:?}: {ran:?}");
    }
}
