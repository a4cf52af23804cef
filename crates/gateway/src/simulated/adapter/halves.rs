//! The two halves of a connection: one asks and waits for the acks, the other reads, and passes acks on.

use crate::credential::Presented;
use crate::simulated::wire::{Answer, EXPIRED, LONGEST_NAME, Named, RefusedAt, Request, Ticked, Wanted};
use crate::upstream::{self, Socket, UpstreamError, shown};
use bytes::Bytes;
use carom::feed::{Change, Instrument, Level, Mode, Refused, Tick};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The half that asks.
#[derive(Debug)]
pub struct Writer {
    sink: SplitSink<Socket, Message>,
    shared: Arc<Mutex<Shared>>,
    keys: HashMap<Instrument, u32>,
    next_key: u32,
    next_id: u64,
}

/// The half that reads.
#[derive(Debug)]
pub struct Reader {
    stream: SplitStream<Socket>,
    shared: Arc<Mutex<Shared>>,
    presented: Presented,
}

/// What both know.
#[derive(Debug, Default)]
struct Shared {
    /// What ticks are named by. As many as are subscribed to: only this side adds to it.
    instruments: HashMap<u32, Instrument>,
    asked: Option<Asked>,
}

/// A request that is not answered yet; there is at most one.
#[derive(Debug)]
struct Asked {
    id: u64,
    symbols: usize,
    answer: oneshot::Sender<Vec<Refused>>,
}

/// The halves of an open connection.
pub(super) fn of(socket: Socket, presented: Presented) -> (Writer, Reader) {
    let (sink, stream) = socket.split();
    let shared = Arc::default();
    let reader = Reader { stream, shared: Arc::clone(&shared), presented };
    (Writer { sink, shared, keys: HashMap::new(), next_key: 0, next_id: 0 }, reader)
}

impl Writer {
    /// Tells the exchange; what it does not want. What is to be dropped goes first, to make room.
    pub(super) async fn change(&mut self, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        let (mut drops, mut adds, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (position, Change { instrument, to, .. }) in changes.iter().enumerate() {
            match to {
                None => drops.push(instrument),
                Some(level) if is_sendable(instrument) => adds.push((position, instrument, *level)),
                Some(_) => refused.push(Refused { position, reason: "no symbol has such a name".into() }),
            }
        }
        if !drops.is_empty() {
            self.unsubscribe(&drops).await?;
        }
        if !adds.is_empty() {
            refused.extend(self.subscribe(&adds).await?);
        }
        Ok(refused)
    }

    async fn subscribe(&mut self, adds: &[(usize, &Instrument, Level)]) -> Result<Vec<Refused>, UpstreamError> {
        let (mut symbols, mut new) = (Vec::with_capacity(adds.len()), Vec::new());
        for &(position, instrument, level) in adds {
            let key = match self.keys.get(instrument) {
                Some(&key) => key,
                None => {
                    // Never used again, so that late ticks cannot be taken for those of something else.
                    let key = self.next_key.checked_add(1).ok_or(UpstreamError::OutOfKeys)?;
                    self.next_key = key;
                    self.keys.insert(instrument.clone(), key);
                    lock(&self.shared).instruments.insert(key, instrument.clone());
                    new.push(position);
                    key
                }
            };
            let Named { exchange, symbol } = Named::of(instrument);
            symbols.push(Wanted { key, exchange, symbol, mode: level.mode.number().into(), depth: level.depth });
        }
        let id = self.id();
        let answered = self.ask(id, symbols.len(), &Request::Subscribe { id, symbols }).await?;
        let mut refused = Vec::with_capacity(answered.len());
        for Refused { position, reason } in answered {
            // The reader has seen to it that there is one of this number.
            let Some(&(position, instrument, _)) = adds.get(position) else { continue };
            // One that was carried already goes on at its old level.
            if new.binary_search(&position).is_ok() {
                self.forget(instrument);
            }
            refused.push(Refused { position, reason });
        }
        Ok(refused)
    }

    async fn unsubscribe(&mut self, drops: &[&Instrument]) -> Result<(), UpstreamError> {
        let id = self.id();
        let symbols: Vec<Named<'_>> = drops.iter().map(|instrument| Named::of(instrument)).collect();
        self.ask(id, symbols.len(), &Request::Unsubscribe { id, symbols }).await?;
        drops.iter().for_each(|instrument| self.forget(instrument));
        Ok(())
    }

    /// Asks and waits for the answer. Should the connection end, the reader notices.
    async fn ask(&mut self, id: u64, symbols: usize, request: &Request<'_>) -> Result<Vec<Refused>, UpstreamError> {
        let (answer, answered) = oneshot::channel();
        lock(&self.shared).asked = Some(Asked { id, symbols, answer });
        self.send(request).await?;
        answered.await.map_err(|_| UpstreamError::Garbled("an answer was lost"))
    }

    pub(super) async fn beat(&mut self, now: u64) -> Result<(), UpstreamError> {
        self.send(&Request::Beat(now)).await
    }

    async fn send(&mut self, request: &Request<'_>) -> Result<(), UpstreamError> {
        let text = serde_json::to_string(request).map_err(|_| UpstreamError::Garbled("a request cannot be written"))?;
        Ok(self.sink.send(Message::text(text)).await?)
    }

    pub(super) async fn close(mut self, mut reader: Reader) {
        upstream::say_goodbye(&mut self.sink, &mut reader.stream).await;
    }

    fn forget(&mut self, instrument: &Instrument) {
        if let Some(key) = self.keys.remove(instrument) {
            lock(&self.shared).instruments.remove(&key);
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Reader {
    /// Waits for one message, and appends the ticks in it.
    pub(super) async fn read(&mut self, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        let text = match self.stream.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(()),
            Some(Ok(Message::Binary(_))) => return Err(UpstreamError::Garbled("a binary message")),
            Some(Ok(Message::Close(frame))) => {
                return Err(match UpstreamError::closed(frame.as_ref()) {
                    UpstreamError::Closed { code: EXPIRED, reason } => {
                        self.presented.refused();
                        UpstreamError::CredentialRefused { reason }
                    }
                    error => error,
                });
            }
            Some(Err(error)) => return Err(error.into()),
            None => return Err(UpstreamError::closed(None)),
        };
        // What is kept of a message must not keep the buffer that was read into, which is larger.
        let text = Utf8Bytes::from(text.as_str().to_owned());
        match serde_json::from_str(&text).map_err(|_| UpstreamError::Garbled("not a message of an exchange"))? {
            Answer::Beat(_) => Ok(()),
            Answer::Ticks(ticked) => self.ticked(&Bytes::from(text.clone()), &ticked, ticks),
            Answer::Ack { id, refused } => self.acked(id, &refused),
        }
    }

    fn ticked(&self, frame: &Bytes, ticked: &[Ticked<'_>], ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        let shared = lock(&self.shared);
        for Ticked { key, mode, payload } in ticked {
            let mode = Mode::from_number(*mode).ok_or(UpstreamError::Garbled("an unknown mode"))?;
            // One that is not known any more was under way when it was dropped.
            if let Some(instrument) = shared.instruments.get(key) {
                let payload = frame.slice_ref(payload.get().as_bytes());
                ticks.push(Tick { instrument: instrument.clone(), mode, payload });
            }
        }
        Ok(())
    }

    fn acked(&self, id: u64, refused: &[RefusedAt<'_>]) -> Result<(), UpstreamError> {
        let asked = lock(&self.shared).asked.take();
        let Some(Asked { symbols, answer, .. }) = asked.filter(|asked| asked.id == id) else {
            return Err(UpstreamError::Garbled("an answer to what was not asked"));
        };
        if refused.len() > symbols || refused.iter().any(|refused| refused.at >= symbols) {
            return Err(UpstreamError::Garbled("a refusal of what was not asked for"));
        }
        let refused =
            refused.iter().map(|RefusedAt { at, reason }| Refused { position: *at, reason: shown(reason).into() });
        // A writer that is gone does not want to know.
        let _ = answer.send(refused.collect());
        Ok(())
    }
}

impl<'a> Named<'a> {
    fn of(instrument: &'a Instrument) -> Named<'a> {
        Named { exchange: instrument.exchange().into(), symbol: instrument.symbol().into() }
    }
}

/// Requests must not become longer than the exchange reads, whatever users come up with.
fn is_sendable(instrument: &Instrument) -> bool {
    [instrument.exchange(), instrument.symbol()].iter().all(|name| (1..=LONGEST_NAME).contains(&name.len()))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
