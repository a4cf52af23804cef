//! Nodes made of memory, for requesters with paused time: they do what a test tells them to, and count who is connected.
//!
//! [`Nodes`] is a transport. Every socket, identity and request is noted from the nodes' side, with its time.

use carom::Backend;
use carom::window::{Incoming, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// How a node treats requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treats {
    /// Answers with this text, after so long.
    Answers(&'static str, Duration),
    /// Acknowledges after the first time, and answers after the second, both from when it is asked.
    Acknowledges(Duration, &'static str, Duration),
    /// Acknowledges, and says nothing more.
    AckOnly,
    /// Says nothing.
    Mute,
    /// Refuses with this text.
    Nacks(&'static str),
    /// Says something that belongs to nobody, then answers.
    Chats(&'static str),
    /// Answers with this text, twice.
    Twice(&'static str),
    /// Accepts no sockets.
    RefusesSockets,
    /// Takes so long to finish the handshake, and then answers `yes` at once.
    OpensAfter(Duration),
    /// Never finishes the handshake.
    Hangs,
    /// Ends the socket when it is asked.
    Drops,
    /// The transport panics when it reads.
    Panics,
}

/// What a node has seen of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The name of the node.
    pub node: String,
    /// The identity of the window.
    pub identity: u32,
    /// The tag of the request.
    pub tag: u32,
    /// When it came, from when the nodes were made.
    pub at: Duration,
}

/// What is asked: a tag, and nothing else that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(pub u32);

/// Why a socket failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// The node accepts none.
    Refused,
    /// The node has ended it.
    Ended,
}

/// Scripted nodes, and the transport to them. Clones are the same.
#[derive(Clone)]
pub struct Nodes {
    state: Arc<Mutex<State>>,
    restarts: watch::Sender<u64>,
    began: Instant,
}

#[derive(Default)]
struct State {
    treats: BTreeMap<String, Treats>,
    identities: u32,
    /// Sockets that are open, by node; those that are being opened are not.
    open: BTreeMap<String, usize>,
    opened: usize,
    most: usize,
    seen: Vec<Seen>,
}

/// A socket to one of the nodes.
pub struct NodeSocket {
    node: String,
    identity: u32,
    nodes: Nodes,
    due: VecDeque<(Instant, Due)>,
    restarts: watch::Receiver<u64>,
}

enum Due {
    Says(Incoming<u32, String>),
    Ends,
    Panics,
}

impl Nodes {
    /// Nodes that all answer `yes` at once, until they are told otherwise.
    pub fn new() -> Nodes {
        Nodes { state: Arc::default(), restarts: watch::Sender::new(0), began: Instant::now() }
    }

    /// So many backends, named `node-1` and so on: what a requester is built with.
    pub fn backends(count: u8) -> Vec<Backend> {
        (1..=count).map(|n| Backend::new(name(n), ([10, 0, 0, n], 9_700).into())).collect()
    }

    /// Tells a node how to treat requests from here on.
    pub fn treat(&self, node: u8, treats: Treats) {
        self.lock().treats.insert(name(node), treats);
    }

    /// All nodes end all their sockets.
    pub fn restart(&self) {
        self.restarts.send_modify(|count| *count += 1);
    }

    /// How many sockets are open.
    pub fn open(&self) -> usize {
        self.lock().open.values().sum()
    }

    /// How many sockets are open to this node.
    pub fn open_to(&self, node: u8) -> usize {
        self.lock().open.get(&name(node)).copied().unwrap_or(0)
    }

    /// How many sockets were ever opened.
    pub fn opened(&self) -> usize {
        self.lock().opened
    }

    /// Most sockets that were open at a time.
    pub fn most(&self) -> usize {
        self.lock().most
    }

    /// How many windows have made themselves an identity.
    pub fn identities(&self) -> usize {
        self.lock().identities as usize
    }

    /// Every request that has come to a node, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn treats(&self, node: &str) -> Treats {
        self.lock().treats.get(node).cloned().unwrap_or(Treats::Answers("yes", Duration::ZERO))
    }
}

/// The name of a node.
pub fn name(node: u8) -> String {
    format!("node-{node}")
}

impl Default for Nodes {
    fn default() -> Nodes {
        Nodes::new()
    }
}

impl Transport for Nodes {
    type Node = Backend;
    type Identity = u32;
    type Socket = NodeSocket;
    type Request = Question;
    type Answer = String;
    type Tag = u32;
    type Error = NodeError;

    fn identity(&self) -> u32 {
        let mut state = self.lock();
        state.identities += 1;
        state.identities
    }

    fn tag(&self, request: &Question) -> u32 {
        request.0
    }

    async fn open(&self, node: &Backend, identity: &u32) -> Result<NodeSocket, NodeError> {
        match self.treats(node.name()) {
            Treats::RefusesSockets => return Err(NodeError::Refused),
            Treats::Hangs => pending().await,
            Treats::OpensAfter(time) => sleep(time).await,
            _ => sleep(Duration::from_millis(1)).await,
        }
        let mut state = self.lock();
        *state.open.entry(node.name().to_owned()).or_default() += 1;
        state.opened += 1;
        state.most = state.most.max(state.open.values().sum());
        Ok(NodeSocket {
            node: node.name().to_owned(),
            identity: *identity,
            nodes: self.clone(),
            due: VecDeque::new(),
            restarts: self.restarts.subscribe(),
        })
    }

    fn send(&self, socket: &mut NodeSocket, Question(tag): &Question) -> Result<(), NodeError> {
        let (tag, now) = (*tag, Instant::now());
        let (node, identity) = (socket.node.clone(), socket.identity);
        self.lock().seen.push(Seen { node, identity, tag, at: now - self.began });
        let reply = |text: &str| Due::Says(Incoming::Reply(tag, text.to_owned()));
        let due = match self.treats(&socket.node) {
            Treats::Answers(text, after) => vec![(after, reply(text))],
            Treats::OpensAfter(_) => vec![(Duration::ZERO, reply("yes"))],
            Treats::Acknowledges(first, text, then) => {
                vec![(first, Due::Says(Incoming::Ack(tag))), (then, reply(text))]
            }
            Treats::AckOnly => vec![(Duration::ZERO, Due::Says(Incoming::Ack(tag)))],
            Treats::Mute | Treats::RefusesSockets | Treats::Hangs => vec![],
            Treats::Nacks(text) => vec![(Duration::ZERO, Due::Says(Incoming::Nack(tag, text.to_owned())))],
            Treats::Chats(text) => vec![(Duration::ZERO, Due::Says(Incoming::Other)), (Duration::ZERO, reply(text))],
            Treats::Twice(text) => vec![(Duration::ZERO, reply(text)), (Duration::ZERO, reply(text))],
            Treats::Drops => vec![(Duration::ZERO, Due::Ends)],
            Treats::Panics => vec![(Duration::ZERO, Due::Panics)],
        };
        socket.due.extend(due.into_iter().map(|(after, due)| (now + after, due)));
        socket.due.make_contiguous().sort_by_key(|(at, _)| *at);
        Ok(())
    }

    async fn receive(&self, socket: &mut NodeSocket) -> Result<Incoming<u32, String>, NodeError> {
        let next = socket.due.front().map(|(at, _)| *at);
        let arrives = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = socket.restarts.changed() => Err(NodeError::Ended),
            () = arrives => match socket.due.pop_front() {
                Some((_, Due::Says(incoming))) => Ok(incoming),
                Some((_, Due::Panics)) => panic!("as told"),
                Some((_, Due::Ends)) | None => Err(NodeError::Ended),
            },
        }
    }
}

impl Drop for NodeSocket {
    fn drop(&mut self) {
        if let Some(open) = self.nodes.lock().open.get_mut(&self.node) {
            *open -= 1;
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Refused => write!(f, "no sockets here"),
            NodeError::Ended => write!(f, "the node has ended the socket"),
        }
    }
}

impl std::error::Error for NodeError {}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("open", &self.open()).finish_non_exhaustive()
    }
}

impl fmt::Debug for NodeSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeSocket").field("node", &self.node).field("identity", &self.identity).finish_non_exhaustive()
    }
}
