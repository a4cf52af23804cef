//! Changes: the difference between what a resolver said before and what it says now.

use super::{BackendKey, Resolution, ResolverState};
use crate::Backend;
use crate::changing::Changing;
use futures_core::Stream;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;

/// A backend came or went. That nothing but its priority or weight changed is not told: a
/// [`subscribe`](super::Resolver::subscribe)r sees that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It serves now.
    Insert(Backend),
    /// It does not any more.
    Remove(BackendKey),
}

/// The changes of a resolver, from nothing to what it knows and on from there; see [`Resolver::changes`](super::Resolver::changes).
///
/// It is a [`Stream`], and has [`next`](Changes::next) for those who want nothing but that. What is removed is told before
/// what is inserted. A reader who is slow misses history, not the outcome. Changes of
/// priority or weight alone are not told. It ends when the resolver has stopped.
pub struct Changes {
    resolution: Changing<Resolution>,
    stopped: bool,
    known: Arc<[Backend]>,
    ready: VecDeque<Change>,
}

impl Changes {
    pub(super) fn new(resolution: watch::Receiver<Resolution>) -> Changes {
        let resolution = Changing::new(resolution);
        Changes { resolution, stopped: false, known: Arc::new([]), ready: VecDeque::new() }
    }

    /// The next change, or `None` when there will be none. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Change> {
        std::future::poll_fn(|context| self.poll_change(context)).await
    }

    fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<Option<Change>> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Poll::Ready(Some(change));
            }
            if self.stopped {
                return Poll::Ready(None);
            }
            let read = |now: &Resolution| (Arc::clone(&now.backends), now.state);
            let Poll::Ready(changed) = self.resolution.poll(context, read) else { return Poll::Pending };
            let Some((backends, state)) = changed else { return Poll::Ready(None) };
            self.stopped = state == ResolverState::Stopped;
            self.compare(backends);
        }
    }

    fn compare(&mut self, now: Arc<[Backend]>) {
        let before = std::mem::replace(&mut self.known, now);
        if Arc::ptr_eq(&before, &self.known) {
            return;
        }
        let (old, new): (HashSet<_>, HashSet<_>) = (before.iter().collect(), self.known.iter().collect());
        // One that is listed twice comes and goes once.
        let mut told = HashSet::new();
        let gone = before.iter().filter(|backend| !new.contains(backend) && told.insert(*backend));
        self.ready.extend(gone.map(|backend| Change::Remove(BackendKey::of(backend))));
        let come = self.known.iter().filter(|backend| !old.contains(backend) && told.insert(*backend));
        self.ready.extend(come.cloned().map(Change::Insert));
    }
}

impl Stream for Changes {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.poll_change(context)
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("known", &self.known.len()).field("ready", &self.ready.len()).finish()
    }
}
