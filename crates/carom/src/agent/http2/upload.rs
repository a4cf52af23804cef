//! The body of a request on its way, which remembers why it failed: hyper tells the far side, and nobody else.

use crate::agent::body::Body;
use crate::agent::error::Error;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

/// A request's body in the hands of hyper.
pub(super) struct Upload {
    body: Body,
    failure: Option<Failure>,
}

/// Why a body failed, once it has.
pub(super) type Failure = Arc<OnceLock<Error>>;

impl Upload {
    /// A body that is there in one piece cannot fail.
    pub(super) fn new(body: Body) -> Upload {
        let failure = body.try_clone().is_none().then(Failure::default);
        Upload { body, failure }
    }

    /// Where it is said why it failed; `None` when it cannot.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// The body, of which nothing has been read.
    pub(super) fn into_body(self) -> Body {
        self.body
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let (Some(Err(error)), Some(failure)) = (&frame, &self.failure) {
            let _ = failure.set(error.clone());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
