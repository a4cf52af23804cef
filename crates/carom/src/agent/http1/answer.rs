//! An answer's body, and the connection it comes from until that can be given back.

use super::Connector;
use super::coming::{Breach, Coming};
use crate::Claim;
use crate::agent::error::{Error, Step};
use crate::agent::evidence::FailedUse;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of an answer. Whoever reads it drives the connection; dropped before its end, it ends the connection.
pub(crate) struct Answer {
    coming: Coming,
    /// `None` when all that is left has been read from the connection.
    claim: Option<Claim<Connector>>,
}

impl Answer {
    /// Of a connection that is done with it already this is just the body: the connection goes back now.
    pub(super) fn new(coming: Coming, claim: Claim<Connector>) -> Answer {
        let mut answer = Answer { coming, claim: Some(claim) };
        if !answer.release() && answer.coming.is_end_stream() {
            answer.finish();
        }
        answer
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(claim) = &mut self.claim else {
            let frame = ready!(self.coming.poll_left(cx));
            return Poll::Ready(frame.map(|frame| frame.map_err(cut_short)));
        };
        let frame = ready!(claim.poll_frame(&mut self.coming, cx));
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                self.release();
                Some(Ok(frame))
            }
            Some(Err(error)) => Some(Err(self.fail(error))),
            None => {
                self.finish();
                None
            }
        })
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.coming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.coming.size_hint()
    }

    /// Gives the connection back if it is at rest: true then.
    fn release(&mut self) -> bool {
        if self.claim.as_ref().is_none_or(|claim| !claim.is_at_rest()) {
            return false;
        }
        if let Some(mut claim) = self.claim.take() {
            claim.note_rest();
        }
        true
    }

    /// The body has ended. The connection comes to rest now, or never: the server closes it, or something else came behind.
    fn finish(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.finish();
        }
        if !self.release() {
            self.discard();
        }
    }

    /// The connection is of no use any more; what was answered still counts.
    fn discard(&mut self) {
        if let Some(claim) = self.claim.take() {
            // A successful response is a successful use, though the connection does not come back.
            claim.report_success();
            claim.discard();
        }
    }

    fn fail(&mut self, error: Breach) -> Error {
        let Some(mut claim) = self.claim.take() else { return cut_short(error) };
        let (backend, origin) = (claim.backend().clone(), Arc::clone(claim.origin()));
        // Connecting went well, and so it may for others.
        claim.report_failure_with(FailedUse::CutShort);
        claim.discard();
        cut_short(error).at(&backend).of(&origin)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.discard();
    }
}

fn cut_short(error: Breach) -> Error {
    Error::new(Step::Receive, "the answer was cut short").caused_by(error.into_source())
}
