//! What a tick says, as columns.

use super::message::Tick;
use crate::output::printable;
use crate::timestamp::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The figures of a tick; what is not known is absent.
#[derive(Clone, Debug, Default)]
pub(super) struct Quote {
    pub(super) time: Option<Timestamp>,
    /// As the broker wrote it.
    pub(super) price: Option<String>,
    pub(super) value: Option<f64>,
    pub(super) change: Option<f64>,
    pub(super) percent: Option<f64>,
    pub(super) volume: Option<String>,
    pub(super) bid: Option<String>,
    pub(super) ask: Option<String>,
}

impl Quote {
    /// Reads a tick; `base` is the first price that was seen of the symbol.
    pub(super) fn of(tick: &Tick, base: Option<f64>) -> Quote {
        // Of what is no object nothing is known.
        let fields: Fields<'_> = serde_json::from_str(tick.fields.get()).unwrap_or_default();
        let field = |name: &str| fields.get(name).copied();
        let value = field("ltp").and_then(number);
        let close = field("close").and_then(number).filter(|close| *close > 0.0);
        let change = field("change").and_then(number).or_else(|| Some(value? - close.or(base)?));
        let of = close.or_else(|| Some(value? - change?)).filter(|of| *of > 0.0);
        Quote {
            time: field("timestamp").and_then(|time| time.get().parse().ok()).map(Timestamp::from_milliseconds),
            price: field("ltp").and_then(text),
            value,
            change,
            percent: field("change_percent").and_then(number).or_else(|| Some(change? / of? * 100.0)),
            volume: field("volume").and_then(text),
            bid: field("depth").and_then(|book| best(book, "buy")),
            ask: field("depth").and_then(|book| best(book, "sell")),
        }
    }
}

/// `+1.20`
pub(super) fn signed(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:+.2}"))
}

/// `+0.15%`
pub(super) fn percentage(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:+.2}%"))
}

/// Values as they were written, so that `809.30` stays that.
type Fields<'a> = HashMap<String, &'a RawValue>;

/// The first level of a side: price and quantity.
fn best(book: &RawValue, side: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Level<'a> {
        #[serde(borrow)]
        price: &'a RawValue,
        #[serde(borrow)]
        quantity: &'a RawValue,
    }
    let book: Fields<'_> = serde_json::from_str(book.get()).ok()?;
    let levels: Vec<Level<'_>> = serde_json::from_str(book.get(side)?.get()).ok()?;
    let level = levels.first()?;
    Some(format!("{}x{}", text(level.price)?, text(level.quantity)?))
}

/// A number, or a text that stands for one.
fn text(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => serde_json::from_str(value.get()).ok().map(|text: String| printable(&text)),
        b'-' | b'0'..=b'9' => Some(value.get().to_owned()),
        _ => None,
    }
}

fn number(value: &RawValue) -> Option<f64> {
    text(value)?.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn tick(fields: impl ToString) -> Tick {
        Tick { name: String::new(), fields: RawValue::from_string(fields.to_string()).unwrap() }
    }

    fn quote(fields: Value, base: Option<f64>) -> [Option<String>; 3] {
        let quote = Quote::of(&tick(fields), base);
        [quote.price, signed(quote.change), percentage(quote.percent)]
    }

    fn texts(texts: [&str; 3]) -> [Option<String>; 3] {
        texts.map(|text| (text != "-").then(|| text.to_owned()))
    }

    #[test]
    fn change_is_what_is_said_or_since_the_close_or_since_the_first_price() {
        let said = json!({"ltp": 101.5, "close": 90.0, "change": 1.5, "change_percent": 1.5});
        assert_eq!(quote(said, None), texts(["101.5", "+1.50", "+1.50%"]));
        assert_eq!(quote(json!({"ltp": 99, "close": 100}), Some(7.0)), texts(["99", "-1.00", "-1.00%"]));
        assert_eq!(quote(json!({"ltp": "102.00"}), Some(100.0)), texts(["102.00", "+2.00", "+2.00%"]));
        assert_eq!(quote(json!({"ltp": 102}), None), texts(["102", "-", "-"]));
        assert_eq!(quote(json!({"ltp": null, "close": 0}), None), texts(["-", "-", "-"]));
        assert_eq!(quote(json!([1]), None), texts(["-", "-", "-"]));
    }

    #[test]
    fn prices_stay_as_they_are_written() {
        assert_eq!(Quote::of(&tick("{\"ltp\": 809.30}"), None).price.as_deref(), Some("809.30"));
    }

    #[test]
    fn a_name_that_is_escaped_hides_nothing() {
        let quote = Quote::of(&tick(r#"{"\u006ctp": 7, "a\"b": 1, "volume": 3}"#), None);
        assert_eq!((quote.price.as_deref(), quote.volume.as_deref()), (Some("7"), Some("3")));
    }

    #[test]
    fn of_a_book_the_best_is_shown() {
        let fields = json!({"ltp": 1, "depth": {"buy": [{"price": 0.95, "quantity": 70}], "sell": []}});
        let quote = Quote::of(&tick(fields), None);
        assert_eq!((quote.bid.as_deref(), quote.ask), (Some("0.95x70"), None));
    }
}
