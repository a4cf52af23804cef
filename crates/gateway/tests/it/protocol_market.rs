//! What clients get of a tick: the broker's fields as they are written, without those that have no value.

use carom_core::feed::{Instrument, Mode};
use carom_gateway::protocol::market::{Market, PayloadError};

/// The `data` of the message for this mode.
#[track_caller]
fn carried(payload: &str, mode: Mode) -> String {
    let tick = Market::read(payload.as_bytes()).unwrap_or_else(|error| panic!("{payload}: {error}"));
    let message = tick.message(&Instrument::new("NSE", "SBIN"), mode, "b", false);
    let begin = format!(r#"{{"type":"market_data","symbol":"SBIN","exchange":"NSE","mode":{},"data":"#, mode.number());
    let data = message.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(r#","broker":"b"}"#));
    data.unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[track_caller]
fn unchanged(payload: &str, mode: Mode) {
    assert_eq!(carried(payload, mode), payload);
}

#[test]
fn a_message_around_the_brokers_fields() {
    let tick = Market::read(br#"{"ltp":1}"#).unwrap();
    assert_eq!(
        tick.message(&Instrument::new("NFO", "A\"B"), Mode::Ltp, "zerodha", false),
        r#"{"type":"market_data","symbol":"A\"B","exchange":"NFO","mode":1,"data":{"ltp":1},"broker":"zerodha"}"#
    );
    assert_eq!(
        tick.message(&Instrument::new("NSE_INDEX", "NIFTY"), Mode::Depth, "z", true),
        r#"{"type":"market_data","symbol":"NIFTY","exchange":"NSE_INDEX","mode":3,"data":{"ltp":1},"broker":"z","snapshot":true}"#
    );
}

#[test]
fn a_field_that_the_source_lacks_is_absent_in_every_mode() {
    for mode in Mode::ALL {
        unchanged("{}", mode);
        unchanged(r#"{"ltp":9.0,"oi":0,"volume":0}"#, mode);
    }
}

#[test]
fn a_field_that_is_null_is_omitted_wherever_it_stands() {
    for (payload, told) in [
        (r#"{"a":null}"#, "{}"),
        (r#"{ "a" : null }"#, "{ }"),
        (r#"{"a":null,"b":1}"#, r#"{"b":1}"#),
        (r#"{"b":1,"a":null}"#, r#"{"b":1}"#),
        (r#"{"b":1,"a":null,"c":2}"#, r#"{"b":1,"c":2}"#),
        (r#"{"a":null,"b":null,"c":2,"d":null,"e":null,"f":3}"#, r#"{"c":2,"f":3}"#),
        (r#"{ "a" : null , "b" : 1 , "c" : null }"#, r#"{ "b" : 1 }"#),
        (r#"{"a\"\\":null,"b\"":":null,"}"#, r#"{"b\"":":null,"}"#),
        (r#"{"a":"null","b":"x\":null,\"","null":1,"c":null}"#, r#"{"a":"null","b":"x\":null,\"","null":1}"#),
        (r#"{"a":{"b":null},"c":[{"d":null,"e":1},{"f":null}]}"#, r#"{"a":{},"c":[{"e":1},{}]}"#),
        (r#"{"depth":{"buy":[{"price":1,"orders":null}],"sell":null}}"#, r#"{"depth":{"buy":[{"price":1}]}}"#),
        (r#"{"a":[null,1,null],"b":[ null ]}"#, r#"{"a":[null,1,null],"b":[ null ]}"#),
    ] {
        for mode in Mode::ALL {
            assert_eq!(carried(payload, mode), told, "{payload}");
        }
    }
}

#[test]
fn a_complete_quote_is_passed_on_as_it_is() {
    unchanged(
        r#"{"timestamp":1,"change_percent":2,"change":3,"average_price":4,"avg_trade_price":5,"last_quantity":6,"last_trade_quantity":7,"volume":8,"ltp":9,"close":10,"low":11,"high":12,"open":13}"#,
        Mode::Quote,
    );
}

#[test]
fn fields_that_openalgo_does_not_name_are_passed_on() {
    for mode in Mode::ALL {
        unchanged(r#"{"ltp":1,"depth":{"buy":[{"price":1,"quantity":2,"orders":3}],"sell":[]},"mode":"full"}"#, mode);
    }
}

#[test]
fn both_spellings_are_there_where_one_is() {
    for (one, other) in [
        ("average_price", "avg_trade_price"),
        ("avg_trade_price", "average_price"),
        ("last_quantity", "last_trade_quantity"),
        ("last_trade_quantity", "last_quantity"),
    ] {
        for mode in Mode::ALL {
            assert_eq!(carried(&format!(r#"{{"{one}":1.50}}"#), mode), format!(r#"{{"{one}":1.50,"{other}":1.50}}"#));
        }
    }
    assert_eq!(
        carried(r#"{"last_quantity":1,"average_price":2}"#, Mode::Ltp),
        r#"{"last_quantity":1,"average_price":2,"last_trade_quantity":1,"avg_trade_price":2}"#
    );
}

#[test]
fn a_spelling_that_is_null_takes_the_others_value() {
    for (payload, told) in [
        (r#"{"average_price":null,"avg_trade_price":7}"#, r#"{"avg_trade_price":7,"average_price":7}"#),
        (r#"{"average_price":7, "avg_trade_price": null }"#, r#"{"average_price":7 ,"avg_trade_price":7}"#),
        (r#"{"average_price":null,"avg_trade_price":null}"#, "{}"),
        (r#"{"average_price":1,"avg_trade_price":2}"#, r#"{"average_price":1,"avg_trade_price":2}"#),
        (
            r#"{"avg_trade_price":null,"last_quantity":null,"x":0,"average_price":8,"last_trade_quantity":9}"#,
            r#"{"x":0,"average_price":8,"last_trade_quantity":9,"last_quantity":9,"avg_trade_price":8}"#,
        ),
        (r#"{"average_price":null}"#, "{}"),
    ] {
        assert_eq!(carried(payload, Mode::Depth), told);
    }
}

#[test]
fn numbers_are_passed_on_as_they_are_written() {
    for number in ["812.50", "1e3", "1E+05", "-0", "0.10000000000000000001", "123456789012345678901234567890", "1e999"]
    {
        unchanged(&format!(r#"{{"ltp":{number},"deep":{{"price":[{number}]}}}}"#), Mode::Ltp);
        let both = carried(&format!(r#"{{"average_price":{number}}}"#), Mode::Ltp);
        assert_eq!(both, format!(r#"{{"average_price":{number},"avg_trade_price":{number}}}"#));
    }
}

#[test]
fn texts_and_blanks_are_passed_on_as_they_are_written() {
    unchanged(r#"{ "a" : "\u00e9é\/\"" ,	"NaN": "Infinity NaN", "b":[ ] }"#, Mode::Ltp);
    assert_eq!(carried("\n {\"ltp\": 1}\r\n", Mode::Ltp), r#"{"ltp": 1}"#);
}

#[test]
fn escaped_names_are_the_same_names() {
    assert_eq!(carried(r#"{"\u0061verage_price":5}"#, Mode::Quote), r#"{"\u0061verage_price":5,"avg_trade_price":5}"#);
}

#[test]
fn what_python_writes_for_no_number_counts_as_null() {
    assert_eq!(
        carried(
            r#"{"ltp": NaN, "high": Infinity, "low": -Infinity, "x": "NaN \" -Infinity é\\", "d": [NaN,1]}"#,
            Mode::Ltp
        ),
        r#"{ "x": "NaN \" -Infinity é\\", "d": [null,1]}"#
    );
    assert_eq!(
        carried(r#"{"average_price":NaN,"avg_trade_price":3}"#, Mode::Ltp),
        r#"{"avg_trade_price":3,"average_price":3}"#
    );
    assert_eq!(carried("NaN", Mode::Quote), "null");
    for payload in ["{\"a\":-NaN}", "{\"a\":NaNNaN}", "{\"a\":nan}", "{\"a\":1NaN}", "{\"a\":Inf}", "{NaN:1}", "\"NaN"]
    {
        assert!(matches!(Market::read(payload.as_bytes()), Err(PayloadError::Json(_))), "{payload}");
    }
}

#[test]
fn what_is_no_object_is_passed_on() {
    for payload in ["[1, 2]", "812.50", r#""text""#, "null", "true", "[]"] {
        for mode in Mode::ALL {
            unchanged(payload, mode);
        }
    }
}

#[test]
fn what_is_no_json_is_an_error() {
    for payload in
        ["", " ", "{", r#"{"ltp":1"#, r#"{"ltp":1}}"#, r#"{"ltp":}"#, r#"{"ltp":1,}"#, "ltp", "[1", "{} {}", "01"]
    {
        assert!(matches!(Market::read(payload.as_bytes()), Err(PayloadError::Json(_))), "{payload}");
    }
    assert!(matches!(Market::read(b"{\"ltp\":\"\xff\"}"), Err(PayloadError::Utf8(_))));
}

#[test]
fn fields_that_are_there_twice_stay_and_the_last_counts() {
    Mode::ALL.into_iter().for_each(|mode| unchanged(r#"{"ltp":1,"ltp":2}"#, mode));
    assert_eq!(
        carried(r#"{"average_price":1,"average_price":2}"#, Mode::Ltp),
        r#"{"average_price":1,"average_price":2,"avg_trade_price":2}"#
    );
}

#[test]
fn only_the_fields_of_the_tick_itself_count() {
    unchanged(r#"{"d":{"ltp":5,"average_price":6}}"#, Mode::Quote);
}

#[test]
fn a_price_is_a_number() {
    let has_price = |payload: &str| Market::read(payload.as_bytes()).unwrap().has_price();
    for payload in [
        r#"{"ltp":8e2}"#,
        r#"{"ltp":812.50}"#,
        r#"{"open":null, "ltp" : -0 }"#,
        r#"{"ltp":"812.50"}"#,
        r#"{"\u006ctp":5}"#,
        r#"{"ltp":null,"ltp":1}"#,
        r#"{"ltp":1,"change":NaN}"#,
        "812.50",
        " -1 ",
    ] {
        assert!(has_price(payload), "{payload}");
    }
    for payload in [
        r#"{"ltp":1e999}"#,
        "{}",
        r#"{"open":1}"#,
        r#"{"ltp":null}"#,
        r#"{"ltp":NaN}"#,
        r#"{"ltp":-Infinity}"#,
        r#"{"ltp":"abc"}"#,
        r#"{"ltp":"NaN"}"#,
        r#"{"ltp":"inf"}"#,
        r#"{"ltp":""}"#,
        r#"{"ltp":[1]}"#,
        r#"{"ltp":{"ltp":1}}"#,
        r#"{"ltp":true}"#,
        r#"{"ltp":1,"ltp":null}"#,
        r#"{"depth":{"ltp":1}}"#,
        "[1]",
        "null",
        "\"text\"",
    ] {
        assert!(!has_price(payload), "{payload}");
    }
}

#[test]
fn deep_payloads_are_read() {
    unchanged(&format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000)), Mode::Ltp);
}
