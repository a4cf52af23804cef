//! Places: there are a few, and whoever comes is let in; when there is none left, somebody else gives up theirs.
//!
//! Were those who come made to wait instead, a few who stay for nothing would keep out everybody, probes included.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

/// More than may listen to events, so that there is always somebody else to let go.
const MOST_CLIENTS: usize = 64;

/// A client, as far as its place goes.
pub(super) struct Guest(Mutex<Standing>);

/// Whoever is least goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    worth: Worth,
    /// When it came, or asked for something last.
    asked: Instant,
}

/// What is known of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// It has not asked for anything yet, or without the token.
    Stranger,
    /// It has shown the token, or none is wanted.
    Known,
    /// It listens to events.
    Listener,
}

impl Guest {
    /// Somebody who comes now.
    pub(super) fn new() -> Guest {
        Guest(Mutex::new(Standing { worth: Worth::Stranger, asked: Instant::now() }))
    }

    /// It has asked for something, and this is known of it since.
    pub(super) fn asked(&self, worth: Worth) {
        *self.lock() = Standing { worth, asked: Instant::now() };
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has a place.
#[derive(Default)]
pub(super) struct Places {
    taken: HashMap<Id, (Arc<Guest>, AbortHandle)>,
}

impl Places {
    /// Lets go of somebody, if there is no place left for another.
    pub(super) fn make_room(&mut self) {
        if self.taken.len() < MOST_CLIENTS {
            return;
        }
        let least = self.taken.iter().min_by_key(|(_, (guest, _))| *guest.lock()).map(|(id, _)| *id);
        if let Some((_, task)) = least.and_then(|least| self.taken.remove(&least)) {
            task.abort();
        }
    }

    /// Gives a place to somebody who is served by this task.
    pub(super) fn take(&mut self, guest: Arc<Guest>, task: AbortHandle) {
        self.taken.insert(task.id(), (guest, task));
    }

    /// Somebody has left by itself.
    pub(super) fn leave(&mut self, task: Id) {
        self.taken.remove(&task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::time::Duration;
    use tokio::task::JoinSet;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn strangers_go_first_and_then_who_has_asked_for_nothing_for_longest() {
        let (mut clients, mut places) = (JoinSet::new(), Places::default());
        let mut come = async |places: &mut Places| {
            advance(Duration::from_secs(1)).await;
            let guest = Arc::new(Guest::new());
            let task = clients.spawn(pending::<()>());
            let id = task.id();
            places.make_room();
            places.take(Arc::clone(&guest), task);
            (guest, id)
        };
        let (listener, first) = come(&mut places).await;
        listener.asked(Worth::Listener);
        let mut known = Vec::new();
        for _ in 2..MOST_CLIENTS {
            let (guest, id) = come(&mut places).await;
            guest.asked(Worth::Known);
            known.push((guest, id));
        }
        let (_, stranger) = come(&mut places).await;
        assert_eq!(places.taken.len(), MOST_CLIENTS);
        let (another, _) = come(&mut places).await;
        assert!(!places.taken.contains_key(&stranger), "however lately it came");
        advance(Duration::from_secs(1)).await;
        another.asked(Worth::Known);
        known[0].0.asked(Worth::Known);
        come(&mut places).await;
        assert!(!places.taken.contains_key(&known[1].1), "others have asked since");
        assert!(places.taken.contains_key(&known[0].1) && places.taken.contains_key(&first));
        places.leave(first);
        let before = places.taken.len();
        come(&mut places).await;
        assert_eq!((before, places.taken.len()), (MOST_CLIENTS - 1, MOST_CLIENTS), "there was room");
        let aborted = async {
            for _ in 0..2 {
                assert!(clients.join_next().await.unwrap().unwrap_err().is_cancelled());
            }
        };
        aborted.await;
    }
}
