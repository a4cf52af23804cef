//! All of HTTP/1, as hyper speaks it: a sender of requests, and a connection that must be polled for anything to happen.
//!
//! Both lie here side by side, and whoever claimed them polls the connection: while waiting for the head of the answer, and while
//! reading its body. hyper's two ends then talk to each other inside one poll of one task, so that waiting for either of them is
//! waiting for the socket. [`Relay`] keeps their wake-ups among themselves.

use super::coming::Coming;
use super::relay::Relay;
use super::replay::Replayed;
use super::sending::{Pace, Sending};
use super::upload::Upload;
use crate::agent::dial::Stream;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Parts, SendRequest};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::runtime::Handle;
use tokio::task::unconstrained;

type Driven = http1::Connection<Replayed, Sending>;

/// What hyper has to say about a request that it was given.
type Promised = Result<Response<Incoming>, TrySendError<Request<Sending>>>;

/// An answer that hyper has promised.
pub(super) type Promise = Pin<Box<dyn Future<Output = Promised> + Send>>;

/// See the [module](self).
pub(super) struct Full {
    sender: SendRequest<Sending>,
    driven: Driving,
}

/// Who drives it.
enum Driving {
    /// Whoever has claimed it.
    Here(Driven),
    /// A task, which gives it back.
    Elsewhere(Upload<Driven>),
    /// Nobody: it has ended, or speaks something else by now.
    Over(Driven),
    /// Nobody, and it is not here any more.
    Nowhere,
}

/// What a request came to.
pub(in crate::agent) enum Exchanged {
    /// The head of an answer.
    Answered(Response<Coming>),
    /// The request was not sent at all.
    Unsent(Box<Request<Sending>>, hyper::Error),
    /// It ended without a byte of an answer.
    Unanswered(hyper::Error),
    /// Something came that is no answer, or not all of one.
    Broken(hyper::Error),
    /// The request's own body failed.
    Spoilt(hyper::Error),
}

impl Full {
    pub(super) fn begin(stream: Replayed) -> Full {
        let handshake = pin!(http1::handshake(stream));
        match handshake.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok((sender, driven))) => Full { sender, driven: Driving::Here(driven) },
            Poll::Ready(Err(_)) | Poll::Pending => unreachable!("hyper reads and writes nothing before it is polled"),
        }
    }

    /// Whether it could take a request, as far as anybody here knows.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.driven, Driving::Here(_)) && self.sender.is_ready()
    }

    /// The stream of one that is at rest; otherwise it is as before, or takes no more requests.
    pub(super) fn let_go(&mut self) -> Option<Stream> {
        if !self.is_at_rest() {
            return None;
        }
        let Driving::Here(driven) = mem::replace(&mut self.driven, Driving::Nowhere) else { return None };
        let Parts { io, read_buf, .. } = driven.into_parts();
        // What hyper has still to write of an answered request is lost, and the connection with it.
        let is_flushed = io.is_flushed();
        let (stream, rest) = io.into_parts(read_buf);
        // At rest it has been polled, and would have ended.
        (is_flushed && rest.is_empty()).then_some(stream)
    }

    /// Takes a request. What is promised for it comes about as the [answer is waited for](Full::poll_answer).
    pub(super) fn promise(&mut self, request: Request<Sending>) -> Promise {
        // Only driving resolves it, so that nobody needs to be woken for it; and as nobody is, it must not be put off for
        // having taken its share of the task's time.
        Box::pin(unconstrained(self.sender.try_send_request(request)))
    }

    /// Looks what came of a request.
    pub(super) fn poll_answer(&mut self, promise: &mut Promise, relay: &Relay, waker: &Waker) -> Poll<Exchanged> {
        let driven = self.drive(relay, waker);
        let mut quiet = Context::from_waker(Waker::noop());
        let failed = match promise.as_mut().poll(&mut quiet) {
            Poll::Ready(Ok(response)) => return Poll::Ready(Exchanged::Answered(response.map(Coming::Full))),
            Poll::Ready(Err(failed)) => (failed, self.ends_silently()),
            // Its end without an answer is told when it is dropped.
            Poll::Pending if driven.is_ready() => {
                let silent = self.ends_silently();
                match ready!(promise.as_mut().poll(&mut quiet)) {
                    Ok(response) => return Poll::Ready(Exchanged::Answered(response.map(Coming::Full))),
                    Err(failed) => (failed, silent),
                }
            }
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(match failed {
            (mut failed, _) if failed.message().is_some() => match failed.take_message() {
                Some(request) => Exchanged::Unsent(Box::new(request), failed.into_error()),
                None => Exchanged::Unanswered(failed.into_error()),
            },
            (failed, _) if failed.error().is_user() => Exchanged::Spoilt(failed.into_error()),
            (failed, true) if !failed.error().is_parse() => Exchanged::Unanswered(failed.into_error()),
            (failed, _) => Exchanged::Broken(failed.into_error()),
        })
    }

    /// Ends it, and says whether nothing has come that was not understood as an answer.
    fn ends_silently(&mut self) -> bool {
        match mem::replace(&mut self.driven, Driving::Nowhere) {
            Driving::Here(driven) | Driving::Over(driven) => {
                let Parts { io, read_buf, .. } = driven.into_parts();
                io.into_parts(read_buf).1.is_empty()
            }
            Driving::Elsewhere(_) | Driving::Nowhere => true,
        }
    }

    /// The next piece of an answer's body. When it is the last the connection may be [at rest](Full::is_at_rest).
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        (relay, waker): (&Relay, &Waker),
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        if let Driving::Elsewhere(upload) = &mut self.driven {
            match upload.poll_ended(cx) {
                Poll::Pending if upload.is_over() => return Poll::Pending,
                Poll::Pending => return Pin::new(incoming).poll_frame(cx),
                Poll::Ready(Some(driven)) => self.driven = Driving::Here(driven),
                Poll::Ready(None) => self.driven = Driving::Nowhere,
            }
        }
        let mut quiet = Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(&mut quiet) {
            return Poll::Ready(frame);
        }
        let ended = self.drive(relay, waker).is_ready();
        if ended {
            // What is left of it tells the body that nothing more comes.
            self.driven = Driving::Nowhere;
        }
        match Pin::new(incoming).poll_frame(&mut quiet) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending if ended => Poll::Ready(None),
            Poll::Pending => {
                relay.wait(cx);
                Poll::Pending
            }
        }
    }

    /// The stream of one that has ended by being upgraded, and what was read beyond the head; `None` if it had ended before.
    pub(super) fn take_upgraded(&mut self) -> Option<(Stream, Bytes)> {
        match mem::replace(&mut self.driven, Driving::Nowhere) {
            Driving::Here(driven) | Driving::Over(driven) => {
                let Parts { io, read_buf, .. } = driven.into_parts();
                Some(io.into_parts(read_buf))
            }
            Driving::Elsewhere(_) | Driving::Nowhere => None,
        }
    }

    /// Gives it to a task if its request is, or may be, still being sent: nobody may come to read the answer before all of it
    /// is. An answer that `ends` with its head has no reader who would take it back.
    pub(super) fn drive_elsewhere(&mut self, pace: Arc<Pace>, ends: bool, runtime: &Handle) {
        if pace.is_written() || ends && self.is_at_rest() {
            return;
        }
        self.driven = match mem::replace(&mut self.driven, Driving::Nowhere) {
            Driving::Here(driven) => Driving::Elsewhere(Upload::begin(driven, pace, runtime)),
            // What it has of the request goes nowhere any more, and whose that is is to know.
            Driving::Over(_) => Driving::Nowhere,
            other @ (Driving::Elsewhere(_) | Driving::Nowhere) => other,
        };
    }

    /// Reads and writes what can be read and written now. Ready when it is over.
    pub(super) fn drive(&mut self, relay: &Relay, waker: &Waker) -> Poll<hyper::Result<()>> {
        let Driving::Here(driven) = &mut self.driven else { return Poll::Ready(Ok(())) };
        relay.begin();
        let ended = ready!(Pin::new(driven).poll(&mut Context::from_waker(waker)));
        // Polled once more, one that was upgraded would be shut down.
        if let Driving::Here(driven) = mem::replace(&mut self.driven, Driving::Nowhere) {
            self.driven = Driving::Over(driven);
        }
        Poll::Ready(ended)
    }
}
