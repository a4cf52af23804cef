//! The machine at one moment, for people and for simulations.

use super::nodes::Node;
use super::requests::Stage as Progress;
use super::windows::Stage;
use super::{Machine, Outcome, SocketId, Timer, WindowId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// A requester at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<N> {
    /// The nodes there are, by name.
    pub nodes: Vec<Arc<N>>,
    /// Nodes that did not respond, each with the time until which it is asked last. That time may have passed.
    pub unresponsive: Vec<(Arc<N>, Instant)>,
    /// Nodes whose active health checks fail: they are asked last.
    pub unhealthy: Vec<Arc<N>>,
    /// Requests under way: those whose nodes are asked.
    pub asking: usize,
    /// Requests that wait for a window.
    pub in_line: usize,
    /// The windows there are, the oldest first.
    pub windows: Vec<WindowSnapshot<N>>,
    /// How the last request ended that did; `None` before the first.
    pub latest: Option<Latest>,
    /// What has happened so far.
    pub counters: Counters,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latest {
    /// With the answers it wanted.
    Answered,
    /// Otherwise.
    Failed,
}

impl Latest {
    pub(super) fn of(outcome: &Outcome) -> Latest {
        match outcome {
            Outcome::Reached(_) | Outcome::Complete => Latest::Answered,
            Outcome::Impossible | Outcome::TimedOutInLine { .. } | Outcome::Refused(_) | Outcome::Closed => {
                Latest::Failed
            }
        }
    }
}

/// What has happened to a requester so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were taken.
    pub requests: u64,
    /// Of these, those that have the answers they wanted, and be it that these are refusals.
    pub answered: u64,
    /// Of these, those that ended otherwise. The rest is under way, waits, or was forgotten by whoever asked.
    pub failed: u64,
    /// Windows that were opened.
    pub windows: u64,
    /// Sockets that were opened, or were to be.
    pub sockets: u64,
}

impl Counters {
    pub(super) fn ended(&mut self, how: Latest) {
        match how {
            Latest::Answered => self.answered += 1,
            Latest::Failed => self.failed += 1,
        }
    }
}

/// A window at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSnapshot<N> {
    /// Its name; never used again.
    pub id: WindowId,
    /// When it began.
    pub created: Instant,
    /// Until when it takes requests; `None` when it takes no more.
    pub active_until: Option<Instant>,
    /// Requests that were started on it.
    pub started: usize,
    /// Of these, those that have not ended.
    pub asking: usize,
    /// Its sockets.
    pub sockets: Vec<SocketSnapshot<N>>,
}

/// A socket at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSnapshot<N> {
    /// Its name; never used again.
    pub id: SocketId,
    /// Where it leads.
    pub node: Arc<N>,
    /// Requests that wait for an answer on it.
    pub waiting: usize,
}

impl<N: Node, G: Ord + Clone> Machine<N, G> {
    /// A copy of its state for people.
    pub fn snapshot(&self) -> Snapshot<N> {
        let windows = self.windows.iter().map(|(&id, window)| WindowSnapshot {
            id,
            created: window.created,
            active_until: match window.stage {
                Stage::Active { until } => Some(until),
                Stage::Ending => None,
            },
            started: window.started,
            asking: window.requests.len(),
            sockets: window
                .sockets
                .iter()
                .map(|(&node, &id)| SocketSnapshot {
                    id,
                    node: Arc::clone(&window.nodes[node]),
                    waiting: self.sockets.get(&id).map_or(0, |socket| socket.waiting.len()),
                })
                .collect(),
        });
        Snapshot {
            nodes: self.nodes.to_vec(),
            unresponsive: self.memory.list(),
            unhealthy: self.checked.unhealthy(),
            asking: self.requests.len() - self.line.len(),
            in_line: self.line.len(),
            windows: windows.collect(),
            latest: self.latest,
            counters: self.counters,
        }
    }

    /// How the last request ended that did; `None` before the first.
    pub fn latest(&self) -> Option<Latest> {
        self.latest
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How many things it remembers: for simulations.
    pub fn footprint(&self) -> usize {
        self.windows.len() + self.sockets.len() + self.requests.len() + self.line.len() + self.timers.len()
    }

    /// Whether everything it keeps is accounted for: for simulations.
    ///
    /// # Errors
    /// What is not, in words.
    pub fn check(&self) -> Result<(), String> {
        let mut timers: BTreeSet<(Instant, Timer)> = self.checked.timers().collect();
        let mut waiting = BTreeSet::new();
        for (&id, request) in &self.requests {
            match &request.stage {
                Progress::InLine { deadline, .. } => {
                    timers.insert((*deadline, Timer::Line(id)));
                    if !self.line.contains(&id) {
                        return Err(format!("{id:?} waits, but not in line"));
                    }
                }
                Progress::Asking { window, round } => {
                    if !self.windows.get(window).is_some_and(|window| window.requests.contains(&id)) {
                        return Err(format!("{id:?} is not known to its window"));
                    }
                    for (place, asked) in round.asked().iter().enumerate() {
                        let Some(held) = asked.held() else { continue };
                        timers.extend(held.timers(id, place));
                        waiting.extend(held.socket.map(|socket| (socket, id)));
                    }
                }
            }
        }
        for (&id, window) in &self.windows {
            match window.stage {
                Stage::Active { until } => {
                    timers.insert((until, Timer::Window(id)));
                }
                Stage::Ending if window.requests.is_empty() => return Err(format!("{id:?} is kept for nothing")),
                Stage::Ending => {}
            }
            if !window.requests.iter().all(|request| self.requests.contains_key(request)) {
                return Err(format!("{id:?} knows a request that has ended"));
            }
        }
        let listed = self.sockets.iter().flat_map(|(id, socket)| socket.waiting.values().map(move |who| (*id, *who)));
        if listed.collect::<BTreeSet<_>>() != waiting {
            return Err("those who wait are not those whom sockets know".to_owned());
        }
        for (&id, socket) in &self.sockets {
            match self.windows.get(&socket.window) {
                Some(window) if window.sockets.get(&socket.node) == Some(&id) => {}
                Some(_) | None => return Err(format!("{id:?} belongs to no window")),
            }
        }
        let of_windows: usize = self.windows.values().map(|window| window.sockets.len()).sum();
        if of_windows != self.sockets.len() {
            return Err(format!("{of_windows} sockets in windows, {} in all", self.sockets.len()));
        }
        if self.line.iter().any(|id| !self.requests.contains_key(id)) {
            return Err("somebody is in line who has ended".to_owned());
        }
        let unresponsive = self.memory.list();
        for (place, (node, _)) in unresponsive.iter().enumerate() {
            if !self.nodes.contains(node) || unresponsive[..place].iter().any(|(other, _)| other == node) {
                return Err(format!("`{}` is remembered twice, or is no node", node.name()));
            }
        }
        if timers != self.timers {
            return Err(format!("timers {:?}, needed {timers:?}", self.timers));
        }
        Ok(())
    }
}
