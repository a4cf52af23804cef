//! The body of a request on its way, which tells how far that has come.

use crate::agent::body::Body;
use crate::agent::error::Error;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};

/// A body larger than this may still lie in front of the socket when hyper has taken it.
const ONE_PIECE: u64 = 16 * 1024;

/// A request's body in the hands of hyper. It is dropped when it has been read to its end, or is not wanted any more.
pub(in crate::agent) struct Sending {
    /// `None` if there is nothing in it. Boxed, as it is moved about with every request, which rarely has one.
    body: Option<Box<Body>>,
    pace: Option<Arc<Pace>>,
}

/// How far the sending of a body has come.
#[derive(Debug, Default)]
pub(in crate::agent) struct Pace {
    pieces: AtomicU32,
    /// The body is gone.
    over: AtomicBool,
    /// It came in one large piece: that hyper has it does not say that it is written.
    large: bool,
}

impl Pace {
    /// Whether hyper has all of it, or wants no more.
    pub(in crate::agent) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether, as far as can be told, all of it is written.
    pub(super) fn is_written(&self) -> bool {
        self.is_over() && !self.large
    }

    /// How many pieces have been taken.
    pub(in crate::agent) fn pieces(&self) -> u32 {
        self.pieces.load(Ordering::Relaxed)
    }
}

impl Sending {
    /// A body that hyper takes and writes in one piece needs no watching.
    pub(super) fn new(body: Body) -> Sending {
        if body.is_end_stream() {
            return Sending { body: None, pace: None };
        }
        let (is_whole, is_small) = (body.is_whole(), body.size_hint().lower() <= ONE_PIECE);
        let pace = (!is_whole || !is_small).then(|| Arc::new(Pace { large: is_whole, ..Pace::default() }));
        Sending { pace, body: Some(Box::new(body)) }
    }

    /// Tells how far it has come; `None` when it is over as soon as it is sent.
    pub(super) fn pace(&self) -> Option<Arc<Pace>> {
        self.pace.clone()
    }

    /// The body, of which nothing has been read.
    pub(super) fn into_body(mut self) -> Body {
        self.body.take().map_or_else(Body::empty, |body| *body)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(pace) = &self.pace {
            pace.over.store(true, Ordering::Release);
        }
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut **body).poll_frame(cx);
        if let (Poll::Ready(_), Some(pace)) = (&frame, &self.pace) {
            pace.pieces.fetch_add(1, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), |body| body.size_hint())
    }
}
