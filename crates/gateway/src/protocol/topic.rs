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
    /// Somebody's credentials are not what they were: `CACHE_INVALIDATE_{AUTH|FEED|ALL}_{user}`.
    CacheInvalidate {
        /// Whose.
        user: &'a str,
    },
    /// Positions and margins: nothing that clients are told.
    Ignored,
}

/// What this topic is about; none if it is malformed.
pub fn parse(topic: &str) -> Option<BusTopic<'_>> {
    if let Some(whose) = topic.strip_prefix("CACHE_INVALIDATE") {
        return invalidated(whose).map(|user| BusTopic::CacheInvalidate { user });
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
    (!symbol.is_empty()).then_some(BusTopic::Tick { exchange, symbol, mode })
}

/// The tick that this topic is about without the name of its broker in front, which some of OpenAlgo's publishers write:
/// `zerodha_NSE_SBIN_LTP`. None if that is not there, or if what follows is no tick.
pub fn without_broker<'a>(topic: &'a str, broker: &str) -> Option<BusTopic<'a>> {
    let (front, rest) = topic.split_at_checked(broker.len())?;
    let rest = rest.strip_prefix('_').filter(|_| front.eq_ignore_ascii_case(broker))?;
    parse(rest).filter(|about| matches!(about, BusTopic::Tick { .. }))
}

/// The topic for ticks of this instrument; none if it would be read as another one's, or as none at all.
pub fn name(exchange: &str, symbol: &str, mode: Mode) -> Option<String> {
    let name = format!("{exchange}_{symbol}_{mode}");
    (parse(&name) == Some(BusTopic::Tick { exchange, symbol, mode })).then_some(name)
}

/// Whose credentials are meant. Which of them does not matter: there is one of each user at a broker.
fn invalidated(whose: &str) -> Option<&str> {
    let user = ["_AUTH_", "_FEED_", "_ALL_"].into_iter().find_map(|which| whose.strip_prefix(which))?;
    (!user.is_empty()).then_some(user)
}

/// Exchange and symbol. Indices have exchanges of their own, and no others have an underscore in their names: `NSE_INDEX`,
/// `CDS_INDEX` and whatever else a list of instruments has.
fn split(instrument: &str) -> Option<(&str, &str)> {
    let (exchange, symbol) = instrument.split_once('_').filter(|(exchange, _)| !exchange.is_empty())?;
    Some(match symbol.strip_prefix("INDEX_") {
        Some(symbol) => (&instrument[..instrument.len() - symbol.len() - 1], symbol),
        None => (exchange, symbol),
    })
}
