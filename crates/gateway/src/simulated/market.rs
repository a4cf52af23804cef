//! The market: every listed symbol and how it stands. Pure: it follows from the seed and from what is asked of it.

use super::payload;
use super::symbols;
use super::walk::Walk;
use carom::feed::{Instrument, Level};
use std::collections::HashMap;

/// Names a listed symbol: its position, counted from 0.
pub type SymbolId = u32;

/// Every listed symbol and how it stands.
///
/// ```
/// use carom::feed::{Level, Mode};
/// use carom_gateway::simulated::Market;
///
/// let mut market = Market::new(3_000, 7);
/// let sbin = market.find("NSE", "SBIN").unwrap();
/// market.step(sbin);
/// let mut payload = String::new();
/// market.write(sbin, Level { mode: Mode::Ltp, depth: 5 }, 1_800_000_000_000, &mut payload);
/// assert!(payload.starts_with(r#"{"symbol":"SBIN","exchange":"NSE","mode":1,"ltp":"#));
/// ```
#[derive(Clone, Debug)]
pub struct Market {
    listed: Vec<(Instrument, Walk)>,
    ids: HashMap<Instrument, SymbolId>,
}

impl Market {
    /// A market with so many symbols. Each walks by itself: what becomes of it does not depend on the others.
    pub fn new(symbols: usize, seed: u64) -> Market {
        let listed: Vec<(Instrument, Walk)> = symbols::listed(symbols)
            .into_iter()
            .zip(1u64..)
            .map(|((instrument, close), number)| {
                let seed = seed.wrapping_add(number.wrapping_mul(0xd134_2543_de82_ef95));
                (instrument, Walk::new(close, seed))
            })
            .collect();
        let ids = (0..).zip(&listed).map(|(id, (instrument, _))| (instrument.clone(), id)).collect();
        Market { listed, ids }
    }

    /// How many symbols are listed.
    pub fn len(&self) -> usize {
        self.listed.len()
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Every listed symbol.
    pub fn instruments(&self) -> impl Iterator<Item = &Instrument> {
        self.listed.iter().map(|(instrument, _)| instrument)
    }

    /// The symbol of this name, if it is listed.
    pub fn find(&self, exchange: &str, symbol: &str) -> Option<SymbolId> {
        self.ids.get(&Instrument::new(exchange, symbol)).copied()
    }

    /// A trade in this symbol.
    pub fn step(&mut self, id: SymbolId) {
        if let Some((_, walk)) = self.listed.get_mut(id as usize) {
            walk.step();
        }
    }

    /// Appends how this symbol stands at `now`, in milliseconds since 1970: JSON with OpenAlgo's field names, as much of it as
    /// the level says. The order book has 5, 20 or 50 levels, the least of these that is enough.
    pub fn write(&self, id: SymbolId, level: Level, now: u64, to: &mut String) {
        if let Some((instrument, walk)) = self.listed.get(id as usize) {
            payload::write(to, instrument, walk, level, now);
        }
    }
}
