//! Requests: taken, started on a window, sent from node to node, answered, and ended exactly once.

use super::ask::{Ask, Refusal};
use super::nodes::Node;
use super::round::{Held, Round, Standing, Told};
use super::{Account, Action, Delivery, Key, Latest, Machine, Outcome, RequestId, SocketId, Timer, WindowId};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after the end of a socket the next one is opened for a request that reconnects, at first and at most; doubled every time,
/// and multiplied by 0.5 to 1.5 so that clients of a restarted node do not come back at once.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// A request that has not ended.
#[derive(Debug)]
pub(super) struct Request<G> {
    pub(super) tag: G,
    ask: Ask,
    pub(super) stage: Stage,
}

/// How far a request is.
///
/// ```text
///              a window has room                      it has what it wants, it cannot get it,
///   InLine ------------------------> Asking ------------- or nobody is left to ask ------------> ended
///     |                                                                                            ^
///     +------------------------------ its time is over -------------------------------------------+
/// ```
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits for a window.
    InLine { since: Instant, deadline: Instant },
    /// Nodes are asked.
    Asking { window: WindowId, round: Round },
}

/// What somebody makes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts, together with those that have the same key.
    Counts(Key),
    /// It does not count: as if the node had failed.
    Invalid,
}

/// Where an answer belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The request.
    pub request: RequestId,
    /// Which of the nodes that the request has asked, in the order of the accounts it ends with.
    pub place: usize,
}

impl<N: Node, G: Ord + Clone> Machine<N, G> {
    /// Takes a request. `tag` is what answers are matched with it by: a window on which an answer with this tag may still come
    /// is passed over.
    ///
    /// # Errors
    /// When it cannot succeed: a [`Refusal`] says why.
    pub fn request(&mut self, now: Instant, tag: G, ask: Ask) -> Result<RequestId, Refusal> {
        self.catch_up(now);
        if self.closed {
            return Err(Refusal::Closed);
        }
        ask.validate(&self.options)?;
        ask.suits(&self.nodes)?;
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.counters.requests += 1;
        let deadline = now + ask.timeouts(&self.options).1;
        let stage = Stage::InLine { since: now, deadline };
        self.requests.insert(id, Request { tag, ask, stage });
        self.timers.insert((deadline, Timer::Line(id)));
        self.line.insert(id);
        self.serve_line(now);
        Ok(id)
    }

    /// Forgets a request: its answers do not matter any more. False when it has ended.
    pub fn forget(&mut self, now: Instant, id: RequestId) -> bool {
        self.catch_up(now);
        let forgotten = self.take_out(id).is_some();
        self.serve_line(now);
        forgotten
    }

    /// A socket is open and about to send a request. Whether it is to: not when nobody waits for its answer any more. From here
    /// on the node owes that answer.
    pub fn handle_sending(&mut self, now: Instant, socket: SocketId, id: RequestId) -> bool {
        self.catch_up(now);
        let (Some(on), Some(request)) = (self.sockets.get_mut(&socket), self.requests.get_mut(&id)) else {
            return false;
        };
        let wanted = on.waiting.get(&request.tag) == Some(&id);
        if wanted {
            on.owed.insert(request.tag.clone());
            match &mut request.stage {
                Stage::Asking { round, .. } => round.send_on(socket),
                Stage::InLine { .. } => {}
            }
        }
        wanted
    }

    /// A node has acknowledged a request: it has more time to answer. Whether anybody was waiting to hear it.
    pub fn handle_ack(&mut self, now: Instant, socket: SocketId, tag: &G) -> bool {
        self.catch_up(now);
        if let Some(on) = self.sockets.get(&socket).filter(|socket| socket.owed.contains(tag)) {
            self.note_response(now, on.window, on.node);
        }
        let Some(Place { request: id, place }) = self.awaited(socket, tag) else { return false };
        let Some(request) = self.requests.get_mut(&id) else { return false };
        let (_, timeout) = request.ask.timeouts(&self.options);
        let Stage::Asking { round, .. } = &mut request.stage else { return false };
        if let Some((before, after)) = round.acknowledge(place, timeout) {
            for timer in before.timers(id, place) {
                self.timers.remove(&timer);
            }
            self.timers.insert((after, Timer::Node(id, place)));
        }
        true
    }

    /// A node has answered. Where the answer belongs; `None` when nobody waits for it (any more): then it is no longer owed, and
    /// that is all.
    pub fn handle_answer(&mut self, now: Instant, socket: SocketId, tag: &G, verdict: Verdict) -> Option<Place> {
        self.catch_up(now);
        let at = self.awaited(socket, tag);
        let on = self.sockets.get_mut(&socket).filter(|socket| socket.owed.contains(tag))?;
        on.owed.remove(tag);
        let (window, node) = (on.window, on.node);
        self.note_response(now, window, node);
        if let Some(at) = at {
            let told = match verdict {
                Verdict::Counts(key) => Told::Answered(key),
                Verdict::Invalid => Told::Invalid,
            };
            self.tell(now, at, told);
        }
        self.serve_line(now);
        at
    }

    /// Where an answer with this tag on this socket would belong, if anybody waits for it. Nobody does for what was not sent.
    pub fn awaited(&self, socket: SocketId, tag: &G) -> Option<Place> {
        let on = self.sockets.get(&socket).filter(|socket| socket.owed.contains(tag))?;
        let request = *on.waiting.get(tag)?;
        match &self.requests.get(&request)?.stage {
            Stage::Asking { round, .. } => Some(Place { request, place: round.place_on(socket)? }),
            Stage::InLine { .. } => None,
        }
    }

    /// A socket could not be opened, or has ended by itself. Those who waited on it.
    pub fn handle_ended(&mut self, now: Instant, id: SocketId) -> Vec<Place> {
        self.catch_up(now);
        let Some(socket) = self.sockets.remove(&id) else { return Vec::new() };
        if let Some(window) = self.windows.get_mut(&socket.window) {
            window.sockets.remove(&socket.node);
        }
        let place = |request: &RequestId| match &self.requests.get(request)?.stage {
            Stage::Asking { round, .. } => Some(Place { request: *request, place: round.place_on(id)? }),
            Stage::InLine { .. } => None,
        };
        let waited: Vec<Place> = socket.waiting.values().filter_map(place).collect();
        if !waited.is_empty() {
            self.note_silence(now, socket.window, socket.node);
        }
        for at in &waited {
            if !self.lose(now, *at) {
                self.tell(now, *at, Told::Ended);
            }
        }
        self.serve_line(now);
        waited
    }

    /// The socket to a node has ended. Whether the request waits for another one.
    fn lose(&mut self, now: Instant, Place { request: id, place }: Place) -> bool {
        let Some(request) = self.requests.get_mut(&id).filter(|request| request.ask.reconnect) else { return false };
        let Stage::Asking { round, .. } = &mut request.stage else { return false };
        let Some(losses) = round.losses(place) else { return false };
        let delay = FIRST_DELAY.saturating_mul(1 << losses.min(10)).min(LONGEST_DELAY);
        let again = now + delay.mul_f64(0.5 + self.random.fraction());
        round.lose(place, again);
        self.timers.insert((again, Timer::Again(id, place)));
        true
    }

    /// Sends a request again to a node whose socket has ended, with the identity of its window.
    pub(super) fn reconnect(&mut self, now: Instant, id: RequestId, place: usize) {
        let Some(Request { stage: Stage::Asking { window, round }, .. }) = self.requests.get(&id) else { return };
        // A late driver may find the node's time over as well: that timer is next.
        let (window, Some(node)) = (*window, round.lost(place, now)) else { return };
        let Some(socket) = self.socket_to(window, node) else { return };
        let (Some(request), Some(on)) = (self.requests.get_mut(&id), self.sockets.get_mut(&socket)) else { return };
        let Stage::Asking { round, .. } = &mut request.stage else { return };
        round.reconnect(place, socket);
        on.waiting.insert(request.tag.clone(), id);
        self.actions.push_back(Action::Send { socket, request: id });
    }

    /// A node's time is over.
    pub(super) fn time_out(&mut self, now: Instant, request: RequestId, place: usize) {
        let Some(Request { stage: Stage::Asking { window, round }, .. }) = self.requests.get(&request) else { return };
        let (window, node, told) = (*window, round.node(place), round.missed(place));
        self.note_silence(now, window, node);
        self.tell(now, Place { request, place }, told);
    }

    /// A node has not acknowledged a request in time: another one is asked as well, if there is one.
    pub(super) fn hedge(&mut self, now: Instant, id: RequestId, place: usize) {
        let Some(Request { stage: Stage::Asking { window, round }, .. }) = self.requests.get_mut(&id) else { return };
        round.hedge(place);
        let (window, node) = (*window, round.node(place));
        self.note_silence(now, window, node);
        self.pursue(now, id);
    }

    /// A request has waited for a window for as long as it could.
    pub(super) fn time_out_in_line(&mut self, now: Instant, id: RequestId) {
        let Some(Request { stage: Stage::InLine { since, .. }, .. }) = self.requests.get(&id) else { return };
        let after = now.saturating_duration_since(*since);
        self.end(id, Outcome::TimedOutInLine { after });
    }

    /// Starts those who wait for a window and for whom there is one, in order: a tag that no window can carry yet holds up
    /// nobody else.
    pub(super) fn serve_line(&mut self, now: Instant) {
        let mut next = self.line.first().copied();
        while let Some(id) = next {
            let Some(request) = self.requests.get(&id) else { return };
            let tag = request.tag.clone();
            // The nodes may have changed while it was in line.
            match request.ask.suits(&self.nodes) {
                Ok(()) => match self.window_for(now, &tag) {
                    Some(window) => self.start(now, id, window),
                    None if self.has_room(now) => {}
                    None => return,
                },
                Err(refusal) => self.end(id, Outcome::Refused(refusal)),
            }
            next = self.line.range((Bound::Excluded(id), Bound::Unbounded)).next().copied();
        }
    }

    fn start(&mut self, now: Instant, id: RequestId, at: WindowId) {
        let (Some(request), Some(window)) = (self.requests.get_mut(&id), self.windows.get_mut(&at)) else { return };
        self.line.remove(&id);
        if let Stage::InLine { deadline, .. } = request.stage {
            self.timers.remove(&(deadline, Timer::Line(id)));
        }
        window.start(id);
        let names = request.ask.nodes.as_deref();
        let mut order = window.order_for(names, |_| false);
        let first = request.ask.first(&self.options, order.len());
        if first < order.len() {
            order = window
                .order_for(names, |node| self.memory.is_unresponsive(now, node) || self.checked.is_unhealthy(node));
            window.next_turn();
        }
        let full = window.started >= self.options.request_limit;
        request.stage = Stage::Asking { window: at, round: Round::new(request.ask.goal, first, order) };
        self.pursue(now, id);
        if full {
            self.end_window(at);
        }
    }

    /// A node has said this, or never will: the request goes on from there.
    fn tell(&mut self, now: Instant, Place { request: id, place }: Place, told: Told) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Stage::Asking { window, round } = &mut request.stage else { return };
        let Some(held) = round.tell(place, told) else { return };
        let (window, tag) = (*window, request.tag.clone());
        self.let_go(id, place, &tag, &held);
        self.pursue(now, id);
        self.tidy(window);
    }

    /// Does what a request's standing asks for, until there is nothing to do but wait.
    fn pursue(&mut self, now: Instant, id: RequestId) {
        loop {
            let Some(Request { stage: Stage::Asking { window, round }, .. }) = self.requests.get(&id) else { return };
            match round.standing() {
                Standing::Reached(key) => return self.end(id, Outcome::Reached(key)),
                Standing::Complete => return self.end(id, Outcome::Complete),
                Standing::Impossible => return self.end(id, Outcome::Impossible),
                Standing::Waiting => return,
                Standing::Ask { node } => {
                    let Some(socket) = self.socket_to(*window, node) else { return };
                    self.ask_on(now, id, socket);
                }
            }
        }
    }

    fn ask_on(&mut self, now: Instant, id: RequestId, socket: SocketId) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let (timeout, _) = request.ask.timeouts(&self.options);
        let hedge_after = request.ask.hedge_after(&self.options);
        let Stage::Asking { round, .. } = &mut request.stage else { return };
        let deadline = now + timeout;
        let (place, hedge) = round.ask(socket, now, deadline, hedge_after);
        self.timers.insert((deadline, Timer::Node(id, place)));
        self.timers.extend(hedge.map(|hedge| (hedge, Timer::Hedge(id, place))));
        if let Some(socket) = self.sockets.get_mut(&socket) {
            socket.waiting.insert(request.tag.clone(), id);
        }
        self.actions.push_back(Action::Send { socket, request: id });
    }

    /// Ends a request, and says so.
    pub(super) fn end(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(accounts) = self.take_out(id) {
            let how = Latest::of(&outcome);
            self.latest = Some(how);
            self.counters.ended(how);
            self.deliveries.push_back(Delivery { request: id, outcome, accounts });
        }
    }

    /// A node is not waited for any more: takes back its timers, and leaves its socket.
    fn let_go(&mut self, id: RequestId, place: usize, tag: &G, held: &Held) {
        for timer in held.timers(id, place) {
            self.timers.remove(&timer);
        }
        if let Some(socket) = held.socket.and_then(|socket| self.sockets.get_mut(&socket)) {
            socket.waiting.remove(tag);
        }
    }

    /// Takes a request out of everything that knows of it; what every node has said.
    fn take_out(&mut self, id: RequestId) -> Option<Vec<Account<N>>> {
        let request = self.requests.remove(&id)?;
        let (at, round) = match request.stage {
            Stage::InLine { deadline, .. } => {
                self.timers.remove(&(deadline, Timer::Line(id)));
                self.line.remove(&id);
                return Some(Vec::new());
            }
            Stage::Asking { window, round } => (window, round),
        };
        for (place, asked) in round.asked().iter().enumerate() {
            if let Some(held) = asked.held() {
                self.let_go(id, place, &request.tag, &held);
            }
        }
        let window = self.windows.get_mut(&at)?;
        window.requests.remove(&id);
        let accounts =
            round.accounts().map(|(node, told, sent)| Account { node: Arc::clone(&window.nodes[node]), told, sent });
        let accounts = accounts.collect();
        self.tidy(at);
        Some(accounts)
    }
}
