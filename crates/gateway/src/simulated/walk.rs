//! A walk: the day of one symbol, a step at a time, from a seed.

use carom_core::random::Random;

/// Prices are whole multiples of this many paise.
pub(super) const TICK: i64 = 5;

/// How a symbol stands. Prices are in paise, so that sums are exact.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    random: Random,
    pub(super) ltp: i64,
    pub(super) open: i64,
    pub(super) high: i64,
    pub(super) low: i64,
    /// Of the day before.
    pub(super) close: i64,
    pub(super) volume: i64,
    turnover: i128,
    pub(super) last_quantity: i64,
    pub(super) oi: i64,
}

impl Walk {
    /// The morning, after a day that closed at about this price.
    pub(super) fn new(close: i64, seed: u64) -> Walk {
        let mut random = Random::new(seed);
        let close = whole(close);
        // Within one percent of the day before.
        let open = whole(close + (close / 50) * (random.below(1_001) as i64 - 500) / 1_000);
        let oi = 1_000 * random.below(5_000) as i64;
        let last_quantity = 1 + random.below(500) as i64;
        let (volume, turnover) = (last_quantity, i128::from(last_quantity) * i128::from(open));
        Walk { random, ltp: open, open, high: open, low: open, close, volume, turnover, last_quantity, oi }
    }

    /// One trade: the price goes up or down a little, and the further it has gone from the open the likelier it turns back.
    pub(super) fn step(&mut self) {
        let bits = self.random.bits();
        let reach = (self.close / 5_000).max(TICK);
        let by = (bits & 0xffff) as i64 * (2 * reach + 1) / 0x1_0000 - reach;
        let back = (self.open - self.ltp) / 512;
        self.ltp = whole(self.ltp + by + back).clamp(self.lower_circuit(), self.upper_circuit());
        (self.high, self.low) = (self.high.max(self.ltp), self.low.min(self.ltp));
        self.last_quantity = 1 + ((bits >> 16) & 0xff) as i64;
        self.volume += self.last_quantity;
        self.turnover += i128::from(self.last_quantity) * i128::from(self.ltp);
        self.oi = (self.oi + ((bits >> 24) & 0x1f) as i64 - 15).max(0);
    }

    /// What all of today's trades cost on average, in paise.
    pub(super) fn average(&self) -> i64 {
        (self.turnover / i128::from(self.volume)) as i64
    }

    pub(super) fn upper_circuit(&self) -> i64 {
        whole(self.close + self.close / 5)
    }

    pub(super) fn lower_circuit(&self) -> i64 {
        whole(self.close - self.close / 5)
    }

    /// Chance that follows from where the walk is, and does not lead it astray: for what is shown of the order book.
    pub(super) fn aside(&self) -> Random {
        self.random.clone()
    }
}

/// The nearest price that there can be, at least one tick. Always the one below would make every walk lead down.
fn whole(paise: i64) -> i64 {
    ((paise + TICK / 2).div_euclid(TICK) * TICK).max(TICK)
}
