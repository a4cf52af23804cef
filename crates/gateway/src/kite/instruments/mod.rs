//! Instruments: which token Kite knows a symbol by, under the names of OpenAlgo's clients and under Kite's own.

mod reading;
mod spelling;

pub use reading::InstrumentsError;

use super::packet::Token;
use crate::tables::distance;
use carom::feed::Instrument;
use reading::{LONGEST_NAME, Row};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Looked at on each side of where a name would stand, when it is searched for what was meant by it.
const NEIGHBOURS: usize = 64;

/// Which token Kite knows a symbol by.
///
/// Kite publishes what is traded as a list, anew every morning, and streams know tokens alone. An instrument is found here under the
/// name that OpenAlgo's clients use, and under Kite's own where that is another: the future `NIFTY28MAR24FUT` at `NFO` is Kite's
/// `NIFTY24MARFUT`, and Kite's index `NIFTY 50` is `NIFTY` at `NSE_INDEX`.
///
/// ```
/// use carom::feed::Instrument;
/// use carom_gateway::kite::Instruments;
/// use carom_gateway::kite::packet::Token;
///
/// let list = "instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n\
///             779521,SBIN,STATE BANK OF INDIA,,0,EQ,NSE,NSE\n\
///             256265,NIFTY 50,NIFTY 50,,0,EQ,INDICES,NSE\n";
/// let instruments = Instruments::read(list.as_bytes())?;
/// assert_eq!(instruments.token(&Instrument::new("NSE", "SBIN")), Some(Token(779_521)));
/// assert_eq!(instruments.token(&Instrument::new("NSE_INDEX", "NIFTY")), Some(Token(256_265)));
/// assert_eq!(instruments.of(Token(256_265)).unwrap().to_string(), "NSE_INDEX:NIFTY");
/// assert_eq!(instruments.nearest(&Instrument::new("NSE", "SBN")), "did you mean NSE:SBIN?");
/// # Ok::<(), carom_gateway::kite::InstrumentsError>(())
/// ```
#[derive(Clone)]
pub struct Instruments {
    /// By every name there is, in order of exchanges first.
    names: Vec<(Instrument, Token)>,
    /// By token, under the name of OpenAlgo's clients.
    tokens: HashMap<Token, Instrument>,
    exchanges: Vec<Arc<str>>,
    contradictions: usize,
}

impl Instruments {
    /// Reads Kite's list from a file. It takes a tenth of a second for a hundred thousand instruments, and blocks.
    ///
    /// # Errors
    /// When it cannot be read, or is no such list; the line is named.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Instruments, InstrumentsError> {
        let path = path.as_ref();
        let file = File::open(path);
        Instruments::read(file.map_err(|source| InstrumentsError::File { path: path.to_owned(), source })?)
    }

    /// Reads Kite's list: CSV, of which the columns `instrument_token`, `tradingsymbol`, `name`, `expiry`, `strike`,
    /// `instrument_type`, `segment` and `exchange` are looked at, in any order.
    ///
    /// # Errors
    /// When it is no such list; the line is named.
    pub fn read(list: impl io::Read) -> Result<Instruments, InstrumentsError> {
        Ok(Instruments::of_rows(reading::rows(list)?))
    }

    fn of_rows(rows: Vec<Row>) -> Instruments {
        let mut names = Vec::with_capacity(rows.len());
        let mut others = Vec::new();
        let mut tokens = HashMap::with_capacity(rows.len());
        let mut contradictions = 0;
        for Row { token, instrument, other } in rows {
            let first = tokens.entry(token).or_insert_with(|| instrument.clone());
            if *first != instrument {
                contradictions += 1;
                continue;
            }
            others.extend(other.map(|other| (other, token)));
            names.push((instrument, token));
        }
        // Sorting leaves those of one name in the order of the list.
        names.sort_by(|(one, _), (another, _)| key(one).cmp(&key(another)));
        names.dedup_by(|later, first| {
            if later.0 == first.0 && later.1 != first.1 {
                tokens.remove(&later.1);
                contradictions += 1;
            }
            later.0 == first.0
        });
        // Kite's name for one may be OpenAlgo's for another, who has it then.
        others.retain(|(other, _)| place(&names, other).is_err());
        names.append(&mut others);
        names.sort_by(|(one, _), (another, _)| key(one).cmp(&key(another)));
        names.dedup_by(|later, first| later.0 == first.0);
        names.shrink_to_fit();
        if contradictions > 0 {
            tracing::warn!(
                contradictions,
                "the list of instruments contradicts itself: the first of a name or token counts"
            );
        }
        let mut exchanges: Vec<&str> = names.iter().map(|(name, _)| name.exchange()).collect();
        exchanges.dedup();
        let exchanges = exchanges.into_iter().map(Arc::from).collect();
        Instruments { names, tokens, exchanges, contradictions }
    }

    /// The token of an instrument.
    pub fn token(&self, instrument: &Instrument) -> Option<Token> {
        place(&self.names, instrument).ok().map(|at| self.names[at].1)
    }

    /// The instrument with this token, under the name that OpenAlgo's clients use.
    pub fn of(&self, token: Token) -> Option<&Instrument> {
        self.tokens.get(&token)
    }

    /// All names, in order of exchanges first; an instrument may have two.
    pub fn names(&self) -> impl Iterator<Item = &Instrument> {
        self.names.iter().map(|(name, _)| name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Lines that gave a token or a name a second meaning, and were left out.
    pub fn contradictions(&self) -> usize {
        self.contradictions
    }

    /// What to say to whoever asked for one that is not there: the nearest names. Looks at a few only, so that many who ask hold
    /// up nobody.
    pub fn nearest(&self, instrument: &Instrument) -> String {
        let mut near = self.near(instrument);
        if near.is_empty() && instrument.symbol().len() <= LONGEST_NAME {
            // Kite writes them in capitals.
            let (exchange, symbol) = key(instrument);
            near = self.near(&Instrument::new(exchange.to_ascii_uppercase(), symbol.to_ascii_uppercase()));
        }
        if near.is_empty() {
            return "no name is near to it".to_owned();
        }
        format!("did you mean {}?", near.join(" or "))
    }

    /// The nearest names, and at most three.
    fn near(&self, instrument: &Instrument) -> Vec<String> {
        let (exchange, symbol) = key(instrument);
        let at = place(&self.names, instrument).unwrap_or_else(|at| at);
        let around = &self.names[at.saturating_sub(NEIGHBOURS)..(at + NEIGHBOURS).min(self.names.len())];
        // A third of a name may be wrong, or two letters of a short one; what is longer than any name is no name.
        let allowed = if symbol.len() > LONGEST_NAME { 0 } else { (symbol.chars().count() / 3).max(2) };
        let mut near: Vec<_> = around
            .iter()
            .map(|(other, _)| other)
            .filter(|other| other.exchange() == exchange && other.symbol().len().abs_diff(symbol.len()) <= 4 * allowed)
            .map(|other| (distance(symbol, other.symbol()), other.clone()))
            .filter(|(distance, _)| *distance <= allowed)
            .collect();
        let elsewhere = self.elsewhere(symbol).filter(|other| other.exchange() != exchange);
        near.extend(elsewhere.map(|other| (1, other)));
        near.sort_by_key(|(distance, _)| *distance);
        near.iter().take(3).map(|(_, other)| other.to_string()).collect()
    }

    /// The same name at other exchanges.
    fn elsewhere(&self, symbol: &str) -> impl Iterator<Item = Instrument> {
        let named = move |exchange: &Arc<str>| Instrument::new(Arc::clone(exchange), symbol);
        self.exchanges.iter().map(named).filter(|other| self.token(other).is_some())
    }
}

/// Not each of them.
impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instruments").field("len", &self.len()).finish_non_exhaustive()
    }
}

fn place(names: &[(Instrument, Token)], instrument: &Instrument) -> Result<usize, usize> {
    names.binary_search_by(|(name, _)| key(name).cmp(&key(instrument)))
}

/// What they are in order of: names that are near to each other at one exchange are then near to each other here.
fn key(instrument: &Instrument) -> (&str, &str) {
    (instrument.exchange(), instrument.symbol())
}
