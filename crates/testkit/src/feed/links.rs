//! What an upstream has seen: its connections, what each carries, and what was done to them that may not be done.

use super::script::{OnClose, OnHeartbeat, OnOpen, OnWrite, Written};
use carom::feed::{Change, Instrument, Level, Pacing, Refused, Tick};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) changes: watch::Sender<()>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) open: OnOpen,
    pub(super) write: OnWrite,
    pub(super) heartbeat: OnHeartbeat,
    pub(super) close: OnClose,
    pub(super) refused: BTreeMap<Instrument, Arc<str>>,
    pub(super) max_topics: Option<usize>,
    pub(super) attempts: usize,
    pub(super) opened: usize,
    pub(super) peak: usize,
    pub(super) goodbyes: usize,
    pub(super) heartbeats: usize,
    pub(super) links: BTreeMap<usize, Link>,
    pub(super) written: Vec<Written>,
    /// What may not happen, and did. A panic here would be one of the adapter's, and the feed would get over it.
    pub(super) violations: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) said: mpsc::UnboundedSender<Said>,
    pub(super) carries: BTreeMap<Instrument, Level>,
    /// Whether something is being written, or was and has been cut short.
    busy: bool,
    wrote: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Said {
    Ticks(Vec<Tick>),
    End,
}

impl Shared {
    pub(super) fn new() -> Shared {
        let state = State {
            open: OnOpen::Succeed,
            write: OnWrite::Accept,
            heartbeat: OnHeartbeat::Accept,
            close: OnClose::Accept,
            refused: BTreeMap::new(),
            max_topics: None,
            attempts: 0,
            opened: 0,
            peak: 0,
            goodbyes: 0,
            heartbeats: 0,
            links: BTreeMap::new(),
            written: Vec::new(),
            violations: Vec::new(),
        };
        Shared { state: Mutex::new(state), changes: watch::Sender::new(()) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.changes.send_replace(());
        result
    }
}

impl State {
    /// Another connection; its number.
    pub(super) fn link(&mut self, said: mpsc::UnboundedSender<Said>) -> usize {
        self.opened += 1;
        let link = Link { said, carries: BTreeMap::new(), busy: false, wrote: None };
        self.links.insert(self.opened, link);
        self.peak = self.peak.max(self.links.len());
        self.opened
    }

    /// A write arrives.
    pub(super) fn begin_write(&mut self, id: usize, changes: &[Change], pacing: Pacing) {
        let at = Instant::now();
        self.written.push(Written { connection: id, at, changes: changes.to_vec() });
        self.begin(id);
        let Some(link) = self.links.get_mut(&id) else { return };
        let before = link.wrote.replace(at);
        if !(1..=pacing.batch).contains(&changes.len()) {
            self.violations.push(format!("{} changes in a write of at most {}", changes.len(), pacing.batch));
        }
        if let Some(gap) = before.map(|before| at - before).filter(|gap| *gap < pacing.pace) {
            self.violations.push(format!("a write {gap:?} after the last, with a pace of {:?}", pacing.pace));
        }
    }

    /// Something is about to be written.
    pub(super) fn begin(&mut self, id: usize) {
        if let Some(link) = self.links.get_mut(&id)
            && std::mem::replace(&mut link.busy, true)
        {
            self.violations.push(format!("written to connection {id} although something was cut short there"));
        }
    }

    /// Something was written.
    pub(super) fn finish(&mut self, id: usize) {
        if let Some(link) = self.links.get_mut(&id) {
            link.busy = false;
        }
    }

    /// A write is taken: what is carried from now on, and what is refused.
    pub(super) fn apply(&mut self, id: usize, changes: &[Change]) -> Vec<Refused> {
        self.finish(id);
        let Some(link) = self.links.get_mut(&id) else { return Vec::new() };
        let mut refused = Vec::new();
        for (position, Change { instrument, from, to }) in changes.iter().enumerate() {
            let carried = link.carries.get(instrument);
            if carried != from.as_ref() || from == to {
                self.violations.push(format!("{carried:?} is carried of {instrument}, told {from:?} to {to:?}"));
            }
            match (to, self.refused.get(instrument)) {
                (Some(_), Some(reason)) => refused.push(Refused { position, reason: Arc::clone(reason) }),
                (Some(level), None) => {
                    link.carries.insert(instrument.clone(), *level);
                }
                (None, _) => {
                    link.carries.remove(instrument);
                }
            }
            if self.max_topics.is_some_and(|most| link.carries.len() > most) {
                self.violations.push(format!("{} topics on connection {id}", link.carries.len()));
            }
        }
        refused
    }
}
