//! The relay: wakes whoever drives a connection at present, and nobody else.
//!
//! A connection is polled by its user, inside the user's own task, and hyper's parts of it leave their wakers with each
//! other and with the socket. Were these the task's own, every piece taken from the body would wake the task that just took
//! it, and every request would wake the task that had the connection before. So they all get this one, which stays the same
//! for the connection's life, and passes on only what somebody waits for.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

#[derive(Debug, Default)]
pub(super) struct Relay {
    waiting: Mutex<Waiting>,
}

/// ```text
///            begin               wake
///   Nobody ---------> Nobody ---------> Woken --- wait: wakes at once
///     ^                  | wait
///     |                  v
///     +----- wake ----- Task
/// ```
#[derive(Debug, Default)]
enum Waiting {
    /// Who drives it is at it, or nobody does.
    #[default]
    Nobody,
    /// Something happened since whoever drives it began.
    Woken,
    /// This task waits.
    Task(Waker),
}

impl Relay {
    /// The connection is about to be polled: what happened before will be found then.
    pub(super) fn begin(&self) {
        let before = mem::take(&mut *self.lock());
        // Dropping a waker can drop a task.
        drop(before);
    }

    /// It was polled and has nothing: whoever drives it waits. What has happened in the meantime is not lost.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.lock();
        match &*waiting {
            Waiting::Nobody => *waiting = Waiting::Task(cx.waker().clone()),
            Waiting::Task(waker) if waker.will_wake(cx.waker()) => {}
            Waiting::Task(_) => {
                let before = mem::replace(&mut *waiting, Waiting::Task(cx.waker().clone()));
                drop(waiting);
                drop(before);
            }
            Waiting::Woken => {
                drop(waiting);
                cx.waker().wake_by_ref();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = mem::replace(&mut *self.lock(), Waiting::Woken);
        if let Waiting::Task(waker) = before {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wake_reaches_whoever_waits_once_and_nobody_who_does_not() {
        let (relay, task) = (Arc::new(Relay::default()), Arc::new(Task::default()));
        let (own, theirs) = (Waker::from(Arc::clone(&relay)), Waker::from(Arc::clone(&task)));
        let woken = || task.0.load(Ordering::Relaxed);

        relay.begin();
        relay.wait(&Context::from_waker(&theirs));
        own.wake_by_ref();
        own.wake_by_ref();
        assert_eq!(woken(), 1);

        relay.begin();
        own.wake_by_ref();
        assert_eq!(woken(), 1, "it is at it");
        relay.wait(&Context::from_waker(&theirs));
        assert_eq!(woken(), 2, "what happened meanwhile is not lost");

        relay.begin();
        own.wake_by_ref();
        assert_eq!(woken(), 2, "it has let go of the connection");
    }
}
