//! What a server is told, and what it has seen.

use super::request::Seen;
use super::script::Script;
use super::socket::Ending;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct World {
    pub(super) name: Arc<str>,
    pub(super) conduct: Conduct,
    pub(super) status: u16,
    pub(super) delay: Duration,
    pub(super) gate_open: bool,
    pub(super) at_gate: usize,
    pub(super) accepted: usize,
    /// How each may be ended, by its number; nothing when it is told to already.
    pub(super) open: BTreeMap<usize, Option<oneshot::Sender<Ending>>>,
    pub(super) seen: Vec<Seen>,
}

impl World {
    pub(super) fn new(name: &str) -> World {
        World {
            name: name.into(),
            conduct: Conduct::Good,
            status: 200,
            delay: Duration::ZERO,
            gate_open: false,
            at_gate: 0,
            accepted: 0,
            open: BTreeMap::new(),
            seen: Vec::new(),
        }
    }

    /// A new connection: its number, when to end, and what to say if that is not left to us.
    pub(super) fn accept(&mut self) -> (usize, oneshot::Receiver<Ending>, Option<Script>) {
        let number = self.accepted;
        self.accepted += 1;
        let (end, ended) = oneshot::channel();
        self.open.insert(number, Some(end));
        let script = match &mut self.conduct {
            Conduct::Good => None,
            Conduct::Scripted(choose) => Some(choose(number)),
        };
        (number, ended, script)
    }

    /// Tells all that are open to end; the number that the next one will have.
    pub(super) fn end_all(&mut self, ending: Ending) -> usize {
        for end in self.open.values_mut().filter_map(Option::take) {
            // It may be ending by itself.
            let _ = end.send(ending);
        }
        self.accepted
    }

    pub(super) fn all_ended_before(&self, number: usize) -> bool {
        self.open.range(..number).next().is_none()
    }

    /// Notes a request; its place among all.
    pub(super) fn note(&mut self, seen: Seen) -> usize {
        self.seen.push(seen);
        self.seen.len() - 1
    }
}

pub(super) enum Conduct {
    Good,
    Scripted(Box<dyn FnMut(usize) -> Script + Send>),
}

impl Debug for Conduct {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Conduct::Good => "Good",
            Conduct::Scripted(_) => "Scripted",
        })
    }
}

/// Waits until the gate is open.
pub(super) async fn gate(shared: &Shared<World>) {
    let mut changes = shared.changes();
    shared.change(|world| world.at_gate += 1);
    let _waiting = AtGate(shared);
    while !shared.lock().gate_open {
        changes.changed().await.expect("the sender lives as long as the world");
    }
}

/// One in the count of those who wait, however that ends.
struct AtGate<'a>(&'a Shared<World>);

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        self.0.change(|world| world.at_gate -= 1);
    }
}
