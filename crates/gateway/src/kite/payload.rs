//! Payloads: a packet as JSON, with the field names of OpenAlgo's adapter for Zerodha.
//!
//! Whatever a packet does not say is left out. What follows from it is added: the change since the day before, in rupees and in
//! percent. `timestamp` is the exchange's where the packet has it, otherwise when the packet came.

use super::packet::{Full, Index, Ltp, Order, Packet, Quote};
use crate::protocol::json::quote;
use crate::upstream::digits::{decimal, decimal_field, field, key};
use carom::feed::{Instrument, Mode};

/// How much a packet says. An index has no order book: `full` is all there is of it.
pub(super) fn mode(packet: &Packet) -> Mode {
    match packet {
        Packet::Ltp(_) => Mode::Ltp,
        Packet::Quote(_) | Packet::Index(Index { exchange_timestamp: None, .. }) => Mode::Quote,
        Packet::Full(_) | Packet::Index(Index { exchange_timestamp: Some(_), .. }) => Mode::Depth,
    }
}

/// Appends what is said of this instrument, which came at `now`, in milliseconds since 1970.
pub(super) fn write(to: &mut String, instrument: &Instrument, packet: &Packet, now: u64) {
    to.push_str("{\"symbol\":");
    quote(to, instrument.symbol());
    to.push_str(",\"exchange\":");
    quote(to, instrument.exchange());
    key(to, "mode");
    to.push_str(match mode(packet) {
        Mode::Ltp => "\"ltp\"",
        Mode::Quote => "\"quote\"",
        Mode::Depth => "\"full\"",
    });
    let decimals = packet.token().decimals();
    match packet {
        Packet::Ltp(Ltp { last_price, .. }) => {
            prices(to, decimals, [("ltp", *last_price)]);
            timestamp(to, 0, now);
        }
        Packet::Index(index) => {
            // Its own figure of the change is left out: what it is in, and since when, is written nowhere.
            let Index { last_price, high, low, open, close, exchange_timestamp, .. } = *index;
            day(to, decimals, last_price, [open, high, low, close]);
            change(to, decimals, last_price, close);
            timestamp(to, exchange_timestamp.unwrap_or(0), now);
        }
        Packet::Quote(quote) => {
            traded(to, decimals, quote);
            timestamp(to, 0, now);
        }
        Packet::Full(full) => {
            traded(to, decimals, &full.quote);
            beyond(to, decimals, full);
            timestamp(to, full.exchange_timestamp, now);
        }
    }
    to.push('}');
}

fn traded(to: &mut String, decimals: u8, quote: &Quote) {
    let Quote { last_price, open, high, low, close, average_traded_price, .. } = *quote;
    day(to, decimals, last_price, [open, high, low, close]);
    change(to, decimals, last_price, close);
    prices(to, decimals, [("average_price", average_traded_price)]);
    field(to, "last_trade_quantity", quote.last_traded_quantity.into());
    field(to, "volume", quote.volume.into());
    field(to, "total_buy_quantity", quote.total_buy_quantity.into());
    field(to, "total_sell_quantity", quote.total_sell_quantity.into());
}

fn beyond(to: &mut String, decimals: u8, full: &Full) {
    field(to, "oi", full.oi.into());
    field(to, "oi_day_high", full.oi_day_high.into());
    field(to, "oi_day_low", full.oi_day_low.into());
    if full.last_trade_time > 0 {
        field(to, "ltt", i64::from(full.last_trade_time) * 1_000);
    }
    key(to, "depth");
    for (side, orders) in [("{\"buy\":[", &full.bids), (",\"sell\":[", &full.asks)] {
        to.push_str(side);
        for (at, Order { quantity, price, orders }) in orders.iter().enumerate() {
            to.push_str(if at == 0 { "{\"price\":" } else { ",{\"price\":" });
            decimal(to, i64::from(*price), decimals);
            field(to, "quantity", i64::from(*quantity));
            field(to, "orders", i64::from(*orders));
            to.push('}');
        }
        to.push(']');
    }
    to.push('}');
}

fn day(to: &mut String, decimals: u8, ltp: i32, [open, high, low, close]: [i32; 4]) {
    prices(to, decimals, [("ltp", ltp), ("open", open), ("high", high), ("low", low), ("close", close)]);
}

/// Since the day before, which a new listing does not have.
fn change(to: &mut String, decimals: u8, ltp: i32, close: i32) {
    if close != 0 {
        let change = i64::from(ltp) - i64::from(close);
        decimal_field(to, "change", change, decimals);
        decimal_field(to, "change_percent", change * 10_000 / i64::from(close), 2);
    }
}

fn prices<const N: usize>(to: &mut String, decimals: u8, prices: [(&str, i32); N]) {
    for (name, price) in prices {
        decimal_field(to, name, price.into(), decimals);
    }
}

/// The exchange's, in seconds, unless that is 0.
fn timestamp(to: &mut String, exchange: u32, now: u64) {
    let exchange = i64::from(exchange) * 1_000;
    if exchange > 0 {
        field(to, "exchange_timestamp", exchange);
    }
    field(to, "timestamp", if exchange > 0 { exchange } else { now as i64 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kite::packet::Token;
    use serde_json::{Value, json};

    fn written(packet: &Packet, now: u64) -> Value {
        let mut text = String::new();
        write(&mut text, &Instrument::new("NSE", "M\"&M"), packet, now);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn quote(token: Token, close: i32) -> Quote {
        Quote {
            token,
            last_price: 81_205,
            last_traded_quantity: 7,
            average_traded_price: 81_190,
            volume: 3_000_000_000,
            total_buy_quantity: 300,
            total_sell_quantity: 400,
            open: 81_000,
            high: 81_500,
            low: 80_005,
            close,
        }
    }

    #[test]
    fn a_last_price_is_all_that_is_said_of_it() {
        let packet = Packet::Ltp(Ltp { token: Token(1), last_price: -5 });
        let expected = json!({"symbol": "M\"&M", "exchange": "NSE", "mode": "ltp", "ltp": -0.05, "timestamp": 1_800});
        assert_eq!(written(&packet, 1_800), expected);
    }

    #[test]
    fn a_quote_has_the_day_and_what_follows_from_it() {
        let payload = written(&Packet::Quote(quote(Token(1), 80_000)), 1_800);
        for (name, value) in [
            ("ltp", json!(812.05)),
            ("open", json!(810.0)),
            ("high", json!(815.0)),
            ("low", json!(800.05)),
            ("close", json!(800.0)),
            ("change", json!(12.05)),
            ("change_percent", json!(1.5)),
            ("average_price", json!(811.9)),
            ("last_trade_quantity", json!(7)),
            ("volume", json!(3_000_000_000_u32)),
            ("total_buy_quantity", json!(300)),
            ("total_sell_quantity", json!(400)),
            ("timestamp", json!(1_800)),
        ] {
            assert_eq!(payload[name], value, "{name}");
        }
        assert_eq!(payload.as_object().map(serde_json::Map::len), Some(16));
        let listed_today = written(&Packet::Quote(quote(Token(1), 0)), 1_800);
        assert_eq!((listed_today.get("change"), listed_today.get("change_percent")), (None, None));
    }

    #[test]
    fn a_full_one_has_the_order_book_and_the_time_of_the_exchange() {
        let order = |at: usize, price| Order { quantity: 10 * at as u32, price, orders: at as u16 };
        let full = Full {
            quote: quote(Token(3), 80_000),
            last_trade_time: 1_700_000_000,
            oi: 5,
            oi_day_high: 6,
            oi_day_low: 4,
            exchange_timestamp: 1_700_000_001,
            bids: std::array::from_fn(|at| order(at, 832_575_000 - at as i32)),
            asks: std::array::from_fn(|at| order(at, 832_600_000 + at as i32)),
        };
        let payload = written(&Packet::Full(full.clone()), 1_800);
        assert_eq!(
            (&payload["mode"], &payload["ltp"]),
            (&json!("full"), &json!(0.0081205)),
            "currencies have 7 digits"
        );
        assert_eq!((&payload["oi"], &payload["ltt"]), (&json!(5), &json!(1_700_000_000_000_u64)));
        assert_eq!(payload["timestamp"], json!(1_700_000_001_000_u64));
        let (buy, sell) = (&payload["depth"]["buy"], &payload["depth"]["sell"]);
        assert_eq!((buy.as_array().map(Vec::len), sell.as_array().map(Vec::len)), (Some(5), Some(5)));
        assert_eq!(buy[1], json!({"price": 83.2574999, "quantity": 10, "orders": 1}));
        assert_eq!(sell[4], json!({"price": 83.2600004, "quantity": 40, "orders": 4}));

        let never = written(&Packet::Full(Full { last_trade_time: 0, exchange_timestamp: 0, ..full }), 1_800);
        assert_eq!(
            (never.get("ltt"), never.get("exchange_timestamp"), &never["timestamp"]),
            (None, None, &json!(1_800))
        );
    }

    #[test]
    fn an_index_falls_and_has_no_volume() {
        let index = Index {
            token: Token(256_265),
            last_price: 2_200_000,
            high: 2_220_000,
            low: 2_190_000,
            open: 2_210_000,
            close: 2_222_000,
            price_change: -99,
            exchange_timestamp: Some(1_700_000_001),
        };
        let payload = written(&Packet::Index(index.clone()), 1_800);
        assert_eq!((&payload["ltp"], &payload["change"]), (&json!(22_000.0), &json!(-220.0)));
        assert_eq!((&payload["change_percent"], payload.get("volume")), (&json!(-0.99), None));
        assert_eq!(mode(&Packet::Index(index.clone())), Mode::Depth);
        assert_eq!(mode(&Packet::Index(Index { exchange_timestamp: None, ..index })), Mode::Quote);
    }
}
