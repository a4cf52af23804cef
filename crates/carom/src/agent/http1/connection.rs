//! A connection that speaks HTTP/1, driven by whoever has it: there is no task behind it.
//!
//! hyper gives a sender of requests and a connection that must be polled for anything to happen. Both lie here side by side,
//! and whoever claimed them polls the connection: while waiting for the head of the answer, and while reading its body.
//! hyper's two ends then talk to each other inside one poll of one task, so that waiting for either of them is waiting for
//! the socket. [`Relay`] keeps their wake-ups among themselves.

use super::alarm::Alarm;
use super::relay::Relay;
use super::sending::{Pace, Sending};
use super::upload::Upload;
use crate::agent::dial::{Dialled, Made, Stream};
use crate::clock;
use crate::tcp::Watch;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Parts, SendRequest};
use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::unconstrained;

type Driven = http1::Connection<Stream, Sending>;

/// What hyper has to say about a request that it was given.
pub(in crate::agent) type Promised = Result<Response<Incoming>, TrySendError<Request<Sending>>>;

/// A server may close a connection that has rested for this long, just as it is used, and is not to blame for it.
const RESTED: Duration = Duration::from_millis(100);

/// What the pool lends.
pub(crate) struct Connection {
    sender: SendRequest<Sending>,
    driven: Driving,
    relay: Arc<Relay>,
    /// The relay's own.
    waker: Waker,
    alarm: Alarm,
    watch: Watch,
    made: Made,
    /// The name of the origin, for errors.
    origin: Arc<str>,
    runtime: Handle,
    born: Instant,
    /// It has been given a request before, pings aside.
    served: bool,
    /// As it was given the last request, it had served before, or had rested for a while.
    rested: bool,
    /// It was at rest a moment ago: the system need not be asked.
    rests: bool,
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
    Answered(Response<Incoming>),
    /// The request was not sent at all.
    Unsent(Box<Request<Sending>>, hyper::Error),
    /// It ended without a byte of an answer.
    Unanswered(hyper::Error),
    /// Something came that is no answer, or not all of one.
    Broken(hyper::Error),
    /// The request's own body failed.
    Spoilt(hyper::Error),
}

impl Connection {
    pub(super) async fn begin(dialled: Dialled, origin: &Arc<str>) -> Result<Connection, hyper::Error> {
        let (watch, made) = (dialled.watch(), dialled.made);
        let (sender, driven) = http1::handshake(dialled.stream).await?;
        let relay = Arc::new(Relay::default());
        let waker = Waker::from(Arc::clone(&relay));
        let (driven, origin, runtime) = (Driving::Here(driven), Arc::clone(origin), Handle::current());
        let (alarm, born, served, rested, rests) = (Alarm::default(), clock::now(), false, false, false);
        let mut connection = Connection {
            sender,
            driven,
            relay,
            waker,
            alarm,
            watch,
            made,
            origin,
            runtime,
            born,
            served,
            rested,
            rests,
        };
        // It takes requests only after it has been polled.
        let _ = connection.drive();
        Ok(connection)
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) fn origin(&self) -> &Arc<str> {
        &self.origin
    }

    /// How long it took to be made, if it has not served before.
    pub(in crate::agent) fn made(&self) -> Option<Made> {
        (!self.served).then_some(self.made)
    }

    /// Whether it has been given a request before.
    pub(in crate::agent) fn has_served(&self) -> bool {
        self.served
    }

    /// It is about to be given a request, at this time.
    pub(super) fn note_use(&mut self, now: Instant) {
        self.rested = self.served || now.saturating_duration_since(self.born) >= RESTED;
        self.served = true;
    }

    /// Whether it may have been closed, by nobody's fault, before the last request reached the server.
    pub(in crate::agent) fn had_rested(&self) -> bool {
        self.rested
    }

    /// Whether it could take a request, as far as anybody here knows.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.driven, Driving::Here(_)) && self.sender.is_ready()
    }

    /// It is at rest and about to be given back.
    pub(super) fn note_rest(&mut self) {
        self.rests = true;
        self.relay.begin();
    }

    /// Whether it may be given to somebody. Asked of one that was driven a moment ago this costs nothing; otherwise the
    /// system is asked, and what waits is looked at: nobody has asked for it.
    pub(in crate::agent) fn is_open(&mut self) -> bool {
        if mem::take(&mut self.rests) {
            return self.is_at_rest();
        }
        self.is_at_rest() && self.watch.is_open() && self.drive().is_pending() && self.is_at_rest()
    }

    /// Sends a request and waits for the head of the answer.
    ///
    /// Cancel safety: the connection cannot be used again, and says so.
    pub(super) async fn send(&mut self, request: Request<Sending>) -> Exchanged {
        let mut promise = pin!(self.promise(request));
        poll_fn(|cx| self.poll_answer(promise.as_mut(), cx)).await
    }

    /// Takes a request. What is promised for it comes about as the [answer is waited for](Connection::poll_answer).
    pub(super) fn promise(&mut self, request: Request<Sending>) -> impl Future<Output = Promised> + Send + use<> {
        self.rests = false;
        // Only driving resolves it, so that nobody needs to be woken for it; and as nobody is, it must not be put off for
        // having taken its share of the task's time.
        unconstrained(self.sender.try_send_request(request))
    }

    /// Waits for the head of the answer that was promised.
    pub(in crate::agent) fn poll_answer(
        &mut self,
        mut promise: Pin<&mut impl Future<Output = Promised>>,
        cx: &mut Context<'_>,
    ) -> Poll<Exchanged> {
        let driven = self.drive();
        let failed = match promise.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(response)) => return Poll::Ready(Exchanged::Answered(response)),
            Poll::Ready(Err(failed)) => (failed, self.ends_silently()),
            // Its end without an answer is told when it is dropped.
            Poll::Pending if driven.is_ready() => {
                let silent = self.ends_silently();
                match ready!(promise.poll(cx)) {
                    Ok(response) => return Poll::Ready(Exchanged::Answered(response)),
                    Err(failed) => (failed, silent),
                }
            }
            Poll::Pending => return self.wait(cx),
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

    /// Whether this time has come. If not, whoever waits for something here is woken by then.
    pub(in crate::agent) fn has_come(&mut self, deadline: Instant) -> bool {
        self.alarm.has_come(deadline, &self.waker, &self.runtime)
    }

    /// Ends it, and says whether nothing has come that was not understood as an answer.
    fn ends_silently(&mut self) -> bool {
        match mem::replace(&mut self.driven, Driving::Nowhere) {
            Driving::Here(driven) | Driving::Over(driven) => driven.into_parts().read_buf.is_empty(),
            Driving::Elsewhere(_) | Driving::Nowhere => true,
        }
    }

    /// The next piece of an answer's body. When it is the last the connection may be [at rest](Connection::is_at_rest).
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
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
        let ended = self.drive().is_ready();
        if ended {
            // What is left of it tells the body that nothing more comes.
            self.driven = Driving::Nowhere;
        }
        match Pin::new(incoming).poll_frame(&mut quiet) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending if ended => Poll::Ready(None),
            Poll::Pending => self.wait(cx),
        }
    }

    /// The stream of one that was upgraded, and what was read beyond the head; `None` if it had ended before.
    pub(super) async fn take_upgraded(&mut self) -> hyper::Result<Option<(Stream, Bytes)>> {
        poll_fn(|cx| match self.drive() {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => self.wait(cx),
        })
        .await?;
        Ok(match mem::replace(&mut self.driven, Driving::Nowhere) {
            Driving::Here(driven) | Driving::Over(driven) => {
                let Parts { io, read_buf, .. } = driven.into_parts();
                Some((io, read_buf))
            }
            Driving::Elsewhere(_) | Driving::Nowhere => None,
        })
    }

    /// Gives it to a task if its request is, or may be, still being sent: nobody may come to read the answer before all of it
    /// is. An answer that `ends` with its head has no reader who would take it back.
    pub(super) fn drive_elsewhere(&mut self, pace: Arc<Pace>, ends: bool) {
        if pace.is_written() || ends && self.is_at_rest() {
            return;
        }
        self.driven = match mem::replace(&mut self.driven, Driving::Nowhere) {
            Driving::Here(driven) => Driving::Elsewhere(Upload::begin(driven, pace, &self.runtime)),
            other @ (Driving::Elsewhere(_) | Driving::Over(_) | Driving::Nowhere) => other,
        };
    }

    /// Reads and writes what can be read and written now. Ready when it is over.
    pub(super) fn drive(&mut self) -> Poll<hyper::Result<()>> {
        let Driving::Here(driven) = &mut self.driven else { return Poll::Ready(Ok(())) };
        self.relay.begin();
        let ended = ready!(Pin::new(driven).poll(&mut Context::from_waker(&self.waker)));
        // Polled once more, one that was upgraded would be shut down.
        if let Driving::Here(driven) = mem::replace(&mut self.driven, Driving::Nowhere) {
            self.driven = Driving::Over(driven);
        }
        Poll::Ready(ended)
    }

    /// Nothing more can be done now.
    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.relay.wait(cx);
        Poll::Pending
    }
}
