//! The body of a request while it is sent. It remembers why it failed, which hyper tells the server alone, and keeps its beginning,
//! so that a request that the server has not processed can be sent again.

use crate::agent::body::Body;
use crate::agent::error::Error;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

/// How much of a body is kept, at most.
const MOST_KEPT: usize = 64 * 1024;

/// A request's body in the hands of hyper.
pub(super) enum Upload {
    /// It is here in one piece: whoever sends it again has a copy.
    Whole(Body),
    Stream(Sent),
}

/// A body that can be read only once, shared by hyper and whoever sent the request.
#[derive(Clone)]
pub(super) struct Sent(Arc<Mutex<State>>);

struct State {
    /// `None` once the request is sent again.
    body: Option<Body>,
    /// What was read of it; `None` if that was too much, or is not needed any more.
    kept: Option<Kept>,
    failure: Option<Error>,
}

/// The beginning of a body.
#[derive(Default)]
struct Kept {
    pieces: VecDeque<Bytes>,
    size: usize,
    trailers: Option<HeaderMap>,
}

/// A body of which a part has been read: that part once more, and then the rest.
struct Replay {
    kept: Kept,
    rest: Body,
}

impl Upload {
    pub(super) fn new(body: Body) -> Upload {
        if body.is_whole() {
            return Upload::Whole(body);
        }
        let state = State { body: Some(body), kept: Some(Kept::default()), failure: None };
        Upload::Stream(Sent(Arc::new(Mutex::new(state))))
    }

    /// The part of it that stays here; `None` of a body that is here in one piece.
    pub(super) fn sent(&self) -> Option<Sent> {
        match self {
            Upload::Whole(_) => None,
            Upload::Stream(sent) => Some(sent.clone()),
        }
    }

    /// The body, of which nothing has been read.
    pub(super) fn into_body(self) -> Body {
        match self {
            Upload::Whole(body) => body,
            Upload::Stream(sent) => sent.lock().body.take().unwrap_or_default(),
        }
    }
}

impl Sent {
    /// Why the body failed, if it has.
    pub(super) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// The whole body once more. `None` if more was read of it than is kept. What is being sent ends there.
    pub(super) fn take_again(&self) -> Option<Body> {
        let mut state = self.lock();
        let kept = state.kept.take()?;
        let rest = state.body.take()?;
        Some(Body::new(Replay { kept, rest }))
    }

    /// It will not be sent again.
    pub(super) fn forget(&self) {
        self.lock().kept = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// This and the next piece; `None` if that is too much to keep.
    fn with(mut self, frame: &Frame<Bytes>) -> Option<Kept> {
        if let Some(data) = frame.data_ref() {
            self.size += data.len();
            self.pieces.push_back(data.clone());
        }
        if let Some(trailers) = frame.trailers_ref() {
            self.trailers = Some(trailers.clone());
        }
        (self.size <= MOST_KEPT).then_some(self)
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let sent = match &mut *self {
            Upload::Whole(body) => return Pin::new(body).poll_frame(cx),
            Upload::Stream(sent) => sent,
        };
        let mut state = sent.lock();
        let State { body, kept, failure } = &mut *state;
        let Some(body) = body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => *kept = kept.take().and_then(|kept| kept.with(frame)),
            Some(Err(error)) => (*failure, *kept) = (Some(error.clone()), None),
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Upload::Whole(body) => body.is_end_stream(),
            Upload::Stream(sent) => sent.lock().body.as_ref().is_none_or(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Upload::Whole(body) => body.size_hint(),
            Upload::Stream(sent) => sent.lock().body.as_ref().map(Body::size_hint).unwrap_or_default(),
        }
    }
}

impl HttpBody for Replay {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(piece) = self.kept.pieces.pop_front() {
            self.kept.size -= piece.len();
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        // They come last, so there is no rest.
        if let Some(trailers) = self.kept.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.kept.pieces.is_empty() && self.kept.trailers.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (kept, rest) = (self.kept.size as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(kept + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(kept + upper);
        }
        hint
    }
}
