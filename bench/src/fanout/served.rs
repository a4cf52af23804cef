//! The process that serves: the gateway, or what the same bytes cost without one. Told by its standard input what to publish.

use super::frames::from_server;
use super::publisher::{Publisher, payload};
use super::{BROKER, SYMBOLS, USER, symbol};
use crate::process::{Process, say};
use carom::feed::Feed;
use carom_gateway::keys::{Identity, Keys, NewKey};
use carom_gateway::{Gateway, Limits};
use serde_json::json;
use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// The load neither answers pings nor is it to be left because it does not read.
const LONG: Duration = Duration::from_secs(600);

/// What serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gateway,
    /// Frames made beforehand, written to bare sockets one after the other, so many with each write.
    Floor {
        at_once: usize,
    },
}

impl Kind {
    /// What `--serve` says.
    pub fn parse(text: &str) -> Option<Kind> {
        match text.strip_prefix("floor-") {
            Some(at_once) => at_once.parse().ok().map(|at_once| Kind::Floor { at_once }),
            None => (text == "gateway").then_some(Kind::Gateway),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Gateway => f.write_str("gateway"),
            Kind::Floor { at_once } => write!(f, "floor-{at_once}"),
        }
    }
}

/// A process that serves, as its parent sees it.
pub struct Served {
    process: Process,
    pub address: SocketAddr,
    /// `None` where nobody asks for one.
    pub key: Option<String>,
}

impl Served {
    pub fn start(kind: Kind) -> io::Result<Served> {
        let (process, beginning) = Process::start(kind)?;
        let address = beginning["address"].as_str().and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| io::Error::other("the process did not say where it serves"))?;
        Ok(Served { process, address, key: beginning["key"].as_str().map(str::to_owned) })
    }

    pub fn publish(&mut self, ticks_s: u64) -> io::Result<()> {
        self.process.tell(ticks_s)
    }

    /// Bytes of memory that the process has by now.
    pub fn memory(&mut self) -> io::Result<f64> {
        self.process.ask("memory")
    }

    /// Ticks that newer ones took the place of.
    pub fn conflated(&mut self) -> io::Result<u64> {
        self.process.ask("conflated").map(|conflated| conflated as u64)
    }
}

/// The part of the process started with `--serve`: until its parent has gone.
pub fn serve(kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Gateway => serve_gateway(),
        Kind::Floor { at_once } => serve_floor(at_once),
    }
}

/// A gateway for anybody who has the key, without a feed as yet.
pub fn gateway() -> io::Result<(carom_gateway::Builder, NewKey)> {
    let key = NewKey::generate().map_err(io::Error::other)?;
    let keys = Keys::in_memory([(Identity::new(BROKER, USER), key.sha256())]);
    let mut anybody = Limits::default();
    (anybody.clients_per_address, anybody.strangers_per_address) = (anybody.clients, anybody.clients);
    anybody.strangers = anybody.clients;
    let builder = Gateway::builder()
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .keys(keys)
        .limits(anybody)
        .slow_after(LONG)
        .ping(LONG, LONG);
    Ok((builder, key))
}

fn serve_gateway() -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let publisher = Publisher::default();
    let (builder, key) = gateway()?;
    let gateway = runtime.block_on(async {
        let feed = Feed::builder(publisher.clone()).build().map_err(io::Error::other)?;
        builder.feed(BROKER, USER, feed).start().await.map_err(io::Error::other)
    })?;
    say(&json!({ "address": gateway.local_addr().to_string(), "key": key.reveal() }));
    for line in io::stdin().lines() {
        match line?.as_str() {
            "memory" => say(&json!({ "memory": resident()? })),
            "conflated" => say(&json!({ "conflated": gateway.snapshot().conflated })),
            ticks_s => publisher.publish(ticks_s.parse().unwrap_or_default()),
        }
    }
    Ok(())
}

/// Bytes of memory that this process has.
fn resident() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("this system does not say how large a process is"))
}

/// Takes whoever comes until it is told any rate; then one task writes to all of them in turn, for as long as they read.
fn serve_floor(at_once: usize) -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    say(&json!({ "address": listener.local_addr()?.to_string() }));
    let (go, gone) = oneshot::channel::<()>();
    runtime.spawn(async move {
        let mut sockets = accepted(listener, gone).await?;
        let messages = (0..at_once).map(|at| from_server(&message(at))).collect::<Vec<_>>().concat();
        loop {
            for socket in &mut sockets {
                socket.write_all(&messages).await?;
            }
        }
        #[allow(unreachable_code, reason = "says what the task ends with")]
        io::Result::Ok(())
    });
    let mut go = Some(go);
    for line in io::stdin().lines() {
        line?;
        let _ = go.take().map(|go| go.send(()));
    }
    Ok(())
}

/// Everybody who has connected by the time it goes on.
async fn accepted(listener: TcpListener, mut gone: oneshot::Receiver<()>) -> io::Result<Vec<TcpStream>> {
    let mut sockets = Vec::new();
    loop {
        let (socket, _) = tokio::select! {
            biased;
            accepted = listener.accept() => accepted?,
            _ = &mut gone => return Ok(sockets),
        };
        socket.set_nodelay(true)?;
        sockets.push(socket);
    }
}

/// As the gateway words it.
fn message(number: usize) -> String {
    let payload = payload(number, super::crowd::since_epoch());
    let symbol = symbol(number % SYMBOLS);
    format!(
        r#"{{"type":"market_data","symbol":"{symbol}","exchange":"NSE","mode":1,"data":{payload},"broker":"{BROKER}"}}"#
    )
}
