//! The gateway as several processes that share an upstream, and clients that take down what they are told.

use crate::process::{Folder, Port, Running, command, signal, tail};
use crate::{admin, ms, program, until};
use carom_gateway::keys::{Identity, NewKey};
use carom_gateway::simulated::Exchange;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// Which upstream there is, and how much of it may be used.
pub struct Upstream<'a> {
    pub exchange: &'a Exchange,
    pub token: &'a str,
    pub max_connections: usize,
    pub max_topics_per_connection: usize,
}

/// One gateway: a process of its own, with a port that stays its own.
pub struct Gateway {
    folder: Folder,
    port: Port,
    admin: Port,
    key: NewKey,
    running: Option<Running>,
}

/// What a gateway says of its part, at its admin address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub member: String,
    pub owns: bool,
    pub owner: Option<String>,
    pub epoch: Option<u64>,
    pub sessions: u64,
}

impl Gateway {
    /// Starts one that finds the others at this NATS server.
    pub async fn start(nats: SocketAddr, upstream: &Upstream<'_>) -> Gateway {
        let (folder, port, admin) = (Folder::new("gateway", None), Port::chosen(), Port::chosen());
        let key = NewKey::generate().expect("the system has chance");
        folder.write("keys.toml", &key.table(&Identity::new("simulated", "demo"), None, None));
        let config = format!(
            "[gateway]\nlisten = \"{}\"\nkeys = \"keys.toml\"\nbus = \"nats\"\n\n[gateway.nats]\nurl = \"nats://{nats}\"\n\n\
             [admin]\nlisten = \"{}\"\n\n[[feed]]\nbroker = \"simulated\"\nuser = \"demo\"\nurl = \"{}\"\n\
             credential = \"{}\"\nmax_connections = {}\nmax_topics_per_connection = {}\n",
            port.address(),
            admin.address(),
            upstream.exchange.url(),
            upstream.token,
            upstream.max_connections,
            upstream.max_topics_per_connection,
        );
        folder.write("carom.toml", &config);
        let mut gateway = Gateway { folder, port, admin, key, running: None };
        gateway.restart().await;
        gateway
    }

    /// Starts it again where it was.
    pub async fn restart(&mut self) {
        assert!(self.running.is_none(), "it runs");
        let mut command = command(&program("carom"), None, &self.folder);
        command.args(["gateway", "-c", "carom.toml"]);
        let mut running = Running::start(command, &self.log());
        until(ms(30_000), async || {
            if let Some(status) = running.ended() {
                panic!("it ended ({status}):\n{}", tail(&self.log()));
            }
            TcpStream::connect(self.port.address()).await.map(drop)
        })
        .await;
        self.running = Some(running);
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    /// As an operator would: SIGTERM, and it ends by itself, well.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        signal("TERM", &[running.id()]);
        running.wait(ms(30_000));
        let ended = running.ended().unwrap_or_else(|| panic!("it does not end:\n{}", tail(&self.log())));
        assert!(ended.success(), "{ended}:\n{}", tail(&self.log()));
    }

    pub fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Its part, as it sees that itself, which may be a second ago.
    pub async fn part(&self) -> Result<Part, String> {
        let text = admin::get(self.admin.address(), "/api/snapshot").await.map_err(|error| error.to_string())?;
        let view: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let share = found(&view, "share").ok_or("it does not say")?;
        let text = |key: &str| share[key].as_str().map(str::to_owned);
        Ok(Part {
            member: text("member").ok_or("it has no name")?,
            owns: share["owns"].as_bool().ok_or("it does not say whether it owns the upstream")?,
            owner: text("owner"),
            epoch: share["epoch"].as_u64(),
            sessions: share["sessions"].as_u64().unwrap_or_default(),
        })
    }

    /// Waits until it says that all is well, or until it says why it is not.
    pub async fn health(&self, well: bool) -> Option<String> {
        until(ms(60_000), async || {
            let text = admin::get(self.admin.address(), "/healthz").await.map_err(|error| error.to_string())?;
            let view: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            match (view["status"].as_str(), view["gateway"]["failing"][0]["reason"].as_str()) {
                (Some("ok"), None) if well => Ok(None),
                (Some("degraded"), Some(reason)) if !well => Ok(Some(reason.to_owned())),
                _ => Err(text),
            }
        })
        .await
    }

    /// A figure as it is measured, which may be a second ago.
    pub async fn figure(&self, name: &str) -> Result<f64, String> {
        let text = admin::get(self.admin.address(), "/metrics").await.map_err(|error| error.to_string())?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.rsplit(' ').next()?.parse().ok());
        value.ok_or_else(|| format!("there is no {name}"))
    }

    /// A client that is subscribed to quotes of these symbols of the NSE.
    pub async fn client(&self, symbols: &[&str]) -> Client {
        let address = self.port.address();
        let stream = TcpStream::connect(address).await.expect("it listens");
        let (mut socket, _) = client_async(format!("ws://{address}"), stream).await.expect("an upgrade");
        let authenticate = json!({"action": "authenticate", "api_key": self.key.reveal()});
        let reply = ask(&mut socket, &authenticate).await;
        assert_eq!(reply["status"], "success", "{reply}");
        let wanted: Vec<_> = symbols.iter().map(|symbol| json!({"symbol": symbol, "exchange": "NSE"})).collect();
        let subscribed = ask(&mut socket, &json!({"action": "subscribe", "symbols": wanted, "mode": "Quote"})).await;
        assert_eq!(subscribed["status"], "success", "{subscribed}");
        let record = Arc::new(Mutex::new(Record::default()));
        let task = tokio::spawn(take_down(socket, Arc::clone(&record)));
        Client { symbols: symbols.iter().map(|symbol| (*symbol).to_owned()).collect(), subscribed, record, task }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// A client that takes down what it is told, and never comes back when its connection ends.
pub struct Client {
    symbols: Vec<String>,
    /// What it was told when it subscribed.
    pub subscribed: Value,
    record: Arc<Mutex<Record>>,
    task: JoinHandle<()>,
}

/// Ticks by symbol and the day's volume, which no two of a symbol have in common.
pub type Told = BTreeMap<(String, i64), Quote>;

/// What a tick said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    pub price: String,
    /// When the exchange said so, in milliseconds since 1970.
    pub said: i64,
}

/// What a client was told.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Ticks in all.
    pub ticks: u64,
    /// Ticks that were told before, or older than what was told before: a day's volume only grows.
    pub repeated: u64,
    pub older: u64,
    /// The latest of each symbol: its volume, when the exchange said so in milliseconds since 1970, and when it came.
    pub latest: BTreeMap<String, (i64, i64, Instant)>,
    /// All of it.
    pub told: Told,
    /// Why its connection ended.
    pub ended: Option<String>,
}

impl Client {
    pub fn record(&self) -> Record {
        lock(&self.record).clone()
    }

    /// Waits until every symbol has ticked after this moment, in milliseconds since 1970; when the first did, and the last.
    pub async fn ticks_after(&self, moment: i64) -> (Instant, Instant) {
        until(ms(60_000), async || {
            let record = lock(&self.record);
            assert_eq!(record.ended, None, "no client is to notice anything");
            let ticked = record.latest.values().filter(|(_, said, _)| *said > moment);
            let mut came: Vec<Instant> = ticked.map(|(_, _, came)| *came).collect();
            came.sort();
            match came.len() == self.symbols.len() {
                true => Ok((came[0], came[came.len() - 1])),
                false => Err(format!("{} of {} symbols tick: {:?}", came.len(), self.symbols.len(), record.latest)),
            }
        })
        .await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take_down(mut socket: WebSocketStream<TcpStream>, record: Arc<Mutex<Record>>) {
    let ended = loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                lock(&record).note(&message);
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => break format!("{other:?}"),
        }
    };
    lock(&record).ended = Some(ended);
}

impl Record {
    fn note(&mut self, message: &Value) {
        let (Some(symbol), data) = (message["symbol"].as_str(), &message["data"]) else { return };
        // What was known before somebody subscribed is no news.
        if message["type"] != "market_data" || message["snapshot"] == true || data["snapshot"] == true {
            return;
        }
        let (volume, quote) = Quote::of(data);
        let said = quote.said;
        self.ticks += 1;
        self.told.insert((symbol.to_owned(), volume), quote);
        match self.latest.get(symbol) {
            Some((before, ..)) if volume < *before => return self.older += 1,
            // A new subscription is told how its symbol stands, which may be as before; the exchange says so at another time.
            Some((before, told, _)) if volume == *before && said <= *told => self.repeated += 1,
            _ => {}
        }
        self.latest.insert(symbol.to_owned(), (volume, said, Instant::now()));
    }
}

impl Quote {
    /// The volume of a tick, and the rest of it.
    pub(crate) fn of(tick: &Value) -> (i64, Quote) {
        let number = |key: &str| tick[key].as_i64().unwrap_or_else(|| panic!("no {key}: {tick}"));
        (number("volume"), Quote { price: tick["ltp"].to_string(), said: number("timestamp") })
    }
}

async fn ask(socket: &mut WebSocketStream<TcpStream>, request: &Value) -> Value {
    socket.send(Message::text(request.to_string())).await.expect("a socket");
    loop {
        match tokio::time::timeout(ms(30_000), socket.next()).await.expect("a reply in time") {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("JSON"),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => panic!("{other:?} instead of a reply"),
        }
    }
}

/// The first object of this name, however deep.
fn found<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .filter(|found| found.is_object())
            .or_else(|| fields.values().find_map(|field| found(field, name))),
        Value::Array(items) => items.iter().find_map(|item| found(item, name)),
        _ => None,
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
