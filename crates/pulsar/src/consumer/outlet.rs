//! The outlet: where the handle of a consumer takes messages out of the inboxes of its topics and partitions.
//!
//! An inbox is shared by its task and the handle. A message is handed out when the handle takes it, not before: what waits in an
//! inbox comes again after a reconnect, and its permit is not returned. The handle wakes the task only when permits are due.

use super::inbox::Inbox;
use super::message::Message;
use crate::error::Error;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// Inboxes with something to take, in turn. Each is listed at most once.
#[derive(Default)]
pub(super) struct Outlet {
    listed: Mutex<VecDeque<Arc<Shelf>>>,
    filled: Notify,
}

/// The inbox of one topic or partition.
pub(super) struct Shelf {
    /// The topic, by its whole name.
    pub(super) topic: Arc<str>,
    inbox: Mutex<Inbox<OwnedSemaphorePermit>>,
}

/// What the handle found.
pub(super) enum Item {
    /// A message, and whether permits are due.
    Message(Box<Result<Message, Error>>, bool),
    /// The inbox has ended, with the error for the user, if any.
    Ended(Option<Error>),
    Nothing,
}

impl Shelf {
    pub(super) fn new(topic: Arc<str>, inbox: Inbox<OwnedSemaphorePermit>) -> Shelf {
        Shelf { topic, inbox: Mutex::new(inbox) }
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox<OwnedSemaphorePermit>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet {
    /// Lists an inbox if it has something to take, and wakes the handle.
    pub(super) fn fill(&self, shelf: &Arc<Shelf>) {
        if shelf.inbox().list() {
            self.listed().push_back(Arc::clone(shelf));
            self.filled.notify_one();
        }
    }

    /// Takes the next thing there is, from each inbox in turn.
    pub(super) fn take(&self) -> Option<(Arc<Shelf>, Item)> {
        loop {
            let shelf = self.listed().pop_front()?;
            let (taken, more) = {
                let mut inbox = shelf.inbox();
                let taken = inbox.take();
                (taken, inbox.relist())
            };
            if more {
                self.listed().push_back(Arc::clone(&shelf));
            }
            match taken {
                Item::Nothing => {}
                Item::Message(..) | Item::Ended(_) => return Some((shelf, taken)),
            }
        }
    }

    /// Resolves when an inbox was listed since the last time. For one caller at a time.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    fn listed(&self) -> MutexGuard<'_, VecDeque<Arc<Shelf>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
