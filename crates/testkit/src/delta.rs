//! Delta Exchange's public socket, on this machine: it speaks the documented JSON, keeps to the documented limits, and fails as told.
//!
//! It knows nothing of the adapter that is tested against it, and reads and writes every message by itself.

mod connection;
mod world;

pub use world::{Asked, Refusing, Seen};

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use world::{Order, Shared, World};

/// How long [`Exchange::until`] waits: far longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// An exchange that runs until it is dropped.
#[derive(Debug)]
pub struct Exchange {
    shared: Arc<Shared>,
    address: SocketAddr,
    secure: bool,
    task: JoinHandle<()>,
}

impl Exchange {
    /// Starts one; it listens when this resolves.
    pub async fn start() -> Exchange {
        Exchange::serve(None).await
    }

    /// Starts one that is spoken to with TLS.
    pub async fn start_tls(config: Arc<ServerConfig>) -> Exchange {
        Exchange::serve(Some(config.into())).await
    }

    async fn serve(tls: Option<TlsAcceptor>) -> Exchange {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
        let address = listener.local_addr().expect("it is bound");
        let (shared, secure) = (Arc::new(Shared::new(World::default())), tls.is_some());
        let task = tokio::spawn(accept(Arc::clone(&shared), listener, tls));
        Exchange { shared, address, secure, task }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let (scheme, host) = if self.secure { ("wss", "localhost") } else { ("ws", "127.0.0.1") };
        format!("{scheme}://{host}:{}", self.address.port())
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Seen {
        self.shared.lock().seen.clone()
    }

    /// Waits until it has seen what is wanted.
    ///
    /// # Panics
    /// After a minute, with what it has seen.
    pub async fn until(&self, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let mut changes = self.shared.changes();
        let comes_true = async {
            while !wanted(&self.seen()) {
                changes.changed().await.expect("the sender lives as long as this handle");
            }
        };
        if timeout(PATIENCE, comes_true).await.is_err() {
            panic!("it did not come to that: {:#?}", self.seen());
        }
        self.seen()
    }

    /// Says how a contract stands to all who want to know; what is not in `contract` has not changed.
    pub fn ticker(&self, symbol: &str, mut contract: Value) {
        contract["s"] = symbol.into();
        let message =
            json!({"d": [contract], "sp": "79777.9", "sy": symbol, "ts": 1_788_725_367_575_186_u64, "type": "ticker"});
        self.shared.lock().tell("ticker", symbol, &message);
    }

    /// Says how contracts stand in one message, to all who want to know of the first of them.
    pub fn tickers(&self, underlying: &str, contracts: &[Value]) {
        let message = json!({"type": "ticker", "sy": underlying, "ts": 1_788_725_367_575_186_u64, "d": contracts});
        let first = contracts[0]["s"].as_str().expect("it has a name");
        self.shared.lock().tell("ticker", first, &message);
    }

    /// Says what the order book is to all who want to know: prices and sizes, best first.
    pub fn book(&self, symbol: &str, asks: &[[&str; 2]], bids: &[[&str; 2]]) {
        let message = json!({"type": "ob_l2", "sy": symbol, "ts": 1_788_725_367_600_000_u64, "a": asks, "b": bids});
        self.shared.lock().tell("ob_l2", symbol, &message);
    }

    /// Says this on a connection, whatever it is. Connections are counted from 1.
    pub fn say(&self, connection: usize, text: &str) {
        self.shared.lock().order(connection, Order::Say(text.to_owned()));
    }

    /// Sends bytes on a connection, which it never does.
    pub fn say_bytes(&self, connection: usize, bytes: &[u8]) {
        self.shared.lock().order(connection, Order::Bytes(bytes.to_vec()));
    }

    /// Cuts a connection without a word.
    pub fn cut(&self, connection: usize) {
        self.shared.lock().order(connection, Order::Cut);
    }

    /// Closes a connection, with this code and reason.
    pub fn close(&self, connection: usize, code: u16, reason: &str) {
        self.shared.lock().order(connection, Order::Close(code, reason.to_owned()));
    }

    /// A connection says nothing any more, and hears nothing; it is not cut.
    pub fn silence(&self, connection: usize) {
        self.shared.lock().order(connection, Order::Silence);
    }

    /// Whether requests are answered, from now on. They are done in any case.
    pub fn answer(&self, answer: bool) {
        self.shared.lock().mute = !answer;
    }

    /// Whether it complains when something is dropped, from now on. It is dropped in any case.
    pub fn complain_of_dropping(&self, complain: bool) {
        self.shared.lock().complain_of_dropping = complain;
    }

    /// Whether new connections are turned away with 503.
    pub fn turn_away(&self, turn_away: bool) {
        self.shared.lock().turn_away = turn_away;
    }

    /// From now on this channel of this contract is refused, in this way.
    pub fn refuse(&self, channel: &str, symbol: &str, how: Refusing) {
        self.shared.lock().refused.insert((channel.to_owned(), symbol.to_owned()), how);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((socket, _)) = accepted else { continue };
                let (shared, tls) = (Arc::clone(&shared), tls.clone());
                served.spawn(async move {
                    match tls {
                        None => connection::run(shared, socket).await,
                        Some(tls) => {
                            if let Ok(socket) = tls.accept(socket).await {
                                connection::run(shared, socket).await;
                            }
                        }
                    }
                });
            }
            Some(_) = served.join_next() => {}
        }
    }
}
