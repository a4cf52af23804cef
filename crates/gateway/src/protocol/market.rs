//! Market data: a tick as a broker's adapter gave it, and the messages that clients get of it.
//!
//! What the broker says is passed on as it is written, down to the digits of its numbers, with two exceptions. Brokers disagree on
//! the names of two fields, and clients on which of them they read: where one is there, the other is added with the same value.
//! A field that is `null` is omitted: OpenAlgo's SDKs fail to format it and drop the message, but replace a missing field with 0.
//!
//! ```
//! use carom_core::feed::{Instrument, Mode};
//! use carom_gateway::protocol::market::Market;
//!
//! let tick = Market::read(br#"{"ltp":812.50,"average_price":811.9}"#).unwrap();
//! let message = tick.message(&Instrument::new("NSE", "SBIN"), Mode::Ltp, "zerodha", false);
//! assert_eq!(
//!     message,
//!     r#"{"type":"market_data","symbol":"SBIN","exchange":"NSE","mode":1,"#.to_owned()
//!         + r#""data":{"ltp":812.50,"average_price":811.9,"avg_trade_price":811.9},"broker":"zerodha"}"#
//! );
//! ```

use super::json::quote;
use carom_core::feed::{Instrument, Mode};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A payload that cannot be sent to anybody.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Its bytes are no text.
    #[error("payload is not UTF-8")]
    Utf8(#[from] std::str::Utf8Error),
    /// Its text is not JSON.
    #[error("payload is not JSON")]
    Json(#[from] serde_json::Error),
}

/// A payload that was read: once for each tick, however many messages are made of it.
#[derive(Clone, Debug)]
pub struct Market<'a> {
    /// JSON, without blanks around it.
    text: Cow<'a, str>,
    /// What is in it, if it is an object.
    found: Option<Found>,
}

impl<'a> Market<'a> {
    /// Reads it, without fields that are `null`. `NaN` and `Infinity`, which Python writes although they are no JSON, count as
    /// `null`.
    ///
    /// # Errors
    /// If it is no JSON otherwise.
    pub fn read(payload: &'a [u8]) -> Result<Market<'a>, PayloadError> {
        let (text, found) = read(payload)?;
        let Some(text) = without_nulls(&text) else { return Ok(Market { text, found }) };
        // Of a price that is there twice the last counts, even if that is null.
        let price = found.is_some_and(|found| found.price);
        let found = look(&text)?.map(|found| Found { price, ..found });
        Ok(Market { text: Cow::Owned(text), found })
    }

    /// Whether it says what the last price is, as everything does that is worth telling; a number by itself is that.
    pub fn has_price(&self) -> bool {
        match &self.found {
            Some(found) => found.price,
            None => is_number(&self.text),
        }
    }

    /// The message for those who have the instrument at this mode. A snapshot is the last known tick, sent on subscribing.
    pub fn message(&self, instrument: &Instrument, mode: Mode, broker: &str, snapshot: bool) -> String {
        const AROUND: usize = 120;
        const ADDED: usize = 80;
        let names = instrument.symbol().len() + instrument.exchange().len() + broker.len();
        let mut out = String::with_capacity(self.text.len() + names + AROUND + ADDED);
        out.push_str(r#"{"type":"market_data","symbol":"#);
        quote(&mut out, instrument.symbol());
        out.push_str(r#","exchange":"#);
        quote(&mut out, instrument.exchange());
        out.push_str(match mode {
            Mode::Ltp => r#","mode":1,"data":"#,
            Mode::Quote => r#","mode":2,"data":"#,
            Mode::Depth => r#","mode":3,"data":"#,
        });
        match &self.found {
            Some(found) => found.write(&self.text, &mut out),
            None => out.push_str(&self.text),
        }
        out.push_str(r#","broker":"#);
        quote(&mut out, broker);
        out.push_str(if snapshot { r#","snapshot":true}"# } else { "}" });
        out
    }
}

/// A payload as JSON, `NaN` and `Infinity` replaced by `null`.
///
/// # Errors
/// If it is no JSON otherwise.
pub(crate) fn json(payload: &[u8]) -> Result<Cow<'_, str>, PayloadError> {
    read(payload).map(|(text, _)| text)
}

fn read(payload: &[u8]) -> Result<(Cow<'_, str>, Option<Found>), PayloadError> {
    let text = std::str::from_utf8(payload)?.trim_ascii();
    match look(text) {
        Ok(found) => Ok((Cow::Borrowed(text), found)),
        Err(error) => {
            let text = finite(text).ok_or(error)?;
            let found = look(&text)?;
            Ok((Cow::Owned(text), found))
        }
    }
}

/// A field that is looked at.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Ltp,
    LastTradeQuantity,
    LastQuantity,
    AvgTradePrice,
    AveragePrice,
    #[serde(other)]
    Other,
}

/// Fields that are the same under two names.
const PAIRS: [[&str; 2]; 2] = [["last_trade_quantity", "last_quantity"], ["avg_trade_price", "average_price"]];

/// What is in an object.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Whether there is a last price that is a number.
    price: bool,
    /// Where the values of [`PAIRS`] are.
    pairs: [[Option<Range<usize>>; 2]; 2],
}

impl Found {
    /// Writes the object, with the other names of [`PAIRS`].
    fn write(&self, text: &str, out: &mut String) {
        out.push_str(&text[..text.len() - 1]);
        for (names, values) in PAIRS.iter().zip(&self.pairs) {
            for (here, other) in [(0, 1), (1, 0)] {
                if let (None, Some(value)) = (&values[here], &values[other]) {
                    out.push_str(",\"");
                    out.push_str(names[here]);
                    out.push_str("\":");
                    out.push_str(&text[value.clone()]);
                }
            }
        }
        out.push('}');
    }
}

/// Whether this JSON is a number, or a text that some brokers write instead of one.
fn is_number(json: &str) -> bool {
    let text = json.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let is_finite = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
    match text {
        Some(text) => is_finite(text),
        // Without an exponent it would take hundreds of digits to be infinite.
        None if json.contains(['e', 'E']) || json.len() > 300 => is_finite(json),
        None => json.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
    }
}

/// What is in this JSON, if it is an object.
fn look(text: &str) -> Result<Option<Found>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = if text.starts_with('{') {
        Some(deserializer.deserialize_map(Look { start: text.as_ptr().addr() })?)
    } else {
        serde::Deserialize::deserialize(&mut deserializer).map(|IgnoredAny| None)?
    };
    deserializer.end()?;
    Ok(found)
}

/// Looks into an object whose text starts at this address.
struct Look {
    start: usize,
}

impl<'de> Visitor<'de> for Look {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found = Found::default();
        while let Some(field) = map.next_key::<Field>()? {
            let place = match field {
                Field::Ltp => {
                    // Of several, whoever reads it takes the last.
                    found.price = is_number(map.next_value::<&RawValue>()?.get());
                    continue;
                }
                Field::LastTradeQuantity => &mut found.pairs[0][0],
                Field::LastQuantity => &mut found.pairs[0][1],
                Field::AvgTradePrice => &mut found.pairs[1][0],
                Field::AveragePrice => &mut found.pairs[1][1],
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value::<&RawValue>()?.get();
            let start = value.as_ptr().addr() - self.start;
            *place = Some(start..start + value.len());
        }
        Ok(found)
    }
}

/// The text with `null` for `NaN`, `Infinity` and `-Infinity`; none if there are none of these outside of strings.
fn finite(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut from = 0;
    let mut at = 0;
    let mut quoted = false;
    while let Some(byte) = text.as_bytes().get(at) {
        let unheard = ["NaN", "Infinity", "-Infinity"]
            .into_iter()
            .find(|word| text.as_bytes()[at..].starts_with(word.as_bytes()));
        match (quoted, byte, unheard) {
            (true, b'\\', _) => at += 2,
            (_, b'"', _) => {
                quoted = !quoted;
                at += 1;
            }
            (false, _, Some(word)) => {
                out.push_str(&text[from..at]);
                out.push_str("null");
                at += word.len();
                from = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(&text[from..]);
    (from > 0).then_some(out)
}

/// This JSON without the fields of objects, at any depth, that are `null`; none if there are none. Elements of arrays stay.
fn without_nulls(json: &str) -> Option<String> {
    if !json.contains("null") {
        return None;
    }
    let bytes = json.as_bytes();
    let (mut out, mut from, mut at) = (String::new(), 0, 0);
    // Where the last string begins, and the name of the field whose value comes next.
    let (mut string, mut name) = (0, None);
    while let Some(byte) = bytes.get(at) {
        match (byte, name) {
            (b'"', _) => {
                (string, name) = (at, None);
                at = string_end(bytes, at);
                continue;
            }
            (b':', _) => name = Some(string),
            // Nothing else that is not in a string begins like this.
            (b'n', Some(begin)) => {
                at += "null".len();
                out.push_str(&json[from..begin]);
                out.truncate(out.trim_ascii_end().len());
                from = at;
                if out.ends_with(',') {
                    out.pop();
                    out.truncate(out.trim_ascii_end().len());
                } else if let Some(rest) = json[at..].trim_ascii_start().strip_prefix(',') {
                    from = json.len() - rest.len();
                    at = from;
                }
                name = None;
                continue;
            }
            (b' ' | b'\t' | b'\n' | b'\r', _) => {}
            _ => name = None,
        }
        at += 1;
    }
    out.push_str(&json[from..]);
    (from > 0).then_some(out)
}

/// Where a string ends that begins here.
fn string_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
