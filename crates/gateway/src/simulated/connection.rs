//! A connection of the exchange: answers requests, passes ticks on, and does what it is told to.

use super::floor::Number;
use super::market::SymbolId;
use super::wire::{Answer, EXPIRED, RefusedAt, Request};
use super::world::{Admitted, Frame, Order, World};
use crate::upstream::now;
use futures_util::{SinkExt, StreamExt};
use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Answers that wait; nothing more is read until one of them is sent.
const UNANSWERED: usize = 8;

/// Serves one connection until it ends.
pub(super) async fn run(
    admitted: Admitted,
    socket: WebSocketStream<TcpStream>,
    frames: mpsc::Receiver<Frame>,
    mut orders: watch::Receiver<Order>,
) {
    let mut beats = interval(admitted.shared.options.heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection =
        Connection { admitted, socket, frames, beats, answers: VecDeque::new(), heard: Instant::now() };
    loop {
        let order = *orders.borrow_and_update();
        let ended = async {
            match order {
                Order::Serve => connection.serve().await,
                Order::Silence => connection.listen().await,
                Order::Cut => End::Cut,
                Order::Expire => End::Close(CloseCode::from(EXPIRED), "the token has expired"),
                Order::GoAway => End::Close(CloseCode::Away, "the exchange stops"),
            }
        };
        // Whatever is cut short here is still whole: what was to be written is in the socket's buffer, or is not.
        let end = tokio::select! {
            biased;
            Ok(()) = orders.changed() => continue,
            end = ended => end,
        };
        if let End::Close(code, reason) = end {
            let goodbye = connection.socket.close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }));
            let _ = timeout(Duration::from_secs(1), goodbye).await;
        }
        return;
    }
}

struct Connection {
    // Dropped before the socket: whoever finds its connection ended finds its place free.
    admitted: Admitted,
    socket: WebSocketStream<TcpStream>,
    frames: mpsc::Receiver<Frame>,
    beats: Interval,
    /// What is owed, in order, and when.
    answers: VecDeque<(Instant, Reply)>,
    heard: Instant,
}

/// An ack, and what it says is carried from now on.
struct Reply {
    ack: String,
    accepted: Vec<SymbolId>,
}

/// How a connection ends.
enum End {
    Cut,
    Close(CloseCode, &'static str),
}

impl Connection {
    async fn serve(&mut self) -> End {
        let patience = self.admitted.shared.options.patience;
        loop {
            let owed = self.answers.front().map(|&(due, _)| due);
            let due = async {
                match owed {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            let outcome = tokio::select! {
                message = self.socket.next(), if self.answers.len() < UNANSWERED => match message {
                    Some(Ok(message)) => self.hear(message),
                    Some(Err(_)) | None => return End::Cut,
                },
                () = due => self.answer(patience).await,
                Some(frame) = self.frames.recv() => self.pass_on(frame, patience).await,
                _ = self.beats.tick() => self.say([text(&Answer::Beat(now())).into()], patience).await,
                () = sleep_until(self.heard + patience) => Err(End::Close(CloseCode::Policy, "nothing was heard")),
            };
            if let Err(end) = outcome {
                return end;
            }
        }
    }

    /// Says nothing, until the other side has had enough.
    async fn listen(&mut self) -> End {
        while let Some(Ok(_)) = self.socket.next().await {}
        End::Cut
    }

    fn hear(&mut self, message: Message) -> Result<(), End> {
        self.heard = Instant::now();
        let bytes = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(()),
            Message::Close(_) => return Err(End::Cut),
        };
        match serde_json::from_slice(bytes) {
            Ok(request) => self.handle(request),
            Err(_) => Err(End::Close(CloseCode::Policy, "the request was not understood")),
        }
    }

    fn handle(&mut self, request: Request<'_>) -> Result<(), End> {
        match request {
            Request::Beat(_) => Ok(()),
            Request::Subscribe { id, symbols } => {
                self.owe(id, symbols.len(), |world, connection| world.subscribe(connection, &symbols))
            }
            Request::Unsubscribe { id, symbols } => self.owe(id, symbols.len(), |world, connection| {
                world.unsubscribe(connection, &symbols);
                (Vec::new(), Vec::new())
            }),
        }
    }

    /// Does what was asked for, and owes an answer.
    fn owe(
        &mut self,
        id: u64,
        symbols: usize,
        step: impl FnOnce(&mut World, Number) -> (Vec<RefusedAt<'static>>, Vec<SymbolId>),
    ) -> Result<(), End> {
        let Admitted { shared, number } = &self.admitted;
        if symbols > shared.options.max_batch {
            return Err(End::Close(CloseCode::Policy, "the request names too many symbols"));
        }
        let (refused, accepted, delay) = shared.change(|world| {
            if std::mem::take(&mut world.cut_next_request) {
                return Err(End::Cut);
            }
            let (refused, accepted) = step(world, *number);
            Ok((refused, accepted, world.ack_delay))
        })?;
        let reply = Reply { ack: text(&Answer::Ack { id, refused }), accepted };
        self.answers.push_back((Instant::now() + delay, reply));
        Ok(())
    }

    /// Sends the answer that is due, and how what it is about stands.
    async fn answer(&mut self, patience: Duration) -> Result<(), End> {
        let Some((_, Reply { ack, accepted })) = self.answers.pop_front() else { return Ok(()) };
        let mut texts = vec![ack.into()];
        {
            // Under one lock, and ticks are put into the queue under it too: what waits there is older than what is written
            // here, and what comes later is newer.
            let mut world = self.admitted.shared.lock();
            let first = world.first(self.admitted.number, &accepted, now());
            texts.extend(waiting(&mut self.frames).chain(first).map(|frame| frame.text));
        }
        self.say(texts, patience).await
    }

    /// Sends ticks, and with them all others that wait.
    async fn pass_on(&mut self, frame: Frame, patience: Duration) -> Result<(), End> {
        let texts: Vec<Utf8Bytes> =
            std::iter::once(frame).chain(waiting(&mut self.frames)).map(|frame| frame.text).collect();
        self.say(texts, patience).await
    }

    async fn say(&mut self, texts: impl IntoIterator<Item = Utf8Bytes>, patience: Duration) -> Result<(), End> {
        let said = async {
            for text in texts {
                self.socket.feed(Message::Text(text)).await?;
            }
            self.socket.flush().await
        };
        match timeout(patience, said).await {
            Ok(Ok(())) => Ok(()),
            // One that takes nothing is not told why either.
            Ok(Err(_)) | Err(_) => Err(End::Cut),
        }
    }
}

/// Everything that waits.
fn waiting(frames: &mut mpsc::Receiver<Frame>) -> impl Iterator<Item = Frame> {
    std::iter::from_fn(|| frames.try_recv().ok())
}

/// These can always be written.
fn text(answer: &Answer<'_>) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}
