//! Payloads: how a symbol stands, as JSON with OpenAlgo's field names.

use super::walk::{TICK, Walk};
use crate::upstream::digits::{decimal, decimal_field, field, number};
use carom::feed::{Instrument, Level, Mode};

/// Levels of the order book that are shown: the least of these that is enough, or the most there is.
const DEPTHS: [u16; 3] = [5, 20, 50];

/// Digits behind the point: prices are in paise.
const PAISE: u8 = 2;

/// Appends what is known of a symbol at this level, as of `now`, which is in milliseconds since 1970.
pub(super) fn write(to: &mut String, instrument: &Instrument, walk: &Walk, level: Level, now: u64) {
    to.push_str("{\"symbol\":\"");
    to.push_str(instrument.symbol());
    to.push_str("\",\"exchange\":\"");
    to.push_str(instrument.exchange());
    to.push_str("\",\"mode\":");
    number(to, i64::from(level.mode.number()));
    price_field(to, "ltp", walk.ltp);
    field(to, "last_quantity", walk.last_quantity);
    field(to, "ltt", now as i64);
    field(to, "timestamp", now as i64);
    match level.mode {
        Mode::Ltp => {}
        Mode::Quote => day(to, walk),
        Mode::Depth => {
            day(to, walk);
            book(to, walk, level.depth);
        }
    }
    to.push('}');
}

fn day(to: &mut String, walk: &Walk) {
    for (name, paise) in [
        ("open", walk.open),
        ("high", walk.high),
        ("low", walk.low),
        ("close", walk.close),
        ("average_price", walk.average()),
        ("change", walk.ltp - walk.close),
        // In hundredths of a percent, as prices are in hundredths of a rupee.
        ("change_percent", (walk.ltp - walk.close) * 10_000 / walk.close),
        ("upper_circuit", walk.upper_circuit()),
        ("lower_circuit", walk.lower_circuit()),
    ] {
        price_field(to, name, paise);
    }
    let mut chance = walk.aside();
    for (name, value) in [
        ("volume", walk.volume),
        ("oi", walk.oi),
        ("total_buy_quantity", 1_000 + chance.below(900_000) as i64),
        ("total_sell_quantity", 1_000 + chance.below(900_000) as i64),
    ] {
        field(to, name, value);
    }
}

/// Bids from the highest down, offers from the lowest up, with the last price between them.
fn book(to: &mut String, walk: &Walk, asked: u16) {
    let levels = DEPTHS.into_iter().find(|&levels| levels >= asked).unwrap_or(DEPTHS[DEPTHS.len() - 1]);
    let mut chance = walk.aside();
    to.push_str(",\"depth\":{");
    for (side, direction) in [("\"buy\":[", -TICK), (",\"sell\":[", TICK)] {
        to.push_str(side);
        let mut paise = walk.ltp;
        for level in 0..levels {
            let bits = chance.bits();
            paise += direction * (1 + (bits & 1) as i64);
            to.push_str(if level == 0 { "{\"price\":" } else { ",{\"price\":" });
            decimal(to, paise, PAISE);
            field(to, "quantity", 1 + ((bits >> 8) & 0xfff) as i64);
            field(to, "orders", 1 + ((bits >> 24) & 0x1f) as i64);
            to.push('}');
        }
        to.push(']');
    }
    to.push('}');
}

fn price_field(to: &mut String, name: &str, paise: i64) {
    decimal_field(to, name, paise, PAISE);
}
