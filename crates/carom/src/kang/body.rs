//! The body of an answer: bytes that are there already.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of an answer, all of it in one piece.
#[derive(Clone, Debug, Default)]
pub struct Body {
    left: Bytes,
}

impl Body {
    /// What has not been read yet; of a body that nobody has polled, all of it.
    pub fn bytes(&self) -> &[u8] {
        &self.left
    }

    /// The same, to keep.
    pub fn into_bytes(self) -> Bytes {
        self.left
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Body { left: Bytes::from(text) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let left = std::mem::take(&mut self.left);
        Poll::Ready(if left.is_empty() { None } else { Some(Ok(Frame::data(left))) })
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
