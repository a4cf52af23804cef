//! The two halves of a connection: one tells Kite what to stream, the other makes ticks of packets.

use crate::credential::Presented;
use crate::kite::carried::Carried;
use crate::kite::counts::Counts;
use crate::kite::listing::Listing;
use crate::kite::packet::{self, Message, PacketError, Packets};
use crate::kite::payload;
use crate::upstream::{self, Socket, UpstreamError, hide, shown};
use bytes::Bytes;
use carom::feed::{Change, Instrument, Mode, Refused, Tick};
use carom_core::seldom::Seldom;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio_tungstenite::tungstenite;

/// Payloads are written into buffers of about this size. Whoever keeps a payload keeps its buffer.
const BUFFER: usize = 8 * 1024;

/// The half that tells.
#[derive(Debug)]
pub struct Writer {
    sink: SplitSink<Socket, tungstenite::Message>,
    carried: Arc<Mutex<Carried>>,
    listing: Listing,
}

/// The half that reads.
#[derive(Debug)]
pub struct Reader {
    stream: SplitStream<Socket>,
    carried: Arc<Mutex<Carried>>,
    presented: Presented,
    counts: Counts,
    errors: Seldom,
    garbled: Seldom,
}

/// The halves of an open connection.
pub(super) fn of(socket: Socket, presented: Presented, listing: Listing, counts: Counts) -> (Writer, Reader) {
    let (sink, stream) = socket.split();
    let carried = Arc::default();
    let (errors, garbled) = Default::default();
    let reader = Reader { stream, carried: Arc::clone(&carried), presented, counts, errors, garbled };
    (Writer { sink, carried, listing }, reader)
}

impl Writer {
    /// Tells Kite; what it does not list.
    pub(super) async fn change(&mut self, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        let instruments = self.listing.current();
        let (told, refused) = lock(&self.carried).change(changes, &instruments);
        for text in told.texts() {
            self.sink.feed(tungstenite::Message::text(text)).await?;
        }
        self.sink.flush().await?;
        Ok(refused)
    }

    /// The answer to it is a sign of life.
    pub(super) async fn ping(&mut self) -> Result<(), UpstreamError> {
        Ok(self.sink.send(tungstenite::Message::Ping(Bytes::new())).await?)
    }

    pub(super) async fn close(mut self, mut reader: Reader) {
        upstream::say_goodbye(&mut self.sink, &mut reader.stream).await;
    }
}

impl Reader {
    /// Waits for a message that makes sense, and appends the ticks in it. One that makes none is told of and passed over: it must
    /// not end what everybody else gets, and it is no sign of life.
    pub(super) async fn read(&mut self, ticks: &mut Vec<Tick>, api_key: &str) -> Result<(), UpstreamError> {
        loop {
            let makes_sense = match self.stream.next().await {
                Some(Ok(tungstenite::Message::Binary(message))) => self.heard(&message, ticks),
                Some(Ok(tungstenite::Message::Text(text))) => self.told(&text, api_key),
                Some(Ok(
                    tungstenite::Message::Ping(_) | tungstenite::Message::Pong(_) | tungstenite::Message::Frame(_),
                )) => true,
                Some(Ok(tungstenite::Message::Close(frame))) => {
                    return Err(UpstreamError::closed(frame.as_ref()).hiding(self.presented.secret()).hiding(api_key));
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(UpstreamError::closed(None)),
            };
            if makes_sense {
                return Ok(());
            }
        }
    }

    /// Whether anything in it made sense, if there was anything.
    fn heard(&mut self, message: &[u8], ticks: &mut Vec<Tick>) -> bool {
        match packet::read(message) {
            Ok(Message::Heartbeat) => true,
            Ok(Message::Packets(packets)) => {
                let is_empty = packets.left() == 0;
                let (understood, problem) = self.ticked(packets, ticks);
                if let Some(problem) = problem {
                    self.garbled(problem);
                }
                understood > 0 || is_empty
            }
            Err(problem) => {
                self.counts.count_malformed();
                self.garbled(problem);
                false
            }
        }
    }

    /// How many packets were understood, and what was wrong with the first of the others.
    fn ticked(&self, packets: Packets<'_>, ticks: &mut Vec<Tick>) -> (usize, Option<PacketError>) {
        let now = upstream::now();
        let carried = lock(&self.carried);
        let mut payloads = Payloads::default();
        let (mut understood, mut problem) = (0, None);
        for packet in packets {
            let packet = match packet {
                Ok(packet) => packet,
                Err(error) => {
                    match error {
                        PacketError::Unknown { .. } => self.counts.count_unknown(),
                        PacketError::CutOff { .. } => self.counts.count_malformed(),
                    }
                    problem.get_or_insert(error);
                    continue;
                }
            };
            understood += 1;
            let mut asked = false;
            for instrument in carried.of(packet.token()) {
                let start = payloads.text.len();
                payload::write(&mut payloads.text, instrument, &packet, now);
                payloads.add(instrument, payload::mode(&packet), start, ticks);
                asked = true;
            }
            if !asked {
                self.counts.count_unasked();
            }
        }
        payloads.finish(ticks);
        (understood, problem)
    }

    /// Whether it made sense.
    fn told(&mut self, text: &str, api_key: &str) -> bool {
        let secret = self.presented.secret();
        let fit = |said: &str| hide(hide(shown(said), secret), api_key);
        match serde_json::from_str(text) {
            Ok(Notice { kind, .. }) if kind == "order" => self.counts.count_order(),
            Ok(Notice { kind, data }) => {
                let (kind, said) = (fit(&kind), fit(data.map_or("", RawValue::get)));
                tracing::debug!(kind, said, "Kite says something");
                if kind == "error"
                    && let Some(count) = self.errors.happened(Instant::now())
                {
                    tracing::warn!(said, count, "Kite reports an error");
                }
            }
            Err(_) => {
                self.counts.count_malformed();
                self.garbled(format_args!("a text of {} bytes is no notice", text.len()));
                return false;
            }
        }
        true
    }

    /// The figures are those of all connections, since the adapter was built.
    fn garbled(&mut self, problem: impl Display) {
        if let Some(count) = self.garbled.happened(Instant::now()) {
            let (unknown, malformed) = (self.counts.unknown(), self.counts.malformed());
            tracing::warn!(count, %problem, unknown, malformed, "Kite says what makes no sense");
        }
    }
}

/// A text of Kite.
#[derive(Deserialize)]
struct Notice<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Payloads that share a buffer until it is full.
#[derive(Default)]
struct Payloads {
    text: String,
    parts: Vec<(Instrument, Mode, Range<usize>)>,
}

impl Payloads {
    /// What was written from `start` on is a payload.
    fn add(&mut self, instrument: &Instrument, mode: Mode, start: usize, ticks: &mut Vec<Tick>) {
        self.parts.push((instrument.clone(), mode, start..self.text.len()));
        if self.text.len() >= BUFFER {
            self.finish(ticks);
        }
    }

    fn finish(&mut self, ticks: &mut Vec<Tick>) {
        let bytes = Bytes::from(std::mem::take(&mut self.text));
        let parts = self.parts.drain(..);
        ticks.extend(parts.map(|(instrument, mode, at)| Tick { instrument, mode, payload: bytes.slice(at) }));
    }
}

fn lock(carried: &Mutex<Carried>) -> MutexGuard<'_, Carried> {
    carried.lock().unwrap_or_else(PoisonError::into_inner)
}
