//! Names of topics on a bus: read from both ends, and written so that they are read as what they are.

use carom_core::feed::Mode;
use carom_gateway::kite::packet::Token;
use carom_gateway::protocol::topic::{BusTopic, name, parse, without_broker};
use carom_gateway::{delta, kite};

fn tick<'a>(exchange: &'a str, symbol: &'a str, mode: Mode) -> Option<BusTopic<'a>> {
    Some(BusTopic::Tick { exchange, symbol, mode })
}

#[test]
fn ticks_are_read_from_both_ends() {
    for (topic, parsed) in [
        ("NSE_SBIN_LTP", tick("NSE", "SBIN", Mode::Ltp)),
        ("NSE_SBIN_quote", tick("NSE", "SBIN", Mode::Quote)),
        ("NFO_NIFTY28OCT2525000CE_Depth", tick("NFO", "NIFTY28OCT2525000CE", Mode::Depth)),
        ("CRYPTO_SOL_INR_LTP", tick("CRYPTO", "SOL_INR", Mode::Ltp)),
        ("NSE_INDEX_NIFTY_LTP", tick("NSE_INDEX", "NIFTY", Mode::Ltp)),
        ("BSE_INDEX_SENSEX_QUOTE", tick("BSE_INDEX", "SENSEX", Mode::Quote)),
        ("MCX_INDEX_MCX_BULLDEX_LTP", tick("MCX_INDEX", "MCX_BULLDEX", Mode::Ltp)),
        ("GLOBAL_INDEX_US30_LTP", tick("GLOBAL_INDEX", "US30", Mode::Ltp)),
        ("NSEIX_INDEX_GIFTNIFTY_DEPTH", tick("NSEIX_INDEX", "GIFTNIFTY", Mode::Depth)),
        ("CDS_INDEX_USDINR_LTP", tick("CDS_INDEX", "USDINR", Mode::Ltp)),
        ("NSE_INDEX_LTP", tick("NSE", "INDEX", Mode::Ltp)),
        ("NSE_INDEXED_LTP", tick("NSE", "INDEXED", Mode::Ltp)),
        ("NSE_TCS:20_DEPTH", tick("NSE", "TCS:20", Mode::Depth)),
    ] {
        assert_eq!(parse(topic), parsed, "{topic}");
    }
}

#[test]
fn a_brokers_name_in_front_is_taken_off_ticks() {
    for (topic, parsed) in [
        ("zerodha_NSE_SBIN_LTP", tick("NSE", "SBIN", Mode::Ltp)),
        ("ZERODHA_NSE_SBIN_LTP", tick("NSE", "SBIN", Mode::Ltp)),
        ("zerodha_NSE_INDEX_NIFTY_LTP", tick("NSE_INDEX", "NIFTY", Mode::Ltp)),
        ("zerodha_CRYPTO_SOL_INR_DEPTH", tick("CRYPTO", "SOL_INR", Mode::Depth)),
        ("zerodha_zerodha_SBIN_LTP", tick("zerodha", "SBIN", Mode::Ltp)),
        ("NSE_SBIN_LTP", None),
        ("dhan_NSE_SBIN_LTP", None),
        ("zerodhaNSE_SBIN_LTP", None),
        ("zerodha_SBIN_LTP", None),
        ("zerodha_NSE_SBIN", None),
        ("zerodha_asha_orders", None),
        ("zerodha_CACHE_INVALIDATE_ALL_asha", None),
        ("zerodha_", None),
        ("zerodha", None),
        ("zerodhé_NSE_SBIN_LTP", None),
        ("", None),
    ] {
        assert_eq!(without_broker(topic, "zerodha"), parsed, "{topic}");
    }
    assert_eq!(without_broker("five_paisa_NSE_SBIN_LTP", "five_paisa"), tick("NSE", "SBIN", Mode::Ltp));
}

#[test]
fn others_are_told_apart_before_ticks() {
    for (topic, user) in [
        ("CACHE_INVALIDATE_AUTH_asha", "asha"),
        ("CACHE_INVALIDATE_FEED_asha_r", "asha_r"),
        ("CACHE_INVALIDATE_ALL_x_orders", "x_orders"),
        ("CACHE_INVALIDATE_ALL_a_LTP", "a_LTP"),
    ] {
        assert_eq!(parse(topic), Some(BusTopic::CacheInvalidate { user }));
    }
    for topic in ["ZERODHA_asha_orders", "ANALYZE_a_b_orders"] {
        assert_eq!(parse(topic), Some(BusTopic::Orders));
    }
    for topic in ["ZERODHA_asha_positions", "ZERODHA_asha_margins"] {
        assert_eq!(parse(topic), Some(BusTopic::Ignored));
    }
}

#[test]
fn what_is_malformed_is_nobodys() {
    for topic in
        ["", "_", "__", "___", "NSE", "NSE_SBIN", "NSE_LTP", "NSE_SBIN_1", "NSE_SBIN_", "_SBIN_LTP", "NSE__LTP"]
    {
        assert_eq!(parse(topic), None, "{topic}");
    }
    for topic in ["NSE_INDEX__LTP", "_INDEX_A_LTP", "_INDEX_LTP"] {
        assert_eq!(parse(topic), None, "{topic}");
    }
    for topic in ["CACHE_INVALIDATE", "CACHE_INVALIDATE_AUTH", "CACHE_INVALIDATE_AUTH_", "CACHE_INVALIDATE_SOME_asha"] {
        assert_eq!(parse(topic), None, "{topic}");
    }
}

#[test]
fn names_come_back_as_they_were_or_are_not_given() {
    let parts = [
        "NSE",
        "INDEX",
        "NSE_INDEX",
        "A_B",
        "LTP",
        "",
        "_",
        "orders",
        "é",
        "CACHE",
        "INVALIDATE_X",
        "CACHE_INVALIDATE",
    ];
    let mut given = 0;
    for exchange in parts {
        for symbol in parts {
            for mode in Mode::ALL {
                if let Some(name) = name(exchange, symbol, mode) {
                    assert_eq!(parse(&name), tick(exchange, symbol, mode), "{name}");
                    let named = format!("zerodha_{name}");
                    assert_eq!(without_broker(&named, "Zerodha"), tick(exchange, symbol, mode), "{named}");
                    given += 1;
                }
            }
        }
    }
    assert!(given > 60, "{given}");
    assert_eq!(name("NSE", "SBIN", Mode::Quote).as_deref(), Some("NSE_SBIN_QUOTE"));
    assert_eq!(name("NSE_INDEX", "NIFTY 50", Mode::Ltp).as_deref(), Some("NSE_INDEX_NIFTY 50_LTP"));
    for (exchange, symbol) in
        [("NSE", "INDEX_A"), ("MY_EXCHANGE", "A"), ("", "A"), ("NSE", ""), ("CACHE", "INVALIDATE")]
    {
        assert_eq!(name(exchange, symbol, Mode::Ltp), None, "{exchange} {symbol}");
    }
}

#[test]
fn whatever_a_broker_lists_has_topics() {
    let mut rows = String::from("instrument_token,tradingsymbol,name,expiry,strike,instrument_type,segment,exchange\n");
    for (at, exchange) in
        ["NSE", "BSE", "NFO", "BFO", "CDS", "BCD", "MCX", "NCO", "NSEIX", "GLOBAL", "NCDEX"].into_iter().enumerate()
    {
        rows += &format!("{},A,,,,EQ,{exchange},{exchange}\n", 2 * at + 1);
        rows += &format!("{},A_B,,,,EQ,INDICES,{exchange}\n", 2 * at + 2);
    }
    for list in [rows.as_str(), include_str!("../data/kite_instruments.csv")] {
        let listed = kite::Instruments::read(list.as_bytes()).unwrap();
        for line in list.lines().skip(1) {
            let token = line.split(',').next().and_then(|token| token.parse().ok()).unwrap();
            let instrument = listed.of(Token(token)).unwrap();
            for mode in Mode::ALL {
                assert!(name(instrument.exchange(), instrument.symbol(), mode).is_some(), "{instrument}");
            }
        }
    }
    assert_eq!(name(delta::EXCHANGE, "BTCUSD", Mode::Ltp).as_deref(), Some("CRYPTO_BTCUSD_LTP"));
    assert_eq!(name(delta::EXCHANGE, "SOL_INR", Mode::Ltp).as_deref(), Some("CRYPTO_SOL_INR_LTP"));
}
