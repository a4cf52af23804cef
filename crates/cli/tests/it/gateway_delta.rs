//! `carom gateway` with a feed of Delta Exchange, as it is in testkit.

use crate::brokers::{DELTA, delta};
use crate::program::Running;
use crate::serving::{Serving, folder};
use serde_json::{Value, json};
use std::path::PathBuf;
use testkit::delta::Exchange;

/// A gateway on this exchange, and its folder.
async fn gateway(name: &str, exchange: &Exchange) -> (Serving, PathBuf) {
    let config = delta(&format!("url = \"{}\"\ninstruments = \"delta.json\"\n", exchange.url()));
    let folder = folder(name, &[("c.toml", &config), ("delta.json", DELTA)]);
    (Serving::gateway(&folder, &["-c", "c.toml"]).await, folder)
}

fn wants<'a>(symbol: &'a str, channel: &'a str) -> impl Fn(&testkit::delta::Seen) -> bool + 'a {
    move |seen| seen.connections.values().any(|carried| carried.contains(&(channel.to_owned(), symbol.to_owned())))
}

#[tokio::test]
async fn what_the_exchange_says_is_served() {
    let exchange = Exchange::start().await;
    let (gateway, _) = gateway("delta-served", &exchange).await;
    let shown = format!("feed: asha at deltaexchange from {} (delta, 2 instruments)\n", exchange.url());
    assert!(gateway.banner.contains(&shown), "{}", gateway.banner);
    assert!(gateway.banner.contains("up to 1000 symbols on each of 3 connections"), "{}", gateway.banner);
    // What is there to try is listed.
    for tried in [" CRYPTO:BTCUSD CRYPTO:ETHUSD\n", "{\"exchange\": \"CRYPTO\", \"symbol\": \"BTCUSD\"}"] {
        assert!(gateway.banner.contains(tried), "{tried}: {}", gateway.banner);
    }
    let mut watching = Running::of(gateway.watch(&gateway.key(), &["--json", "CRYPTO:BTCUSD"]));
    exchange.until(wants("BTCUSD", "ticker")).await;
    exchange.ticker("BTCUSD", json!({"m": "64000.5", "ohlc": ["1", "2", "0.5", "1.5"]}));
    let tick: Value = serde_json::from_str(&watching.line().await).unwrap();
    assert_eq!(
        (&tick["symbol"], &tick["exchange"], &tick["broker"]),
        (&json!("BTCUSD"), &json!("CRYPTO"), &json!("deltaexchange"))
    );
    assert!(tick.to_string().contains("64000.5"), "{tick}");
    // What is cut is made up for, and nobody has to ask again.
    exchange.cut(1);
    exchange.until(|seen| seen.opened == 2 && wants("BTCUSD", "ticker")(seen)).await;
    exchange.ticker("BTCUSD", json!({"m": "64001.5"}));
    assert!(watching.line().await.contains("64001.5"));
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
    exchange.until(|seen| seen.connections.is_empty()).await;
}

#[tokio::test]
async fn what_is_not_listed_is_refused_until_it_is() {
    let exchange = Exchange::start().await;
    let (mut gateway, folder) = gateway("delta-unlisted", &exchange).await;
    let ran = gateway.watched(&gateway.key(), &["CRYPTO:BTCUSDT"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("CRYPTO:BTCUSDT") && ran.stderr.contains("BTCUSD`"), "{ran:?}");
    std::fs::write(folder.join("delta.json"), DELTA.replace("ETHUSD", "BTCUSDT")).unwrap();
    gateway.running.signal("-HUP").await;
    let told = gateway.running.told("were read again: there are").await;
    assert_eq!(told, "the instruments of asha at deltaexchange were read again: there are 2");
    let _watching = Running::of(gateway.watch(&gateway.key(), &["CRYPTO:BTCUSDT"]));
    exchange.until(wants("BTCUSDT", "ticker")).await;
}
