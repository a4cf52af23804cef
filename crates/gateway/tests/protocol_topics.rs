//! Names of topics on a bus: read from both ends, and written so that they are read as what they are.

use carom_core::feed::Mode;
use carom_gateway::protocol::topic::{BusTopic, name, parse};

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
        ("NSE_INDEX_LTP", tick("NSE", "INDEX", Mode::Ltp)),
        ("NSE_INDEXED_LTP", tick("NSE", "INDEXED", Mode::Ltp)),
        ("NSE_TCS:20_DEPTH", tick("NSE", "TCS:20", Mode::Depth)),
    ] {
        assert_eq!(parse(topic), parsed, "{topic}");
    }
}

#[test]
fn others_are_told_apart_before_ticks() {
    for topic in ["CACHE_INVALIDATE_AUTH_asha", "CACHE_INVALIDATE", "CACHE_INVALIDATE_ALL_x_orders"] {
        assert_eq!(parse(topic), Some(BusTopic::CacheInvalidate));
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
    assert_eq!(parse("NSE_INDEX__LTP"), None);
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
