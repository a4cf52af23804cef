//! Connections that come and go, for users who track them.

use super::Share;
use super::shared::Shared;
use crate::changing::Changing;
use carom_core::backend::Backend;
use carom_core::set::{ConnectionId, State};
use futures_core::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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

/// The connections of a set that come and go; see [`Set::events`](super::Set::events).
///
/// It is a [`Stream`], and has [`next`](Events::next) for those who want nothing but that. What came is told before what went, since an
/// eager set makes before it breaks. A reader who is slow misses history, not the outcome. It ends when the set has stopped.
pub struct Events<S: Share> {
    shared: Arc<Shared<S>>,
    turnover: Changing<u64>,
    known: BTreeMap<ConnectionId, Arc<Backend>>,
    ready: VecDeque<Event>,
}

impl<S: Share> Events<S> {
    pub(super) fn new(shared: &Arc<Shared<S>>) -> Events<S> {
        let turnover = Changing::new(shared.turnover.subscribe());
        Events { shared: Arc::clone(shared), turnover, known: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// The next event, or `None` when there will be none. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll_event(context)).await
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            match self.turnover.poll(context, |_| ()) {
                Poll::Ready(Some(())) => self.compare(),
                Poll::Ready(None) => return Poll::Ready(None),
                // The last change may have been seen already.
                Poll::Pending if self.known.is_empty() && *self.shared.lifecycle.borrow() == State::Stopped => {
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn compare(&mut self) {
        let now: BTreeMap<_, _> = {
            let glances = self.shared.lock().machine.snapshot().connections.into_iter();
            glances.filter(|glance| !glance.draining).map(|glance| (glance.connection, glance.backend)).collect()
        };
        // What took the place of another was there before that went.
        let come = now.iter().filter(|(id, _)| !self.known.contains_key(id));
        self.ready.extend(come.map(|(&connection, backend)| Event::Added { connection, backend: Arc::clone(backend) }));
        let gone = self.known.keys().filter(|id| !now.contains_key(id));
        self.ready.extend(gone.map(|&connection| Event::Removed { connection }));
        self.known = now;
    }
}

impl<S: Share> Stream for Events<S> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(context)
    }
}

impl<S: Share> fmt::Debug for Events<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("known", &self.known.len()).field("ready", &self.ready.len()).finish()
    }
}
