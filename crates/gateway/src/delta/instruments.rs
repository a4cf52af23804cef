//! Instruments: the contracts that Delta Exchange lists, as its `GET /v2/products` tells them, page by page.
//!
//! A contract is found under its own name, and under the one that OpenAlgo's clients use where that is another: the perpetual
//! `BTCUSD` is `BTCUSDFUT` there, and the option `C-BTC-80000-280225` is `BTC28FEB2580000CE`. OpenAlgo's names say less than the
//! exchange's own: one that may mean several contracts leads to none of them.

use super::spelling;
use crate::tables::did_you_mean;
use crate::upstream::shown;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;
use std::sync::Arc;

/// Longest list, in bytes.
const LONGEST: u64 = 64 * 1024 * 1024;

/// Most contracts.
const MOST: usize = 200_000;

/// Longest name of a contract, in bytes.
const LONGEST_NAME: usize = 64;

/// Looked at on each side of where a name would stand, when it is searched for what was meant by it.
const NEIGHBOURS: usize = 32;

/// Most contracts that are remembered for one name: as many as somebody who asks is told.
const MOST_MEANT: usize = 3;

/// The contracts that there are.
///
/// ```
/// use carom_gateway::delta::Instruments;
///
/// let answer = r#"{"success":true,"result":[
///     {"symbol":"BTCUSD","contract_type":"perpetual_futures","tick_size":"0.5","state":"live"},
///     {"symbol":"C-BTC-90000-310125","contract_type":"call_options","tick_size":"0.1","state":"expired"}]}"#;
/// let instruments = Instruments::read(answer.as_bytes())?;
/// assert_eq!(instruments.get("BTCUSD").unwrap().contract_type(), "perpetual_futures");
/// assert_eq!(instruments.symbol("BTCUSDFUT"), Some("BTCUSD"));
/// assert_eq!(instruments.len(), 1, "what has expired is left out");
/// # Ok::<(), carom_gateway::delta::InstrumentsError>(())
/// ```
#[derive(Clone)]
pub struct Instruments {
    /// By the exchange's own names.
    contracts: BTreeMap<Arc<str>, Listed>,
    /// The exchange's own names, by OpenAlgo's: never none, and more than one if it does not tell them apart.
    others: BTreeMap<String, Vec<Arc<str>>>,
}

/// A contract that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    contract_type: String,
    tick_size: Option<String>,
}

/// Why there are no instruments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstrumentsError {
    /// The list cannot be read.
    #[error("the list of contracts cannot be read")]
    Unreadable(#[source] io::Error),
    /// The list is too long to be one.
    #[error("the list of contracts is longer than {most} bytes")]
    #[non_exhaustive]
    TooLong {
        /// As long as it may be.
        most: u64,
    },
    /// It is not what the exchange answers; the source names the line.
    #[error("that is no answer to GET /v2/products")]
    Garbled(#[source] serde_json::Error),
    /// The exchange has answered something else.
    #[error("the exchange did not say which contracts there are: {said}")]
    #[non_exhaustive]
    Unsuccessful {
        /// What it said.
        said: String,
    },
    /// There are more contracts than any exchange has.
    #[error("there are more than {most} contracts in the list")]
    #[non_exhaustive]
    TooMany {
        /// Most there may be.
        most: usize,
    },
    /// A contract has a name that nobody could subscribe to.
    #[error("contract {position} of the list has the name {name:?}, which is no name of a contract")]
    #[non_exhaustive]
    Name {
        /// Which, counted from 1.
        position: usize,
        /// Its name, shortened.
        name: String,
    },
    /// There is nothing to be subscribed to.
    #[error("there is no contract in the list, or none that has not expired")]
    Empty,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(borrow, default)]
    result: Option<Vec<Product<'a>>>,
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    /// Where the next page begins.
    #[serde(default)]
    after: Option<String>,
}

#[derive(Deserialize)]
struct Product<'a> {
    #[serde(borrow)]
    symbol: Cow<'a, str>,
    #[serde(default)]
    contract_type: Option<String>,
    #[serde(default)]
    tick_size: Option<Value>,
    #[serde(borrow, default)]
    state: Option<Cow<'a, str>>,
}

impl Instruments {
    /// Reads the list from a file. It blocks.
    ///
    /// # Errors
    /// [`InstrumentsError`] says what is wrong, and where.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Instruments, InstrumentsError> {
        Instruments::read(File::open(path).map_err(InstrumentsError::Unreadable)?)
    }

    /// Reads the list: one answer of the exchange, or several pages one after the other. Contracts that have expired are left out.
    ///
    /// # Errors
    /// [`InstrumentsError`] says what is wrong, and where.
    pub fn read(from: impl Read) -> Result<Instruments, InstrumentsError> {
        let mut text = String::new();
        let read = from.take(LONGEST + 1).read_to_string(&mut text).map_err(InstrumentsError::Unreadable)?;
        if read as u64 > LONGEST {
            return Err(InstrumentsError::TooLong { most: LONGEST });
        }
        let mut instruments = Instruments { contracts: BTreeMap::new(), others: BTreeMap::new() };
        let (mut position, mut more) = (0, false);
        for page in serde_json::Deserializer::from_str(&text).into_iter() {
            let Answer { success, error, result, meta } = page.map_err(InstrumentsError::Garbled)?;
            let (Some(products), Some(true) | None) = (result, success) else {
                let said = error.map_or_else(|| "it does not say why".to_owned(), |error| shown(&error.to_string()));
                return Err(InstrumentsError::Unsuccessful { said });
            };
            for product in products {
                position += 1;
                instruments.add(position, product)?;
            }
            more = meta.is_some_and(|meta| meta.after.is_some());
        }
        if instruments.contracts.is_empty() {
            return Err(InstrumentsError::Empty);
        }
        let ambiguous = instruments.ambiguous();
        if ambiguous > 0 {
            tracing::warn!(ambiguous, "names of OpenAlgo may mean several contracts each: they are refused");
        }
        if more {
            tracing::warn!(contracts = instruments.len(), "the list of contracts goes on: its last page is missing");
        }
        Ok(instruments)
    }

    fn add(&mut self, position: usize, product: Product<'_>) -> Result<(), InstrumentsError> {
        let Product { symbol, contract_type, tick_size, state } = product;
        if state.as_deref() == Some("expired") {
            return Ok(());
        }
        if !is_name(&symbol) {
            return Err(InstrumentsError::Name { position, name: shown(&symbol) });
        }
        if self.contracts.len() == MOST {
            return Err(InstrumentsError::TooMany { most: MOST });
        }
        let tick_size = tick_size.and_then(|size| match size {
            Value::String(digits) => Some(digits),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        });
        let (symbol, contract_type) = (Arc::from(&*symbol), contract_type.unwrap_or_default());
        if let Some(other) = spelling::openalgo(&contract_type, &symbol) {
            let meant = self.others.entry(other).or_default();
            if meant.len() < MOST_MEANT && !meant.contains(&symbol) {
                meant.push(Arc::clone(&symbol));
            }
        }
        self.contracts.insert(symbol, Listed { contract_type, tick_size });
        Ok(())
    }

    /// How many there are; never none.
    #[expect(clippy::len_without_is_empty, reason = "a list without contracts is an error")]
    pub fn len(&self) -> usize {
        self.contracts.len()
    }

    /// The contract that the exchange itself calls so.
    pub fn get(&self, symbol: &str) -> Option<&Listed> {
        self.contracts.get(symbol)
    }

    /// How many of OpenAlgo's names may mean several contracts, and lead to none for that.
    pub fn ambiguous(&self) -> usize {
        self.others.values().filter(|meant| meant.len() > 1).count()
    }

    /// The exchange's own name of a contract, by that or by OpenAlgo's. What has a name as its own has it.
    pub fn symbol(&self, name: &str) -> Option<&str> {
        self.lookup(name).map(|symbol| &**symbol)
    }

    /// The exchange's own names, in order.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        self.contracts.keys().map(|symbol| &**symbol)
    }

    /// The exchange's own name of a contract, or what to say to whoever wants it.
    pub(super) fn find(&self, name: &str) -> Result<Arc<str>, String> {
        if let Some(symbol) = self.lookup(name) {
            return Ok(Arc::clone(symbol));
        }
        if let Some(meant) = self.others.get(name) {
            let meant: Vec<_> = meant.iter().map(|symbol| format!("`{symbol}`")).collect();
            return Err(format!("`{name}` may mean several contracts; did you mean {}?", meant.join(" or ")));
        }
        let unknown = format!("`{}` is none of the {} contracts that are listed", shown(name), self.len());
        Err(self.nearest(name).map_or_else(|| unknown.clone(), |question| format!("{unknown}; {question}")))
    }

    fn nearest(&self, name: &str) -> Option<String> {
        // Whatever is longer than any name is near to none.
        if name.len() > LONGEST_NAME {
            return None;
        }
        did_you_mean(name, self.neighbours(name)).or_else(|| {
            // Most names have no small letters.
            let capitals = name.to_ascii_uppercase();
            let own = self.lookup(&capitals).map(|_| &*capitals);
            did_you_mean(name, own.into_iter().chain(self.neighbours(&capitals)))
        })
    }

    /// The names around where this one would stand, and which are not much longer or shorter. A few only, so that many who ask
    /// hold up nobody.
    fn neighbours(&self, name: &str) -> impl Iterator<Item = &str> {
        let (before, after) = ((Unbounded, Excluded(name)), (Excluded(name), Unbounded));
        let own = self.contracts.range::<str, _>(before).rev().take(NEIGHBOURS);
        let own = own.chain(self.contracts.range::<str, _>(after).take(NEIGHBOURS)).map(|(symbol, _)| &**symbol);
        let others = self.others.range::<str, _>(before).rev().take(NEIGHBOURS);
        let others = others.chain(self.others.range::<str, _>(after).take(NEIGHBOURS)).map(|(other, _)| &**other);
        let length = name.len();
        own.chain(others).filter(move |other| other.len().abs_diff(length) <= (length / 3).max(2))
    }

    fn lookup(&self, name: &str) -> Option<&Arc<str>> {
        let own = self.contracts.get_key_value(name).map(|(symbol, _)| symbol);
        own.or_else(|| match &self.others.get(name)?[..] {
            [symbol] => Some(symbol),
            _ => None,
        })
    }
}

impl Listed {
    /// What kind of contract it is: `perpetual_futures`, `call_options` and so on; empty if the exchange does not say.
    pub fn contract_type(&self) -> &str {
        &self.contract_type
    }

    /// The least difference between two prices, digit by digit.
    pub fn tick_size(&self) -> Option<&str> {
        self.tick_size.as_deref()
    }
}

/// Names are put into JSON and into topics as they are.
fn is_name(symbol: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=LONGEST_NAME).contains(&symbol.len()) && symbol.bytes().all(plain)
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instruments").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_what_may_be_several_is_told_which() {
        let list = r#"{"result":[{"symbol":"BTCUSD28Feb2025","contract_type":"futures"},
            {"symbol":"BTCUSDT28Feb2025","contract_type":"futures"}]}"#;
        let answer = Instruments::read(list.as_bytes()).unwrap().find("BTC28FEB25FUT").unwrap_err();
        let expected =
            "`BTC28FEB25FUT` may mean several contracts; did you mean `BTCUSD28Feb2025` or `BTCUSDT28Feb2025`?";
        assert_eq!(answer, expected);
    }

    #[test]
    fn only_a_few_names_are_looked_at_for_one_that_is_not_there() {
        let products: Vec<_> = (0..5_000)
            .map(|number| format!(r#"{{"symbol":"C{number:04}USD","contract_type":"perpetual_futures"}}"#))
            .collect();
        let list = format!(r#"{{"result":[{}]}}"#, products.join(","));
        let instruments = Instruments::read(list.as_bytes()).unwrap();
        for name in ["", "A", "C2500USX", "C2500USDFUX", "Z"] {
            assert!(instruments.neighbours(name).count() <= 4 * NEIGHBOURS, "{name}");
        }
        let answer = instruments.find("C2500USX").unwrap_err();
        assert!(answer.contains("did you mean `C2500USD`"), "{answer}");
        let answer = instruments.find("c2500usd").unwrap_err();
        assert!(answer.contains("did you mean `C2500USD` or "), "{answer}");
    }
}
