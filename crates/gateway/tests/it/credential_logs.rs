//! Whatever is logged or seen by a monitor, and however much of it, no key and no token is in it.

use carom::Monitor;
use carom::feed::{Feed, Mode, State, Topic};
use carom_gateway::Gateway;
use carom_gateway::credential::Credential;
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_gateway::kite::{Instruments, Kite};
use carom_gateway::simulated::{Exchange, Options, Simulated};
use futures_util::{SinkExt, StreamExt};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use testkit::kite::Ticker;
use testkit::logs::Logs;
use testkit::temp_dir::TempDir;
use testkit::wait::expect;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn nothing_that_is_logged_or_seen_has_a_key_or_a_token_in_it() {
    let logs = Logs::capture_all();
    let folder = TempDir::new();
    let path = folder.write("token", "monday-token");
    let exchange = Exchange::start(Options::default().token("monday-token".to_owned())).await.unwrap();
    let credential = Credential::file(&path);
    let feed = Feed::builder(Simulated::new(&exchange.url(), credential.clone()).unwrap()).build().unwrap();
    let _watcher = credential.watch(&feed);
    let key = NewKey::generate().unwrap();
    let keys = Keys::in_memory([(Identity::new("simulated", "asha"), key.sha256())]);
    let gateway = Gateway::builder()
        .listen((Ipv4Addr::LOCALHOST, 0))
        .keys(keys)
        .feed("simulated", "asha", feed.clone())
        .start()
        .await
        .unwrap();

    // A wrong key and the right one, ticks, a token that is refused, none at all, and another.
    let address = gateway.local_addr();
    let socket = TcpStream::connect(address).await.unwrap();
    let (mut client, _) = client_async(format!("ws://{address}"), socket).await.unwrap();
    for request in [
        r#"{"action":"authenticate","api_key":"guessed-key"}"#.to_owned(),
        format!(r#"{{"action":"authenticate","api_key":"{}"}}"#, key.reveal()),
        r#"{"action":"subscribe","symbols":[{"symbol":"SBIN","exchange":"NSE"}],"mode":"LTP"}"#.to_owned(),
    ] {
        client.send(Message::text(request)).await.unwrap();
    }
    let begins_with_tick = |message: Message| message.to_text().unwrap().starts_with(r#"{"type":"market_data""#);
    expect("a tick", async { while !begins_with_tick(client.next().await.unwrap().unwrap()) {} }).await;
    std::fs::remove_file(&path).unwrap();
    exchange.change_token("tuesday-token");
    expect("it is refused", feed.states().wait_for(|state| *state == State::Refused)).await.unwrap();
    folder.write("token", "wrong-token");
    expect("it is tried", exchange.until(|snapshot| snapshot.turned_away > 0)).await;
    folder.write("token", "tuesday-token");
    expect("it goes on", exchange.until(|snapshot| snapshot.connections.len() == 1)).await;
    let seen = serde_json::to_string(&Monitor::global().snapshot()).unwrap();
    assert!(seen.contains("asha") && seen.contains("\"cause\":\""), "{seen}");
    gateway.stop(Instant::now() + Duration::from_secs(5)).await;
    exchange.stop().await;

    let logged = logs.text();
    assert!(logged.contains("a connection failed") && logged.contains("another credential was found"), "{logged}");
    // What the broker said, and what is waited for.
    assert!(logged.contains("message=[POOL] the upstream refuses the credential"), "{logged}");
    assert!(logged.contains("error=\"the upstream refuses the credential: "), "{logged}");
    assert!(logged.contains(&format!("awaited=the file {}", path.display())), "{logged}");
    for secret in ["monday-token", "tuesday-token", "wrong-token", "guessed-key", key.reveal()] {
        assert!(!logged.contains(secret), "{secret} in {logged}");
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
}

#[tokio::test]
async fn nothing_that_is_logged_of_kite_has_a_key_or_a_token_in_it() {
    let logs = Logs::capture_all();
    let ticker = Ticker::start("kites-key", "monday-token").await.unwrap();
    let list = "instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n\
                779521,SBIN,STATE BANK OF INDIA,,0,EQ,NSE,NSE\n";
    let instruments = Arc::new(Instruments::read(list.as_bytes()).unwrap());
    let builder = Kite::builder("kites-key", Credential::fixed("monday-token"), instruments).url(ticker.url());
    let feed = Feed::builder(builder.build().unwrap()).build().unwrap();
    let mut ticks = feed.ticks();
    expect("a subscription", feed.subscribe(Topic::new("NSE", "SBIN", Mode::Ltp))).await.unwrap();
    ticker.until("it is carried", |seen| seen.connections.values().any(|has| has.contains_key(&779_521))).await;

    ticker.say(Message::text(r#"{"type":"error","data":"monday-token is not of kites-key"}"#));
    ticker.say(Message::text(r#"{"type":"message","data":"monday-token is not of kites-key"}"#));
    ticker.say(Message::text("monday-token is not of kites-key"));
    ticker.say(Message::text(r#"{"type":{"monday-token":"kites-key"}}"#));
    ticker.trade(779_521, 81_205);
    expect("a tick after them", ticks.next()).await.unwrap();
    ticker.accept("tuesday-token");
    ticker.cut();
    expect("a refusal", feed.states().wait_for(|state| *state == State::Refused)).await.unwrap();
    let logged = logs.text() + &format!("{:?}", feed.snapshot());
    assert!(logged.contains("Kite reports an error") && logged.contains(".. is not of .."), "{logged}");
    assert_eq!(logged.matches("Kite says what makes no sense").count(), 1, "{logged}");
    assert!(logged.contains("problem=a text of 32 bytes is no notice"), "{logged}");
    for secret in ["kites-key", "monday-token", "tuesday-token"] {
        assert!(!logged.contains(secret), "{secret} in {logged}");
    }
}
