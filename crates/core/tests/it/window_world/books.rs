//! The books: what was asked of whom and what became of it, kept from what goes in and comes out alone.

use super::{Moment, Tag, number};
use carom_core::backend::Backend;
use carom_core::random::Random;
use carom_core::window::{
    Ask, Counters, Delivery, Goal, Key, Options, Outcome, Refusal, RequestId, SocketId, Told, Verdict, WindowId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a node that did not respond is asked last.
const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Books {
    pub(super) live: BTreeMap<RequestId, Inquiry>,
    /// Those who gave up in this very step: what had happened before may still be on its way out of the machine.
    given_up: BTreeMap<RequestId, Inquiry>,
    pub(super) windows: BTreeMap<WindowId, Window>,
    pub(super) sockets: BTreeMap<SocketId, Link>,
    gone: Vec<SocketId>,
    ever: BTreeSet<SocketId>,
    /// Answers that are still to come, whether anybody waits for them or not.
    owed: BTreeSet<(SocketId, Tag)>,
    /// Who was started in this very step, and which tags windows carried until then.
    started: Vec<(RequestId, WindowId)>,
    carried: BTreeSet<(WindowId, Tag)>,
    /// Which set of nodes there is: how many there were before, and where each is.
    generation: u64,
    nodes: BTreeSet<SocketAddr>,
    /// Until when nodes are asked last: as it is after this step, and as the machine has said so far.
    pub(super) unresponsive: BTreeMap<SocketAddr, Moment>,
    said: BTreeMap<SocketAddr, Moment>,
    pub(super) closed: bool,
    pub(super) ended: usize,
    pub(super) failed: usize,
    pub(super) counted: Counters,
    /// Every window there was.
    windows_ever: BTreeSet<WindowId>,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Inquiry {
    pub(super) tag: Tag,
    pub(super) ask: Ask,
    pub(super) since: Moment,
    ack: Duration,
    pub(super) reply: Duration,
    hedge_after: Option<Duration>,
    pub(super) started: Option<Start>,
    pub(super) asked: Vec<Asked>,
    /// How many more are to be asked in this very step.
    pub(super) due: usize,
    /// Servers that it asks last.
    pub(super) last: BTreeSet<usize>,
}

/// What is fixed when a request is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) window: WindowId,
    /// How many nodes it may ask, and how many at first.
    pub(super) nodes: usize,
    pub(super) first: usize,
    /// Which one it is of the window's requests that do not ask all at once.
    pub(super) turn: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) server: usize,
    node: SocketAddr,
    pub(super) socket: SocketId,
    since: Moment,
    pub(super) deadline: Moment,
    /// When another one is asked as well unless it has acknowledged the request; and whether that has come to pass.
    pub(super) hedge: Option<Moment>,
    overdue: bool,
    /// Whether it has come that far, on this socket and on any.
    sent: bool,
    pub(super) ever_sent: bool,
    /// Its socket has ended, and there is to be another one.
    pub(super) lost: bool,
    acked: bool,
    pub(super) told: Option<Told>,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) created: Moment,
    pub(super) servers: BTreeSet<usize>,
    /// Which set of nodes it was made for.
    generation: u64,
    pub(super) started: usize,
    turns: usize,
    /// What is known of its order: the server at each place among these servers, and which server comes before which.
    pub(super) order: BTreeMap<(BTreeSet<usize>, usize), usize>,
    pub(super) before: BTreeSet<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) window: WindowId,
    pub(super) server: usize,
    node: SocketAddr,
    /// It has ended by itself in this very step; the machine may have closed it before it heard.
    pub(super) ended: bool,
}

/// Whether a request's options make sense.
pub(super) fn makes_sense(ask: &Ask, options: &Options) -> bool {
    let ack = ask.ack_timeout.unwrap_or(options.ack_timeout);
    ask.at_once != Some(0) && ask.reply_timeout.unwrap_or(options.reply_timeout) >= ack
}

/// Why there are not the nodes for a request, if there are not.
pub(super) fn refusal(ask: &Ask, names: &BTreeSet<String>) -> Option<Refusal> {
    let asked = match &ask.nodes {
        None => names.len(),
        Some(wanted) => {
            let unknown: Vec<_> = wanted.iter().filter(|name| !names.contains(&***name)).cloned().collect();
            if !unknown.is_empty() {
                return Some(Refusal::UnknownNodes(unknown));
            }
            wanted.iter().collect::<BTreeSet<_>>().len()
        }
    };
    match ask.goal {
        _ if asked == 0 => Some(Refusal::NoNodes),
        Goal::Equal(wanted) if wanted == 0 || wanted > asked => Some(Refusal::Unreachable { wanted, nodes: asked }),
        Goal::Equal(_) | Goal::Every => None,
    }
}

impl Inquiry {
    pub(super) fn waiting(&self) -> usize {
        self.asked.iter().filter(|asked| asked.told.is_none()).count()
    }

    pub(super) fn unasked(&self) -> usize {
        self.started.map_or(0, |start| start.nodes - self.asked.len())
    }

    pub(super) fn best(&self) -> usize {
        let keys = self.asked.iter().filter_map(|asked| match asked.told {
            Some(Told::Answered(key)) => Some(key),
            _ => None,
        });
        let mut groups: BTreeMap<Key, usize> = BTreeMap::new();
        keys.for_each(|key| *groups.entry(key).or_default() += 1);
        groups.into_values().max().unwrap_or(0)
    }

    fn votes(&self, key: Key) -> usize {
        self.asked.iter().filter(|asked| asked.told == Some(Told::Answered(key))).count()
    }

    /// Whether it must have ended by now.
    pub(super) fn is_over(&self) -> bool {
        let possible = self.waiting() + self.unasked();
        match (self.started, self.ask.goal) {
            (None, _) => false,
            (Some(_), Goal::Equal(wanted)) => self.best() >= wanted || self.best() + possible < wanted,
            (Some(_), Goal::Every) => possible == 0,
        }
    }

    /// Whether this is how it had to end.
    pub(super) fn ends_as(&self, outcome: &Outcome) -> bool {
        match (outcome, self.ask.goal) {
            (Outcome::Reached(key), Goal::Equal(wanted)) => self.votes(*key) == wanted,
            (Outcome::Impossible, Goal::Equal(wanted)) => self.best() < wanted && self.is_over(),
            (Outcome::Complete, Goal::Every) => self.is_over(),
            _ => false,
        }
    }

    /// Deadlines and hedges that have passed, in order, until it is over. Whose they were.
    fn expire(&mut self, passed: impl Fn(Moment) -> bool) -> Vec<SocketAddr> {
        let mut silent = Vec::new();
        while !self.is_over() {
            let waiting = self.asked.iter().enumerate().filter(|(_, asked)| asked.told.is_none());
            let times = waiting.flat_map(|(place, asked)| {
                [Some((asked.deadline, false, place)), asked.hedge.map(|hedge| (hedge, true, place))]
            });
            let Some((_, is_hedge, place)) = times.flatten().filter(|(at, ..)| passed(*at)).min() else { break };
            let asked = &mut self.asked[place];
            let after = asked.deadline - asked.since;
            match (is_hedge, asked.lost, asked.acked) {
                (true, ..) => (asked.hedge, asked.overdue) = (None, true),
                (false, true, _) => asked.told = Some(Told::Ended),
                (false, false, true) => asked.told = Some(Told::NoReply { after }),
                (false, false, false) => asked.told = Some(Told::NoAck { after }),
            }
            silent.push(asked.node);
            self.pursue();
        }
        silent
    }

    /// Counts the nodes to be asked: together with the best group of equal answers and the nodes that are waited for and not
    /// overdue, they are as many as at first.
    fn pursue(&mut self) {
        let Some(Start { first, .. }) = self.started else { return };
        let in_time = self.asked.iter().filter(|asked| asked.told.is_none() && !asked.overdue).count();
        while !self.is_over() && self.unasked() > self.due && self.best() + in_time + self.due < first {
            self.due += 1;
        }
    }

    fn on(&mut self, socket: SocketId) -> Option<&mut Asked> {
        self.asked.iter_mut().find(|asked| asked.socket == socket && asked.told.is_none() && !asked.lost)
    }
}

impl Books {
    pub(super) fn took(&mut self, clock: Moment, id: RequestId, tag: Tag, ask: Ask, options: &Options) {
        let ack = ask.ack_timeout.unwrap_or(options.ack_timeout);
        let reply = ask.reply_timeout.unwrap_or(options.reply_timeout);
        let hedge_after = options.hedge_after.filter(|after| *after < ack);
        let (asked, last) = (Vec::new(), BTreeSet::new());
        let inquiry = Inquiry { tag, ask, since: clock, ack, reply, hedge_after, started: None, asked, due: 0, last };
        assert!(self.live.insert(id, inquiry).is_none(), "a request's name is its own");
        self.counted.requests += 1;
    }

    /// What should have happened before this moment has.
    pub(super) fn expire(&mut self, clock: Moment) {
        let silent = self.live.values_mut().flat_map(|inquiry| inquiry.expire(|at| at < clock)).collect();
        self.do_not_respond(clock, silent);
    }

    /// And what should happen at this moment.
    pub(super) fn expire_now(&mut self, clock: Moment) {
        let silent = self.live.values_mut().flat_map(|inquiry| inquiry.expire(|at| at <= clock)).collect();
        self.do_not_respond(clock, silent);
    }

    fn do_not_respond(&mut self, clock: Moment, silent: Vec<SocketAddr>) {
        let silent = silent.into_iter().filter(|node| self.nodes.contains(node));
        self.unresponsive.extend(silent.map(|node| (node, clock + REMEMBERED)));
    }

    fn responds(&mut self, socket: SocketId) {
        self.unresponsive.remove(&self.sockets[&socket].node);
    }

    /// A node acknowledges or answers late. False if this tag was not sent on the socket, or was answered.
    pub(super) fn late(&mut self, socket: SocketId, tag: Tag) -> bool {
        let owed = self.owed.contains(&(socket, tag));
        if owed {
            self.responds(socket);
        }
        owed
    }

    /// The machine says that a node is unresponsive, or responds again.
    pub(super) fn said(&mut self, clock: Moment, node: &Backend, responds: bool) {
        let before = match responds {
            true => self.said.remove(&node.socket_addr()),
            false => self.said.insert(node.socket_addr(), clock + REMEMBERED),
        };
        assert_eq!(before.is_some_and(|until| clock < until), responds, "it was said before");
    }

    fn promise_the_news_is_true(&mut self, clock: Moment) {
        let active = |memory: &BTreeMap<SocketAddr, Moment>| -> BTreeSet<SocketAddr> {
            memory.iter().filter(|(_, until)| clock < **until).map(|(node, _)| *node).collect()
        };
        assert_eq!(active(&self.said), active(&self.unresponsive), "unresponsive nodes");
        self.said.clone_from(&self.unresponsive);
    }

    pub(super) fn opened(
        &mut self,
        clock: Moment,
        socket: SocketId,
        window: WindowId,
        node: &Backend,
        nodes: &BTreeMap<usize, u8>,
    ) {
        assert!(self.ever.insert(socket), "a socket's name is its own");
        self.counted.sockets += 1;
        self.counted.windows += u64::from(self.windows_ever.insert(window));
        let fresh = Window {
            created: clock,
            servers: nodes.keys().copied().collect(),
            generation: self.generation,
            started: 0,
            turns: 0,
            order: BTreeMap::new(),
            before: BTreeSet::new(),
        };
        self.windows.entry(window).or_insert(fresh);
        let server = number(node);
        let again = self.sockets.values().any(|link| link.window == window && link.server == server && !link.ended);
        assert!(!again, "a window has one socket to a node");
        self.sockets.insert(socket, Link { window, server, node: node.socket_addr(), ended: false });
    }

    pub(super) fn sent(&mut self, clock: Moment, socket: SocketId, id: RequestId, options: &Options) {
        let link = self.sockets[&socket];
        let is_new = self.inquiry(id).started.is_none();
        assert!(!is_new || !self.carries(link.window, self.inquiry(id).tag), "an answer may be taken for another");
        let inquiry = self.live.get_mut(&id).or(self.given_up.get_mut(&id)).expect("it is sent for somebody");
        let window = self.windows.get_mut(&link.window).expect("a socket has a window");
        if is_new {
            self.started.push((id, link.window));
            assert!(clock == window.created || clock < window.created + options.active_for, "the window is over");
            assert_eq!(window.generation, self.generation, "the window is for other nodes");
            window.started += 1;
            let named = inquiry.ask.nodes.as_ref().map(|names| names.iter().collect::<BTreeSet<_>>().len());
            let nodes = named.unwrap_or(window.servers.len());
            let first = match inquiry.ask.goal {
                Goal::Every => nodes,
                Goal::Equal(wanted) => nodes.min(wanted.max(inquiry.ask.at_once.unwrap_or(options.read_nodes))),
            };
            inquiry.started = Some(Start { window: link.window, nodes, first, turn: window.turns });
            window.turns += usize::from(first < nodes);
            if first < nodes {
                let silent = self.said.iter().filter(|(_, until)| clock < **until);
                inquiry.last = silent.map(|(node, _)| super::servers::server_at(*node)).collect();
            }
            inquiry.pursue();
        }
        assert!(inquiry.due > 0, "it is sent to too many: {inquiry:?}");
        inquiry.due -= 1;
        let (since, deadline) = (clock, clock + inquiry.ack);
        let all_at_once = inquiry.started.is_some_and(|start| start.first == start.nodes);
        let asked = Asked {
            server: link.server,
            node: link.node,
            socket,
            since,
            deadline,
            hedge: inquiry.hedge_after.filter(|_| !all_at_once).map(|after| clock + after),
            overdue: false,
            sent: false,
            ever_sent: false,
            lost: false,
            acked: false,
            told: None,
        };
        inquiry.asked.push(asked);
    }

    /// A request is sent again to a server whose socket has ended, in the same window. False if it is sent there for the first
    /// time.
    pub(super) fn sent_again(&mut self, socket: SocketId, id: RequestId) -> bool {
        let link = self.sockets[&socket];
        let inquiry = self.live.get_mut(&id).or(self.given_up.get_mut(&id)).expect("it is sent for somebody");
        let lost = |asked: &&mut Asked| asked.lost && asked.told.is_none() && asked.server == link.server;
        let Some(asked) = inquiry.asked.iter_mut().find(lost) else { return false };
        (asked.socket, asked.sent, asked.lost) = (socket, false, false);
        assert_eq!(inquiry.started.map(|start| start.window), Some(link.window), "a request keeps its window");
        true
    }

    pub(super) fn inquiry(&self, id: RequestId) -> &Inquiry {
        self.live.get(&id).or(self.given_up.get(&id)).expect("it is there")
    }

    /// A socket has come to send a request: to which server and under which tag, if somebody still waits for the answer.
    pub(super) fn sending(&mut self, socket: SocketId, id: RequestId) -> Option<(usize, Tag)> {
        let inquiry = self.live.get_mut(&id).filter(|inquiry| !inquiry.is_over())?;
        let tag = inquiry.tag;
        let asked = inquiry.on(socket)?;
        (asked.sent, asked.ever_sent) = (true, true);
        self.owed.insert((socket, tag));
        Some((asked.server, tag))
    }

    /// An answer has come: whether it was owed.
    pub(super) fn paid(&mut self, socket: SocketId, tag: Tag) -> bool {
        let owed = self.owed.remove(&(socket, tag));
        if let Some(link) = self.sockets.get(&socket).filter(|_| owed) {
            self.carried.insert((link.window, tag));
        }
        owed
    }

    /// A socket is gone: nothing comes on it any more.
    fn never_paid(&mut self, socket: SocketId, window: WindowId) {
        self.carried.extend(self.owed.iter().filter(|(on, _)| *on == socket).map(|(_, tag)| (window, *tag)));
        self.owed.retain(|(on, _)| *on != socket);
    }

    /// Whether an answer with this tag may still come to this window, or somebody of it asks under this tag.
    fn carries(&self, window: WindowId, tag: Tag) -> bool {
        let on_it = |socket| self.sockets.get(socket).is_some_and(|link| link.window == window && !link.ended);
        let asks = |inquiry: &Inquiry| {
            inquiry.tag == tag && inquiry.started.is_some_and(|start| start.window == window) && !inquiry.is_over()
        };
        self.owed.iter().any(|(socket, of)| *of == tag && on_it(socket)) || self.live.values().any(asks)
    }

    /// Requests are started in the order in which they came, except that nobody waits for the tag of another.
    fn promise_only_tags_hold_up(&mut self) {
        for (id, window) in std::mem::take(&mut self.started) {
            for (before, inquiry) in self.live.range(..id).filter(|(_, inquiry)| inquiry.started.is_none()) {
                let held_up = self.carried.contains(&(window, inquiry.tag)) || self.carries(window, inquiry.tag);
                assert!(held_up, "{before:?} could have been started instead of {id:?}");
            }
        }
        self.carried.clear();
    }

    /// Who waits for an answer with this tag on this socket.
    pub(super) fn awaited(&self, socket: SocketId, tag: Tag) -> Option<RequestId> {
        let waits = |inquiry: &Inquiry| {
            let on_it = |asked: &Asked| asked.socket == socket && asked.told.is_none() && asked.sent && !asked.lost;
            inquiry.tag == tag && inquiry.asked.iter().any(on_it) && !inquiry.is_over()
        };
        self.live.iter().find(|(_, inquiry)| waits(inquiry)).map(|(id, _)| *id)
    }

    pub(super) fn acked(&mut self, id: RequestId, socket: SocketId) {
        let inquiry = self.live.get_mut(&id).expect("it waits");
        let reply = inquiry.reply;
        let asked = inquiry.on(socket).expect("it waits on this socket");
        (asked.acked, asked.deadline) = (true, asked.since + reply);
        (asked.hedge, asked.overdue) = (None, false);
        self.responds(socket);
    }

    pub(super) fn answered(&mut self, id: RequestId, socket: SocketId, verdict: Verdict) {
        let tag = self.inquiry(id).tag;
        assert!(self.paid(socket, tag), "nobody waits for what was not sent");
        self.responds(socket);
        let inquiry = self.live.get_mut(&id).expect("it waits");
        inquiry.on(socket).expect("it waits on this socket").told = Some(match verdict {
            Verdict::Counts(key) => Told::Answered(key),
            Verdict::Invalid => Told::Invalid,
        });
        inquiry.pursue();
    }

    /// A socket has ended by itself; who waited on it.
    pub(super) fn socket_ended(&mut self, clock: Moment, socket: SocketId) -> BTreeSet<RequestId> {
        let Some(link) = self.sockets.get_mut(&socket) else { return BTreeSet::new() };
        link.ended = true;
        let (window, node) = (link.window, link.node);
        self.never_paid(socket, window);
        let mut waited = BTreeSet::new();
        for (id, inquiry) in self.live.iter_mut().filter(|(_, inquiry)| !inquiry.is_over()) {
            let reconnects = inquiry.ask.reconnect;
            if let Some(asked) = inquiry.on(socket) {
                match reconnects && asked.ever_sent {
                    true => asked.lost = true,
                    false => asked.told = Some(Told::Ended),
                }
                waited.insert(*id);
            }
            inquiry.pursue();
        }
        if !waited.is_empty() {
            self.do_not_respond(clock, vec![node]);
        }
        waited
    }

    pub(super) fn closed(&mut self, socket: SocketId) {
        let link = self.sockets.remove(&socket).expect("it is closed once");
        self.never_paid(socket, link.window);
        self.gone.push(socket);
    }

    pub(super) fn over(&mut self, window: WindowId) {
        let left = self.sockets.values().any(|link| link.window == window && !link.ended);
        assert!(!left, "a window is over that has sockets");
        self.windows.remove(&window);
    }

    pub(super) fn nodes_are(&mut self, nodes: BTreeSet<SocketAddr>) {
        self.generation += u64::from(nodes != self.nodes);
        self.unresponsive.retain(|node, _| nodes.contains(node));
        self.said.clone_from(&self.unresponsive);
        self.nodes = nodes;
    }

    /// Whether a window may still be given requests at this moment, or the driver need not have heard that it may not.
    pub(super) fn is_active(&self, window: WindowId, clock: Moment, options: &Options, late: Duration) -> bool {
        let window = &self.windows[&window];
        window.generation == self.generation
            && window.started < options.request_limit
            && clock <= window.created + options.active_for + late
    }

    /// Somebody gives up, who was there or had just ended.
    pub(super) fn give_up(&mut self, id: RequestId, was_there: bool) {
        if was_there && let Some(inquiry) = self.live.remove(&id) {
            self.carried.extend(inquiry.started.map(|start| (start.window, inquiry.tag)));
            self.given_up.insert(id, inquiry);
        }
    }

    pub(super) fn delivered(&mut self, delivery: &Delivery<Backend>) {
        let inquiry = self.live.remove(&delivery.request).expect("a request ends once");
        self.carried.extend(inquiry.started.map(|start| (start.window, inquiry.tag)));
        self.ended += 1;
        match delivery.outcome {
            Outcome::Reached(_) | Outcome::Complete => self.counted.answered += 1,
            _ => self.counted.failed += 1,
        }
        self.failed += usize::from(matches!(delivery.outcome, Outcome::Impossible | Outcome::TimedOutInLine { .. }));
    }

    /// What belonged to one step alone is over.
    pub(super) fn step_is_over(&mut self, clock: Moment) {
        self.promise_only_tags_hold_up();
        self.promise_the_news_is_true(clock);
        self.given_up.clear();
        let ended: Vec<SocketId> = self.sockets.iter().filter(|(_, link)| link.ended).map(|(id, _)| *id).collect();
        for socket in ended {
            self.sockets.remove(&socket);
            self.gone.push(socket);
        }
    }

    pub(super) fn some_socket(&self, random: &mut Random) -> Option<SocketId> {
        self.sockets.keys().nth(random.below(self.sockets.len())).copied()
    }

    pub(super) fn some_gone(&self, random: &mut Random) -> Option<SocketId> {
        self.gone.get(random.below(self.gone.len())).copied()
    }

    pub(super) fn is_gone(&self, socket: SocketId) -> bool {
        !self.sockets.contains_key(&socket)
    }
}
