//! The list of contracts of Delta Exchange: a sample of it, and everything that can be wrong with one.

use carom_gateway::delta::{Instruments, InstrumentsError};
use std::error::Error;
use std::io::{self, Read};

fn sample() -> Instruments {
    Instruments::from_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/delta_products.json")).unwrap()
}

fn problem(text: &str) -> String {
    let error = Instruments::read(text.as_bytes()).unwrap_err();
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn product(symbol: &str, state: &str) -> String {
    format!(r#"{{"symbol":{symbol:?},"contract_type":"futures","tick_size":"0.5","state":"{state}"}}"#)
}

#[test]
fn a_sample_is_read() {
    let instruments = sample();
    let names: Vec<&str> = instruments.symbols().collect();
    let expected =
        ["BTCUSD", "BTCUSD25Sep2026", "BTC_INR", "C-BTC-80000-250926", "ETHUSD", "P-BTC-80000-250926", "SOLUSD"];
    assert_eq!(names, expected, "without what has expired");
    assert_eq!(instruments.len(), 7);
    let listed = |name| instruments.get(name).map(|listed| (listed.contract_type(), listed.tick_size()));
    assert_eq!(listed("SOLUSD"), Some(("perpetual_futures", Some("0.0001"))));
    assert_eq!(listed("BTCUSD25Sep2026"), Some(("futures", Some("0.5"))));
    assert_eq!(listed("BTC_INR"), Some(("spot", None)));
    assert_eq!(listed("btcusd"), None, "names are as the exchange spells them");
    for (name, own) in [
        ("BTCUSDFUT", "BTCUSD"),
        ("BTC25SEP26FUT", "BTCUSD25Sep2026"),
        ("BTC25SEP2680000CE", "C-BTC-80000-250926"),
        ("BTC25SEP2680000PE", "P-BTC-80000-250926"),
        ("BTCINR", "BTC_INR"),
        ("ETHUSD", "ETHUSD"),
    ] {
        assert_eq!(instruments.symbol(name), Some(own), "as OpenAlgo spells them too");
    }
    assert_eq!(instruments.symbol("BTC31JUL2570000CE"), None);
}

#[test]
fn a_name_that_may_mean_several_contracts_leads_to_none() {
    let listed = |symbol: &str, contract_type: &str| {
        format!(r#"{{"symbol":"{symbol}","contract_type":"{contract_type}","state":"live"}}"#)
    };
    let products = [
        listed("C-BTC-80000-280225", "call_options"),
        listed("TC-BTC-80000-280225", "turbo_call_options"),
        listed("BTCUSD28Feb2025", "futures"),
        listed("BTCUSDT28Feb2025", "futures"),
        listed("BTCUSD", "perpetual_futures"),
        listed("BTCUSD", "perpetual_futures"),
    ];
    let instruments = Instruments::read(format!(r#"{{"result":[{}]}}"#, products.join(",")).as_bytes()).unwrap();
    for ambiguous in ["BTC28FEB2580000CE", "BTC28FEB25FUT"] {
        assert_eq!(instruments.symbol(ambiguous), None, "{ambiguous}");
    }
    assert_eq!(instruments.ambiguous(), 2);
    for own in ["C-BTC-80000-280225", "TC-BTC-80000-280225", "BTCUSD28Feb2025", "BTCUSDT28Feb2025"] {
        assert_eq!(instruments.symbol(own), Some(own), "its own name is its own");
    }
    assert_eq!(instruments.symbol("BTCUSDFUT"), Some("BTCUSD"), "one that is listed twice is one");
}

#[test]
fn pages_may_follow_each_other() {
    let page = |symbol, after: &str| {
        format!(r#"{{"success":true,"meta":{{"after":{after}}},"result":[{}]}}"#, product(symbol, "live"))
    };
    let pages = format!("{}\n{}", page("A", r#""cursor""#), page("B", "null"));
    assert_eq!(Instruments::read(pages.as_bytes()).unwrap().symbols().collect::<Vec<_>>(), ["A", "B"]);
    let wrong = format!("{}\n{}", page("A", "null"), page("B B", "null"));
    assert!(problem(&wrong).starts_with("contract 2 of the list"));
}

#[test]
fn whatever_is_wrong_is_named() {
    let list = |products: &[String]| format!(r#"{{"success":true,"result":[{}]}}"#, products.join(","));
    let good = product("BTCUSD", "live");
    for (text, expected) in [
        (String::new(), "no contract in the list"),
        ("7".to_owned(), "no answer to GET /v2/products: invalid type: integer"),
        ("{\"result\":".to_owned(), "no answer to GET /v2/products: EOF while parsing a value at line 1"),
        ("{}".to_owned(), "did not say which contracts there are: it does not say why"),
        ("{\n\n\"result\":\n[{\"symbol\":7}]}".to_owned(), "at line 4 column"),
        (r#"{"success":false,"error":{"code":"maintenance"}}"#.to_owned(), r#"there are: {"code":"maintenance"}"#),
        (r#"{"success":false,"result":[]}"#.to_owned(), "did not say which"),
        (list(&[]), "no contract in the list"),
        (list(&[product("OLD", "expired")]), "no contract in the list, or none that has not expired"),
        (list(&[good.clone(), product("", "live")]), "contract 2 of the list has the name \"\""),
        (list(&[product("A B", "live")]), "contract 1 of the list has the name \"A B\""),
        (list(&[product("A\"", "live")]), "contract 1 of the list"),
        (list(&[product(&"A".repeat(65), "live")]), "contract 1 of the list"),
        (
            list(&(0..200_001).map(|number| product(&format!("C{number}"), "live")).collect::<Vec<_>>()),
            "more than 200000 contracts",
        ),
    ] {
        let problem = problem(&text);
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.len() < 400, "{problem}");
    }
}

#[test]
fn a_list_without_end_is_not_read_to_its_end() {
    let error = Instruments::read(io::repeat(b' ')).unwrap_err();
    assert!(matches!(error, InstrumentsError::TooLong { .. }), "{error}");
    let none = Instruments::from_file("/nowhere/products.json").unwrap_err();
    assert!(matches!(none, InstrumentsError::Unreadable(_)), "{none}");
    let no_text = Instruments::read([0xff].chain(io::empty())).unwrap_err();
    assert!(matches!(no_text, InstrumentsError::Unreadable(_)), "{no_text}");
}
