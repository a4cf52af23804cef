//! The floor: which connection carries which symbols, within the limits, and whose turn it is to tick. Pure.

use super::market::SymbolId;
use carom::feed::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Names a connection, counted from 1 in the order in which they came.
pub(super) type Number = u64;

/// Who carries what.
#[derive(Debug)]
pub(super) struct Floor {
    max_topics: usize,
    lines: BTreeMap<Number, BTreeSet<SymbolId>>,
    /// By symbol: nearly always none or one.
    carriers: Vec<Vec<Carrier>>,
    /// Symbols that somebody carries, in no order, and where each of them is in it.
    rota: Vec<SymbolId>,
    places: Vec<usize>,
    turn: usize,
}

/// A connection that carries a symbol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carrier {
    pub(super) connection: Number,
    pub(super) key: u32,
    pub(super) level: Level,
    /// Whether it was told anything of the symbol since it carries it, at this level.
    pub(super) is_told: bool,
}

/// The connection carries as much as it may.
#[derive(Debug, PartialEq)]
pub(super) struct Full;

impl Floor {
    pub(super) fn new(symbols: usize, max_topics: usize) -> Floor {
        Floor {
            max_topics,
            lines: BTreeMap::new(),
            carriers: vec![Vec::new(); symbols],
            rota: Vec::new(),
            places: vec![0; symbols],
            turn: 0,
        }
    }

    pub(super) fn max_topics(&self) -> usize {
        self.max_topics
    }

    pub(super) fn enter(&mut self, connection: Number) {
        self.lines.entry(connection).or_default();
    }

    pub(super) fn leave(&mut self, connection: Number) {
        for symbol in self.lines.remove(&connection).into_iter().flatten() {
            self.forget(connection, symbol);
        }
    }

    /// This connection carries this symbol from now on, or carries it at another level.
    pub(super) fn carry(&mut self, symbol: SymbolId, carrier: Carrier) -> Result<(), Full> {
        let Some(line) = self.lines.get_mut(&carrier.connection) else { return Err(Full) };
        if line.len() >= self.max_topics && !line.contains(&symbol) {
            return Err(Full);
        }
        line.insert(symbol);
        let carriers = &mut self.carriers[symbol as usize];
        match carriers.iter_mut().find(|other| other.connection == carrier.connection) {
            Some(before) => *before = carrier,
            None => {
                if carriers.is_empty() {
                    self.places[symbol as usize] = self.rota.len();
                    self.rota.push(symbol);
                }
                carriers.push(carrier);
            }
        }
        Ok(())
    }

    pub(super) fn drop(&mut self, connection: Number, symbol: SymbolId) {
        if self.lines.get_mut(&connection).is_some_and(|line| line.remove(&symbol)) {
            self.forget(connection, symbol);
        }
    }

    /// The symbol whose turn it is to tick: all that are carried take turns.
    pub(super) fn next(&mut self) -> Option<SymbolId> {
        if self.turn >= self.rota.len() {
            self.turn = 0;
        }
        let symbol = self.rota.get(self.turn).copied();
        self.turn += 1;
        symbol
    }

    pub(super) fn carriers(&mut self, symbol: SymbolId) -> &mut [Carrier] {
        &mut self.carriers[symbol as usize]
    }

    /// How many symbols each connection carries.
    pub(super) fn lines(&self) -> impl Iterator<Item = (Number, usize)> {
        self.lines.iter().map(|(&number, line)| (number, line.len()))
    }

    pub(super) fn connections(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.rota.is_empty()
    }

    fn forget(&mut self, connection: Number, symbol: SymbolId) {
        let carriers = &mut self.carriers[symbol as usize];
        carriers.retain(|carrier| carrier.connection != connection);
        if carriers.is_empty() {
            let place = self.places[symbol as usize];
            self.rota.swap_remove(place);
            if let Some(&moved) = self.rota.get(place) {
                self.places[moved as usize] = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom::feed::Mode;

    fn carrier(connection: Number) -> Carrier {
        Carrier { connection, key: 1, level: Level { mode: Mode::Ltp, depth: 5 }, is_told: false }
    }

    #[test]
    fn a_connection_takes_so_many_and_another_level_of_one_is_not_another() {
        let mut floor = Floor::new(5, 2);
        floor.enter(1);
        assert_eq!([0, 1, 2, 1].map(|symbol| floor.carry(symbol, carrier(1))), [Ok(()), Ok(()), Err(Full), Ok(())]);
        floor.drop(1, 0);
        assert_eq!(floor.carry(2, carrier(1)), Ok(()));
        assert_eq!(floor.carry(2, carrier(9)), Err(Full), "nobody is there");
    }

    #[test]
    fn everything_that_is_carried_takes_turns_and_nothing_else() {
        let mut floor = Floor::new(6, 6);
        floor.enter(1);
        floor.enter(2);
        for symbol in 0..4 {
            floor.carry(symbol, carrier(1)).unwrap();
        }
        floor.carry(3, carrier(2)).unwrap();
        floor.carry(5, carrier(2)).unwrap();
        floor.drop(1, 1);
        floor.drop(1, 1);
        let round: BTreeSet<SymbolId> = (0..4).filter_map(|_| floor.next()).collect();
        assert_eq!(round, [0, 2, 3, 5].into());
        floor.leave(1);
        let round: BTreeSet<SymbolId> = (0..2).filter_map(|_| floor.next()).collect();
        assert_eq!(round, [3, 5].into());
        assert_eq!(floor.carriers(3), [carrier(2)]);
        floor.leave(2);
        assert_eq!((floor.next(), floor.is_idle(), floor.connections()), (None, true, 0));
    }
}
