//! The demonstration: everything that is shown does happen, and nobody who asks the proxy notices.

use crate::program::{PATIENCE, Running};
use crate::serving::{folder, inside};
use crate::up::ask;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use tokio::time::timeout;

/// Where the demonstration is, if it can.
const USUAL: [&str; 3] = ["127.0.0.1:8080", "127.0.0.1:8765", "127.0.0.1:9464"];

/// What follows this word in the banner, up to a blank.
fn after<'a>(banner: &'a str, word: &str) -> &'a str {
    let (_, rest) = banner.split_once(word).unwrap_or_else(|| panic!("no {word}: {banner}"));
    rest.split_whitespace().next().unwrap()
}

#[tokio::test]
async fn a_node_goes_and_comes_back_and_no_request_fails() {
    // Somebody has these already: either this test, or whoever kept it from having them.
    let _taken = USUAL.map(|usual| TcpListener::bind(usual).ok());
    let folder = folder("demonstration", &[("carom.toml", "")]);
    let mut running = Running::of(inside(&folder, &["up"]));
    assert!(running.told("note").await.contains("`carom up -c carom.toml` runs it"));
    for usual in USUAL {
        let told = running.told("note").await;
        assert!(told.contains(&format!("{usual} cannot be had")) && told.ends_with("another one is taken"), "{told}");
    }
    let mut banner = String::new();
    while !banner.contains("Ctrl-C ends it") {
        banner += &format!("{}\n", running.line().await);
    }
    assert!(USUAL.iter().all(|usual| !banner.contains(usual)), "{banner}");

    let place = |word: &str| after(&banner, word).trim_end_matches("/healthz").parse::<SocketAddr>().unwrap();
    let (proxy, admin) = (place("proxy:   http://"), place("admin:   http://"));
    let (status, body) = ask(proxy, "GET /some/path").await;
    let said: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, said["path"].as_str()), (200, Some("/some/path")), "{body}");
    assert_eq!(ask(admin, "GET /healthz").await.0, 200);
    let (key, url) = (after(&banner, "CAROM_KEY="), after(&banner, "watch --url "));
    let watched = crate::program::carom(["watch", "--url", url, "--key", key, "--count", "1", "NSE:SBIN"]).await;
    assert_eq!(watched.code, Some(0), "{watched:?}");

    // In their order, but for ticks, which come whenever they do.
    let mut story = ["claim", "down", "failover", "up", "return"].into_iter().peekable();
    let mut ticked = false;
    let told = async {
        while story.peek().is_some() || !ticked {
            let line = running.line().await;
            let kind = line.split_whitespace().nth(2).unwrap_or_default();
            assert_ne!(kind, "failed", "{line}");
            ticked |= kind == "tick";
            if story.peek() == Some(&kind) {
                story.next();
            }
        }
    };
    timeout(PATIENCE, told).await.expect("the story is told within a minute");
    running.signal("-HUP").await;
    running.told("there is no config to read again").await;
    let ended = running.end("-INT").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.contains(" requests, 0 failed: node-1 ") && last.contains(", node-3 "), "{last}");
}
