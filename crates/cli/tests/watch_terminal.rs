//! `carom watch` on a terminal: a table that is drawn in place, in colours unless they are not wanted.
#![cfg(unix)]

mod peer;
mod program;
mod terminal;

use peer::{KEY, Peer};
use program::command;
use serde_json::json;
use terminal::on_terminal;

async fn seen(colours: bool) -> String {
    let peer = Peer::start().await;
    let mut command = command(["watch", "--url", &peer.url(), "--count", "3", "NSE:SBIN", "NSE:TCS"]);
    command.env("CAROM_KEY", KEY).env("TERM", "xterm").env_remove("NO_COLOR");
    if !colours {
        command.env("NO_COLOR", "1");
    }
    let serving = async {
        let (mut client, _) = peer.client().await;
        for price in [100, 90, 99] {
            client.tick("SBIN", json!({"ltp": price, "timestamp": 0})).await;
        }
        assert!(client.leaves().await);
    };
    let ((code, seen), ()) = tokio::join!(on_terminal(command), serving);
    assert_eq!(code, Some(0), "{seen:?}");
    seen
}

#[tokio::test]
async fn a_table_is_drawn_in_place() {
    let seen = seen(true).await;
    assert!(seen.starts_with("\u{1b}[?25l\r") && seen.ends_with("\u{1b}[?25h"), "the cursor is back: {seen:?}");
    assert!(seen.contains("asha at simulated\u{1b}[K\r\n"), "{seen:?}");
    assert!(seen.contains("\u{1b}[4A\r"), "over the title, the head and two symbols: {seen:?}");
    let last = seen.rsplit("SYMBOL").next().unwrap();
    let row = "\u{1b}[32mNSE:SBIN         99     -1.00   -1.00% 00:00:00.000";
    assert!(last.contains(row), "up from the price before: {seen:?}");
    assert!(last.contains("\nNSE:TCS           -         -        -            -     0.0\u{1b}[K"), "{seen:?}");
}

#[tokio::test]
async fn colours_stay_away_when_they_are_not_wanted() {
    let seen = seen(false).await;
    assert!(!seen.contains("\u{1b}[32m") && !seen.contains("\u{1b}[31m"), "{seen:?}");
    assert!(seen.contains("NSE:SBIN         99     -1.00   -1.00% "), "{seen:?}");
}
