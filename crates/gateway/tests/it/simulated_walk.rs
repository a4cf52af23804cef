//! The simulated market by itself: what it shows follows from the seed, and makes sense.

use carom::feed::{Level, Mode};
use carom_gateway::simulated::Market;
use serde_json::Value;

const NOW: u64 = 1_800_000_000_000;

fn depth(depth: u16) -> Level {
    Level { mode: Mode::Depth, depth }
}

/// So many trades in each of so many symbols, as one text.
fn day(symbols: usize, trades: usize, seed: u64) -> String {
    let mut market = Market::new(symbols, seed);
    let mut text = String::new();
    for trade in 0..trades {
        for id in 0..symbols as u32 {
            market.step(id);
            market.write(id, depth(5), NOW + trade as u64, &mut text);
        }
    }
    text
}

fn shown(market: &Market, id: u32, level: Level) -> Value {
    let mut text = String::new();
    market.write(id, level, NOW, &mut text);
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_same_seed_gives_the_same_ticks_and_another_gives_others() {
    assert_eq!(day(100, 20, 7), day(100, 20, 7));
    assert_ne!(day(100, 20, 7), day(100, 20, 8));
}

#[test]
fn a_symbol_walks_the_same_way_whatever_the_others_do() {
    let (mut busy, mut quiet) = (Market::new(3_000, 3), Market::new(70, 3));
    for id in 0..3_000 {
        busy.step(id);
        if id == 65 {
            quiet.step(id);
        }
    }
    assert_eq!(shown(&busy, 65, depth(50)), shown(&quiet, 65, depth(50)));
}

#[test]
fn prices_of_a_day_make_sense_whenever_they_are_looked_at() {
    let mut market = Market::new(80, 11);
    let mut moved = 0;
    for trade in 0..2_000 {
        for id in 0..80 {
            let before = if trade % 100 == 0 { Some(shown(&market, id, depth(5))) } else { None };
            market.step(id);
            let Some(before) = before else { continue };
            let now = shown(&market, id, Level { mode: Mode::Quote, depth: 5 });
            let [ltp, open, high, low, close, average, change, percent, upper, lower, volume] = [
                "ltp",
                "open",
                "high",
                "low",
                "close",
                "average_price",
                "change",
                "change_percent",
                "upper_circuit",
                "lower_circuit",
                "volume",
            ]
            .map(|name| number(&now[name]));
            assert!(0.0 < lower && lower <= low && low <= ltp && ltp <= high && high <= upper, "{now}");
            assert!(low <= open && open <= high && low <= average && average <= high, "{now}");
            assert!((change - (ltp - close)).abs() < 0.005 && (percent - change / close * 100.0).abs() < 0.02, "{now}");
            assert_eq!(volume - number(&before["volume"]), number(&now["last_quantity"]));
            assert_eq!((&now["timestamp"], &now["mode"], now.get("depth")), (&NOW.into(), &2.into(), None));
            moved += usize::from(now["ltp"] != before["ltp"]);
        }
    }
    assert!(moved > 80 * 20 / 2, "most trades change the price: {moved}");
}

#[test]
fn prices_lead_neither_up_nor_down() {
    // The made-up ones, whose prices are not too different for a mean.
    let ids = 60..1_060;
    let mut market = Market::new(ids.end as usize, 23);
    let mut moved = 0.0;
    for id in ids.clone() {
        (0..3_000).for_each(|_| market.step(id));
        let evening = shown(&market, id, Level { mode: Mode::Quote, depth: 5 });
        moved += number(&evening["ltp"]) - number(&evening["open"]);
    }
    // One symbol ends a few rupees away from its open, so that the mean of so many is within a few tenths of it.
    let mean = moved / ids.len() as f64;
    assert!(mean.abs() < 1.0, "{mean}");
}

#[test]
fn order_books_are_sorted_with_the_last_price_between_the_sides() {
    let mut market = Market::new(80, 5);
    for id in 0..80 {
        for (asked, levels) in [(0, 5), (5, 5), (6, 20), (20, 20), (21, 50), (u16::MAX, 50)] {
            market.step(id);
            let now = shown(&market, id, depth(asked));
            let side = |name: &str| -> Vec<f64> {
                let levels = now["depth"][name].as_array().unwrap();
                for level in levels {
                    assert!(number(&level["quantity"]) >= 1.0 && number(&level["orders"]) >= 1.0, "{level}");
                }
                levels.iter().map(|level| number(&level["price"])).collect()
            };
            let (buy, sell, ltp) = (side("buy"), side("sell"), number(&now["ltp"]));
            assert_eq!((buy.len(), sell.len()), (levels, levels));
            assert!(buy.is_sorted_by(|higher, lower| higher > lower) && buy[levels - 1] > 0.0, "{buy:?}");
            assert!(sell.is_sorted_by(|lower, higher| lower < higher), "{sell:?}");
            assert!(buy[0] < ltp && ltp < sell[0]);
        }
    }
}

#[test]
fn a_price_alone_is_short() {
    let market = Market::new(3_000, 1);
    let mut text = String::new();
    market.write(2_999, Level { mode: Mode::Ltp, depth: 5 }, NOW, &mut text);
    assert!(text.len() < 160, "{text}");
    assert_eq!(market.find("NSE", "SIM2940"), Some(2_999));
    assert_eq!(market.find("BSE", "SIM2940"), None);
}
