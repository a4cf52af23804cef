//! Messages: what Delta's public socket says, as JSON and as types.
//!
//! Nothing is copied out of a message, and numbers stay the digits they were written with. What an exchange adds to its messages
//! one day is passed over; what is not as it should be is an error, or left out and counted where it is one of many, and never a
//! guess.
//!
//! ```
//! use carom_gateway::delta::message::Message;
//!
//! let text = r#"{"d":[{"m":"79750.01150815","q":["79753.5","552",null,null,null],"s":"BTCUSD"}],"ts":1788725367575186,"type":"ticker"}"#;
//! let Ok(Message::Ticker(ticker)) = Message::parse(text) else { panic!("it is one") };
//! let contract = ticker.contracts[0].as_ref().unwrap();
//! assert_eq!(contract.mark.unwrap().digits(), "79750.01150815");
//! assert_eq!(contract.quotes.unwrap().0[2], None, "nobody bids");
//! assert!(contract.ohlc.is_none(), "what is not there has not changed");
//! ```

mod number;
mod request;

pub use number::{Number, Values};
pub use request::{Channel, Request};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Something that the exchange says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum Message<'a> {
    /// How contracts stand.
    #[serde(rename = "ticker")]
    Ticker(Ticker<'a>),
    /// The order book of a contract.
    #[serde(rename = "ob_l2")]
    Book(Book<'a>),
    /// What is subscribed to, and what is not: the answer to a [`Request`].
    #[serde(rename = "subscriptions")]
    Subscriptions(Subscriptions<'a>),
    /// Something that was asked for is not done.
    #[serde(rename = "error")]
    Error(Complaint<'a>),
    /// It lives.
    #[serde(rename = "heartbeat")]
    Life,
    /// Something that nobody here asks for.
    #[serde(rename = "other")]
    Other,
}

/// How contracts stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticker<'a> {
    /// What the contracts are on; the contract itself, if there is one.
    #[serde(rename = "sy", borrow, default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<Cow<'a, str>>,
    /// The price of what they are on.
    #[serde(
        rename = "sp",
        borrow,
        default,
        deserialize_with = "number::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub spot: Option<Number<'a>>,
    /// When, in microseconds since 1970.
    #[serde(rename = "ts", default, deserialize_with = "micros", skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// The contracts; `None` for one that makes no sense: the others are what they are.
    #[serde(rename = "d", borrow, default, deserialize_with = "contracts")]
    pub contracts: Vec<Option<Contract<'a>>>,
}

/// How a contract stands: what has changed of it. In a list that is there, `None` is no value now; what is not there at all is what
/// it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract<'a> {
    /// Its name; that of the [`Ticker`] if it has none and is alone.
    #[serde(rename = "s", borrow, default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<Cow<'a, str>>,
    /// The price that it is valued at.
    #[serde(
        rename = "m",
        borrow,
        default,
        deserialize_with = "number::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub mark: Option<Number<'a>>,
    /// By how many percent that has changed within a day.
    #[serde(
        rename = "m24hc",
        borrow,
        default,
        deserialize_with = "number::maybe",
        skip_serializing_if = "Option::is_none"
    )]
    pub change: Option<Number<'a>>,
    /// First, highest, lowest and last price within a day.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub ohlc: Option<Values<'a, 4>>,
    /// Open interest in contracts, and what it has changed by.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub oi: Option<Values<'a, 2>>,
    /// Best ask and its size, best bid and its size, and the price in the middle for a large order.
    #[serde(rename = "q", borrow, default, skip_serializing_if = "Option::is_none")]
    pub quotes: Option<Values<'a, 5>>,
    /// Lowest and highest price at which it may be traded now.
    #[serde(rename = "pb", borrow, default, skip_serializing_if = "Option::is_none")]
    pub band: Option<Values<'a, 2>>,
}

/// The order book of a contract, best first. A side that is not there is what it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book<'a> {
    /// The contract.
    #[serde(rename = "sy", borrow)]
    pub symbol: Cow<'a, str>,
    /// When, in microseconds since 1970.
    #[serde(rename = "ts", default, deserialize_with = "micros", skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// Offers: price and size.
    #[serde(rename = "a", borrow, default, deserialize_with = "rows", skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<(Number<'a>, Number<'a>)>>,
    /// Bids: price and size.
    #[serde(rename = "b", borrow, default, deserialize_with = "rows", skip_serializing_if = "Option::is_none")]
    pub bids: Option<Vec<(Number<'a>, Number<'a>)>>,
}

/// What is subscribed to, by channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriptions<'a> {
    /// The channels.
    #[serde(borrow, default)]
    pub channels: Vec<Subscribed<'a>>,
}

/// What is subscribed to in a channel, or why something is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribed<'a> {
    /// The channel's name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Of what.
    #[serde(borrow, default, deserialize_with = "names", skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Cow<'a, str>>,
    /// Why not.
    #[serde(borrow, default, deserialize_with = "words", skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
}

/// Why something is not done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint<'a> {
    /// In its words.
    #[serde(borrow, default, deserialize_with = "words", skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'a, str>>,
    /// In other words.
    #[serde(borrow, default, deserialize_with = "words", skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
}

/// A message that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("that is no message of an exchange")]
pub struct Garbled(#[from] serde_json::Error);

/// What kind of message it is; that may be written at its end.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    name: Cow<'a, str>,
}

impl<'a> Message<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// If it is no JSON, or is not what its type says.
    pub fn parse(text: &'a str) -> Result<Message<'a>, Garbled> {
        let Kind { name } = object(text)?;
        Ok(match &*name {
            "ticker" => Message::Ticker(serde_json::from_str(text)?),
            "ob_l2" => Message::Book(serde_json::from_str(text)?),
            "subscriptions" => Message::Subscriptions(serde_json::from_str(text)?),
            "error" => Message::Error(serde_json::from_str(text)?),
            "heartbeat" | "pong" => Message::Life,
            _ => Message::Other,
        })
    }

    /// As it is sent, with its numbers as strings.
    pub fn to_json(&self) -> String {
        // Names and digits can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Complaint<'_> {
    /// What it says, if it says anything.
    pub fn words(&self) -> &str {
        self.message.as_deref().or(self.error.as_deref()).unwrap_or("it does not say why")
    }
}

/// What this JSON says. Lists are not taken for objects whose fields come without their names.
fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    if text.trim_ascii_start().starts_with(['[', '"']) {
        return Err(serde::de::Error::custom("not an object"));
    }
    serde_json::from_str(text)
}

/// Contracts, each by itself.
fn contracts<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Option<Contract<'a>>>, D::Error> {
    let listed = Vec::<&'a RawValue>::deserialize(deserializer)?;
    Ok(listed.into_iter().map(|contract| object(contract.get()).ok()).collect())
}

/// One side of an order book. A price without a size, or a size without a price, is nothing that can be traded.
fn rows<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<(Number<'a>, Number<'a>)>>, D::Error> {
    let rows = Option::<Vec<Values<'a, 2>>>::deserialize(deserializer)?;
    let whole = |Values([price, size]): Values<'a, 2>| Some((price?, size?));
    Ok(rows.map(|rows| rows.into_iter().filter_map(whole).collect()))
}

/// A time, between quotation marks or not. Whatever else stands there says nothing of the time, and the rest is what it is.
fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(<&RawValue>::deserialize(deserializer)?.get().trim_matches('"').parse().ok())
}

/// Names, or `null` for none.
fn names<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Cow<'a, str>>, D::Error> {
    #[derive(Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    let names = Option::<Vec<Name<'a>>>::deserialize(deserializer)?;
    Ok(names.unwrap_or_default().into_iter().map(|Name(name)| name).collect())
}

/// A text; anything else as it is written, and `null` for nothing.
fn words<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'a, str>>, D::Error> {
    let raw = <&'a RawValue>::deserialize(deserializer)?.get();
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Some(serde_json::from_str::<String>(raw).map_err(serde::de::Error::custom)?.into()),
        Some(b'n') | None => None,
        Some(_) => Some(raw.into()),
    })
}
