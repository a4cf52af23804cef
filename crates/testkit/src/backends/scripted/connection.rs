//! A connection that is made of nothing: it is counted, can be killed, and knows that it was shut.

use super::books::{Entry, Shared};
use carom::Backend;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A connection of [`Scripted`](super::Scripted). Its drop ends it.
pub struct Connection {
    pub(super) id: u64,
    pub(super) backend: Backend,
    pub(super) killed: watch::Receiver<bool>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Tells it from every other connection of the same script; counted from 1 in order of opening.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The backend it was opened to.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Ends it from the far side, as [`Scripted::kill_all`](super::Scripted::kill_all) does.
    pub fn kill(&self) {
        let killed = self.shared.lock().open[&self.id].killed.clone();
        killed.send_replace(true);
    }

    /// Whether it was shut.
    pub fn is_shut(&self) -> bool {
        self.shared.lock().open.get(&self.id).is_some_and(|entry| entry.shut)
    }

    pub(super) fn is_killed(&self) -> bool {
        *self.killed.borrow()
    }

    pub(super) fn open(shared: &Arc<Shared>, backend: &Backend) -> Connection {
        let (killed, receiver) = watch::channel(false);
        let id = {
            let mut state = shared.lock();
            state.opened += 1;
            let id = state.opened as u64;
            state.open.insert(id, Entry { address: backend.socket_addr(), killed, shut: false });
            state.peak = state.peak.max(state.open.len());
            id
        };
        shared.changes.send_replace(());
        Connection { id, backend: backend.clone(), killed: receiver, shared: Arc::clone(shared) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let entry = self.shared.let_go(self.id);
        self.shared.changes.send_replace(());
        // A second panic while the first unwinds would abort the test before it can say what went wrong.
        if entry.is_none() && !std::thread::panicking() {
            panic!("{self:?} was closed twice");
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({} to {})", self.id, self.backend)
    }
}
