//! Windows: a few sockets for a few requests, and then gone; for services of many equal nodes that cannot afford clients
//! who hold connections they do not use.
//!
//! A window takes requests for `active_for` from its creation, and no more than `request_limit` of them. Inside it a socket
//! to a node is opened when a request first goes there, and shared by all requests of the window. When the window takes no
//! more requests, each socket closes as soon as nobody waits on it. Without requests there is no socket at all.
//!
//! A request asks some nodes at once and others as those fail or disagree, until it has the answers it wants or cannot get
//! them any more. Every node has `ack_timeout` to say something, and `reply_timeout` once it has acknowledged. What an answer
//! says is not the machine's business: whoever reads it gives it a key, and equal keys count together.
//!
//! A request that does not ask all nodes at once asks one more for each node that has not acknowledged it within
//! `hedge_after`. That node is *unresponsive* then, as is one that is silent until its deadline or whose socket ends while a request
//! waits on it. For a minute, or until it responds, requests of every window ask it after the others.
//!
//! With active health checks a node whose checks fail is *unhealthy*: until they pass, it is asked after the others as well.
//!
//! What is in time is decided by the times that are given, not by who is heard first: a deadline that lies before `now` has
//! passed. Exactly at the deadline, whichever is told first.
//!
//! ```
//! use carom_core::backend::Backend;
//! use carom_core::window::{Action, Ask, Key, Machine, Options, Outcome, Verdict};
//! use std::time::Instant;
//!
//! # #[allow(clippy::disallowed_methods)]
//! let now = Instant::now();
//! let nodes = (1..=4).map(|port| Backend::fixed(([10, 0, 0, 1], port).into()));
//! let mut windows = Machine::new(Options::default(), nodes, 7).unwrap();
//! assert_eq!(windows.next_timeout(), None); // nobody asks: nothing to do, no socket
//!
//! let request = windows.request(now, "request 1", Ask::any()).unwrap();
//! let Some(Action::Open { socket, .. }) = windows.poll_action() else { panic!() };
//! assert_eq!(windows.poll_action(), Some(Action::Send { socket, request }));
//! assert_eq!(windows.poll_action(), None); // one answer is enough: one node is asked
//!
//! assert!(windows.handle_sending(now, socket, request)); // the socket is open, and somebody still waits
//! windows.handle_answer(now, socket, &"request 1", Verdict::Counts(Key(0)));
//! assert_eq!(windows.poll_delivery().unwrap().outcome, Outcome::Reached(Key(0)));
//!
//! windows.handle_timeout(now + Options::default().active_for);
//! assert_eq!(windows.poll_action(), Some(Action::Close(socket)));
//! ```

mod ask;
mod checks;
mod memory;
mod nodes;
mod options;
mod requests;
mod round;
mod snapshot;
mod windows;

pub use ask::{Ask, Goal, Refusal};
pub use checks::CheckId;
pub use nodes::{Node, NodesError};
pub use options::Options;
pub use requests::{Place, Verdict};
pub use round::Told;
pub use snapshot::{Counters, Latest, Snapshot, SocketSnapshot, WindowSnapshot};

use crate::options::OptionsError;
use crate::random::Random;
use checks::Checked;
use memory::Memory;
use nodes::Nodes;
use requests::Request;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windows::{Socket, Window};

/// Names a request; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// Names a window; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(u64);

impl WindowId {
    /// Which one it is, counted from 0.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Names a socket; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(u64);

/// Tells the answers to one request apart: equal answers have equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<N> {
    /// Open a socket. If that fails, or when it ends, say so with [`Machine::handle_ended`].
    Open {
        /// How to name it.
        socket: SocketId,
        /// All sockets of a window have one identity.
        window: WindowId,
        /// To whom.
        node: Arc<N>,
    },
    /// Send a request as soon as the socket is open, if [`Machine::handle_sending`] then says that it still is to be sent.
    Send {
        /// On which.
        socket: SocketId,
        /// What.
        request: RequestId,
    },
    /// Close a socket, or give up opening it.
    Close(SocketId),
    /// A window is gone: its identity is not used again.
    Over(WindowId),
    /// Log that a node does not respond: it is asked last.
    Unresponsive(Arc<N>),
    /// Log that a node responds again.
    Responsive(Arc<N>),
    /// Check the health of a node, then tell [`Machine::handle_health_checked`].
    HealthCheck {
        /// Names the checks of the node.
        check: CheckId,
        /// The node to check.
        node: Arc<N>,
    },
    /// Log that the health checks of a node fail: it is asked last.
    Unhealthy(Arc<N>),
    /// Log that the health checks of a node pass again.
    Healthy(Arc<N>),
}

/// How a request has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<N> {
    /// Which.
    pub request: RequestId,
    /// How.
    pub outcome: Outcome,
    /// What every node said that it was meant for: those that were asked first, in order. Empty for a request that was not
    /// started.
    pub accounts: Vec<Account<N>>,
}

/// How a request ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As many answers as wanted have this key.
    Reached(Key),
    /// Every node has answered, or is known not to.
    Complete,
    /// There can not be as many equal answers as wanted any more.
    Impossible,
    /// It waited for a window for as long as it could.
    TimedOutInLine {
        /// How long.
        after: Duration,
    },
    /// When its turn came it could not succeed any more: the nodes had changed.
    Refused(Refusal),
    /// The requester was closed.
    Closed,
}

/// What one node said to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account<N> {
    /// Who.
    pub node: Arc<N>,
    /// What.
    pub told: Told,
    /// Whether the request may have reached the node: a socket to it was open and about to send the request.
    pub sent: bool,
}

/// What a timer is for. They are taken back when they mean nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A window has been active for long enough.
    Window(WindowId),
    /// A request has waited for a window for long enough.
    Line(RequestId),
    /// The time of a node is over: that at this place among those that the request has asked.
    Node(RequestId, usize),
    /// The node at this place gets a new socket for the request.
    Again(RequestId, usize),
    /// The node at this place should have acknowledged the request.
    Hedge(RequestId, usize),
    /// The health of a node is to be checked.
    Check(CheckId),
}

/// The machine behind a requester. `N` are nodes, `G` what tells requests apart on a socket.
#[derive(Debug)]
pub struct Machine<N, G> {
    options: Options,
    random: Random,
    nodes: Nodes<N>,
    memory: Memory<N>,
    checked: Checked<N>,
    closed: bool,
    windows: BTreeMap<WindowId, Window<N>>,
    sockets: BTreeMap<SocketId, Socket<G>>,
    requests: BTreeMap<RequestId, Request<G>>,
    /// Those who wait for a window, in order.
    line: BTreeSet<RequestId>,
    next_window: u64,
    next_socket: u64,
    next_request: u64,
    timers: BTreeSet<(Instant, Timer)>,
    latest: Option<Latest>,
    counters: Counters,
    actions: VecDeque<Action<N>>,
    deliveries: VecDeque<Delivery<N>>,
}

/// Why there is no machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewError {
    /// An option makes no sense.
    Options(OptionsError),
    /// The nodes do not.
    Nodes(NodesError),
}

impl<N: Node, G: Ord + Clone> Machine<N, G> {
    /// A requester of these nodes. The same seed gives the same run.
    ///
    /// # Errors
    /// When an option makes no sense, or when there is no node, or two of the same name.
    pub fn new(options: Options, nodes: impl IntoIterator<Item = N>, seed: u64) -> Result<Machine<N, G>, NewError> {
        options.validate().map_err(NewError::Options)?;
        Ok(Machine {
            options,
            random: Random::new(seed),
            nodes: nodes::in_order(nodes).map_err(NewError::Nodes)?,
            memory: Memory::new(),
            checked: Checked::new(),
            closed: false,
            windows: BTreeMap::new(),
            sockets: BTreeMap::new(),
            requests: BTreeMap::new(),
            line: BTreeSet::new(),
            next_window: 0,
            next_socket: 0,
            next_request: 0,
            timers: BTreeSet::new(),
            latest: None,
            counters: Counters::default(),
            actions: VecDeque::new(),
            deliveries: VecDeque::new(),
        })
    }

    /// What it was told.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// What is to be done next; ask until there is nothing.
    pub fn poll_action(&mut self) -> Option<Action<N>> {
        self.actions.pop_front()
    }

    /// Who has ended how; ask until there is nothing.
    pub fn poll_delivery(&mut self) -> Option<Delivery<N>> {
        self.deliveries.pop_front()
    }

    /// When [`handle_timeout`](Machine::handle_timeout) wants to be called, at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Time has passed: does what is due. To be called once at the start, where health is checked.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.closed {
            self.schedule_checks(now);
        }
        self.pass_time(now, |at| at <= now);
    }

    /// Other nodes from here on: new requests go to new windows, those under way end where they are. Whether anything has
    /// changed.
    ///
    /// # Errors
    /// When there is no node, or two of the same name; everything stays as it is.
    pub fn set_nodes(&mut self, now: Instant, nodes: impl IntoIterator<Item = N>) -> Result<bool, NodesError> {
        let nodes = nodes::in_order(nodes)?;
        self.catch_up(now);
        if nodes == self.nodes {
            return Ok(false);
        }
        self.memory.keep(&nodes);
        self.nodes = nodes;
        self.schedule_checks(now);
        for window in self.windows.keys().copied().collect::<Vec<_>>() {
            self.end_window(window);
        }
        self.serve_line(now);
        Ok(true)
    }

    /// Ends everything: requests end as [`Outcome::Closed`], sockets close, and nothing is taken any more.
    pub fn close(&mut self, now: Instant) {
        self.catch_up(now);
        self.closed = true;
        self.stop_checks();
        // Those in line first: none of them is to be started by the end of another.
        for request in self.requests.keys().rev().copied().collect::<Vec<_>>() {
            self.end(request, Outcome::Closed);
        }
        for window in self.windows.keys().copied().collect::<Vec<_>>() {
            self.end_window(window);
        }
    }

    /// What should have happened before `now` happens before whatever happens now.
    fn catch_up(&mut self, now: Instant) {
        self.pass_time(now, |at| at < now);
    }

    fn pass_time(&mut self, now: Instant, is_due: impl Fn(Instant) -> bool) {
        while let Some(&(at, timer)) = self.timers.first().filter(|(at, _)| is_due(*at)) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Window(window) => self.end_window(window),
                Timer::Line(request) => self.time_out_in_line(now, request),
                Timer::Node(request, place) => self.time_out(now, request, place),
                Timer::Again(request, place) => self.reconnect(now, request, place),
                Timer::Hedge(request, place) => self.hedge(now, request, place),
                Timer::Check(check) => self.start_check(check),
            }
            self.serve_line(now);
        }
    }
}

impl fmt::Display for NewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NewError::Options(error) => error.fmt(f),
            NewError::Nodes(error) => error.fmt(f),
        }
    }
}

impl Error for NewError {}
