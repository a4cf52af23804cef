//! Topics on a bus: `EXCHANGE_SYMBOL_MODE` for ticks, and the few others that OpenAlgo's publishers write.
//!
//! ```
//! use carom_core::feed::Mode;
//! use carom_gateway::protocol::topic::{self, BusTopic};
//!
//! let parsed = topic::parse("NSE_INDEX_NIFTY_LTP");
//! assert_eq!(parsed, Some(BusTopic::Tick { exchange: "NSE_INDEX", symbol: "NIFTY", mode: Mode::Ltp }));
//! assert_eq!(topic::name("NSE_INDEX", "NIFTY", Mode::Ltp).as_deref(), Some("NSE_INDEX_NIFTY_LTP"));
//! ```

use super::from_label;
use carom_core::feed::Mode;

/// Exchanges whose names have an underscore in them.
const INDICES: [&str; 5] = ["NSE_INDEX", "BSE_INDEX", "MCX_INDEX", "GLOBAL_INDEX", "NSEIX_INDEX"];

/// What a topic on a bus is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusTopic<'a> {
    /// A tick of an instrument.
    Tick {
        /// Where it is traded.
        exchange: &'a str,
        /// What it is called there.
        symbol: &'a str,
        /// How much of it.
        mode: Mode,
    },
    /// What became of somebody's order; whose is said in the payload.
    Orders,
    /// Somebody's credentials are not what they were; whose is said in the payload.
    CacheInvalidate,
    /// Positions and margins: nothing that clients are told.
    Ignored,
}

/// What this topic is about; none if it is malformed.
pub fn parse(topic: &str) -> Option<BusTopic<'_>> {
    if topic.starts_with("CACHE_INVALIDATE") {
        return Some(BusTopic::CacheInvalidate);
    }
    if topic.ends_with("_orders") {
        return Some(BusTopic::Orders);
    }
    if topic.ends_with("_positions") || topic.ends_with("_margins") {
        return Some(BusTopic::Ignored);
    }
    let (instrument, mode) = topic.rsplit_once('_')?;
    let mode = from_label(mode)?;
    let (exchange, symbol) = split(instrument)?;
    (!exchange.is_empty() && !symbol.is_empty()).then_some(BusTopic::Tick { exchange, symbol, mode })
}

/// The topic for ticks of this instrument; none if it would be read as another one's, or as none at all.
pub fn name(exchange: &str, symbol: &str, mode: Mode) -> Option<String> {
    let name = format!("{exchange}_{symbol}_{mode}");
    (parse(&name) == Some(BusTopic::Tick { exchange, symbol, mode })).then_some(name)
}

fn split(instrument: &str) -> Option<(&str, &str)> {
    INDICES
        .into_iter()
        .find_map(|index| Some((index, instrument.strip_prefix(index)?.strip_prefix('_')?)))
        .map(|(index, symbol)| (&instrument[..index.len()], symbol))
        .or_else(|| instrument.split_once('_'))
}
