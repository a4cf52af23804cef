//! The limit: how long the head of an answer may take, as `timeout` says.

use super::http1::{Connection, Pace};
use crate::clock;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep_until};

/// Time that runs out, unless the request is still on its way.
pub(super) struct Limit {
    after: Duration,
    /// `None` if that is later than can be told.
    deadline: Option<Instant>,
    /// There once somebody has waited for it: most requests wait for nothing but their answer.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The pieces of the request's body that had been sent when it was last looked.
    seen: u32,
}

impl Limit {
    pub(super) fn new(begun: Instant, after: Duration) -> Limit {
        Limit { after, deadline: begun.checked_add(after), sleep: None, seen: 0 }
    }

    /// Ready when the time has run out.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
        if sleep.deadline().into_std() != deadline {
            sleep.as_mut().reset(deadline.into());
        }
        sleep.as_mut().poll(cx)
    }

    /// Ready when the time has run out for an answer that is waited for on this connection, which wakes whoever does. As long
    /// as pieces of the request's body are sent, it begins again.
    pub(super) fn poll_answer(&mut self, connection: &mut Connection, pace: Option<&Pace>) -> Poll<()> {
        loop {
            match self.deadline {
                Some(deadline) if connection.has_come(deadline) => {}
                Some(_) | None => return Poll::Pending,
            }
            match pace.map(Pace::pieces) {
                Some(pieces) if pieces != self.seen => {
                    (self.seen, self.deadline) = (pieces, clock::now().checked_add(self.after));
                }
                Some(_) | None => return Poll::Ready(()),
            }
        }
    }
}

/// What a future comes to, or `None` if there is a limit, which is reached before.
pub(super) fn poll_within<F: Future>(
    limit: &mut Option<Limit>,
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    match (future.poll(cx), limit) {
        (Poll::Ready(output), _) => Poll::Ready(Some(output)),
        (Poll::Pending, Some(limit)) => limit.poll(cx).map(|()| None),
        (Poll::Pending, None) => Poll::Pending,
    }
}
