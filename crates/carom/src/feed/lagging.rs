//! Queues that never hold up whoever fills them: a reader who is slow loses the oldest, and knows how many.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// The side that fills: any number of readers, each with a queue of its own and something (`F`) that says what it wants.
pub(super) struct Senders<F, T> {
    readers: Mutex<Vec<(F, Weak<Queue<T>>)>>,
}

/// The side that reads. Dropping it is enough to be forgotten.
pub(super) struct Receiver<T> {
    queue: Arc<Queue<T>>,
}

struct Queue<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    items: VecDeque<T>,
    limit: usize,
    missed: u64,
    closed: bool,
    waker: Option<Waker>,
}

impl<F, T: Clone> Senders<F, T> {
    pub(super) fn new() -> Senders<F, T> {
        Senders { readers: Mutex::new(Vec::new()) }
    }

    /// A new reader, for whom at most so many wait.
    pub(super) fn subscribe(&self, filter: F, limit: usize) -> Receiver<T> {
        let state = State { items: VecDeque::new(), limit: limit.max(1), missed: 0, closed: false, waker: None };
        let queue = Arc::new(Queue { state: Mutex::new(state) });
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|(_, queue)| queue.strong_count() > 0);
        readers.push((filter, Arc::downgrade(&queue)));
        Receiver { queue }
    }

    /// Gives these to every reader who wants them.
    pub(super) fn send(&self, items: &[T], wants: impl Fn(&F) -> bool) {
        let interested: Vec<Arc<Queue<T>>> = {
            let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            readers.iter().filter(|(filter, _)| wants(filter)).filter_map(|(_, queue)| queue.upgrade()).collect()
        };
        for queue in interested {
            // What is lost is dropped when the lock has been let go.
            let (waker, _lost) = queue.with(|state| {
                let mut lost = Vec::new();
                for item in items {
                    if state.items.len() == state.limit {
                        lost.extend(state.items.pop_front());
                        state.missed += 1;
                    }
                    state.items.push_back(item.clone());
                }
                (state.waker.take(), lost)
            });
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<F, T> Senders<F, T> {
    /// There will be no more: readers get what waits for them, and then the end.
    pub(super) fn close(&self) {
        let readers = std::mem::take(&mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner));
        for queue in readers.iter().filter_map(|(_, queue)| queue.upgrade()) {
            let waker = queue.with(|state| {
                state.closed = true;
                state.waker.take()
            });
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// Whoever reads is not left waiting for those who are gone.
impl<F, T> Drop for Senders<F, T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> Receiver<T> {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = context.waker().clone();
        let (polled, _before) = self.queue.with(|state| match state.items.pop_front() {
            Some(item) => (Poll::Ready(Some(item)), None),
            None if state.closed => (Poll::Ready(None), None),
            None => (Poll::Pending, state.waker.replace(waker)),
        });
        polled
    }

    /// Everything that waits, in one go, behind what is in `items`; `false` when there will be no more.
    pub(super) fn poll_many(&mut self, context: &mut Context<'_>, items: &mut Vec<T>) -> Poll<bool> {
        let waker = context.waker().clone();
        let (polled, _before) = self.queue.with(|state| {
            if !state.items.is_empty() {
                items.extend(state.items.drain(..));
                return (Poll::Ready(true), None);
            }
            match state.closed {
                true => (Poll::Ready(false), None),
                false => (Poll::Pending, state.waker.replace(waker)),
            }
        });
        polled
    }

    /// Closed from the start.
    pub(super) fn closed() -> Receiver<T> {
        let state = State { items: VecDeque::new(), limit: 1, missed: 0, closed: true, waker: None };
        Receiver { queue: Arc::new(Queue { state: Mutex::new(state) }) }
    }

    pub(super) fn missed(&self) -> u64 {
        self.queue.with(|state| state.missed)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.with(|state| state.items.len())
    }
}

impl<T> Queue<T> {
    fn with<R>(&self, step: impl FnOnce(&mut State<T>) -> R) -> R {
        step(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
