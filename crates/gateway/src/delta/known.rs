//! What is known of a contract: each message says only what has changed, and ticks say all of it.

use super::message::{Book, Contract, Number};
use crate::protocol::MAX_DEPTH;
use carom::feed::{Instrument, Level, Mode};

/// What is said of a contract, by the names that OpenAlgo has for it. The price that it is valued at is its `ltp`, as there.
const FIELDS: [&str; 14] = [
    "ltp",
    "open",
    "high",
    "low",
    "close",
    "change_percent",
    "oi",
    "ask_price",
    "ask_qty",
    "bid_price",
    "bid_qty",
    "lower_circuit",
    "upper_circuit",
    "spot_price",
];

/// Where they stand in [`FIELDS`].
const LTP: usize = 0;
const OHLC: usize = 1;
const CHANGE: usize = 5;
const OI: usize = 6;
const QUOTES: usize = 7;
const BAND: usize = 11;
const SPOT: usize = 13;

/// What is known of a contract.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Digits; empty without a value.
    fields: [String; FIELDS.len()],
    /// When it was said, in microseconds since 1970.
    micros: Option<u64>,
    book: Option<[Side; 2]>,
}

/// One side of an order book, as JSON.
#[derive(Debug, Default)]
struct Side {
    /// Objects with a comma between them.
    rows: String,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Known {
    /// Takes in what a ticker says.
    pub(super) fn merge(&mut self, contract: &Contract<'_>, spot: Option<Number<'_>>, micros: Option<u64>) {
        // A price that is not there is not known to be gone.
        for (field, number) in [(LTP, contract.mark), (CHANGE, contract.change), (SPOT, spot)] {
            if number.is_some() {
                self.set(field, number);
            }
        }
        self.set_all(OHLC, contract.ohlc.as_ref().map(|ohlc| &ohlc.0[..]));
        self.set_all(OI, contract.oi.as_ref().map(|oi| &oi.0[..1]));
        self.set_all(QUOTES, contract.quotes.as_ref().map(|quotes| &quotes.0[..4]));
        self.set_all(BAND, contract.band.as_ref().map(|band| &band.0[..]));
        self.micros = micros.or(self.micros);
    }

    /// Takes in an order book.
    pub(super) fn merge_book(&mut self, Book { asks, bids, micros, .. }: &Book<'_>) {
        let [buy, sell] = self.book.get_or_insert_default();
        for (side, rows) in [(buy, bids), (sell, asks)] {
            if let Some(rows) = rows {
                side.fill(rows);
            }
        }
        self.micros = micros.or(self.micros);
    }

    /// There is no order book any more.
    pub(super) fn forget_book(&mut self) {
        self.book = None;
    }

    /// How much can be said by now to those who want this much: nothing before there is a price.
    pub(super) fn contains(&self, wanted: Mode) -> Option<Mode> {
        if self.fields[LTP].is_empty() {
            return None;
        }
        Some(if self.book.is_some() { wanted } else { wanted.min(Mode::Quote) })
    }

    /// What is known, at this level. Neither the exchange's nor the contract's name has anything in it that JSON would escape.
    pub(super) fn payload(&self, instrument: &Instrument, Level { mode, depth }: Level) -> String {
        let mut out = String::with_capacity(512);
        out.push_str("{\"symbol\":\"");
        out.push_str(instrument.symbol());
        out.push_str("\",\"exchange\":\"");
        out.push_str(instrument.exchange());
        out.push_str("\",\"mode\":");
        out.push_str(&mode.number().to_string());
        let fields = if mode == Mode::Ltp { &FIELDS[..=LTP] } else { &FIELDS[..] };
        for (name, value) in fields.iter().zip(&self.fields).filter(|(_, value)| !value.is_empty()) {
            out.push_str(",\"");
            out.push_str(name);
            out.push_str("\":");
            out.push_str(value);
        }
        if let Some(micros) = self.micros {
            out.push_str(",\"timestamp\":");
            out.push_str(&(micros / 1_000).to_string());
        }
        if let (Mode::Depth, Some([buy, sell])) = (mode, &self.book) {
            out.push_str(",\"depth\":{\"buy\":[");
            out.push_str(buy.best(depth));
            out.push_str("],\"sell\":[");
            out.push_str(sell.best(depth));
            out.push_str("]}");
        }
        out.push('}');
        out
    }

    fn set_all(&mut self, first: usize, numbers: Option<&[Option<Number<'_>>]>) {
        for (at, number) in numbers.into_iter().flatten().enumerate() {
            self.set(first + at, *number);
        }
    }

    fn set(&mut self, field: usize, number: Option<Number<'_>>) {
        let value = &mut self.fields[field];
        value.clear();
        value.push_str(number.map_or("", Number::digits));
    }
}

impl Side {
    /// Keeps as many as somebody may want: an exchange may say any number.
    fn fill(&mut self, rows: &[(Number<'_>, Number<'_>)]) {
        self.rows.clear();
        self.ends.clear();
        for (price, size) in rows.iter().take(MAX_DEPTH.into()) {
            let comma = if self.rows.is_empty() { "" } else { "," };
            for part in [comma, "{\"price\":", price.digits(), ",\"quantity\":", size.digits(), "}"] {
                self.rows.push_str(part);
            }
            self.ends.push(self.rows.len());
        }
    }

    /// The best so many.
    fn best(&self, depth: u16) -> &str {
        let end = self.ends.get(usize::from(depth).saturating_sub(1)).or(self.ends.last());
        &self.rows[..end.copied().unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::message::Message;
    use serde_json::{Value, json};

    fn told(known: &mut Known, message: &Value) {
        match Message::parse(&message.to_string()).unwrap() {
            Message::Ticker(ticker) => {
                known.merge(ticker.contracts[0].as_ref().unwrap(), ticker.spot, ticker.micros);
            }
            Message::Book(book) => known.merge_book(&book),
            other => panic!("{other:?}"),
        }
    }

    fn said(known: &Known, mode: Mode, depth: u16) -> Value {
        let payload = known.payload(&Instrument::new("CRYPTO", "BTCUSD"), Level { mode, depth });
        serde_json::from_str(&payload).unwrap()
    }

    #[test]
    fn what_is_missing_stays_and_what_is_null_goes() {
        let mut known = Known::default();
        assert_eq!(known.contains(Mode::Ltp), None);
        told(
            &mut known,
            &json!({"type": "ticker", "ts": 5_000_000, "sp": "90", "d": [
            {"s": "BTCUSD", "m": "91.50", "ohlc": [1, "2.0", 3, 4], "oi": ["7", "8"], "q": ["10", "11", "12", "13", null]}]}),
        );
        assert_eq!(known.contains(Mode::Depth), Some(Mode::Quote));
        let expected = json!({"symbol": "BTCUSD", "exchange": "CRYPTO", "mode": 2, "ltp": 91.5, "open": 1, "high": 2.0, "low": 3,
            "close": 4, "oi": 7, "ask_price": 10, "ask_qty": 11, "bid_price": 12, "bid_qty": 13, "spot_price": 90,
            "timestamp": 5_000});
        assert_eq!(said(&known, Mode::Quote, 5), expected);

        told(&mut known, &json!({"type": "ticker", "d": [{"m": null, "q": [null, "0", "12.5"], "pb": ["80", "99"]}]}));
        let expected = json!({"symbol": "BTCUSD", "exchange": "CRYPTO", "mode": 2, "ltp": 91.5, "open": 1, "high": 2.0, "low": 3,
            "close": 4, "oi": 7, "ask_qty": 0, "bid_price": 12.5, "lower_circuit": 80, "upper_circuit": 99, "spot_price": 90,
            "timestamp": 5_000});
        assert_eq!(said(&known, Mode::Quote, 5), expected);
        let price = json!({"symbol": "BTCUSD", "exchange": "CRYPTO", "mode": 1, "ltp": 91.5, "timestamp": 5_000});
        assert_eq!(said(&known, Mode::Ltp, 5), price);
    }

    #[test]
    fn books_are_as_deep_as_wanted_and_sides_change_alone() {
        let mut known = Known::default();
        let row = |price: u32| json!([price.to_string(), "2.50"]);
        told(
            &mut known,
            &json!({"type": "ob_l2", "sy": "BTCUSD", "ts": 1_000, "a": [row(11), row(12), row(13)], "b": [row(10)]}),
        );
        assert_eq!(known.contains(Mode::Depth), None, "a book has no last price");
        told(&mut known, &json!({"type": "ticker", "d": [{"m": "10.5"}]}));
        assert_eq!(Mode::ALL.map(|mode| known.contains(mode)), Mode::ALL.map(Some));
        let depth = |known: &Known, depth| said(known, Mode::Depth, depth)["depth"].take();
        let shown = |price| json!({"price": price, "quantity": 2.5});
        assert_eq!(depth(&known, 2), json!({"buy": [shown(10)], "sell": [shown(11), shown(12)]}));
        assert_eq!(depth(&known, 0)["sell"], json!([shown(11)]), "there is always one");
        told(&mut known, &json!({"type": "ob_l2", "sy": "BTCUSD", "a": []}));
        assert_eq!(depth(&known, 50), json!({"buy": [shown(10)], "sell": []}));
        known.forget_book();
        assert_eq!(known.contains(Mode::Depth), Some(Mode::Quote));
    }

    #[test]
    fn no_more_of_a_book_is_kept_than_anybody_may_want() {
        let mut known = Known::default();
        let side: Vec<_> = (1..=1_000).map(|price| json!([price.to_string(), "1"])).collect();
        told(&mut known, &json!({"type": "ob_l2", "sy": "BTCUSD", "a": side, "b": side}));
        for side in known.book.as_ref().unwrap() {
            assert_eq!(side.ends.len(), usize::from(MAX_DEPTH));
            assert!(side.rows.ends_with(r#"{"price":200,"quantity":1}"#));
        }
    }

    #[test]
    fn digits_are_kept() {
        let mut known = Known::default();
        told(
            &mut known,
            &json!({"type": "ticker", "d": [{"m": "0.100000000000000000", "oi": ["12345678901234567890123"]}]}),
        );
        let payload = known.payload(&Instrument::new("CRYPTO", "A"), Level { mode: Mode::Quote, depth: 5 });
        assert!(payload.contains(r#""ltp":0.100000000000000000,"oi":12345678901234567890123"#), "{payload}");
    }
}
