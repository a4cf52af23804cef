//! Windows and their sockets: opened on demand, and gone as soon as there is no reason for them.

use super::nodes::{Node, Nodes};
use super::{Action, Machine, RequestId, SocketId, Timer, WindowId};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// A few sockets with one identity, for a few requests.
#[derive(Debug)]
pub(super) struct Window<N> {
    pub(super) nodes: Nodes<N>,
    /// The order of this window: first those that are preferred, then the others.
    order: Vec<usize>,
    preferred: usize,
    /// How many requests that do not ask all nodes at once were started: each begins one node further.
    turn: usize,
    pub(super) created: Instant,
    pub(super) stage: Stage,
    /// Requests that were started on it.
    pub(super) started: usize,
    /// Requests of it that have not ended.
    pub(super) requests: BTreeSet<RequestId>,
    /// By node.
    pub(super) sockets: BTreeMap<usize, SocketId>,
}

/// How far a window is.
///
/// ```text
///              active_for is over, request_limit is reached,
///   Active ----------- or there are other nodes ------------> Ending
///     |                                                         |
///     +---- with no request under way ---> gone <--- the last --+
///                                                 request ends
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It takes requests, and its sockets are kept for them.
    Active { until: Instant },
    /// It takes none; a socket is kept for those who wait on it alone.
    Ending,
}

/// A socket to one node.
#[derive(Debug)]
pub(super) struct Socket<G> {
    pub(super) window: WindowId,
    pub(super) node: usize,
    /// Who waits for an answer on it.
    pub(super) waiting: BTreeMap<G, RequestId>,
    /// Tags of what was sent on it and is not answered, whether anybody still waits or not: until then nothing else is sent
    /// under such a tag, so that no answer is taken for that to another request, however late it comes.
    pub(super) owed: BTreeSet<G>,
}

impl<G: Ord> Socket<G> {
    /// Whether an answer with this tag could be meant for somebody.
    fn carries(&self, tag: &G) -> bool {
        self.waiting.contains_key(tag) || self.owed.contains(tag)
    }
}

impl<N: Node> Window<N> {
    fn new(nodes: Nodes<N>, preferred: &[Arc<str>], random: &mut Random, now: Instant, until: Instant) -> Window<N> {
        let find = |name: &Arc<str>| nodes.iter().position(|node| node.name() == &**name);
        let mut order: Vec<usize> = preferred.iter().filter_map(find).collect();
        let preferred = order.len();
        let others: Vec<usize> = (0..nodes.len()).filter(|node| !order.contains(node)).collect();
        order.extend(others);
        for at in (preferred + 1..order.len()).rev() {
            order.swap(at, preferred + random.below(at + 1 - preferred));
        }
        Window {
            nodes,
            order,
            preferred,
            turn: 0,
            created: now,
            stage: Stage::Active { until },
            started: 0,
            requests: BTreeSet::new(),
            sockets: BTreeMap::new(),
        }
    }

    /// Whether requests may be started on it.
    fn is_active(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Active { until } => now < until,
            Stage::Ending => false,
        }
    }

    /// Counts a request.
    pub(super) fn start(&mut self, request: RequestId) {
        self.started += 1;
        self.requests.insert(request);
    }

    /// The nodes that a request asks, in order: those that are preferred as they were given, and then the others, beginning one
    /// further with every request that does not ask all at once. Those that are `last` come after the rest, in the same order.
    pub(super) fn order_for(&self, names: Option<&[Arc<str>]>, last: impl Fn(&Arc<N>) -> bool) -> Vec<usize> {
        let asked = |node: &&usize| match names {
            Some(names) => names.iter().any(|name| &**name == self.nodes[**node].name()),
            None => true,
        };
        let (preferred, others) = self.order.split_at(self.preferred);
        let mut order = Vec::with_capacity(self.order.len());
        for is_last in [false, true] {
            let asked = |node: &&usize| asked(node) && last(&self.nodes[**node]) == is_last;
            order.extend(preferred.iter().filter(asked));
            // The turns of nodes that are not asked, or last, are not left to the ones after them.
            let others: Vec<usize> = others.iter().filter(asked).copied().collect();
            let by = self.turn.checked_rem(others.len()).unwrap_or(0);
            order.extend(others[by..].iter().chain(&others[..by]));
        }
        order
    }

    pub(super) fn next_turn(&mut self) {
        self.turn += 1;
    }
}

impl<N: Node, G: Ord + Clone> Machine<N, G> {
    /// The newest window with room for a request with this tag; a new one if there is none and there may be another.
    pub(super) fn window_for(&mut self, now: Instant, tag: &G) -> Option<WindowId> {
        let free = |window: &Window<N>| {
            let carries = |id: &SocketId| self.sockets.get(id).is_some_and(|socket| socket.carries(tag));
            // A request that reconnects may have no socket at the moment.
            let asks = |id: &RequestId| self.requests.get(id).is_some_and(|request| request.tag == *tag);
            window.is_active(now) && !window.sockets.values().any(carries) && !window.requests.iter().any(asks)
        };
        if let Some((&id, _)) = self.windows.iter().rev().find(|(_, window)| free(window)) {
            return Some(id);
        }
        if !self.may_open_a_window() {
            return None;
        }
        let id = WindowId(self.next_window);
        self.next_window += 1;
        self.counters.windows += 1;
        let until = now + self.options.active_for;
        let nodes = Arc::clone(&self.nodes);
        self.windows.insert(id, Window::new(nodes, &self.options.preferred, &mut self.random, now, until));
        self.timers.insert((until, Timer::Window(id)));
        Some(id)
    }

    /// Whether anybody could be started, whatever the tag.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.may_open_a_window() || self.windows.values().any(|window| window.is_active(now))
    }

    fn may_open_a_window(&self) -> bool {
        self.options.max_windows.is_none_or(|most| self.windows.len() < most)
    }

    /// The socket of a window to one of its nodes, opened if there is none.
    pub(super) fn socket_to(&mut self, id: WindowId, node: usize) -> Option<SocketId> {
        let window = self.windows.get_mut(&id)?;
        if let Some(&socket) = window.sockets.get(&node) {
            return Some(socket);
        }
        let socket = SocketId(self.next_socket);
        self.next_socket += 1;
        self.counters.sockets += 1;
        window.sockets.insert(node, socket);
        self.sockets.insert(socket, Socket { window: id, node, waiting: BTreeMap::new(), owed: BTreeSet::new() });
        self.actions.push_back(Action::Open { socket, window: id, node: Arc::clone(&window.nodes[node]) });
        Some(socket)
    }

    /// A window takes no more requests.
    pub(super) fn end_window(&mut self, id: WindowId) {
        let Some(window) = self.windows.get_mut(&id) else { return };
        match std::mem::replace(&mut window.stage, Stage::Ending) {
            Stage::Active { until } => {
                self.timers.remove(&(until, Timer::Window(id)));
                self.tidy(id);
            }
            Stage::Ending => {}
        }
    }

    /// Closes what there is no reason for any more: sockets of a window that takes no requests, on which nobody waits, and
    /// then the window itself.
    pub(super) fn tidy(&mut self, id: WindowId) {
        let Machine { windows, sockets, actions, .. } = self;
        let Some(window) = windows.get_mut(&id) else { return };
        match window.stage {
            Stage::Active { .. } => return,
            Stage::Ending => {}
        }
        window.sockets.retain(|_, socket| {
            let needed = sockets.get(socket).is_some_and(|socket| !socket.waiting.is_empty());
            if !needed {
                sockets.remove(socket);
                actions.push_back(Action::Close(*socket));
            }
            needed
        });
        if window.requests.is_empty() {
            windows.remove(&id);
            actions.push_back(Action::Over(id));
        }
    }
}
