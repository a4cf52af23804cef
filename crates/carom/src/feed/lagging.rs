//! Queues that never hold up whoever fills them: a reader who is slow loses the oldest, and knows how many.

use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

/// Most bytes that wait for one reader, however few messages they are: nobody who fills may use up all memory.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// What waits, and takes room while it does.
pub(super) trait Weigh {
    /// How many bytes it keeps.
    fn weight(&self) -> usize;
}

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
    /// What all of them weigh.
    bytes: usize,
    limit: usize,
    missed: u64,
    closed: bool,
    waker: Option<Waker>,
}

impl<F, T: Clone + Weigh> Senders<F, T> {
    pub(super) fn new() -> Senders<F, T> {
        Senders { readers: Mutex::new(Vec::new()) }
    }

    /// A new reader, for whom at most so many wait, and at most [`MOST_BYTES`].
    pub(super) fn subscribe(&self, filter: F, limit: usize) -> Receiver<T> {
        let queue = Arc::new(Queue { state: Mutex::new(State::new(limit.max(1), false)) });
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
                    state.push(item.clone(), &mut lost);
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

impl<T: Weigh> Receiver<T> {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = context.waker().clone();
        let (polled, _before) = self.queue.with(|state| match state.pop() {
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
                state.bytes = 0;
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
        Receiver { queue: Arc::new(Queue { state: Mutex::new(State::new(1, true)) }) }
    }
}

impl<T> Receiver<T> {
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

impl<T> State<T> {
    fn new(limit: usize, closed: bool) -> State<T> {
        State { items: VecDeque::new(), bytes: 0, limit, missed: 0, closed, waker: None }
    }
}

impl<T: Weigh> State<T> {
    /// One more, for which the oldest make room. One that is too large by itself waits alone.
    fn push(&mut self, item: T, lost: &mut Vec<T>) {
        let weight = item.weight();
        while self.items.len() >= self.limit || (!self.items.is_empty() && self.bytes + weight > MOST_BYTES) {
            lost.extend(self.pop());
            self.missed += 1;
        }
        self.bytes += weight;
        self.items.push_back(item);
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.bytes -= item.weight();
        Some(item)
    }
}
