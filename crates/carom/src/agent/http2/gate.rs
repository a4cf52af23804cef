//! The gate: how many requests are under way on a connection, and who waits because the far side takes no more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::Notify;

/// Lets as many in as the far side takes at a time.
#[derive(Debug)]
pub(super) struct Gate {
    counts: Mutex<Counts>,
    /// Somebody has left, the limit is higher, or the gate is closed.
    changed: Notify,
    /// Nobody has asked for the limit since it changed.
    news: AtomicBool,
    /// Read while a request is put into hyper's queue, written while the queue is dropped.
    queue: RwLock<()>,
}

#[derive(Debug)]
struct Counts {
    inside: usize,
    limit: usize,
    closed: bool,
}

/// Somebody who was let in; dropped, they have left.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
}

/// The connection takes no more requests, now or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shut;

impl Gate {
    pub(super) fn new(limit: usize) -> Gate {
        Gate {
            counts: Mutex::new(Counts { inside: 0, limit, closed: false }),
            changed: Notify::new(),
            news: AtomicBool::new(true),
            queue: RwLock::default(),
        }
    }

    /// In at once; `None` when it is full.
    pub(super) fn try_enter(self: &Arc<Self>) -> Result<Option<Pass>, Shut> {
        let mut counts = self.lock();
        if counts.closed {
            return Err(Shut);
        }
        if counts.inside >= counts.limit {
            return Ok(None);
        }
        counts.inside += 1;
        Ok(Some(Pass { gate: Arc::clone(self) }))
    }

    /// Waits until there is room.
    ///
    /// Cancel safe: whoever gives up lets the next in.
    pub(super) async fn enter(self: &Arc<Self>) -> Result<Pass, Shut> {
        loop {
            // Asked for before looking, so that no change falls in between.
            let changed = self.changed.notified();
            if let Some(pass) = self.try_enter()? {
                // What made room for one may have made room for more.
                self.pass_on();
                return Ok(pass);
            }
            changed.await;
        }
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
        self.news.store(true, Ordering::Release);
        self.pass_on();
    }

    /// The limit, for the first who asks since it changed.
    pub(super) fn limit_news(&self) -> Option<usize> {
        // Most find none, and need not write.
        let is_new = self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Acquire);
        is_new.then(|| self.lock().limit)
    }

    /// Nobody is let in any more; those inside stay.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Puts a request into hyper's queue while the queue is not being dropped.
    ///
    /// hyper's queue is a tokio channel. Its receiver, when it is dropped, fails the requests in the channel up to the first
    /// that is still being written. That one and those behind it would never end (hyper issue 4122).
    pub(super) fn enqueue<T>(&self, put: impl FnOnce() -> T) -> T {
        let _reading = self.queue.read().unwrap_or_else(PoisonError::into_inner);
        put()
    }

    /// Drops hyper's queue while no request is being put into it.
    pub(super) fn drop_queue<T>(&self, queue: T) {
        let _writing = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        drop(queue);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().inside == 0
    }

    fn pass_on(&self) {
        let counts = self.lock();
        let room = counts.inside < counts.limit || counts.closed;
        drop(counts);
        if room {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.lock().inside -= 1;
        self.gate.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::task::JoinHandle;

    /// Three who wait to get in.
    async fn three_at(gate: &Arc<Gate>) -> Vec<JoinHandle<Result<Pass, Shut>>> {
        let one = |_| {
            let gate = Arc::clone(gate);
            tokio::spawn(async move { gate.enter().await })
        };
        let waiting = (0..3).map(one).collect();
        tokio::task::yield_now().await;
        waiting
    }

    #[test]
    fn as_many_are_inside_as_the_limit_says() {
        let gate = Arc::new(Gate::new(2));
        let first = gate.try_enter().unwrap();
        let second = gate.try_enter().unwrap();
        assert!(first.is_some() && second.is_some());
        assert!(gate.try_enter().unwrap().is_none());
        drop(first);
        assert!(gate.try_enter().unwrap().is_some());
        drop(second);
        assert!(gate.is_empty());
    }

    #[test]
    fn a_new_limit_is_told_once() {
        let gate = Gate::new(2);
        assert_eq!((gate.limit_news(), gate.limit_news()), (Some(2), None));
        gate.set_limit(7);
        assert_eq!((gate.limit_news(), gate.limit_news()), (Some(7), None));
    }

    #[tokio::test]
    async fn whoever_waits_is_let_in_when_somebody_leaves_or_the_limit_rises() {
        let gate = Arc::new(Gate::new(1));
        let first = gate.enter().await.unwrap();
        let waiting = three_at(&gate).await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        gate.set_limit(4);
        let mut inside = Vec::new();
        for waiting in waiting {
            inside.push(waiting.await.unwrap().unwrap());
        }
        assert!(gate.try_enter().unwrap().is_none());
        gate.set_limit(1);
        drop(inside);
        assert!(gate.try_enter().unwrap().is_none(), "one is still inside");
        drop(first);
        assert!(gate.try_enter().unwrap().is_some());
    }

    #[tokio::test]
    async fn one_who_gives_up_lets_the_next_in() {
        let gate = Arc::new(Gate::new(1));
        let first = gate.enter().await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut impatient = pin!(gate.enter());
            assert!(impatient.as_mut().poll(&mut cx).is_pending());
            drop(first);
        }
        let mut next = pin!(gate.enter());
        assert!(matches!(next.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
    }

    #[test]
    fn queue_is_dropped_after_the_request_that_is_being_put_into_it() {
        struct Queue(Arc<AtomicBool>);
        impl Drop for Queue {
            fn drop(&mut self) {
                assert!(self.0.load(Ordering::Acquire), "a request is being put into the queue");
            }
        }
        let (gate, is_put) = (Gate::new(1), Arc::new(AtomicBool::new(false)));
        let (begin, begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.enqueue(|| {
                    begin.send(()).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    is_put.store(true, Ordering::Release);
                });
            });
            begun.recv().unwrap();
            gate.drop_queue(Queue(Arc::clone(&is_put)));
        });
    }

    #[tokio::test]
    async fn a_closed_gate_turns_everybody_away() {
        let gate = Arc::new(Gate::new(1));
        let _inside = gate.enter().await.unwrap();
        let waiting = three_at(&gate).await;
        gate.close();
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().unwrap_err(), Shut);
        }
        assert_eq!(gate.try_enter().unwrap_err(), Shut);
    }
}
