//! Connections that come and go, for users who track them.

use super::Share;
use super::shared::Shared;
use carom_core::backend::Backend;
use carom_core::set::{ConnectionId, State};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A connection came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It takes leases: [`lease_to`](super::Set::lease_to) its backend gets one.
    Added {
        /// Its name within the set; never used again.
        connection: ConnectionId,
        /// Where it leads.
        backend: Arc<Backend>,
    },
    /// It takes no more leases: it has ended, or is on its way out.
    Removed {
        /// Its name within the set.
        connection: ConnectionId,
    },
}

/// The connections of a set that come and go; see [`Set::events`](super::Set::events). It ends when the set has stopped.
pub struct Events<S: Share> {
    shared: Arc<Shared<S>>,
    turnover: watch::Receiver<u64>,
    known: BTreeMap<ConnectionId, Arc<Backend>>,
    ready: VecDeque<Event>,
    fresh: bool,
}

impl<S: Share> Events<S> {
    pub(super) fn new(shared: &Arc<Shared<S>>) -> Events<S> {
        let turnover = shared.turnover.subscribe();
        Events { shared: Arc::clone(shared), turnover, known: BTreeMap::new(), ready: VecDeque::new(), fresh: true }
    }

    /// The next event, or `None` when there will be none. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !std::mem::take(&mut self.fresh) {
                if *self.shared.lifecycle.borrow() == State::Stopped && self.known.is_empty() {
                    return None;
                }
                self.turnover.changed().await.ok()?;
            }
            self.compare();
        }
    }

    fn compare(&mut self) {
        self.turnover.borrow_and_update();
        let now: BTreeMap<_, _> = {
            let glances = self.shared.lock().machine.snapshot().connections.into_iter();
            glances.filter(|glance| !glance.draining).map(|glance| (glance.connection, glance.backend)).collect()
        };
        let gone = self.known.keys().filter(|id| !now.contains_key(id));
        self.ready.extend(gone.map(|&connection| Event::Removed { connection }));
        let come = now.iter().filter(|(id, _)| !self.known.contains_key(id));
        self.ready.extend(come.map(|(&connection, backend)| Event::Added { connection, backend: Arc::clone(backend) }));
        self.known = now;
    }
}

impl<S: Share> fmt::Debug for Events<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("known", &self.known.len()).field("ready", &self.ready.len()).finish()
    }
}
