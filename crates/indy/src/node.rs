//! Nodes: who serves a pool, as the transactions of its ledger say.

use crate::json::{JsonError, cut};
use crate::ledger::msgpack::MsgpackError;
use crate::zmtp::{CurveKey, curve_key};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A node that validates transactions, and answers clients.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is called; no two nodes of a pool are called the same.
    pub alias: String,
    /// Where clients reach it.
    pub address: Address,
    /// Its Ed25519 key.
    pub verkey: [u8; 32],
    /// The key of its sockets, which follows from the other.
    pub curve_key: CurveKey,
}

/// Where clients reach a node: the `client_ip` and `client_port` of its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address.
    Ip(SocketAddr),
    /// A host name. It is resolved for every connection.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// The address of an IP address or a host name; `None` if it is neither.
    fn new(host: &str, port: u16) -> Option<Address> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(Address::Ip(SocketAddr::new(ip, port)));
        }
        is_host_name(host).then(|| Address::Name { host: host.to_owned(), port })
    }
}

/// Letters, digits, `-` and `_` in labels of 1 to 63 characters, 253 characters at most. A last label of digits alone is a
/// damaged IPv4 address.
fn is_host_name(host: &str) -> bool {
    let labels = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        let known = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        known && (1..=63).contains(&label.len())
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    labels.len() <= 253 && labels.split('.').all(is_label) && !labels.rsplit('.').next().is_none_or(is_number)
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(formatter),
            Address::Name { host, port } => formatter.pad(&format!("{host}:{port}")),
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {} ({})", self.alias, self.address, bs58::encode(self.verkey).into_string())
    }
}

/// Where something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this line of the genesis, counted from 1.
    Line(usize),
    /// In this transaction of the ledger.
    Transaction(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(formatter, "line {number}"),
            Place::Transaction(number) => write!(formatter, "transaction {number}"),
        }
    }
}

/// An entry that is of no use, and was left out.
#[derive(Debug)]
pub struct Skipped {
    /// Where it stands: for a node, the last entry about it.
    pub place: Place,
    /// What is wrong with it.
    pub problem: Problem,
}

impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.problem)
    }
}

/// What is wrong with an entry.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Not JSON at all, or with a number that would not be the same here.
    #[error(transparent)]
    NotJson(JsonError),
    /// JSON, but nothing that could be hashed.
    #[error("not a transaction: {0}")]
    NotTransaction(MsgpackError),
    /// A transaction of the time before protocol version 2, or none at all.
    #[error("not a transaction of protocol version 2: it has no {0:?}")]
    NoField(&'static str),
    /// A transaction in another place than its own: lines are missing, doubled or out of order.
    #[error("{}, and {wanted} is due", found.map_or("it has no seqNo".to_owned(), |found| format!("its seqNo is {found}")))]
    SeqNo {
        /// The number that is due.
        wanted: u64,
        /// The number that it has.
        found: Option<u64>,
    },
    /// Services that are not a list of strings.
    #[error("the services of the node are not a list of strings: {0}")]
    Services(String),
    /// A node without a name.
    #[error("the node has no alias")]
    NoAlias,
    /// Two nodes with one name.
    #[error("another node is called {0:?} too")]
    Twice(String),
    /// A key that is not 32 bytes in base58.
    #[error("the verkey {0:?} is not 32 bytes in base58")]
    Verkey(String),
    /// A key that is no key.
    #[error("the verkey {0:?} is not a point of the curve that can serve as a key")]
    NotPoint(String),
    /// An address that is none.
    #[error("the client_ip of {alias} is neither an IP address nor a host name: {found}")]
    Ip {
        /// The node.
        alias: String,
        /// What is there.
        found: String,
    },
    /// A port that is none.
    #[error("the client_port of {alias} is not a number from 1 to 65535: {found}")]
    Port {
        /// The node.
        alias: String,
        /// What is there.
        found: String,
    },
}

/// The validators of a ledger.
#[derive(Debug)]
pub struct Validators {
    /// Those that can be used, in the order in which they first appeared.
    pub nodes: Vec<Node>,
    /// How many there are, usable or not. Quorums are computed from this number: a validator that cannot be used counts as one
    /// that does not answer.
    pub count: usize,
    /// Entries that cannot be used.
    pub skipped: Vec<Skipped>,
}

/// The validators after all these transactions.
///
/// Later transactions with the same `dest` change what they name. Who has not the service `VALIDATOR` in the end is no validator, which
/// is nothing to be warned of.
pub fn validators(transactions: impl IntoIterator<Item = (Place, Value)>) -> Validators {
    let mut entries: Vec<Entry> = Vec::new();
    let mut by_dest = BTreeMap::new();
    let mut skipped = Vec::new();
    for (place, transaction) in transactions {
        match about_node(&transaction) {
            Ok(None) => {}
            Ok(Some((dest, told))) => {
                let number = *by_dest.entry(dest.to_owned()).or_insert_with(|| {
                    entries.push(Entry { place, dest: dest.to_owned(), told: BTreeMap::new(), validates: false });
                    entries.len() - 1
                });
                entries[number].learn(place, told);
            }
            Err(problem) => skipped.push(Skipped { place, problem }),
        }
    }
    let (mut nodes, mut count): (Vec<Node>, usize) = (Vec::new(), 0);
    for entry in entries.iter().filter(|entry| entry.validates) {
        count += 1;
        match entry.node() {
            Ok(node) if nodes.iter().any(|other| other.alias == node.alias) => {
                skipped.push(Skipped { place: entry.place, problem: Problem::Twice(cut(&node.alias)) });
            }
            Ok(node) => nodes.push(node),
            Err(problem) => skipped.push(Skipped { place: entry.place, problem }),
        }
    }
    Validators { nodes, count, skipped }
}

/// A node's key, and what is said of it.
pub(crate) type About<'t> = (&'t str, &'t Map<String, Value>);

/// What a transaction says of a node, and of which; `None` if it is about something else.
pub(crate) fn about_node(transaction: &Value) -> Result<Option<About<'_>>, Problem> {
    let body = transaction.get("txn").ok_or(Problem::NoField("txn"))?;
    let kind = body.get("type").ok_or(Problem::NoField("type"))?;
    if kind != "0" {
        return Ok(None);
    }
    let outer = body.get("data").ok_or(Problem::NoField("data"))?;
    let dest = outer.get("dest").and_then(Value::as_str).ok_or(Problem::NoField("dest"))?;
    let told = outer.get("data").and_then(Value::as_object).ok_or(Problem::NoField("data"))?;
    Ok(Some((dest, told)))
}

/// Checks that a value is a transaction, and the one with this number.
pub(crate) fn check(transaction: &Value, wanted: u64) -> Result<(), Problem> {
    if let Some((_, told)) = about_node(transaction)?
        && let Some(services) = told.get("services")
    {
        validates(services).ok_or_else(|| Problem::Services(cut(&services.to_string())))?;
    }
    let found = transaction.get("txnMetadata").and_then(|metadata| metadata.get("seqNo")?.as_u64());
    if found == Some(wanted) { Ok(()) } else { Err(Problem::SeqNo { wanted, found }) }
}

/// Whether these services make a node a validator; `None` if they are not a list of strings.
fn validates(services: &Value) -> Option<bool> {
    let services = services.as_array()?;
    services.iter().all(Value::is_string).then(|| services.iter().any(|service| service == "VALIDATOR"))
}

/// All that was said of one node, the latest of each.
struct Entry {
    place: Place,
    dest: String,
    told: BTreeMap<&'static str, Value>,
    validates: bool,
}

impl Entry {
    /// No more is kept than what nodes are made of: there may be many entries, with anything in them.
    fn learn(&mut self, place: Place, told: &Map<String, Value>) {
        self.place = place;
        if let Some(services) = told.get("services") {
            // One validator too many makes quorums larger, one too few makes them too small.
            self.validates = validates(services).unwrap_or(true);
        }
        for field in ["alias", "client_ip", "client_port"] {
            let kept = told.get(field).map(|value| match value {
                Value::Array(_) => Value::Array(Vec::new()),
                Value::Object(_) => Value::Object(Map::new()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
            });
            self.told.extend(kept.map(|value| (field, value)));
        }
    }

    fn node(&self) -> Result<Node, Problem> {
        let alias = self.told.get("alias").and_then(|alias| alias.as_str()).filter(|alias| !alias.is_empty());
        let alias = alias.ok_or(Problem::NoAlias)?.to_owned();
        let verkey = verkey(&self.dest).ok_or_else(|| Problem::Verkey(cut(&self.dest)))?;
        let curve_key = curve_key(&verkey).ok_or_else(|| Problem::NotPoint(self.dest.clone()))?;
        let port = self.told.get("client_port").and_then(|port| match port {
            Value::Number(number) => number.as_u64()?.try_into().ok(),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        });
        let port = port.filter(|port: &u16| *port != 0);
        let port = port.ok_or_else(|| Problem::Port { alias: cut(&alias), found: self.shown("client_port") })?;
        let address = self.told.get("client_ip").and_then(|host| Address::new(host.as_str()?, port));
        let address = address.ok_or_else(|| Problem::Ip { alias: cut(&alias), found: self.shown("client_ip") })?;
        Ok(Node { alias, address, verkey, curve_key })
    }

    fn shown(&self, field: &str) -> String {
        self.told.get(field).map_or_else(|| "nothing".to_owned(), |value| cut(&value.to_string()))
    }
}

/// 32 bytes in base58. Decoding takes time with the square of the length, and what is longer than 44 is no key anyway.
fn verkey(dest: &str) -> Option<[u8; 32]> {
    let dest = Some(dest).filter(|dest| dest.len() <= 44)?;
    bs58::decode(dest).into_vec().ok()?.try_into().ok()
}
