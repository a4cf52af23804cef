//! The two halves of a connection: one asks and waits for the answers, the other reads, and takes in what it hears.

use super::EXCHANGE;
use super::asked::Refusal;
use super::carried::{Carried, Heard, channels};
use super::instruments::Instruments;
use super::late::Late;
use super::message::{Channel, Message as Said, Request, Ticker};
use crate::upstream::{self, Listing, Socket, UpstreamError, shown};
use bytes::Bytes;
use carom::feed::{Change, Instrument, Level, Refused, Tick};
use carom_core::seldom::Seldom;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

/// The half that asks.
#[derive(Debug)]
pub struct Writer {
    sink: SplitSink<Socket, Message>,
    carried: Arc<Mutex<Carried>>,
    shared: Shared,
    /// The contracts of names that are carried.
    symbols: HashMap<Instrument, Arc<str>>,
}

/// The half that reads.
#[derive(Debug)]
pub struct Reader {
    stream: SplitStream<Socket>,
    carried: Arc<Mutex<Carried>>,
    shared: Shared,
    garbled: Seldom,
    complained: Seldom,
}

/// What all connections of an adapter have in common.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) listing: Listing<Instruments>,
    /// How many messages, or contracts in them, made no sense.
    pub(super) garbled: Arc<AtomicU64>,
    pub(super) late: Late,
    /// How long answers are waited for.
    pub(super) answer: Duration,
}

/// A change of something that there is.
struct Step<'a> {
    position: usize,
    symbol: Arc<str>,
    change: &'a Change,
    /// How much was carried under this name before.
    from: Option<Level>,
}

/// Contracts, by channel.
type Contracts = BTreeMap<Channel, Vec<Arc<str>>>;

/// The halves of an open connection.
pub(super) fn of(socket: Socket, shared: Shared) -> (Writer, Reader) {
    let (sink, stream) = socket.split();
    let carried = Arc::default();
    let (garbled, complained) = Default::default();
    let reader = Reader { stream, carried: Arc::clone(&carried), shared: shared.clone(), garbled, complained };
    (Writer { sink, carried, shared, symbols: HashMap::new() }, reader)
}

impl Writer {
    /// Tells the exchange, all at once, and waits until it has answered; what it does not want.
    pub(super) async fn change(&mut self, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        let (mut steps, mut refused, mut before) = (Vec::with_capacity(changes.len()), Vec::new(), BTreeMap::new());
        let instruments = self.shared.listing.current();
        for (position, change) in changes.iter().enumerate() {
            let symbol = match self.symbols.get(&change.instrument) {
                Some(symbol) => Ok(Arc::clone(symbol)),
                None => find(&instruments, change),
            };
            match symbol.and_then(|symbol| self.shared.late.check(symbol, change.to)) {
                Ok(symbol) => {
                    let mut carried = lock(&self.carried);
                    before.entry(Arc::clone(&symbol)).or_insert_with(|| carried.level(&symbol));
                    let from = carried.set(&symbol, &change.instrument, change.to);
                    drop(carried);
                    self.note(change, &symbol, change.to);
                    steps.push(Step { position, symbol, change, from });
                }
                // What there is not was never carried.
                Err(_) if change.to.is_none() => {}
                Err(reason) => refused.push(Refused { position, reason: reason.into() }),
            }
        }
        let (dropped, added) = self.difference(&before);
        // What is to be dropped goes first, to make room. Nobody waits for answers to that: it is dropped either way.
        self.feed(Request::Unsubscribe, &dropped).await?;
        self.feed(Request::Subscribe, &added).await?;
        self.sink.flush().await?;
        refused.extend(self.answers(&steps).await?);
        Ok(refused)
    }

    /// Shows that this side lives; the answer shows that the other one does.
    pub(super) async fn beat(&mut self) -> Result<(), UpstreamError> {
        Ok(self.sink.send(Message::Ping(Bytes::new())).await?)
    }

    pub(super) async fn close(mut self, mut reader: Reader) {
        upstream::say_goodbye(&mut self.sink, &mut reader.stream).await;
    }

    /// What is to be dropped, and what is to be added, of contracts of which so much was carried before.
    fn difference(&self, before: &BTreeMap<Arc<str>, Option<Level>>) -> (Contracts, Contracts) {
        let (mut dropped, mut added) = (Contracts::new(), Contracts::new());
        let carried = lock(&self.carried);
        for (symbol, before) in before {
            let (before, after) = (channels(*before), channels(carried.level(symbol)));
            for (into, these, others) in [(&mut dropped, before, after), (&mut added, after, before)] {
                for channel in these.iter().filter(|channel| !others.contains(channel)) {
                    into.entry(*channel).or_default().push(Arc::clone(symbol));
                }
            }
        }
        (dropped, added)
    }

    /// Asks for something, with as many contracts in each request as the exchange allows.
    async fn feed(&mut self, request: fn(Channel) -> Request, contracts: &Contracts) -> Result<(), UpstreamError> {
        for (channel, symbols) in contracts {
            for part in symbols.chunks(channel.most()) {
                let request = request(*channel);
                lock(&self.carried).asked.ask(request, part);
                self.sink.feed(Message::text(request.to_json(part))).await?;
            }
        }
        Ok(())
    }

    /// Waits for the answers. What is refused in part is refused, and carried as before: what was accepted of it is taken back.
    async fn answers(&mut self, steps: &[Step<'_>]) -> Result<Vec<Refused>, UpstreamError> {
        let settled = lock(&self.carried).wait();
        if timeout(self.shared.answer, settled).await.is_err() {
            tracing::debug!("the exchange does not answer; what it was asked for counts as accepted");
        }
        let refusals = lock(&self.carried).asked.finish();
        let (mut refused, mut before) = (Vec::new(), BTreeMap::new());
        for Step { position, symbol, change, from } in steps {
            let ours = |refusal: &&Refusal| refusal.symbol == *symbol && channels(change.to).contains(&refusal.channel);
            let Some(Refusal { reason, .. }) = refusals.iter().find(ours) else { continue };
            refused.push(Refused { position: *position, reason: shown(reason).into() });
            let mut carried = lock(&self.carried);
            before.entry(Arc::clone(symbol)).or_insert_with(|| carried.level(symbol));
            carried.set(symbol, &change.instrument, *from);
            drop(carried);
            self.note(change, symbol, *from);
        }
        let (mut back, _) = self.difference(&before);
        // Where no contract was named, something else may have been meant, and all of them be subscribed to.
        for Refusal { symbol, channel, .. } in refusals.iter().filter(|refusal| refusal.named) {
            if let Some(symbols) = back.get_mut(channel) {
                symbols.retain(|other| other != symbol);
            }
        }
        self.feed(Request::Unsubscribe, &back).await?;
        self.sink.flush().await?;
        Ok(refused)
    }

    /// Keeps the contract of a name for as long as that is carried: a list that comes later may have another.
    fn note(&mut self, change: &Change, symbol: &Arc<str>, to: Option<Level>) {
        match to {
            Some(_) => self.symbols.insert(change.instrument.clone(), Arc::clone(symbol)),
            None => self.symbols.remove(&change.instrument),
        };
    }
}

impl Reader {
    /// Waits for a message that makes sense, and appends the ticks in it. One that makes none is passed over: it must not end what
    /// everybody else gets, and it is no sign of life.
    pub(super) async fn read(&mut self, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => match Said::parse(&text) {
                    Ok(message) => {
                        let heard = lock(&self.carried).hear(&message, ticks);
                        self.weigh(heard)?;
                        let Said::Ticker(Ticker { contracts, .. }) = &message else { return Ok(()) };
                        if contracts.contains(&None) {
                            self.garbled();
                        }
                        if contracts.is_empty() || contracts.iter().any(Option::is_some) {
                            return Ok(());
                        }
                    }
                    Err(_) => self.garbled(),
                },
                Some(Ok(Message::Binary(_))) => self.garbled(),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(()),
                Some(Ok(Message::Close(frame))) => return Err(UpstreamError::closed(frame.as_ref())),
                Some(Err(error)) => return Err(error.into()),
                None => return Err(UpstreamError::closed(None)),
            }
        }
    }

    fn garbled(&mut self) {
        self.shared.garbled.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.garbled.happened(Instant::now()) {
            tracing::warn!(count, "the exchange says what makes no sense");
        }
    }

    /// Something that is refused too late ends the connection.
    fn weigh(&mut self, Heard { complaint, late }: Heard) -> Result<(), UpstreamError> {
        if let Some(reason) = complaint
            && let Some(count) = self.complained.happened(Instant::now())
        {
            tracing::warn!(count, reason, "the exchange complains of what it was not asked for");
        }
        for Refusal { symbol, channel, reason, .. } in &late {
            self.shared.late.note(symbol, *channel, shown(reason));
        }
        late.first().map_or(Ok(()), |Refusal { symbol, reason, .. }| {
            Err(UpstreamError::RefusedLate { symbol: symbol.to_string(), reason: shown(reason) })
        })
    }
}

/// The contract that a change is about, or why there is none.
fn find(instruments: &Instruments, Change { instrument, .. }: &Change) -> Result<Arc<str>, String> {
    if instrument.exchange() != EXCHANGE {
        return Err(format!("`{}` is not traded here: contracts are of `{EXCHANGE}`", shown(instrument.exchange())));
    }
    instruments.find(instrument.symbol())
}

fn lock(carried: &Mutex<Carried>) -> MutexGuard<'_, Carried> {
    carried.lock().unwrap_or_else(PoisonError::into_inner)
}
