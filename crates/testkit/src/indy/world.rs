//! What the nodes of a pool know: their ledgers, and who came.

use super::Conduct;
use carom_indy::ledger::Transaction;
use carom_indy::ledger::merkle::{Hash, Tree, leaf_hash};
use carom_indy::zmtp::KeyPair;
use curve25519_dalek::EdwardsPoint;
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    /// What was written, by all at once: the results by who wrote and the number that it gave.
    pub(super) written: BTreeMap<(String, u64), Value>,
    started: Instant,
    sockets: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) alias: String,
    pub(super) keys: KeyPair,
    pub(super) conduct: Conduct,
    /// The pool ledger, and the hashes of its transactions.
    pub(super) ledger: Vec<Value>,
    pub(super) leaves: Vec<Hash>,
    verkey: String,
    /// `client_ip` and `client_port`.
    host: String,
    port: u16,
    /// Sockets by number. The drop of what is here closes them.
    pub(super) open: BTreeMap<u64, oneshot::Sender<()>>,
    pub(super) accepted: usize,
    pub(super) history: Vec<(Duration, usize)>,
    pub(super) identities: Vec<String>,
    pub(super) heard: Vec<Value>,
}

impl World {
    /// Nodes at these addresses; some are known by a host name.
    pub(super) fn new(addresses: impl Iterator<Item = SocketAddr>, names: &[(usize, &str)]) -> World {
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let pool = POOLS.fetch_add(1, Ordering::Relaxed);
        let mut nodes: Vec<Node> = addresses.enumerate().map(|(number, at)| Node::new(pool, number, at)).collect();
        for (node, name) in names {
            nodes[*node].host = (*name).to_owned();
        }
        let genesis: Vec<Value> = nodes.iter().enumerate().map(|(number, node)| node.birth(number + 1)).collect();
        for node in &mut nodes {
            genesis.iter().for_each(|transaction| node.append(transaction.clone()));
        }
        World { nodes, written: BTreeMap::new(), started: Instant::now(), sockets: 0 }
    }

    pub(super) fn genesis(&self) -> String {
        let lines = self.nodes.first().map_or(&[][..], |node| &node.ledger);
        lines.iter().map(|transaction| format!("{transaction}\n")).collect()
    }

    /// A transaction about a node that says what is known already.
    pub(super) fn retold(&self, node: usize, number: usize) -> Value {
        let told = json!({"alias": self.nodes[node].alias});
        self.nodes[node].transaction(told, &format!("retold {number} after {}", self.nodes[node].ledger.len()))
    }

    pub(super) fn removal(&self, node: usize) -> Value {
        let told = json!({"alias": self.nodes[node].alias, "services": []});
        self.nodes[node].transaction(told, &format!("removal after {}", self.nodes[node].ledger.len()))
    }

    /// A socket came: its number, and what resolves when it is to go.
    pub(super) fn open(&mut self, node: usize) -> (u64, oneshot::Receiver<()>) {
        self.sockets += 1;
        let (open, closed) = oneshot::channel();
        self.nodes[node].accepted += 1;
        self.nodes[node].open.insert(self.sockets, open);
        self.note(node);
        (self.sockets, closed)
    }

    pub(super) fn close(&mut self, node: usize, socket: u64) {
        self.nodes[node].open.remove(&socket);
        self.note(node);
    }

    fn note(&mut self, node: usize) {
        let (since, node) = (self.started.elapsed(), &mut self.nodes[node]);
        let count = node.open.len();
        if node.history.last().is_none_or(|(_, last)| *last != count) {
            node.history.push((since, count));
        }
    }
}

impl Node {
    fn new(pool: u64, number: usize, address: SocketAddr) -> Node {
        let seed: [u8; 32] = Sha256::digest(format!("pool {pool} node {number}")).into();
        let mut secret = [0; 32];
        secret.copy_from_slice(&Sha512::digest(seed)[..32]);
        let verkey = EdwardsPoint::mul_base_clamped(secret).compress();
        Node {
            alias: format!("Node{}", number + 1),
            keys: KeyPair::from_ed25519_seed(&seed),
            conduct: Conduct::Honest,
            ledger: Vec::new(),
            leaves: Vec::new(),
            verkey: bs58::encode(verkey.0).into_string(),
            host: address.ip().to_string(),
            port: address.port(),
            open: BTreeMap::new(),
            accepted: 0,
            history: Vec::new(),
            identities: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// Numbers a transaction, as ledgers do, and appends it.
    pub(super) fn append(&mut self, mut transaction: Value) {
        transaction["txnMetadata"]["seqNo"] = (self.ledger.len() + 1).into();
        let hashed = Transaction::new(transaction.clone()).expect("tests do not nest so deep");
        self.leaves.push(leaf_hash(hashed.packed()));
        self.ledger.push(transaction);
    }

    /// The root of the first so many transactions, in base58.
    pub(super) fn root(&self, size: usize) -> String {
        bs58::encode(self.leaves[..size].iter().copied().collect::<Tree>().head().root).into_string()
    }

    fn birth(&self, number: usize) -> Value {
        let (host, port) = (&self.host, self.port);
        let told = json!({
            "alias": self.alias, "client_ip": host, "client_port": port, "node_ip": host, "node_port": port,
            "services": ["VALIDATOR"],
        });
        let mut transaction = self.transaction(told, &format!("birth of {}", self.alias));
        transaction["txnMetadata"]["seqNo"] = number.into();
        transaction
    }

    fn transaction(&self, told: Value, id: &str) -> Value {
        let id: String = Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "reqSignature": {},
            "txn": {
                "data": {"data": told, "dest": self.verkey},
                "metadata": {"from": "Th7MpTaRZVRYnPiabds81Y"},
                "type": "0",
            },
            "txnMetadata": {"seqNo": self.ledger.len() + 1, "txnId": id},
            "ver": "1",
        })
    }
}
