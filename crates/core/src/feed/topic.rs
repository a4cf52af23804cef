//! Topics: what can be subscribed to, and how much of it.

use std::fmt;
use std::sync::Arc;

/// Levels of an order book when nobody says how many.
pub const DEFAULT_DEPTH: u16 = 5;

/// Something that is traded, by its exchange and symbol: what upstreams count.
///
/// Cheap to clone.
// The symbol comes first: it tells most of them apart, and they are looked up for every tick.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instrument {
    symbol: Arc<str>,
    exchange: Arc<str>,
}

impl Instrument {
    /// This symbol at this exchange, both as the upstream spells them.
    pub fn new(exchange: impl Into<Arc<str>>, symbol: impl Into<Arc<str>>) -> Instrument {
        Instrument { symbol: symbol.into(), exchange: exchange.into() }
    }

    /// Where it is traded.
    pub fn exchange(&self) -> &str {
        &self.exchange
    }

    /// What it is called there.
    pub fn symbol(&self) -> &str {
        &self.symbol
    }
}

impl fmt::Display for Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.exchange, self.symbol)
    }
}

/// How much of an instrument is streamed. A higher mode contains the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The last traded price.
    Ltp = 1,
    /// Prices of the day, volume and the like.
    Quote = 2,
    /// The order book too.
    Depth = 3,
}

impl Mode {
    /// Every mode, lowest first.
    pub const ALL: [Mode; 3] = [Mode::Ltp, Mode::Quote, Mode::Depth];

    /// The mode of this number, 1 to 3.
    pub fn from_number(number: u64) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| u64::from(mode.number()) == number)
    }

    /// 1 to 3.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Where it stands in [`Mode::ALL`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.number() - 1)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Ltp => "LTP",
            Mode::Quote => "QUOTE",
            Mode::Depth => "DEPTH",
        })
    }
}

/// How much of an instrument is wanted or held: the mode, then the depth. The greater one covers the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    /// The mode.
    pub mode: Mode,
    /// Levels of the order book.
    pub depth: u16,
}

impl Level {
    /// What upstreams make of it: the depth tells order books apart and nothing else, and there is at least one level of it.
    pub fn plain(self) -> Level {
        match self.mode {
            Mode::Ltp | Mode::Quote => Level { depth: DEFAULT_DEPTH, ..self },
            Mode::Depth => Level { depth: self.depth.max(1), ..self },
        }
    }
}

/// An instrument at a mode: what somebody subscribes to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    /// Of what.
    pub instrument: Instrument,
    /// How much of it.
    pub level: Level,
}

impl Topic {
    /// This symbol of this exchange at this mode, with 5 levels of its order book.
    pub fn new(exchange: impl Into<Arc<str>>, symbol: impl Into<Arc<str>>, mode: Mode) -> Topic {
        Topic { instrument: Instrument::new(exchange, symbol), level: Level { mode, depth: DEFAULT_DEPTH } }
    }

    /// With so many levels of the order book; 0 is 1.
    #[must_use]
    pub fn depth(mut self, depth: u16) -> Topic {
        self.level.depth = depth.max(1);
        self
    }

    /// How much of the instrument.
    pub fn mode(&self) -> Mode {
        self.level.mode
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Level { mode, depth } = self.level.plain();
        match mode {
            Mode::Ltp | Mode::Quote => write!(f, "{}:{mode}", self.instrument),
            Mode::Depth => write!(f, "{}:{mode}:{depth}", self.instrument),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_covers_the_lower_ones() {
        let level = |mode, depth| Level { mode, depth };
        let rising = [level(Mode::Ltp, 50), level(Mode::Quote, 5), level(Mode::Depth, 5), level(Mode::Depth, 20)];
        assert!(rising.is_sorted());
    }

    #[test]
    fn depth_tells_order_books_apart_and_nothing_else() {
        let level = |mode, depth| Level { mode, depth };
        assert_eq!(level(Mode::Quote, 20).plain(), level(Mode::Quote, 5));
        assert_eq!(level(Mode::Depth, 20).plain(), level(Mode::Depth, 20));
        assert_eq!(level(Mode::Depth, 0).plain(), level(Mode::Depth, 1));
    }

    #[test]
    fn modes_have_numbers_and_nothing_else_has() {
        assert_eq!(
            [0, 1, 2, 3, 4].map(Mode::from_number),
            [None, Some(Mode::Ltp), Some(Mode::Quote), Some(Mode::Depth), None]
        );
    }

    #[test]
    fn topics_show_exchange_first() {
        assert_eq!(Topic::new("NSE", "SBIN", Mode::Quote).to_string(), "NSE:SBIN:QUOTE");
        assert_eq!(Topic::new("NSE", "SBIN", Mode::Depth).depth(20).to_string(), "NSE:SBIN:DEPTH:20");
    }
}
