//! A connection that speaks HTTP/1, driven by whoever has it: there is no task behind it.
//!
//! Most requests and answers are [plain], and are said and heard right here. Everything else goes the [full] way, through hyper;
//! a connection changes over between two requests, or while it waits for an answer, which is then [heard anew](super::replay).

use super::alarm::Alarm;
use super::coming::{Breach, Coming};
use super::full::{self, Exchanged, Full};
use super::plain::{Handing, Plain};
use super::relay::Relay;
use super::replay::{Past, Replayed};
use super::sending::{Pace, Sending};
use crate::agent::body::Body;
use crate::agent::dial::{Dialled, Made, Stream};
use crate::agent::retry::{Spare, is_repeatable};
use crate::agent::stalls::Pulse;
use crate::clock;
use crate::connect::Liveness;
use crate::tcp::Watch;
use bytes::Bytes;
use http::{Method, Request, Version};
use http_body::Frame;
use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// A server may close a connection that has rested for this long, just as it is used, and is not to blame for it.
const RESTED: Duration = Duration::from_millis(100);

/// After an answer that was not plain, so many requests go the full way: others may be like it, and changing over costs more than
/// the plain way saves.
const FULLY: u8 = 16;

/// What the pool lends.
pub(crate) struct Connection {
    way: Way,
    /// So many more requests go the full way.
    fully: u8,
    /// The head of a plain request, as it is written.
    line: Vec<u8>,
    relay: Arc<Relay>,
    /// The relay's own.
    waker: Waker,
    alarm: Alarm,
    watch: Watch,
    pulse: Arc<Pulse>,
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

/// How requests are asked.
enum Way {
    Plain(Plain),
    /// Large, and rarely needed.
    Full(Box<Full>),
    /// Neither, while it changes over.
    None,
}

/// An answer that is waited for.
pub(in crate::agent) enum Promise {
    /// To this request, which may be sent once more or not.
    Plain(Box<Request<Body>>, bool),
    /// To a request that hyper has. This is what may be sent instead.
    Full(full::Promise, Option<Spare>),
}

impl Promise {
    /// Whether the request can be sent again although it was sent.
    pub(in crate::agent) fn repeats(&self) -> bool {
        match self {
            Promise::Plain(_, repeats) => *repeats,
            Promise::Full(_, spare) => spare.is_some(),
        }
    }

    /// Whether the request may be sent to two backends at a time.
    pub(in crate::agent) fn is_repeatable(&self) -> bool {
        match self {
            Promise::Plain(request, repeats) => *repeats && is_repeatable(request),
            Promise::Full(_, spare) => spare.as_ref().is_some_and(Spare::is_repeatable),
        }
    }

    /// The request once more, if it may be sent again.
    pub(in crate::agent) fn copy(&self) -> Option<Spare> {
        match self {
            Promise::Plain(request, true) => Spare::of(request),
            Promise::Full(_, Some(spare)) => spare.copy(),
            Promise::Plain(_, false) | Promise::Full(_, None) => None,
        }
    }

    /// What can be sent again.
    pub(in crate::agent) fn into_spare(self) -> Option<Spare> {
        match self {
            Promise::Plain(request, repeats) => repeats.then(|| Spare::new(request)),
            Promise::Full(_, spare) => spare,
        }
    }
}

impl Connection {
    pub(in crate::agent) fn begin(dialled: Dialled, origin: &Arc<str>) -> Connection {
        let (watch, pulse, made) = (dialled.watch(), Arc::clone(dialled.stream.pulse()), dialled.made);
        let relay = Arc::new(Relay::default());
        let waker = Waker::from(Arc::clone(&relay));
        let (way, origin, runtime) = (Way::Plain(Plain::new(dialled.stream)), Arc::clone(origin), Handle::current());
        let (alarm, born, served, rested, rests) = (Alarm::default(), clock::now(), false, false, false);
        Connection {
            way,
            fully: 0,
            line: Vec::new(),
            relay,
            waker,
            alarm,
            watch,
            pulse,
            made,
            origin,
            runtime,
            born,
            served,
            rested,
            rests,
        }
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The signs of life of its backend.
    pub(in crate::agent) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
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
        match &self.way {
            Way::Plain(plain) => plain.is_at_rest(),
            Way::Full(full) => full.is_at_rest(),
            Way::None => false,
        }
    }

    /// It is at rest and about to be given back.
    pub(super) fn note_rest(&mut self) {
        self.rests = true;
        self.relay.begin();
    }

    /// Whether it may be used for a request that must not be sent twice: the system is asked.
    pub(in crate::agent) fn is_open(&mut self) -> bool {
        (self.rests || self.watch.is_open()) && self.liveness().is_usable()
    }

    /// Whether it may be used. This costs nothing right after a use. Otherwise what has arrived is looked at: no request
    /// has asked for it.
    pub(super) fn liveness(&mut self) -> Liveness {
        let rests = mem::take(&mut self.rests);
        if !self.is_at_rest() {
            return Liveness::Closed;
        }
        if rests {
            return Liveness::Open;
        }
        let liveness = self.watch.liveness();
        if !liveness.is_usable() {
            return liveness;
        }
        let ended = match &mut self.way {
            Way::Plain(plain) => {
                self.relay.begin();
                plain.poll_rest(&mut Context::from_waker(&self.waker)).is_ready()
            }
            Way::Full(full) => full.drive(&self.relay, &self.waker).is_ready(),
            Way::None => true,
        };
        if ended || !self.is_at_rest() { Liveness::Closed } else { Liveness::Open }
    }

    /// Sends a request and waits for the head of the answer.
    ///
    /// Cancel safety: the connection cannot be used again, and says so.
    pub(in crate::agent) async fn send(&mut self, request: Box<Request<Body>>) -> Exchanged {
        let (mut promise, _) = self.promise(request, false);
        poll_fn(|cx| self.poll_answer(&mut promise, cx)).await
    }

    /// Takes a request, with which it is begun when its [answer is waited for](Connection::poll_answer). If it `may` be sent once
    /// more, and can be, it is kept for that. Tells how far its body has come, if it is not over as soon as it is sent.
    pub(super) fn promise(&mut self, request: Box<Request<Body>>, may: bool) -> (Promise, Option<Arc<Pace>>) {
        self.rests = false;
        if self.asks_plainly(&request) {
            return (Promise::Plain(request, may), None);
        }
        let spare = if may { Spare::of(&request) } else { None };
        let request = request.map(Sending::new);
        let pace = request.body().pace();
        (Promise::Full(self.go_full(Past::default()).promise(request), spare), pace)
    }

    /// Begins to ask, if request and connection are plain, or that can be made so.
    fn asks_plainly(&mut self, request: &Request<Body>) -> bool {
        if self.fully > 0 {
            self.fully -= 1;
            return false;
        }
        if !Plain::put(request, &mut self.line) {
            return false;
        }
        if let Way::Full(full) = &mut self.way
            && let Some(stream) = full.let_go()
        {
            self.way = Way::Plain(Plain::new(stream));
        }
        match &mut self.way {
            Way::Plain(plain) if plain.is_at_rest() => {
                plain.ask();
                true
            }
            Way::Plain(_) | Way::Full(_) | Way::None => false,
        }
    }

    /// Leaves the stream to hyper, which hears what has happened on it.
    fn go_full(&mut self, past: Past) -> &mut Full {
        if let Way::Plain(_) = &self.way
            && let Way::Plain(plain) = mem::replace(&mut self.way, Way::None)
        {
            let (stream, came) = plain.into_parts();
            self.way = Way::Full(Box::new(Full::begin(Replayed::new(stream, Past { came, ..past }))));
        }
        match &mut self.way {
            Way::Full(full) => full,
            Way::Plain(_) | Way::None => unreachable!("it has just been left to hyper"),
        }
    }

    /// Waits for the head of the answer that was promised.
    pub(in crate::agent) fn poll_answer(&mut self, promise: &mut Promise, cx: &mut Context<'_>) -> Poll<Exchanged> {
        if let (Promise::Plain(request, _), Way::Plain(plain)) = (&mut *promise, &mut self.way) {
            self.relay.begin();
            let is_head = *request.method() == Method::HEAD;
            match plain.poll_answer(&self.line, is_head, &mut Context::from_waker(&self.waker)) {
                Poll::Ready(Ok(response)) => return Poll::Ready(Exchanged::Answered(response.map(Coming::Plain))),
                Poll::Ready(Err(handing)) => self.hand_over(promise, handing),
                Poll::Pending => return self.wait(cx),
            }
        }
        let (Promise::Full(promise, _), Way::Full(full)) = (promise, &mut self.way) else {
            unreachable!("what is not plain is left to hyper")
        };
        let Poll::Ready(exchanged) = full.poll_answer(promise, &self.relay, &self.waker) else { return self.wait(cx) };
        if let Exchanged::Answered(response) = &exchanged
            && response.version() != Version::HTTP_11
        {
            // hyper knows from then on whom it speaks to.
            self.fully = FULLY;
        }
        Poll::Ready(exchanged)
    }

    /// What came instead of a plain answer is for hyper to hear.
    #[cold]
    fn hand_over(&mut self, promise: &mut Promise, handing: Handing) {
        let Promise::Plain(request, may) = promise else { return };
        let (request, may) = (mem::take(request), *may);
        let spare = if may { Spare::of(&request) } else { None };
        self.fully = FULLY;
        let full = match handing {
            // It hears that before it takes the request, which it then has not sent.
            Handing::Unasked(unheard) => self.go_full(Past { unheard, ..Past::default() }),
            Handing::Unsaid(error) => self.go_full(Past { asked: true, unsaid: Some(error), ..Past::default() }),
            Handing::Other(unheard) => self.go_full(Past { asked: true, unheard, ..Past::default() }),
        };
        *promise = Promise::Full(full.promise(request.map(Sending::new)), spare);
    }

    /// Whether this time has come. If not, whoever waits for something here is woken by then.
    pub(in crate::agent) fn has_come(&mut self, deadline: Instant) -> bool {
        self.alarm.has_come(deadline, &self.waker, &self.runtime)
    }

    /// The next piece of an answer's body. When it is the last the connection may be [at rest](Connection::is_at_rest).
    pub(super) fn poll_frame(
        &mut self,
        coming: &mut Coming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Breach>>> {
        match (coming, &mut self.way) {
            (Coming::Plain(told), Way::Plain(plain)) => {
                self.relay.begin();
                match plain.poll_piece(told, &mut Context::from_waker(&self.waker)) {
                    Poll::Ready(piece) => Poll::Ready(piece.map(|piece| Ok(Frame::data(piece?)))),
                    Poll::Pending => self.wait(cx),
                }
            }
            (Coming::Full(incoming), Way::Full(full)) => {
                let frame = ready!(full.poll_frame(incoming, (&self.relay, &self.waker), cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Breach::Http)))
            }
            (Coming::Plain(_) | Coming::Full(_), Way::Plain(_) | Way::Full(_) | Way::None) => {
                unreachable!("a connection changes over between two answers")
            }
        }
    }

    /// The body of an answer has ended: the connection comes to rest now, or never.
    pub(super) fn finish(&mut self) {
        if let Way::Full(full) = &mut self.way {
            let _ = full.drive(&self.relay, &self.waker);
        }
    }

    /// The stream of one that was upgraded, and what was read beyond the head; `None` if it had ended before.
    pub(super) async fn take_upgraded(&mut self) -> hyper::Result<Option<(Stream, Bytes)>> {
        poll_fn(|cx| match &mut self.way {
            Way::Full(full) => match full.drive(&self.relay, &self.waker) {
                Poll::Ready(ended) => Poll::Ready(ended),
                Poll::Pending => self.wait(cx),
            },
            Way::Plain(_) | Way::None => Poll::Ready(Ok(())),
        })
        .await?;
        Ok(match &mut self.way {
            Way::Full(full) => full.take_upgraded(),
            Way::Plain(_) | Way::None => None,
        })
    }

    /// Gives it to a task if its request is, or may be, still being sent: nobody may come to read the answer before all of it
    /// is. An answer that `ends` with its head has no reader who would take it back.
    pub(super) fn drive_elsewhere(&mut self, pace: Arc<Pace>, ends: bool) {
        if let Way::Full(full) = &mut self.way {
            full.drive_elsewhere(pace, ends, &self.runtime);
        }
    }

    /// Nothing more can be done now.
    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.relay.wait(cx);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
