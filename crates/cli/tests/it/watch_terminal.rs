//! `carom watch` on a terminal: a table that is drawn in place, in colours unless they are not wanted.

use crate::peer::{Client, KEY, Peer};
use crate::program::command;
use crate::terminal::on_terminal;
use serde_json::json;

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
    assert!(!seen.contains("\u{1b}[?"), "whatever happens, the terminal is as it was: {seen:?}");
    assert!(seen.contains("asha at simulated\u{1b}[K\r\n"), "{seen:?}");
    assert!(seen.contains("\u{1b}[4A\r"), "over the title, the head and two symbols: {seen:?}");
    let last = seen.rsplit("SYMBOL").next().unwrap();
    let row = "\u{1b}[32mNSE:SBIN         99     -1.00   -1.00% 00:00:00.000";
    assert!(last.contains(row), "up from the price before: {seen:?}");
    assert!(last.contains("\nNSE:TCS           -         -        -            -     0.0\u{1b}[K"), "{seen:?}");
}

#[tokio::test]
async fn what_is_said_once_is_said_in_full() {
    let peer = Peer::start().await;
    let mut command = command(["watch", "--url", &peer.url(), "--count", "1", "NSE:SBIN", "NSE:NOPE"]);
    command.env("CAROM_KEY", KEY).env("TERM", "xterm");
    let reason = format!("{}and that is why", "no ".repeat(60));
    let serving = async {
        let mut client = Client::accept(peer.wire().await).await;
        let refused = json!([{"symbol": "NOPE", "exchange": "NSE", "status": "error", "message": reason}]);
        client.subscribed(refused).await;
        client.tick("SBIN", json!({"ltp": 1})).await;
        assert!(client.leaves().await);
    };
    let ((code, seen), ()) = tokio::join!(on_terminal(command), serving);
    assert_eq!(code, Some(0), "{seen:?}");
    assert!(seen.contains(&format!("refused: NSE:NOPE: {reason}\r\n")), "{seen:?}");
}

/// On a terminal that shows no change there is nothing to see but that time passes.
#[tokio::test]
async fn while_it_is_not_connected_the_table_goes_on() {
    let peer = Peer::start().await;
    let mut command = command(["watch", "--url", &peer.url(), "--for", "10s", "NSE:SBIN"]);
    command.env("CAROM_KEY", KEY).env("TERM", "xterm");
    let serving = async {
        let (client, _) = peer.client().await;
        client.close(1001, "gone").await;
        // Whoever comes next is let wait.
        peer.wire().await
    };
    let ((code, seen), _wire) = tokio::join!(on_terminal(command), serving);
    assert_eq!(code, Some(0), "{seen:?}");
    let drawn = seen.matches("not connected\u{1b}[K").count();
    assert!(drawn > 3, "when it was lost, at the end, and in between: {seen:?}");
}

#[tokio::test]
async fn colours_stay_away_when_they_are_not_wanted() {
    let seen = seen(false).await;
    assert!(!seen.contains("\u{1b}[32m") && !seen.contains("\u{1b}[31m"), "{seen:?}");
    assert!(seen.contains("NSE:SBIN         99     -1.00   -1.00% "), "{seen:?}");
}
