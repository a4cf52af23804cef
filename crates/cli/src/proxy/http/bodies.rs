//! The body of an answer on its way from a backend to a client.

use super::pulse::UnderWay;
use super::visit::Visit;
use bytes::Bytes;
use carom::agent;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The most that is handed to a stream of HTTP/2 at a time: a client that takes that much now and then is not one that takes
/// nothing.
const PIECE: usize = 16 << 10;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A backend has answered.
    Served,
    /// None has, or not to the end.
    Failed,
    /// It made no sense.
    Refused,
}

/// The body of an answer, as it comes from a backend. The request is under way until its end, and counted then.
pub(super) struct Answer {
    body: agent::Body,
    /// How it has ended, which is told next.
    broke_off: Option<agent::Error>,
    /// What has come of it and is yet to be handed on.
    rest: Bytes,
    visit: Arc<Visit>,
    under_way: UnderWay,
    outcome: Outcome,
}

impl Answer {
    pub(super) fn new(body: agent::Body, visit: Arc<Visit>, under_way: UnderWay, outcome: Outcome) -> Answer {
        if let Some(stream) = under_way.stream() {
            // Nobody has asked for any of it.
            stream.cannot_write();
        }
        Answer { body, broke_off: None, rest: Bytes::new(), visit, under_way, outcome }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, agent::Error>>> {
        if let Some(error) = self.broke_off.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Err(error)) => {
                self.outcome = Outcome::Failed;
                tracing::debug!(service = self.visit.requests.name(), %error, "an answer broke off");
                // What there is of it goes out first: whoever hears nothing at all might believe that nothing was done.
                self.broke_off = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    /// The same in pieces, for a stream of which is to be known whether it is taken.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, agent::Error>>> {
        if self.rest.is_empty() {
            match ready!(self.poll_body(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = agent::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, agent::Error>>> {
        if self.under_way.stream().is_none() {
            return self.poll_body(cx);
        }
        let piece = self.poll_piece(cx);
        if let Some(stream) = self.under_way.stream() {
            if piece.is_ready() {
                // The next is asked for when this has been taken.
                stream.wrote(1);
                stream.cannot_write();
            } else {
                stream.can_write();
            }
        }
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if rest > 0 {
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper + rest);
            }
            hint.set_lower(hint.lower() + rest);
        }
        hint
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        match self.outcome {
            Outcome::Served => self.visit.requests.tally.served(),
            Outcome::Failed => self.visit.requests.tally.failed(),
            Outcome::Refused => {}
        }
    }
}
