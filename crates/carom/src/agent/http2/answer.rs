//! An answer's body, and the lease that keeps its connection in use until the end.

use super::Connector;
use super::gate::Pass;
use crate::Lease;
use crate::agent::error::{Error, Step};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of an answer. Dropped before its end it tells the far side to send no more of it; others on the connection do not
/// notice.
pub(crate) struct Answer {
    incoming: Incoming,
    /// `None` when all of it has been read.
    held: Option<(Lease<Connector>, Pass)>,
}

impl Answer {
    pub(super) fn new(incoming: Incoming, lease: Lease<Connector>, pass: Pass) -> Answer {
        let mut answer = Answer { incoming, held: Some((lease, pass)) };
        answer.release_at_end();
        answer
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                self.release_at_end();
                Some(Ok(frame))
            }
            Some(Err(error)) => Some(Err(self.fail(error))),
            None => {
                self.held = None;
                None
            }
        })
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.held = None;
        }
    }

    fn fail(&mut self, error: hyper::Error) -> Error {
        let cut = Error::new(Step::Receive, "the answer was cut short").caused_by(Arc::new(error) as Arc<_>);
        match self.held.take() {
            Some((lease, _)) => cut.at(lease.backend()).of(&lease.address().origin),
            None => cut,
        }
    }
}
