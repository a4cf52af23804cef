//! Indy nodes that do what a test tells them to, over real sockets with real CURVE, and remember who came.
//!
//! A [`Pool`] is some nodes with a ledger each, equal at first. They answer what clients ask (the state of the pool ledger,
//! transactions of it, GET_TXN, GET_NYM, GET_REVOC_REG_DELTA, NYM, GET_VALIDATOR_INFO) as [`Conduct`] says, and count sockets and identities.
//!
//! ```
//! use carom_indy::message::{Message, status_request};
//! use carom_indy::zmtp::{KeyPair, Socket};
//! use carom_indy::Genesis;
//! use testkit::indy::Pool;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let pool = Pool::start(4).await?;
//! let genesis = Genesis::parse(&pool.genesis())?;
//!
//! let (node, keys) = (&genesis.nodes()[0], KeyPair::random()?);
//! let mut socket = Socket::connect(pool.address(0), node.curve_key, &keys, "me".into(), 128 * 1024).await?;
//! socket.push(status_request(&genesis.ledger().head()).as_bytes())?;
//! assert_eq!(Message::parse(&socket.next().await?)?, Message::Status(genesis.ledger().head()));
//! assert_eq!((pool.sockets(0), pool.sockets(1)), (1, 0));
//!
//! drop(socket);
//! pool.until(|pool| pool.sockets(0) == 0).await;
//! # Ok(()) }) }
//! ```
//!
//! Left out: signatures (nobody is refused for the lack of one), state proofs that could be verified, and agreement between nodes: what one writes all have
//! written.

mod answer;
mod conduct;
mod sockets;
mod world;

pub use conduct::Conduct;

use crate::listening::{Listening, Port};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use world::World;

/// Nodes on ports of 127.0.0.1, numbered from 0 and called `Node1` and so on. Its drop stops them.
///
/// # Panics
///
/// All methods that take a node do so if there is none of that number.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    nodes: Vec<Listening>,
    genesis: String,
    _tasks: JoinSet<()>,
}

impl Pool {
    /// Starts so many nodes, with keys that no other pool of this process has. They listen when this returns.
    pub async fn start(nodes: usize) -> io::Result<Pool> {
        Pool::start_named(nodes, &[]).await
    }

    /// As [`start`](Self::start), with a host name as the `client_ip` of these nodes.
    pub async fn start_named(nodes: usize, names: &[(usize, &str)]) -> io::Result<Pool> {
        let ports = (0..nodes).map(|_| Port::reserve()).collect::<io::Result<Vec<_>>>()?;
        let world = World::new(ports.iter().map(Port::address), names);
        let genesis = world.genesis();
        let keys: Vec<_> = world.nodes.iter().map(|node| node.keys.clone()).collect();
        let shared = Arc::new(Shared::new(world));
        let (mut tasks, mut listening) = (JoinSet::new(), Vec::new());
        for (number, (port, keys)) in ports.into_iter().zip(keys).enumerate() {
            let (ears, changes) = Listening::start(port)?;
            tasks.spawn(sockets::serve(number, keys, Arc::clone(&shared), changes));
            listening.push(ears);
        }
        Ok(Pool { shared, nodes: listening, genesis, _tasks: tasks })
    }

    /// The transactions with which the pool began, a line for each node.
    pub fn genesis(&self) -> String {
        self.genesis.clone()
    }

    /// Where a node listens; the same after every restart.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node].address()
    }

    /// From now on the node does this.
    pub fn conduct(&self, node: usize, conduct: Conduct) {
        self.shared.change(|world| world.nodes[node].conduct = conduct);
    }

    /// From now on all nodes do this.
    pub fn conduct_all(&self, conduct: Conduct) {
        self.shared.change(|world| world.nodes.iter_mut().for_each(|node| node.conduct = conduct.clone()));
    }

    /// Appends a transaction to the pool ledger of every node.
    pub fn append(&self, transaction: &Value) {
        self.shared.change(|world| world.nodes.iter_mut().for_each(|node| node.append(transaction.clone())));
    }

    /// Appends a transaction to the pool ledger of this node alone.
    pub fn append_at(&self, node: usize, transaction: Value) {
        self.shared.change(|world| world.nodes[node].append(transaction));
    }

    /// Appends so many transactions that change nothing: the first node's alias is told again.
    pub fn grow(&self, count: usize) {
        for number in 0..count {
            let transaction = self.shared.lock().retold(0, number);
            self.append(&transaction);
        }
    }

    /// A transaction that takes a node out of the validators.
    pub fn removal(&self, node: usize) -> Value {
        self.shared.lock().removal(node)
    }

    /// How many transactions the pool ledger of a node has.
    pub fn size(&self, node: usize) -> usize {
        self.shared.lock().nodes[node].ledger.len()
    }

    /// The listener goes, and all sockets with it; the system refuses new ones when this returns.
    ///
    /// Cancel safety: it comes to refuse all the same, but sockets may stay.
    pub async fn stop(&self, node: usize) {
        self.nodes[node].refuse().await;
        self.disconnect(node);
    }

    /// Listens again, after [`stop`](Self::stop).
    pub fn restart(&self, node: usize) -> io::Result<()> {
        self.nodes[node].restart()
    }

    /// Closes all sockets of a node. It goes on listening.
    pub fn disconnect(&self, node: usize) {
        self.shared.change(|world| world.nodes[node].open.clear());
    }

    /// How many sockets a node has open.
    pub fn sockets(&self, node: usize) -> usize {
        self.shared.lock().nodes[node].open.len()
    }

    /// How many sockets all have open.
    pub fn all_sockets(&self) -> usize {
        self.shared.lock().nodes.iter().map(|node| node.open.len()).sum()
    }

    /// How many sockets a node has accepted so far.
    pub fn accepted(&self, node: usize) -> usize {
        self.shared.lock().nodes[node].accepted
    }

    /// How many sockets a node had open, and since when after the start of the pool: an entry for each change.
    pub fn history(&self, node: usize) -> Vec<(Duration, usize)> {
        self.shared.lock().nodes[node].history.clone()
    }

    /// The identities that came to a node, each once, in the order of their coming.
    pub fn identities(&self, node: usize) -> Vec<String> {
        self.shared.lock().nodes[node].identities.clone()
    }

    /// What clients said to a node, in order, as far as it was JSON.
    pub fn heard(&self, node: usize) -> Vec<Value> {
        self.shared.lock().nodes[node].heard.clone()
    }

    /// Waits until this is so. It is looked at again whenever anything changes.
    pub async fn until(&self, so: impl Fn(&Pool) -> bool) {
        let mut changes = self.shared.changes();
        while !so(self) {
            // The sender is ours, so there is always more to come.
            let _ = changes.changed().await;
        }
    }
}

type Shared = crate::shared::Shared<World>;
