//! Keys and tokens are for those alone whom they are meant for, however much is logged.

use crate::program::carom;
use crate::serving::{Serving, folder, inside};
use std::process::Stdio;
use testkit::kite::Ticker;
use tokio::process::Command;

const TOKEN: &str = "a-token-that-nobody-else-may-see";

fn tracing(mut command: Command) -> Command {
    command.env("CAROM_LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn whatever_is_logged_has_no_key_and_no_token_in_it() {
    let folder = folder("secrets", &[("token", "another-one\n")]);
    let keys = folder.join("keys.toml");
    let key = carom(["key", "new", "--user", "demo", "--file", keys.to_str().unwrap()]).await.stdout;
    let key = key.trim();
    let args = ["exchange", "--listen", "127.0.0.1:0", "--token-file", "token"];
    let mut exchange = Serving::start(tracing(inside(&folder, &args))).await;
    let config = format!(
        "[gateway]\nkeys = \"keys.toml\"\n[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"{}\"\ncredential = \"{TOKEN}\"\n",
        exchange.url
    );
    std::fs::write(folder.join("carom.toml"), config).unwrap();
    let args = ["gateway", "--listen", "127.0.0.1:0", "-c", "carom.toml"];
    let mut gateway = Serving::start(tracing(inside(&folder, &args))).await;

    // Refused first, then let in; a key that is none, and one that is.
    let mut watching = crate::program::Running::of(tracing(gateway.watch(key, &["--count", "3", "NSE:SBIN"])));
    gateway.running.told("refuses the credential").await;
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    exchange.running.signal("-HUP").await;
    exchange.running.told("read again").await;
    gateway.running.signal("-HUP").await;
    gateway.running.told("tries its credential again").await;
    let tick = watching.line().await;
    let guessed = key.chars().rev().collect::<String>();
    let refused = crate::program::run(&mut tracing(gateway.watch(&guessed, &["NSE:SBIN"]))).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");

    let mut said = format!("{}{}{refused:?}{tick}", exchange.banner, gateway.banner);
    for running in [watching, gateway.running, exchange.running] {
        said += &running.heard;
        said += &format!("{:?}", running.end("-TERM").await);
    }
    for logged in ["refuses the credential", "presented once more", "[POOL]"] {
        assert!(said.contains(logged), "there is much to search: {said}");
    }
    for secret in [key, &guessed, TOKEN] {
        assert!(!said.contains(secret), "{secret} is in {said}");
    }
}

/// Kite wants both in the address that it is asked for.
#[tokio::test]
async fn what_kite_wants_to_know_is_nowhere_else() {
    let (api_key, stale) = ("an-app-key-that-nobody-else-may-see", "a-token-of-yesterday");
    let ticker = Ticker::start(api_key, TOKEN).await.unwrap();
    let feed = format!(
        "api_key = \"{api_key}\"\ncredential_file = \"token\"\ninstruments = \"kite.csv\"\nurl = \"{}\"\ndelay = \"5ms\"\n",
        ticker.url()
    );
    let files = [("c.toml", &*crate::brokers::kite(&feed)), ("token", stale), ("kite.csv", crate::brokers::KITE)];
    let folder = folder("secrets-kite", &files);
    let checked = crate::program::run(&mut tracing(inside(&folder, &["check", "-c", "c.toml"]))).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let args = ["gateway", "--listen", "127.0.0.1:0", "-c", "c.toml"];
    let mut gateway = Serving::start(tracing(inside(&folder, &args))).await;
    let key = gateway.key();

    // Refused, let in, cut off and let in again, then nobody is there any more.
    let mut watching = crate::program::Running::of(tracing(gateway.watch(&key, &["NSE:SBIN"])));
    gateway.running.told("refuses the credential").await;
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    for opened in [1, 2] {
        let carried = |seen: &testkit::kite::Seen| seen.connections.values().any(|tokens| !tokens.is_empty());
        ticker.until("subscribed to", |seen| seen.opened == opened && carried(seen)).await;
        ticker.trade(779_521, 81_205);
        watching.line().await;
        ticker.cut();
        gateway.running.told("a connection was lost").await;
    }
    drop(ticker);
    gateway.running.told("a connection failed").await;

    let mut said = format!("{checked:?}{}", gateway.banner.replace(&key, ""));
    for running in [watching, gateway.running] {
        said += &running.heard;
        said += &format!("{:?}", running.end("-TERM").await);
    }
    for secret in [api_key, stale, TOKEN, &key] {
        assert!(!said.contains(secret), "{secret} is in {said}");
    }
}
