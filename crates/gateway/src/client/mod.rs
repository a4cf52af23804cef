//! A client: one task that reads what it asks, has that served in order, and writes what is in its mailbox meanwhile.
//!
//! ```text
//!   socket -> requests, a few in line -> session (one at a time) -> mailbox
//!                                                   hub's ticks -> mailbox -> frames, many at a time -> socket
//! ```
//!
//! Neither direction waits for the other: while a request is under way or a write is stuck, the socket is read, and ticks that
//! cannot be written for long give their place to newer ones. Requests wait when replies do, so a client that does not read what it
//! asked for is not asked for more.

mod farewell;
mod line;
mod member;
mod session;

pub(crate) use session::REVOKED;

use crate::frame;
use crate::mailbox::{Ending, Found, Mailbox};
use crate::roll::Entry;
use crate::shared::Shared;
use crate::transport::Transport;
use crate::wire::Wire;
use bytes::Bytes;
use farewell::{AUTH_TIMEOUT, KEEPALIVE, SLOW, ending_for};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use line::Line;
use session::Session;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::Sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tracing::Instrument;

/// How much is written at a time.
const BATCH: usize = 16 << 10;

/// A request is not begun while so many replies wait.
const REPLIES: usize = 8;

/// A request is not begun while so many bytes wait, of replies and of what is on its way into the socket.
const UNREAD: usize = 64 << 10;

/// See the [module](self).
pub(crate) struct Client {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    socket: WebSocketStream<Wire<Transport>>,
    turn: Turn,
    line: Line,
    /// Frames on their way from the mailbox to the wire; kept for its memory.
    frames: Vec<Bytes>,
    timer: Pin<Box<Sleep>>,
    /// Until when it must have said who it is, if it has not.
    auth_deadline: Option<Instant>,
    /// When it is pinged next, or, after a ping, until when something must be heard.
    pulse: Pulse,
    /// How much was on the wire when it was last found not to be read, since the last ping.
    stuck: Option<usize>,
}

/// Whose turn it is.
enum Turn {
    /// The client's, to ask something.
    Client(Session),
    /// The session's, to answer.
    Session(BoxFuture<'static, (Session, Option<Ending>)>),
    /// Nobody's: it is being passed on.
    Nobody,
}

#[derive(Clone, Copy, Debug)]
enum Pulse {
    PingAt(Instant),
    SilentUntil(Instant),
}

/// What happened.
enum Event {
    Heard(Message),
    /// It has said goodbye.
    Left,
    /// There is nothing more to be read, for this reason if it can be told.
    Failed(Option<Ending>),
    Served(Session, Option<Ending>),
    Timer,
    /// The client is to be closed: everything is written, or nothing can be.
    End(Ending),
}

impl Client {
    /// `auth_deadline`: until when it must have said who it is.
    pub(crate) fn new(
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox>,
        socket: WebSocketStream<Wire<Transport>>,
        entry: Arc<Entry>,
        auth_deadline: Instant,
    ) -> Client {
        let session = Session::new(Arc::clone(&shared), Arc::clone(&mailbox), entry);
        let pulse = Pulse::PingAt(Instant::now() + shared.options.ping_interval);
        let timer = Box::pin(tokio::time::sleep_until(auth_deadline.into()));
        let mut client = Client {
            shared,
            mailbox,
            socket,
            turn: Turn::Client(session),
            line: Line::default(),
            frames: Vec::new(),
            timer,
            auth_deadline: Some(auth_deadline),
            pulse,
            stuck: None,
        };
        client.arm();
        client
    }

    /// Serves the client until it is gone.
    ///
    /// Cancel safe: all that it has is given back.
    pub(crate) async fn run(mut self) {
        loop {
            match poll_fn(|context| self.poll(context)).await {
                Event::Heard(message) => self.hear(message),
                Event::Left => return self.part().await,
                Event::Failed(None) => return,
                Event::Failed(Some(ending)) => return self.cut(ending).await,
                Event::Served(session, ending) => {
                    if session.is_authenticated() && self.auth_deadline.take().is_some() {
                        self.socket.get_mut().read_on();
                    }
                    self.turn = Turn::Client(session);
                    if let Some(ending) = ending {
                        let _ = self.mailbox.end(ending);
                    }
                }
                Event::Timer => {
                    if let Some(ending) = self.overdue(Instant::now()) {
                        tracing::debug!(code = ending.code, reason = &*ending.reason, "a client is closed");
                        let _ = self.mailbox.end(ending.clone());
                        return self.cut(ending).await;
                    }
                    self.arm();
                }
                Event::End(ending) => {
                    tracing::debug!(code = ending.code, reason = &*ending.reason, "a client is closed");
                    return self.leave(ending).await;
                }
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Poll::Ready(event) = self.poll_write(context) {
            return Poll::Ready(event);
        }
        if let Poll::Ready((session, ending)) = self.poll_turn(context) {
            return Poll::Ready(Event::Served(session, ending));
        }
        if self.is_read() {
            match self.socket.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(Event::Heard(message)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Event::Failed(ending_for(&error))),
                Poll::Ready(None) => return Poll::Ready(Event::Left),
                Poll::Pending => {}
            }
            // The library may have answered something.
            let wire = self.socket.get_mut();
            if !wire.is_drained()
                && let Poll::Ready(Err(_)) = wire.poll_drain(context)
            {
                return Poll::Ready(Event::Failed(None));
            }
        }
        self.timer.poll_unpin(context).map(|()| Event::Timer)
    }

    /// Moves what is in the mailbox to the socket, until either has enough.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        loop {
            let wire = self.socket.get_mut();
            if !wire.is_drained() {
                match wire.poll_drain(context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(Event::Failed(None)),
                    // What waits for it is not waited for when it is to go.
                    Poll::Pending => return self.mailbox.poll_end(context).map(Event::End),
                }
            }
            match self.mailbox.poll(context) {
                Poll::Pending => {
                    wire.rest();
                    return Poll::Pending;
                }
                Poll::Ready(Found::End(ending)) => return Poll::Ready(Event::End(ending)),
                Poll::Ready(Found::Messages) => {
                    self.mailbox.take(Instant::now(), BATCH, &mut self.frames);
                    self.shared.counters.delivered.add(self.frames.len() as u64);
                    self.frames.drain(..).for_each(|frame| wire.push(&frame));
                }
            }
        }
    }

    /// Serves the request that is under way, or begins the next.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<(Session, Option<Ending>)> {
        match std::mem::replace(&mut self.turn, Turn::Nobody) {
            Turn::Client(session) => match self.begin() {
                Some(message) => {
                    let span = tracing::debug_span!("request");
                    self.turn = Turn::Session(session.serve(message).instrument(span).boxed());
                }
                None => {
                    self.turn = Turn::Client(session);
                    return Poll::Pending;
                }
            },
            turn => self.turn = turn,
        }
        match &mut self.turn {
            Turn::Session(serving) => serving.poll_unpin(context),
            Turn::Client(_) | Turn::Nobody => Poll::Pending,
        }
    }

    /// The next request, unless replies to earlier ones wait.
    fn begin(&mut self) -> Option<Bytes> {
        let unread = || self.mailbox.reply_bytes() + self.socket.get_ref().waiting();
        if self.line.is_empty()
            || self.mailbox.replies() >= REPLIES
            || unread() >= UNREAD
            || self.mailbox.ending().is_some()
        {
            return None;
        }
        self.line.pop()
    }

    /// Whether it is listened to.
    fn is_read(&self) -> bool {
        self.line.has_room(self.shared.options.limits.message_size)
    }

    fn hear(&mut self, message: Message) {
        let ping_at = Instant::now() + self.shared.options.ping_interval;
        self.pulse = Pulse::PingAt(ping_at);
        // After a ping it stands at when the answer would be too late.
        if self.timer.deadline() > ping_at.into() {
            self.arm();
        }
        match message {
            Message::Text(text) => self.line.push(text.into()),
            Message::Binary(bytes) => self.line.push(bytes),
            // The library answers these, and the end follows a close.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {}
        }
    }

    /// Why its time is up, if it is; a ping, if that is due.
    fn overdue(&mut self, now: Instant) -> Option<Ending> {
        if self.auth_deadline.is_some_and(|deadline| deadline <= now) {
            return Some(AUTH_TIMEOUT);
        }
        if self.mailbox.slow_at().is_some_and(|at| at <= now) {
            self.shared.slow_closed();
            return Some(SLOW);
        }
        match self.pulse {
            Pulse::PingAt(at) if at <= now => {
                self.socket.get_mut().push(frame::PING);
                self.stuck = None;
                self.pulse = Pulse::SilentUntil(now + self.shared.options.ping_timeout);
                None
            }
            Pulse::SilentUntil(until) if until <= now && self.is_read() => Some(KEEPALIVE),
            // Whoever is not read cannot be heard; but it can be seen to take nothing of what it asked for.
            Pulse::SilentUntil(until) if until <= now => {
                let waiting = self.socket.get_ref().waiting();
                if waiting > 0 && self.stuck.replace(waiting) == Some(waiting) {
                    self.shared.slow_closed();
                    return Some(SLOW);
                }
                self.pulse = Pulse::SilentUntil(now + self.shared.options.ping_timeout);
                None
            }
            Pulse::PingAt(_) | Pulse::SilentUntil(_) => None,
        }
    }

    /// Sets the timer to when something may be due. What becomes due meanwhile is not due before: being slow takes
    /// `slow_after`.
    fn arm(&mut self) {
        let now = Instant::now();
        let (Pulse::PingAt(pulse) | Pulse::SilentUntil(pulse)) = self.pulse;
        let slow = self.mailbox.slow_at().unwrap_or(now + self.shared.options.outbox.slow_after);
        let at = pulse.min(slow).min(self.auth_deadline.unwrap_or(pulse));
        self.timer.as_mut().reset(at.into());
    }
}
