//! The entries of a request: the instruments it names, one or a list of them.

use super::fields::{Fields, cut, empty, string};
use super::refusal::{Code, Refusal};
use super::request::{BadEntry, MAX_EXCHANGE, MAX_SYMBOL};
use carom_core::feed::Instrument;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// An instrument, or what is wrong with its name.
pub(super) type Named = Result<Instrument, BadEntry>;

/// What a request names.
pub(super) enum Entries<'a> {
    /// `symbol` and `exchange` of the request itself.
    One(Named),
    /// `symbols`.
    Many(List<'a>),
}

impl<'a> Entries<'a> {
    /// The list, if there is something in it, or else the one.
    pub(super) fn of(fields: &Fields<'a>) -> Result<Entries<'a>, Refusal> {
        if let Some(list) = fields.symbols.filter(|list| !empty(list)) {
            return Ok(Entries::Many(List(list)));
        }
        let nothing = || Refusal::new(Code::InvalidParameters, "At least one symbol must be specified");
        Names::default().read(fields).map(Entries::One).ok_or_else(nothing)
    }
}

/// A list of entries that was not read yet.
pub(super) struct List<'a>(&'a RawValue);

impl<'a> List<'a> {
    /// Reads it, an entry at a time: a list of a million is not there as a whole. Each comes with its own mode, as written;
    /// those without a symbol or exchange are passed over.
    pub(super) fn each(self, take: impl FnMut(Named, Option<&'a RawValue>)) -> Result<(), Refusal> {
        let mut deserializer = serde_json::Deserializer::from_str(self.0.get());
        let other = |_| Refusal::new(Code::ServerError, "symbols is a list of objects with symbol and exchange");
        deserializer.deserialize_seq(ListVisitor { names: Names::default(), take }).map_err(other)
    }
}

struct ListVisitor<F> {
    names: Names,
    take: F,
}

impl<'de, F: FnMut(Named, Option<&'de RawValue>)> Visitor<'de> for ListVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(fields) = list.next_element::<Fields<'de>>()? {
            if let Some(named) = self.names.read(&fields) {
                (self.take)(named, fields.mode);
            }
        }
        Ok(())
    }
}

/// Reads names. The exchange is mostly the one of the entry before, and is not kept twice then.
#[derive(Default)]
struct Names {
    exchange: Option<Arc<str>>,
}

impl Names {
    /// The instrument these fields name; none if it has no symbol or no exchange.
    fn read(&mut self, fields: &Fields<'_>) -> Option<Named> {
        let symbol = fields.symbol.filter(|raw| !empty(raw))?;
        let exchange = fields.exchange.filter(|raw| !empty(raw))?;
        let named = name("symbol", symbol, MAX_SYMBOL)
            .and_then(|symbol| Ok(Instrument::new(self.shared(&name("exchange", exchange, MAX_EXCHANGE)?), &*symbol)));
        Some(named.map_err(|message| BadEntry {
            symbol: shown(symbol, MAX_SYMBOL),
            exchange: shown(exchange, MAX_EXCHANGE),
            message,
        }))
    }

    fn shared(&mut self, exchange: &str) -> Arc<str> {
        if self.exchange.as_deref() != Some(exchange) {
            self.exchange = Some(exchange.into());
        }
        self.exchange.clone().unwrap_or_default()
    }
}

fn name<'a>(field: &str, raw: &'a RawValue, most: usize) -> Result<Cow<'a, str>, String> {
    let text = string(raw).ok_or_else(|| format!("{field} is not a string"))?;
    if text.len() > most {
        return Err(format!("{field} is longer than {most} bytes"));
    }
    if text.contains(char::is_control) {
        return Err(format!("{field} has control characters in it"));
    }
    Ok(text)
}

fn shown(raw: &RawValue, most: usize) -> String {
    let text = string(raw).unwrap_or_else(|| raw.get().into());
    cut(&text, most).into_owned()
}
