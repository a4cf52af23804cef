//! What the exchange's tasks share: the market, who carries what, and which faults are on. One lock around all of it.

use super::floor::{Carrier, Floor, Full, Number};
use super::market::{Market, SymbolId};
use super::options::Options;
use super::token::Token;
use super::wire::{FRAME, Named, RefusedAt, Wanted};
use crate::upstream::digits::digits;
use carom_core::random::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Frames that wait for a connection; when it takes none, what comes after these is lost.
pub(super) const QUEUE: usize = 256;

/// The lock, and who hears of changes.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    world: Mutex<World>,
    pub(super) changes: watch::Sender<()>,
}

/// What the lock protects.
#[derive(Debug)]
pub(super) struct World {
    pub(super) market: Market,
    pub(super) floor: Floor,
    pub(super) lines: BTreeMap<Number, Line>,
    pub(super) random: Random,
    /// What is valid; `None` lets everybody in.
    pub(super) token: Option<Token>,
    pub(super) refuse_credential: bool,
    pub(super) refuse_connections: bool,
    pub(super) cut_next_request: bool,
    pub(super) ack_delay: Duration,
    pub(super) counts: Counts,
}

/// What the others keep of a connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) presented: Option<Token>,
    pub(super) frames: mpsc::Sender<Frame>,
    pub(super) orders: watch::Sender<Order>,
}

/// Ticks that are sent together, as they go on the wire.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) text: Utf8Bytes,
    pub(super) ticks: u64,
}

/// What a connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    Serve,
    /// Listen, but say nothing.
    Silence,
    /// End without a word.
    Cut,
    /// The token is not valid any more: say so and end.
    Expire,
    /// The exchange stops: say so and end.
    GoAway,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) turned_away: u64,
    pub(super) over_capacity: u64,
    pub(super) ticks: u64,
    pub(super) lost: u64,
    pub(super) most_connections: usize,
    pub(super) most_topics: usize,
}

impl Shared {
    pub(super) fn new(options: Options) -> Shared {
        let market = Market::new(options.symbols, options.seed);
        let world = World {
            floor: Floor::new(market.len(), options.max_topics_per_connection),
            market,
            lines: BTreeMap::new(),
            random: Random::new(options.seed),
            token: options.token.clone(),
            refuse_credential: false,
            refuse_connections: false,
            cut_next_request: false,
            ack_delay: options.ack_delay,
            counts: Counts::default(),
        };
        Shared { options, world: Mutex::new(world), changes: watch::Sender::new(()) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step that others may wait for.
    pub(super) fn change<R>(&self, step: impl FnOnce(&mut World) -> R) -> R {
        let result = step(&mut self.lock());
        self.changes.send_replace(());
        result
    }

    /// Tells these connections what to do; how many there were.
    pub(super) fn order(&self, order: Order, whom: impl FnOnce(&mut World) -> Vec<Number>) -> usize {
        let orders: Vec<watch::Sender<Order>> = {
            let mut world = self.lock();
            let numbers = whom(&mut world);
            numbers.iter().filter_map(|number| Some(world.lines.get(number)?.orders.clone())).collect()
        };
        for orders in &orders {
            orders.send_replace(order);
        }
        orders.len()
    }
}

impl World {
    /// Subscribes as far as the limits allow: what is refused, and what is not.
    pub(super) fn subscribe(
        &mut self,
        connection: Number,
        symbols: &[Wanted<'_>],
    ) -> (Vec<RefusedAt<'static>>, Vec<SymbolId>) {
        let (mut refused, mut accepted) = (Vec::new(), Vec::with_capacity(symbols.len()));
        for (at, wanted) in symbols.iter().enumerate() {
            match self.carry(connection, wanted) {
                Ok(symbol) => accepted.push(symbol),
                Err(reason) => refused.push(RefusedAt { at, reason: reason.into() }),
            }
        }
        let most = self.floor.lines().map(|(_, topics)| topics).max().unwrap_or(0);
        self.counts.most_topics = self.counts.most_topics.max(most);
        (refused, accepted)
    }

    /// How these symbols stand, as far as the connection still carries them and was not told meanwhile.
    pub(super) fn first(&mut self, connection: Number, symbols: &[SymbolId], now: u64) -> Vec<Frame> {
        let mut ticks = Batch::default();
        for &symbol in symbols {
            let mut carriers = self.floor.carriers(symbol).iter_mut();
            if let Some(carrier) = carriers.find(|carrier| carrier.connection == connection && !carrier.is_told) {
                carrier.is_told = true;
                ticks.add(&self.market, symbol, carrier, now);
            }
        }
        let frames = ticks.finish();
        self.counts.ticks += frames.iter().map(|frame| frame.ticks).sum::<u64>();
        frames
    }

    fn carry(&mut self, connection: Number, wanted: &Wanted<'_>) -> Result<SymbolId, String> {
        let found = self.market.find(&wanted.exchange, &wanted.symbol).ok_or("unknown symbol")?;
        let level = wanted.level().ok_or("unknown mode")?;
        let carrier = Carrier { connection, key: wanted.key, level, is_told: false };
        match self.floor.carry(found, carrier) {
            Ok(()) => Ok(found),
            Err(Full) => {
                self.counts.over_capacity += 1;
                Err(format!("this connection carries {} symbols, and no more are allowed", self.floor.max_topics()))
            }
        }
    }

    /// Unsubscribes; what is not carried is dropped already.
    pub(super) fn unsubscribe(&mut self, connection: Number, symbols: &[Named<'_>]) {
        for Named { exchange, symbol } in symbols {
            if let Some(symbol) = self.market.find(exchange, symbol) {
                self.floor.drop(connection, symbol);
            }
        }
    }

    /// So many trades. Ticks are put into their connections' queues here, before the lock is let go: none may be queued after
    /// a newer one was written.
    pub(super) fn trade(&mut self, trades: u64, now: u64) {
        let mut batches: BTreeMap<Number, Batch> = BTreeMap::new();
        for _ in 0..trades {
            let Some(symbol) = self.floor.next() else { break };
            self.market.step(symbol);
            for carrier in self.floor.carriers(symbol) {
                carrier.is_told = true;
                batches.entry(carrier.connection).or_default().add(&self.market, symbol, carrier, now);
            }
        }
        for (number, batch) in batches {
            let Some(line) = self.lines.get(&number) else { continue };
            for frame in batch.finish() {
                let ticks = frame.ticks;
                match line.frames.try_send(frame) {
                    Ok(()) => self.counts.ticks += ticks,
                    Err(_) => self.counts.lost += ticks,
                }
            }
        }
    }
}

impl World {
    /// A connection, chosen by chance.
    pub(super) fn any(&mut self) -> Option<Number> {
        let which = self.random.below(self.lines.len());
        self.lines.keys().nth(which).copied()
    }
}

/// Ticks of one connection, being written.
#[derive(Default)]
struct Batch {
    full: Vec<Frame>,
    text: String,
    ticks: u64,
}

impl Batch {
    fn add(&mut self, market: &Market, symbol: SymbolId, carrier: &Carrier, now: u64) {
        if self.ticks == 0 {
            self.text = String::with_capacity(FRAME + FRAME / 4);
        }
        self.text.push_str(if self.ticks == 0 { "{\"ticks\":[{\"key\":" } else { ",{\"key\":" });
        digits(&mut self.text, u64::from(carrier.key));
        self.text.push_str(",\"mode\":");
        digits(&mut self.text, u64::from(carrier.level.mode.number()));
        self.text.push_str(",\"payload\":");
        market.write(symbol, carrier.level, now, &mut self.text);
        self.text.push('}');
        self.ticks += 1;
        if self.text.len() >= FRAME {
            self.close();
        }
    }

    fn close(&mut self) {
        let (mut text, ticks) = (std::mem::take(&mut self.text), std::mem::take(&mut self.ticks));
        if ticks > 0 {
            text.push_str("]}");
            self.full.push(Frame { text: text.into(), ticks });
        }
    }

    fn finish(mut self) -> Vec<Frame> {
        self.close();
        self.full
    }
}

/// A place that a connection has on the floor, for as long as this lives.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) shared: Arc<Shared>,
    pub(super) number: Number,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.change(|world| {
            world.lines.remove(&self.number);
            world.floor.leave(self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_symbol_stands_is_told_once() {
        let shared = Shared::new(Options::default());
        let mut world = shared.lock();
        world.floor.enter(1);
        let wanted = |mode| [Wanted { key: 7, exchange: "NSE".into(), symbol: "SBIN".into(), mode, depth: 5 }];
        let mut first = |mode, trades| {
            let (_, accepted) = world.subscribe(1, &wanted(mode));
            world.trade(trades, 0);
            world.first(1, &accepted, 0).len()
        };
        assert_eq!(first(1, 0), 1);
        assert_eq!(first(2, 0), 1, "at another level there is more to tell");
        assert_eq!(first(2, 1), 0, "it ticked before it was answered");
    }
}
