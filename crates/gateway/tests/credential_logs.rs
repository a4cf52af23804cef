//! Whatever is logged, and however much of it, no key and no token is in it.

mod folder;

use carom::feed::{Feed, State};
use carom_gateway::Gateway;
use carom_gateway::credential::Credential;
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_gateway::simulated::{Exchange, Options, Simulated};
use folder::Folder;
use futures_util::{SinkExt, StreamExt};
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

/// Keeps everything that is logged, on any level by anybody.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<String>>);

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        *self.0 += &format!("{field}={value:?} ");
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Words(&mut self.0.lock().unwrap()));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Words(&mut self.0.lock().unwrap()));
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Words(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Far more than anything here takes.
async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), happens).await.unwrap_or_else(|_| panic!("did not happen: {what}"))
}

#[tokio::test]
async fn nothing_that_is_logged_has_a_key_or_a_token_in_it() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    let folder = Folder::new("logs");
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
    soon("a tick", async { while !begins_with_tick(client.next().await.unwrap().unwrap()) {} }).await;
    std::fs::remove_file(&path).unwrap();
    exchange.change_token("tuesday-token");
    soon("it is refused", feed.states().wait_for(|state| *state == State::Refused)).await.unwrap();
    folder.write("token", "wrong-token");
    soon("it is tried", exchange.until(|snapshot| snapshot.turned_away > 0)).await;
    folder.write("token", "tuesday-token");
    soon("it goes on", exchange.until(|snapshot| snapshot.connections.len() == 1)).await;
    gateway.stop(Instant::now() + Duration::from_secs(5)).await;
    exchange.stop().await;

    let logged = listener.0.lock().unwrap().clone();
    assert!(logged.contains("a connection failed") && logged.contains("another credential was found"), "{logged}");
    for secret in ["monday-token", "tuesday-token", "wrong-token", "guessed-key", key.reveal()] {
        assert!(!logged.contains(secret), "{secret} in {logged}");
    }
}
