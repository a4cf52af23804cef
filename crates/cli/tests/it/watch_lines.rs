//! `carom watch` in a pipe: lines, JSON, reconnecting, and when it ends.

use crate::peer::{Client, KEY, Peer};
use crate::program::{PATIENCE, Ran, Running, command, run};
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;
use tokio::time::timeout;

/// Runs it to its end, with the key in the environment.
async fn watch(url: &str, args: &[&str]) -> Ran {
    let mut command = command(["watch", "--url", url].iter().chain(args));
    run(command.env("CAROM_KEY", KEY).stdout(Stdio::piped()).stderr(Stdio::piped())).await
}

#[tokio::test]
async fn a_line_for_each_tick_until_there_are_enough() {
    let peer = Peer::start().await;
    let url = peer.url();
    let serving = async {
        let (mut client, asked) = peer.client().await;
        let symbols = json!([{"exchange": "NSE", "symbol": "SBIN"}, {"exchange": "NSE", "symbol": "TCS:20"}]);
        assert_eq!(asked, json!({"action": "subscribe", "symbols": symbols, "mode": 2, "depth": 5}));
        let time = 1_772_323_199_999u64;
        client.tick("SBIN", json!({"ltp": 812.05, "timestamp": time})).await;
        client.tick("SBIN", json!({"ltp": 811.05, "timestamp": time, "volume": 900})).await;
        client.tick("TCS:20", json!({"ltp": 99.5, "timestamp": time, "close": 100.0, "volume": null})).await;
        assert!(client.leaves().await);
    };
    let watching = watch(&url, &["--count", "3", "-m", "quote", "NSE:SBIN", "NSE:TCS:20", "NSE:SBIN"]);
    let (ran, ()) = tokio::join!(watching, serving);
    let expected = "\
2026-02-28T23:59:59.999Z NSE:SBIN 812.05 - - -
2026-02-28T23:59:59.999Z NSE:SBIN 811.05 -1.00 -0.12% 900
2026-02-28T23:59:59.999Z NSE:TCS:20 99.5 -0.50 -0.50% -
";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(0), expected, ""), "{ran:?}");
}

#[tokio::test]
async fn json_is_what_the_gateway_sends() {
    let peer = Peer::start().await;
    let url = peer.url();
    let serving = async {
        let (mut client, asked) = peer.client().await;
        assert_eq!((&asked["mode"], &asked["depth"]), (&json!(3), &json!(20)));
        client.say(json!({"type": "pong", "status": "success"})).await;
        client.tick("SBIN", json!({"ltp": 1.50, "depth": {"buy": [], "sell": []}})).await;
        assert!(client.leaves().await);
    };
    let watching = watch(&url, &["--json", "-c", "1", "-m", "depth", "--depth", "20", "NSE:SBIN"]);
    let (ran, ()) = tokio::join!(watching, serving);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
    let tick: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&tick["type"], &tick["data"]["ltp"]), (&json!("market_data"), &json!(1.5)));
}

#[tokio::test]
async fn json_is_one_line_without_what_a_terminal_would_obey() {
    let peer = Peer::start().await;
    let url = peer.url();
    let serving = async {
        let (mut client, _) = peer.client().await;
        let text =
            "{\"type\":\"market_data\",\r\n\"symbol\":\"SBIN\",\"exchange\":\"NSE\",\"data\":{\"note\":\"\u{9b}2J\"}}";
        client.say_text(text).await;
        assert!(client.leaves().await);
    };
    let (ran, ()) = tokio::join!(watch(&url, &["--json", "-c", "1", "NSE:SBIN"]), serving);
    let expected = r#"{"type":"market_data",  "symbol":"SBIN","exchange":"NSE","data":{"note":"\u009b2J"}}"#;
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{expected}\n")));
}

#[tokio::test]
async fn a_gateway_that_lets_nobody_stay_is_called_on_less_and_less() {
    let peer = Peer::start().await;
    let mut running = Running::start(["watch", "--url", &peer.url(), "--key", KEY, "NSE:SBIN"]);
    // Each pause is spread between a half and all of what is twice as long as the time before.
    for shortest in [0.2, 0.5, 1.0] {
        let (mut client, _) = peer.client().await;
        client.tick("SBIN", json!({"ltp": 1})).await;
        client.close(1008, "go away").await;
        let told = running.told("trying again").await;
        let pause: f64 = told.rsplit(' ').nth(1).unwrap().parse().unwrap();
        assert!(pause >= shortest, "{told}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn it_ends_when_it_is_told_to_though_nobody_reads() {
    let peer = Peer::start().await;
    let mut running = Running::start(["watch", "--url", &peer.url(), "--key", KEY, "--json", "NSE:SBIN"]);
    let (mut client, _) = peer.client().await;
    let long = "x".repeat(60_000);
    // Until everything between is full.
    let stalled = Duration::from_millis(500);
    while timeout(stalled, client.tick("SBIN", json!({"note": long}))).await.is_ok() {}
    running.signal("-TERM").await;
    assert_eq!(timeout(PATIENCE, running.child.wait()).await.expect("it ends").unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_lost_gateway_is_found_again_and_asked_for_the_same() {
    let peer = Peer::start().await;
    let key_file = format!("{}/watch-key-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::write(&key_file, format!("{KEY}\n")).unwrap();
    let mut running = Running::start(["watch", "--url", &peer.url(), "--key-file", &key_file, "NSE:SBIN"]);
    let (mut client, first) = peer.client().await;
    client.tick("SBIN", json!({"ltp": 1})).await;
    assert!(running.line().await.contains(" NSE:SBIN 1 "));
    client.close(1001, "shutting down").await;
    let told = running.told("trying again").await;
    let expected = format!("{}: closed by the gateway (1001 shutting down); trying again in 0.", peer.url());
    assert!(told.starts_with(&expected), "{told}");
    // Cut off in the middle of a handshake, it goes on trying.
    drop(peer.wire().await);
    running.told("trying again").await;
    let (mut client, second) = peer.client().await;
    assert_eq!(first, second);
    client.tick("SBIN", json!({"ltp": 2})).await;
    assert!(running.line().await.contains(" NSE:SBIN 2 +1.00 +100.00%"));
    assert_eq!(running.end("-INT").await.code, Some(0));
}

#[tokio::test]
async fn refused_symbols_are_named_and_the_others_watched() {
    let peer = Peer::start().await;
    let mut running = Running::start(["watch", "--url", &peer.url(), "--key", KEY, "NSE:SBIN", "NSE:NOPE"]);
    let mut client = Client::accept(peer.wire().await).await;
    let refused = json!([{"symbol": "NOPE", "exchange": "NSE", "status": "error", "message": "no such symbol"}]);
    client.subscribed(refused).await;
    assert_eq!(running.told("refused").await, "refused: NSE:NOPE: no such symbol");
    client.tick("SBIN", json!({"ltp": 7})).await;
    assert!(running.line().await.contains("NSE:SBIN 7 "));
    assert_eq!(running.left().await, Some(0), "its reader has had enough");
}

#[tokio::test]
async fn symbols_that_have_to_wait_are_noted_and_watched() {
    let peer = Peer::start().await;
    let symbols = ["NSE:A", "NSE:B", "NSE:C", "NSE:D"];
    let mut running = Running::start(["watch", "--url", &peer.url(), "--key", KEY].iter().chain(&symbols));
    let mut client = Client::accept(peer.wire().await).await;
    let waits = |symbol: &str, message: &str| {
        json!({"symbol": symbol, "exchange": "NSE", "status": "success", "mode": "LTP", "depth": 5,
            "pending": true, "message": message})
    };
    let down = "the upstream is down\u{1b}";
    client.subscribed(json!([waits("A", down), waits("B", "the line is full"), waits("C", down)])).await;
    assert_eq!(running.told("note").await, "note: NSE:A and 1 more: the upstream is down\\u{1b}");
    assert_eq!(running.told("note").await, "note: NSE:B: the line is full");
    client.tick("A", json!({"ltp": 7})).await;
    assert!(running.line().await.contains("NSE:A 7 "));
    let ended = running.end("-INT").await;
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
}

/// One tick, and then none until it has had enough.
async fn watch_one_tick(args: &[&str]) -> Ran {
    let peer = Peer::start().await;
    let url = peer.url();
    let serving = async {
        let (mut client, _) = peer.client().await;
        client.tick("SBIN", json!({"ltp": 1})).await;
        client
    };
    let (ran, _client) = tokio::join!(watch(&url, args), serving);
    ran
}

#[tokio::test]
async fn it_ends_when_its_time_is_over() {
    let ran = watch_one_tick(&["--for", "8s", "NSE:SBIN"]).await;
    assert_eq!((ran.code, ran.stdout.lines().count(), &*ran.stderr), (Some(0), 1, ""), "{ran:?}");
}

#[tokio::test]
async fn ticks_that_did_not_come_in_time_are_missed() {
    let ran = watch_one_tick(&["--for", "8s", "--count", "2", "NSE:SBIN"]).await;
    assert_eq!((ran.code, &*ran.stderr), (Some(1), "error: 1 of 2 ticks came within 8s\n"), "{ran:?}");
}

#[tokio::test]
async fn own_roots_vouch_for_a_gateway_with_tls() {
    use std::sync::Arc;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let ca = format!("{}/watch-ca-{}.pem", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let peer = Peer::start().await;
    let url = format!("wss://localhost:{}/ws", peer.listener.local_addr().unwrap().port());
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let serving = async {
        let mut client = Client::accept(acceptor.accept(peer.wire().await).await.unwrap()).await;
        client.subscribed(json!([])).await;
        client.tick("SBIN", json!({"ltp": 1})).await;
        assert!(client.leaves().await);
    };
    let args = ["--ca", &ca, "-c", "1", "NSE:SBIN"];
    let (ran, ()) = tokio::join!(watch(&url, &args), serving);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");

    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&ca, other.cert.pem()).unwrap();
    let serving = async { assert!(acceptor.accept(peer.wire().await).await.is_err()) };
    let (ran, refused) = tokio::join!(watch(&url, &args), timeout(PATIENCE, serving));
    refused.unwrap();
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error: {url}: ")), "{ran:?}");
}
