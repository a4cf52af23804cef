//! The mailbox of a client: its outbox, and how its task is woken.
//!
//! Whoever fills it never waits and wakes nobody: a waker comes back, to be woken when all that is to be said was said. So a
//! burst of ticks is one waking, and one write. What waits are whole frames, shared by all who get them.

use bytes::Bytes;
use carom_core::feed::outbox::{Options, Outbox, Overflow, Put};
use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Tells kinds of ticks apart within a scope: an instrument's number there, and the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind(pub(crate) u32);

/// Why a client is closed: a WebSocket close code, and the reason it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) code: u16,
    pub(crate) reason: Cow<'static, str>,
}

impl Ending {
    pub(crate) const fn new(code: u16, reason: &'static str) -> Ending {
        Ending { code, reason: Cow::Borrowed(reason) }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    outbox: Outbox<Kind, Bytes>,
    /// Set once: what is said after this is not sent.
    ending: Option<Ending>,
    /// The client's task, when it waits for something to send, or for the end.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
enum Waiting {
    ForAnything(Waker),
    /// Nothing can be sent for now: a tick is no reason to wake it.
    ForTheEnd(Waker),
}

/// What a client's task finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is something to send.
    Messages,
    /// Nothing is left to send, and the client is to be closed.
    End(Ending),
}

/// What became of a tick.
#[must_use]
#[derive(Debug)]
pub(crate) struct Ticked {
    /// Who is to be woken, if the client's task waits.
    pub(crate) waker: Option<Waker>,
    /// How many ticks it displaced.
    pub(crate) put: Put,
}

impl Mailbox {
    /// Nothing waits. The options were validated before.
    pub(crate) fn new(options: Options) -> Option<Mailbox> {
        let outbox = Outbox::new(options).ok()?;
        Some(Mailbox { state: Mutex::new(State { outbox, ending: None, waiting: None }) })
    }

    /// A tick.
    pub(crate) fn tick(&self, now: Instant, kind: Kind, frame: Bytes) -> Ticked {
        let mut state = self.lock();
        if state.ending.is_some() {
            return Ticked { waker: None, put: Put::default() };
        }
        let put = state.outbox.weighed_tick(now, kind, frame.len(), frame);
        Ticked { waker: state.something(), put }
    }

    /// Something that is not replaced by what comes later: a reply, an order update. A client that lets too many wait is
    /// closed. Who is to be woken.
    #[must_use]
    pub(crate) fn reply(&self, now: Instant, frame: Bytes) -> Option<Waker> {
        let mut state = self.lock();
        if state.ending.is_some() {
            return None;
        }
        if let Err(Overflow { waiting }) = state.outbox.weighed_reply(now, frame.len(), frame) {
            let reason = format!("{waiting} replies wait to be read, and there may be no more");
            state.ending = Some(Ending { code: 1008, reason: reason.into() });
            return state.over();
        }
        state.something()
    }

    /// Ticks of these kinds are not wanted any more.
    pub(crate) fn forget(&self, kinds: impl IntoIterator<Item = Kind>) {
        let mut state = self.lock();
        kinds.into_iter().for_each(|kind| state.outbox.forget(&kind));
    }

    /// The client is to be closed when it has read what waits for it; the first reason counts. Who is to be woken.
    #[must_use]
    pub(crate) fn end(&self, ending: Ending) -> Option<Waker> {
        let mut state = self.lock();
        state.ending.get_or_insert(ending);
        state.over()
    }

    /// Whether there is something to do for the client's task, which is woken if not.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Found> {
        let mut state = self.lock();
        if !state.outbox.is_empty() {
            return Poll::Ready(Found::Messages);
        }
        if let Some(ending) = &state.ending {
            return Poll::Ready(Found::End(ending.clone()));
        }
        let waiting = Waiting::ForAnything(context.waker().clone());
        let _before = state.waiting.replace(waiting);
        Poll::Pending
    }

    /// Whether the client is to be closed; its task is woken when it is, and for nothing else.
    pub(crate) fn poll_end(&self, context: &mut Context<'_>) -> Poll<Ending> {
        let mut state = self.lock();
        if let Some(ending) = &state.ending {
            return Poll::Ready(ending.clone());
        }
        let _before = state.waiting.replace(Waiting::ForTheEnd(context.waker().clone()));
        Poll::Pending
    }

    /// Takes messages until they make up `bytes`, or none is left.
    pub(crate) fn take(&self, now: Instant, bytes: usize, frames: &mut Vec<Bytes>) {
        let mut state = self.lock();
        let mut taken = 0;
        while taken < bytes
            && let Some(frame) = state.outbox.next(now)
        {
            taken += frame.len();
            frames.push(frame);
        }
    }

    /// Why it is to be closed, if it is.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.lock().ending.clone()
    }

    /// How many replies wait.
    pub(crate) fn replies(&self) -> usize {
        self.lock().outbox.replies()
    }

    /// How many bytes these are.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.lock().outbox.weight()
    }

    /// When the client is slow, if it takes nothing until then.
    pub(crate) fn slow_at(&self) -> Option<Instant> {
        self.lock().outbox.slow_at()
    }

    /// How many messages wait, and how many ticks have given their place to newer ones since the client came.
    pub(crate) fn backlog(&self) -> (usize, u64) {
        let state = self.lock();
        (state.outbox.len(), state.outbox.conflated())
    }

    /// Keeps everybody else from it.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who is to be woken when there is something to send.
    fn something(&mut self) -> Option<Waker> {
        match self.waiting.take() {
            Some(Waiting::ForAnything(waker)) => Some(waker),
            other => {
                self.waiting = other;
                None
            }
        }
    }

    /// Who is to be woken when the client is to be closed.
    fn over(&mut self) -> Option<Waker> {
        let (Waiting::ForAnything(waker) | Waiting::ForTheEnd(waker)) = self.waiting.take()?;
        Some(waker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;

    fn mailbox(max_replies: usize) -> Mailbox {
        Mailbox::new(Options { max_replies, ..Options::default() }).unwrap()
    }

    #[test]
    fn only_whoever_waits_is_woken_and_only_once() {
        let (mailbox, now) = (mailbox(10), Instant::now());
        let mut context = Context::from_waker(noop_waker_ref());
        assert!(mailbox.tick(now, Kind(1), "a".into()).waker.is_none(), "nobody waits yet");
        assert_eq!(mailbox.poll(&mut context), Poll::Ready(Found::Messages));
        let mut frames = Vec::new();
        mailbox.take(now, 1000, &mut frames);
        assert_eq!((frames.len(), mailbox.poll(&mut context)), (1, Poll::Pending));
        assert!(mailbox.tick(now, Kind(1), "b".into()).waker.is_some());
        assert!(mailbox.tick(now, Kind(2), "c".into()).waker.is_none(), "it knows");
    }

    #[test]
    fn whoever_cannot_send_is_woken_for_the_end_alone() {
        let (mailbox, now) = (mailbox(1), Instant::now());
        let mut context = Context::from_waker(noop_waker_ref());
        assert_eq!(mailbox.poll_end(&mut context), Poll::Pending);
        assert!(mailbox.tick(now, Kind(1), "a".into()).waker.is_none());
        assert!(mailbox.reply(now, "b".into()).is_none());
        assert!(mailbox.reply(now, "c".into()).is_some(), "one too many");
        let Poll::Ready(ending) = mailbox.poll_end(&mut context) else { panic!("it is over") };
        assert_eq!(ending.code, 1008);
        assert!(mailbox.end(Ending::new(1001, "later")).is_none());
        assert_eq!(mailbox.ending(), Some(ending), "the first reason counts");
    }

    #[test]
    fn what_waits_is_taken_before_the_end_and_in_portions() {
        let (mailbox, now) = (mailbox(10), Instant::now());
        let mut context = Context::from_waker(noop_waker_ref());
        for kind in 0..3 {
            assert!(mailbox.tick(now, Kind(kind), vec![0; 100].into()).waker.is_none());
        }
        assert!(mailbox.end(Ending::new(1001, "over")).is_none());
        assert!(mailbox.tick(now, Kind(9), "late".into()).waker.is_none());
        for portion in [2, 1] {
            assert_eq!(mailbox.poll(&mut context), Poll::Ready(Found::Messages));
            let mut frames = Vec::new();
            mailbox.take(now, 150, &mut frames);
            assert_eq!(frames.len(), portion);
        }
        assert_eq!(mailbox.poll(&mut context), Poll::Ready(Found::End(Ending::new(1001, "over"))));
    }

    #[test]
    fn what_gives_way_is_told_and_counted() {
        let mailbox = Mailbox::new(Options { max_ticks: 1, ..Options::default() }).unwrap();
        let put = [1, 1, 2].map(|kind| mailbox.tick(Instant::now(), Kind(kind), "a".into()).put);
        let displaced = |conflated, lost| Put { conflated, lost };
        assert_eq!(put, [displaced(0, 0), displaced(1, 0), displaced(0, 1)]);
        assert_eq!(mailbox.backlog(), (1, 1));
        assert!(mailbox.end(Ending::new(1001, "over")).is_none());
        assert_eq!(mailbox.tick(Instant::now(), Kind(2), "late".into()).put, Put::default());
    }
}
