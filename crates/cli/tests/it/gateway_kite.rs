//! `carom gateway` with a feed of Kite, as it is in testkit.

use crate::brokers::{KITE, kite};
use crate::program::Running;
use crate::serving::{Serving, folder};
use serde_json::{Value, json};
use std::path::Path;
use testkit::kite::{Seen, Ticker};

const KEY: &str = "app-key";
const SBIN: u32 = 779_521;

fn files(ticker: &Ticker) -> [(&'static str, String); 3] {
    let more = format!(
        "api_key = \"{KEY}\"\ncredential_file = \"token\"\ninstruments = \"kite.csv\"\nurl = \"{}\"\n",
        ticker.url()
    );
    [("c.toml", kite(&more)), ("token", "monday\n".to_owned()), ("kite.csv", KITE.to_owned())]
}

async fn gateway(folder: &Path) -> Serving {
    Serving::gateway(folder, &["-c", "c.toml"]).await
}

fn carries(token: u32) -> impl Fn(&Seen) -> bool {
    move |seen| seen.connections.values().any(|carried| carried.contains_key(&token))
}

/// The next tick, and its price.
async fn price(watching: &mut Running) -> (Value, f64) {
    let tick: Value = serde_json::from_str(&watching.line().await).unwrap();
    let price = tick["data"]["ltp"].as_f64().unwrap();
    (tick, price)
}

fn made(name: &str, ticker: &Ticker) -> std::path::PathBuf {
    let files = files(ticker);
    folder(name, &files.each_ref().map(|(name, text)| (*name, &**text)))
}

#[tokio::test]
async fn what_kite_says_is_served() {
    let ticker = Ticker::start(KEY, "monday").await.unwrap();
    let gateway = gateway(&made("kite-served", &ticker)).await;
    let shown = format!("feed: asha at zerodha from {} (kite, 3 instruments)\n", ticker.url());
    assert!(gateway.banner.contains(&shown), "{}", gateway.banner);
    assert!(gateway.banner.contains("up to 3000 symbols on each of 3 connections"), "{}", gateway.banner);
    let mut watching = Running::of(gateway.watch(&gateway.key(), &["--json", "NSE:SBIN"]));
    ticker.until("subscribed to", carries(SBIN)).await;
    ticker.trade(SBIN, 81_205);
    let (tick, ltp) = price(&mut watching).await;
    assert_eq!((&tick["symbol"], &tick["broker"], ltp), (&json!("SBIN"), &json!("zerodha"), 812.05), "{tick}");
    // What is cut is made up for, and nobody has to ask again.
    ticker.cut();
    ticker.until("opened again", |seen| seen.opened == 2 && carries(SBIN)(seen)).await;
    ticker.trade(SBIN, 81_305);
    assert_eq!(price(&mut watching).await.1, 813.05);
    let ran = gateway.watched(&gateway.key(), &["NSE:SBINN"]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("did you mean NSE:SBIN?"), "{ran:?}");
    assert_eq!(gateway.running.end("-TERM").await.code, Some(0));
    ticker.until("left", |seen| seen.connections.is_empty()).await;
}

/// As every morning: it was refused with the old one, and nobody restarts anything.
#[tokio::test]
async fn the_token_of_the_day_is_read_from_its_file() {
    let ticker = Ticker::start(KEY, "tuesday").await.unwrap();
    let folder = made("kite-token", &ticker);
    let mut gateway = gateway(&folder).await;
    let mut watching = Running::of(gateway.watch(&gateway.key(), &["--json", "NSE:SBIN"]));
    gateway.running.told("refuses the credential").await;
    std::fs::write(folder.join("token"), "tuesday\n").unwrap();
    ticker.until("subscribed to", carries(SBIN)).await;
    ticker.trade(SBIN, 81_205);
    assert_eq!(price(&mut watching).await.1, 812.05);
}

#[tokio::test]
async fn what_is_listed_is_read_again_when_somebody_says_so() {
    let ticker = Ticker::start(KEY, "monday").await.unwrap();
    let folder = made("kite-listed", &ticker);
    let mut gateway = gateway(&folder).await;
    let ran = gateway.watched(&gateway.key(), &["NSE:TCS"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    std::fs::write(folder.join("kite.csv"), "nothing").unwrap();
    gateway.running.signal("-HUP").await;
    let told = gateway.running.told("stay as they were").await;
    assert!(told.starts_with("warning: the instruments of asha at zerodha stay as they were: "), "{told}");
    std::fs::write(folder.join("kite.csv"), format!("{KITE}2953217,11536,TCS,TCS,0,,0,0.05,1,EQ,NSE,NSE\n")).unwrap();
    gateway.running.signal("-HUP").await;
    let told = gateway.running.told("were read again: there are 4").await;
    assert_eq!(told, "the instruments of asha at zerodha were read again: there are 4");
    let _watching = Running::of(gateway.watch(&gateway.key(), &["NSE:TCS"]));
    ticker.until("subscribed to", carries(2_953_217)).await;
}
