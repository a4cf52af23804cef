//! The books: which connections are open, how others have ended, and what each backend was asked for.

use super::behaviour::{OnCheck, OnClose, OnConnect};
use carom::Backend;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How connections have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Shut, and perhaps still held by somebody.
    pub shut: usize,
    /// Shut more than once: how often too many.
    pub shut_again: usize,
    /// Let go of after the far side had ended them, and not shut.
    pub killed: usize,
    /// Let go of although they were neither shut nor killed; a pool does that.
    pub dropped: usize,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) changes: watch::Sender<()>,
}

impl Shared {
    /// Connectors are told to panic: a poisoned lock says nothing about the counts.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn let_go(&self, id: u64) -> Option<Entry> {
        let mut state = self.lock();
        let entry = state.open.remove(&id)?;
        match (entry.shut, *entry.killed.borrow()) {
            (true, _) => {}
            (false, true) => state.ends.killed += 1,
            (false, false) => state.ends.dropped += 1,
        }
        Some(entry)
    }

    /// Counts the start of an operation and returns how it is to go.
    pub(super) fn start<B>(&self, backend: &Backend, count: impl FnOnce(&mut Node) -> B) -> B {
        let behaviour = count(self.lock().node(backend.socket_addr()));
        self.changes.send_replace(());
        behaviour
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<SocketAddr, Node>,
    pub(super) open: BTreeMap<u64, Entry>,
    pub(super) opened: usize,
    pub(super) peak: usize,
    pub(super) ends: Ends,
}

impl State {
    pub(super) fn node(&mut self, address: SocketAddr) -> &mut Node {
        self.nodes.entry(address).or_default()
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) address: SocketAddr,
    pub(super) killed: watch::Sender<bool>,
    pub(super) shut: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) connect: OnConnect,
    pub(super) check: OnCheck,
    pub(super) close: OnClose,
    pub(super) open: bool,
    pub(super) connects_started: usize,
    pub(super) checks_started: usize,
    pub(super) closes_started: usize,
}

impl Default for Node {
    fn default() -> Node {
        Node {
            connect: OnConnect::Succeed,
            check: OnCheck::Pass,
            close: OnClose::Quick,
            open: true,
            connects_started: 0,
            checks_started: 0,
            closes_started: 0,
        }
    }
}
