//! Ticks as a stream.

use super::adapter::Tick;
use super::lagging::{Receiver, Weigh};
use futures_core::Stream;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

impl Weigh for Tick {
    fn weight(&self) -> usize {
        self.payload.len()
    }
}

/// The ticks of a feed, from when it was asked for; see [`Feed::ticks`](super::Feed::ticks).
///
/// It is a [`Stream`], and has [`next`](Ticks::next) for those who want nothing but that. A reader who is slow misses the oldest
/// ticks, and knows how many. It ends when the feed has stopped.
pub struct Ticks {
    receiver: Receiver<Tick>,
}

impl Ticks {
    pub(super) fn new(receiver: Receiver<Tick>) -> Ticks {
        Ticks { receiver }
    }

    /// The next tick, or `None` when there will be none. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Tick> {
        poll_fn(|context| self.receiver.poll(context)).await
    }

    /// Waits for a tick, and appends all that wait by then; `false` when there will be none. Cancelling it loses nothing.
    pub async fn next_many(&mut self, ticks: &mut Vec<Tick>) -> bool {
        poll_fn(|context| self.receiver.poll_many(context, ticks)).await
    }

    /// How many ticks were lost because they were not read in time.
    pub fn missed(&self) -> u64 {
        self.receiver.missed()
    }
}

impl Stream for Ticks {
    type Item = Tick;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Tick>> {
        self.receiver.poll(context)
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").field("waiting", &self.receiver.len()).field("missed", &self.missed()).finish()
    }
}
