//! The body of a request on its way from a client to a backend, and what is left of it when that has answered.
//!
//! A client whose answer came early may not have sent all of its request, and would be cut off as it speaks. So what is short is
//! heard to its end before the answer is given; whoever has much more to say is told that the connection ends.

use super::pulse::Uploading;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::timeout;

/// The most that is heard of a request that has its answer.
const SHORT: u64 = 64 << 10;
/// How long a client has to say the rest: less than one that has kept us waiting has to hear an answer.
const SOON: Duration = Duration::from_millis(500);

/// The body of a request, as it comes from a client.
pub(super) struct Upload<B: Body + Unpin> {
    /// `None` when it is at its end.
    coming: Option<Coming<B>>,
    rest: Arc<Rest<B>>,
}

/// What comes of it, and that it is waited for.
struct Coming<B> {
    body: B,
    uploading: Uploading,
}

/// What is left of it.
pub(super) struct Rest<B> {
    is_short: bool,
    left: Mutex<Left<B>>,
}

enum Left<B> {
    /// A backend is to have it; this is who wants to know when it has.
    Wanted(Option<Waker>),
    /// Nobody is.
    Unwanted(Coming<B>),
    /// Nothing.
    Nothing,
}

impl<B: Body<Data = Bytes> + Unpin> Rest<B> {
    /// Of this body, all of which is to come.
    pub(super) fn of(body: &B) -> Arc<Rest<B>> {
        let is_short = body.size_hint().upper().is_some_and(|length| length <= SHORT);
        Arc::new(Rest { is_short, left: Mutex::new(Left::Wanted(None)) })
    }

    /// Whether all of it has come, or, if somebody `waits` for that, does so in a moment.
    pub(super) async fn comes(&self, waits: bool) -> bool {
        let has_come = matches!(*self.lock(), Left::Nothing);
        let waits = waits && self.is_short;
        has_come || waits && timeout(SOON, poll_fn(|cx| self.poll_end(cx))).await.unwrap_or(false)
    }

    /// Hears it to its end, if nobody else does: true then.
    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut left = self.lock();
        loop {
            match &mut *left {
                Left::Nothing => return Poll::Ready(true),
                Left::Wanted(waker) => {
                    *waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Left::Unwanted(coming) => match coming.poll_frame(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                    Poll::Ready(None) => *left = Left::Nothing,
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}

impl<B> Rest<B> {
    fn set(&self, now: Left<B>) {
        let before = mem::replace(&mut *self.lock(), now);
        if let Left::Wanted(Some(waker)) = before {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Left<B>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Coming<B> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.uploading.wants(frame.is_ready());
        match &frame {
            Poll::Ready(Some(Ok(_))) => self.uploading.came(),
            Poll::Ready(Some(Err(_))) => self.uploading.spoil(),
            Poll::Ready(None) | Poll::Pending => {}
        }
        frame
    }
}

impl<B: Body<Data = Bytes> + Unpin> Upload<B> {
    pub(super) fn new(body: B, uploading: Uploading, rest: Arc<Rest<B>>) -> Upload<B> {
        Upload { coming: Some(Coming { body, uploading }), rest }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Upload<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(coming) = &mut self.coming else { return Poll::Ready(None) };
        let frame = coming.poll_frame(cx);
        let is_over = match &frame {
            Poll::Ready(Some(Ok(_))) => coming.body.is_end_stream(),
            Poll::Ready(Some(Err(_)) | None) => true,
            Poll::Pending => false,
        };
        if is_over {
            self.coming = None;
            self.rest.set(Left::Nothing);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.coming.as_ref().is_none_or(|coming| coming.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.coming.as_ref().map_or(SizeHint::with_exact(0), |coming| coming.body.size_hint())
    }
}

impl<B: Body + Unpin> Drop for Upload<B> {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.take() {
            self.rest.set(Left::Unwanted(coming));
        }
    }
}
