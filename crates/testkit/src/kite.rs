//! Zerodha's ticker on this machine: its requests, packets, limits and refusals over real WebSockets, and faults on demand.
//!
//! It writes packets by itself, from what Kite documents, so that whoever reads them is not checked against his own hand.

mod bytes;
mod connection;
mod world;

pub use bytes::{packet, packets};
pub use world::Seen;

use crate::shared::Shared;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use world::World;

/// A ticker that listens until it is dropped.
pub struct Ticker {
    address: SocketAddr,
    shared: Arc<Shared<World>>,
    _serving: JoinSet<()>,
}

impl Ticker {
    /// One that accepts this key and this token.
    pub async fn start(api_key: &str, access_token: &str) -> io::Result<Ticker> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(World::new(api_key, access_token)));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&shared)));
        Ok(Ticker { address, shared, _serving: serving })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// From now on it accepts another token; those who are connected stay.
    pub fn accept(&self, access_token: &str) {
        self.shared.change(|world| world.access_token = access_token.to_owned());
    }

    /// How many instruments a connection, and how many connections a key may have: 3,000 and 3 to begin with.
    pub fn limit(&self, instruments: usize, connections: usize) {
        self.shared.change(|world| (world.most_instruments, world.most_connections) = (instruments, connections));
    }

    /// How often it says that it lives: every second to begin with.
    pub fn beat(&self, every: Duration) {
        self.shared.change(|world| world.beat = every);
    }

    /// Something is traded: whoever has it is told, as much as he wants to know. To how many.
    pub fn trade(&self, token: u32, price: i32) -> usize {
        self.shared.change(|world| world.trade(token, price))
    }

    /// Says this on every connection.
    pub fn say(&self, message: Message) {
        self.shared.change(|world| world.say(&message));
    }

    /// Every connection is cut, without a word.
    pub fn cut(&self) {
        self.shared.change(World::cut);
    }

    /// Every connection that there is falls silent, and does not read any more.
    pub fn stall(&self) {
        self.shared.change(World::stall);
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Seen {
        self.shared.lock().seen.clone()
    }

    /// Waits until it has seen this.
    ///
    /// # Panics
    /// After 30 s.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut(&Seen) -> bool) -> Seen {
        let mut changes = self.shared.changes();
        let waiting = async {
            loop {
                changes.mark_unchanged();
                let seen = self.seen();
                if is_so(&seen) {
                    return seen;
                }
                if changes.changed().await.is_err() {
                    unreachable!("the world is held here");
                }
            }
        };
        match timeout(Duration::from_secs(30), waiting).await {
            Ok(seen) => seen,
            Err(_) => panic!("never {what}: {:?}", self.seen()),
        }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared<World>>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(connection::run(socket, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}
