//! The handle of a running exchange: where it is, how it stands, and what goes wrong with it.

use super::options::Options;
use super::server;
use super::token::Token;
use super::world::{Order, Shared};
use carom_core::options::OptionsError;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An exchange that runs. Dropping it ends it, and every connection without a word; see also [`stop`](Exchange::stop).
#[derive(Debug)]
pub struct Exchange {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// Why an exchange does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option makes no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// It cannot listen there.
    #[error("cannot listen on {address}")]
    #[non_exhaustive]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// An exchange at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Connections that are up, oldest first.
    pub connections: Vec<LineSnapshot>,
    /// Connections that were let in so far.
    pub accepted: u64,
    /// Connections that were not.
    pub turned_away: u64,
    /// Symbols that were refused because their connection was full.
    pub over_capacity: u64,
    /// Ticks that were sent so far; those in a queue count.
    pub ticks: u64,
    /// Ticks that were not sent because a connection took them too slowly.
    pub lost: u64,
    /// Most connections that there were at a time.
    pub most_connections: usize,
    /// Most symbols that there were on one connection.
    pub most_topics: usize,
}

/// A connection of an exchange at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineSnapshot {
    /// Which one, counted from 1 in the order in which they came.
    pub number: u64,
    /// Symbols on it.
    pub topics: usize,
}

impl Exchange {
    /// Starts an exchange; it listens when this resolves.
    ///
    /// # Errors
    /// When an option makes no sense, or when it cannot listen there.
    pub async fn start(options: Options) -> Result<Exchange, StartError> {
        options.validate()?;
        let failed = |source| StartError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::new(options));
        let task = tokio::spawn(server::run(Arc::clone(&shared), listener));
        Ok(Exchange { shared, address, task })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What [`Simulated::new`](super::Simulated::new) wants to know: `ws://` and where it listens.
    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// How it stands; all figures are of one moment.
    pub fn snapshot(&self) -> Snapshot {
        let world = self.shared.lock();
        let counts = world.counts;
        Snapshot {
            connections: world.floor.lines().map(|(number, topics)| LineSnapshot { number, topics }).collect(),
            accepted: counts.accepted,
            turned_away: counts.turned_away,
            over_capacity: counts.over_capacity,
            ticks: counts.ticks,
            lost: counts.lost,
            most_connections: counts.most_connections,
            most_topics: counts.most_topics,
        }
    }

    /// Waits until it stands as wanted; looked at whenever a connection or what it carries has changed.
    ///
    /// Cancel safe.
    pub async fn until(&self, mut wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let snapshot = self.snapshot();
            // The sender lives as long as this does.
            if wanted(&snapshot) || changes.changed().await.is_err() {
                return snapshot;
            }
        }
    }

    /// Cuts the connection of this number without a word; whether there was one.
    pub fn kill(&self, connection: u64) -> bool {
        self.shared.order(Order::Cut, |_| vec![connection]) > 0
    }

    /// Cuts one connection, chosen by chance; whether there was one.
    pub fn kill_any(&self) -> bool {
        self.shared.order(Order::Cut, |world| world.any().into_iter().collect()) > 0
    }

    /// The connection of this number says nothing any more; it is not cut. Whether there was one.
    pub fn silence(&self, connection: u64) -> bool {
        self.shared.order(Order::Silence, |_| vec![connection]) > 0
    }

    /// The next request that comes, on whatever connection, has its connection cut instead of an answer.
    pub fn cut_next_request(&self) {
        self.shared.lock().cut_next_request = true;
    }

    /// From now on this token is valid, and none but this: connections that presented another one are closed with 4401.
    pub fn change_token(&self, token: impl Into<String>) {
        let token = Some(Token::new(token.into()));
        self.shared.order(Order::Expire, |world| {
            let others = world.lines.iter().filter(|(_, line)| line.presented != token);
            let others = others.map(|(&number, _)| number).collect();
            world.token = token;
            others
        });
    }

    /// Whether every token is refused. Connections that are up stay.
    pub fn refuse_credential(&self, refuse: bool) {
        self.shared.lock().refuse_credential = refuse;
    }

    /// Whether new connections are turned away with 503. Those that are up stay.
    pub fn refuse_connections(&self, refuse: bool) {
        self.shared.lock().refuse_connections = refuse;
    }

    /// How long requests wait for their answers, from now on. What they ask for is done at once.
    pub fn delay_acks(&self, delay: Duration) {
        self.shared.lock().ack_delay = delay;
    }

    /// Ends it, and says so to every connection; those that do not hear it within a second or two are cut.
    pub async fn stop(self) {
        self.refuse_connections(true);
        self.shared.order(Order::GoAway, |world| world.lines.keys().copied().collect());
        let gone = self.until(|snapshot| snapshot.connections.is_empty());
        let _ = tokio::time::timeout(Duration::from_secs(2), gone).await;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}
