//! What clients ask for, in every way they write it, and what is refused.

use carom_core::feed::{Instrument, Mode};
use carom_gateway::protocol::{
    ApiKey, BadEntry, Code, Echo, Leave, MAX_ECHO, MAX_EXCHANGE, MAX_SYMBOL, Request, parse,
};

#[track_caller]
fn asked(message: &str) -> Request {
    parse(message.as_bytes()).unwrap_or_else(|refusal| panic!("{message}: {refusal}"))
}

#[track_caller]
fn refused(message: &str) -> (Code, String) {
    match parse(message.as_bytes()) {
        Ok(request) => panic!("{message}: {request:?}"),
        Err(refusal) => (refusal.code, refusal.message),
    }
}

#[track_caller]
fn subscribed(message: &str) -> (Vec<Result<Instrument, BadEntry>>, Mode, u16) {
    match asked(message) {
        Request::Subscribe { entries, mode, depth, .. } => (entries, mode, depth),
        other => panic!("{message}: {other:?}"),
    }
}

#[track_caller]
fn left(message: &str) -> Vec<Result<Leave, BadEntry>> {
    match asked(message) {
        Request::Unsubscribe { entries, .. } => entries,
        other => panic!("{message}: {other:?}"),
    }
}

fn instruments(names: &[(&str, &str)]) -> Vec<Result<Instrument, BadEntry>> {
    names.iter().map(|(exchange, symbol)| Ok(Instrument::new(*exchange, *symbol))).collect()
}

/// The request's `mode`, `depth` or `request_id`, in a subscription to one symbol.
fn with(field: &str, json: &str) -> String {
    format!(r#"{{"action":"subscribe","symbol":"SBIN","exchange":"NSE","{field}":{json}}}"#)
}

fn json(echo: &Option<Echo>) -> Option<&str> {
    echo.as_ref().map(Echo::as_json)
}

#[test]
fn a_key_comes_under_two_names_and_two_verbs() {
    let key = |message: &str| match asked(message) {
        Request::Authenticate { key, .. } => key.as_ref().map(ApiKey::reveal).map(str::to_owned),
        other => panic!("{other:?}"),
    };
    for message in [
        r#"{"action":"authenticate","api_key":"k1"}"#,
        r#"{"action":"auth","apikey":"k1"}"#,
        r#"{"type":"authenticate","api_key":"k1"}"#,
        r#"{"action":"","type":"auth","api_key":"","apikey":"k1"}"#,
        r#"{"action":"authenticate","api_key":"\u006b1"}"#,
        "\n {\"action\" : \"authenticate\", \"api_key\" : \"k1\"}\r\n",
    ] {
        assert_eq!(key(message).as_deref(), Some("k1"), "{message}");
    }
    for message in [r#"{"action":"auth"}"#, r#"{"action":"auth","api_key":""}"#, r#"{"action":"auth","api_key":5}"#] {
        assert_eq!(key(message), None, "{message}");
    }
}

#[test]
fn a_key_is_not_shown() {
    let shown = format!("{:?}", asked(r#"{"action":"auth","api_key":"sesame"}"#));
    assert!(shown.contains("ApiKey") && !shown.contains("sesame"), "{shown}");
}

#[test]
fn the_plain_verbs() {
    for (verb, request) in [
        ("unsubscribe_all", Request::UnsubscribeAll { echo: None }),
        ("subscribe_orders", Request::SubscribeOrders { echo: None }),
        ("unsubscribe_orders", Request::UnsubscribeOrders { echo: None }),
        ("get_broker_info", Request::BrokerInfo { echo: None }),
        ("get_supported_brokers", Request::SupportedBrokers { echo: None }),
        ("get_subscriptions", Request::Subscriptions { echo: None }),
        ("ping", Request::Ping { timestamp: None, id: None, echo: None }),
    ] {
        assert_eq!(asked(&format!(r#"{{"action":"{verb}"}}"#)), request);
        assert_eq!(asked(&format!(r#"{{"type":"{verb}"}}"#)), request);
        assert_eq!(asked(&format!(r#"{{"action":null,"type":"{verb}","mode":"Foo","symbols":7}}"#)), request);
    }
}

#[test]
fn a_ping_brings_back_what_it_carries() {
    let Request::Ping { timestamp, id, .. } = asked(r#"{"action":"ping","timestamp":1.50,"_pingId":{"a": [1]}}"#)
    else {
        panic!()
    };
    assert_eq!((json(&timestamp), json(&id)), (Some("1.50"), Some(r#"{"a": [1]}"#)));
    let nothing = asked(r#"{"action":"ping","timestamp":null,"_pingId":null,"request_id":null}"#);
    assert_eq!(nothing, Request::Ping { timestamp: None, id: None, echo: None });
}

#[test]
fn a_request_id_is_any_json_but_null() {
    for id in ["7", r#""a""#, "1.0", "1e2", "true", "false", "0", r#""""#, "[1, null]", r#"{"a":{}}"#, r#""\u00e9""#] {
        for verb in ["subscribe_orders", "unsubscribe_orders", "unsubscribe_all", "get_subscriptions"] {
            let request = asked(&format!(r#"{{"action":"{verb}","request_id":{id}}}"#));
            let echo = match &request {
                Request::SubscribeOrders { echo }
                | Request::UnsubscribeOrders { echo }
                | Request::UnsubscribeAll { echo }
                | Request::Subscriptions { echo } => echo,
                other => panic!("{other:?}"),
            };
            assert_eq!(json(echo), Some(id));
        }
        let Request::Subscribe { echo, .. } = asked(&with("request_id", id)) else { panic!() };
        assert_eq!(json(&echo), Some(id));
    }
    assert_eq!(asked(r#"{"action":"unsubscribe_all","request_id":null}"#), Request::UnsubscribeAll { echo: None });
}

#[test]
fn what_is_sent_back_has_a_longest() {
    let text = |length: usize| format!(r#""{}""#, "x".repeat(length - 2));
    assert!(parse(with("request_id", &text(MAX_ECHO)).as_bytes()).is_ok());
    let (code, message) = refused(&with("request_id", &text(MAX_ECHO + 1)));
    assert_eq!((code, message.as_str()), (Code::InvalidParameters, "request_id is longer than 4096 bytes"));
    for field in ["timestamp", "_pingId"] {
        let (code, message) = refused(&format!(r#"{{"action":"ping","{field}":{}}}"#, text(MAX_ECHO + 1)));
        assert_eq!((code, message), (Code::InvalidParameters, format!("{field} is longer than 4096 bytes")));
    }
}

#[test]
fn a_list_goes_before_a_single_symbol() {
    let list = r#"{"action":"subscribe","symbols":[{"symbol":"SBIN","exchange":"NSE"},{"exchange":"NFO","symbol":"X"},
        {"symbol":"TCS:20","exchange":"NSE","mode":"ignored"}],"symbol":"Y","exchange":"BSE"}"#;
    let wanted = instruments(&[("NSE", "SBIN"), ("NFO", "X"), ("NSE", "TCS:20")]);
    assert_eq!(subscribed(list), (wanted, Mode::Quote, 5));

    for nothing in ["[]", "[ \n]", "null", r#""""#, "0", "false", "{}"] {
        let single = format!(r#"{{"action":"subscribe","symbols":{nothing},"symbol":"Y","exchange":"BSE"}}"#);
        assert_eq!(subscribed(&single).0, instruments(&[("BSE", "Y")]));
    }
}

#[test]
fn names_are_kept_as_they_are_written() {
    let message = with("x", "1").replace("SBIN", r#"M&M-EQ \"é\" a\/b \ud83d\ude00"#);
    assert_eq!(subscribed(&message).0, instruments(&[("NSE", "M&M-EQ \"é\" a/b 😀")]));
    assert_eq!(subscribed(&with("x", "1").replace("SBIN", " sbin ")).0, instruments(&[("NSE", " sbin ")]));
}

#[test]
fn modes_are_numbers_or_labels() {
    for (json, mode) in [
        ("1", Mode::Ltp),
        ("2", Mode::Quote),
        ("3", Mode::Depth),
        (r#""LTP""#, Mode::Ltp),
        (r#""ltp""#, Mode::Ltp),
        (r#""QUOTE""#, Mode::Quote),
        (r#"" Quote\t""#, Mode::Quote),
        (r#""dEPTH""#, Mode::Depth),
    ] {
        assert_eq!(subscribed(&with("mode", json)).1, mode, "{json}");
    }
    assert_eq!(subscribed(&with("x", "1")).1, Mode::Quote);
}

#[test]
fn other_modes_are_refused() {
    for json in [
        "0",
        "4",
        r#""Foo""#,
        r#""""#,
        "null",
        "true",
        "1.0",
        r#""2""#,
        "[1]",
        "-1",
        "1e0",
        "{}",
        "12345678901234567890123",
    ] {
        let (code, message) = refused(&with("mode", json));
        assert_eq!(code, Code::InvalidMode, "{json}");
        assert!(message.starts_with(&format!("Invalid mode: {json}.")), "{message}");
        let flat = r#"{"action":"unsubscribe","symbol":"SBIN","exchange":"NSE","mode":0}"#.replace('0', json);
        assert_eq!(refused(&flat).0, Code::InvalidMode, "{json}");
    }
    let (_, message) = refused(&with("mode", &format!(r#""{}""#, "é".repeat(1000))));
    assert!(message.len() < 200 && message.contains('…'), "{message}");
}

#[test]
fn depth_is_a_positive_integer_or_five() {
    for (json, depth) in [
        ("1", 1),
        ("5", 5),
        ("20", 20),
        ("200", 200),
        ("201", 200),
        ("65536", 200),
        ("123456789012345678901234567890", 200),
        ("0", 5),
        ("-0", 5),
        ("-20", 5),
        ("20.0", 5),
        ("2e1", 5),
        (r#""20""#, 5),
        ("null", 5),
        ("true", 5),
        ("[20]", 5),
    ] {
        assert_eq!(subscribed(&with("depth", json)).2, depth, "{json}");
    }
    assert_eq!(subscribed(&with("depth_level", "20")).2, 5);
}

#[test]
fn entries_without_symbol_or_exchange_vanish() {
    let message = r#"{"action":"subscribe","symbols":[{},{"symbol":"A"},{"exchange":"NSE"},{"symbol":"","exchange":"NSE"},
        {"symbol":"A","exchange":null},{"symbol":0,"exchange":"NSE"},{"symbol":"A","exchange":"NSE"}]}"#;
    assert_eq!(subscribed(message).0, instruments(&[("NSE", "A")]));
    assert_eq!(subscribed(r#"{"action":"subscribe","symbols":[{"symbol":"A"}]}"#).0, []);
    assert_eq!(left(r#"{"action":"unsubscribe","symbols":[{"exchange":"A"}]}"#), []);
}

#[test]
fn an_entry_that_cannot_be_served_fails_by_itself() {
    let (longest, too_long) = ("S".repeat(MAX_SYMBOL), "é".repeat(MAX_SYMBOL / 2 + 1));
    let (exchange, far) = ("E".repeat(MAX_EXCHANGE), "E".repeat(MAX_EXCHANGE + 1));
    let message = format!(
        r#"{{"action":"subscribe","symbols":[{{"symbol":"{longest}","exchange":"{exchange}"}},{{"symbol":"{too_long}","exchange":"NSE"}},
        {{"symbol":"A","exchange":"{far}"}},{{"symbol":["A"],"exchange":"NSE"}},{{"symbol":"A","exchange":5}},
        {{"symbol":"A\u0000","exchange":"NSE"}},{{"symbol":"\ud800","exchange":"NSE"}},{{"symbol":"B","exchange":"NSE"}}]}}"#
    );
    let (entries, ..) = subscribed(&message);
    let bad = |symbol: &str, exchange: &str, message: &str| {
        Err(BadEntry { symbol: symbol.into(), exchange: exchange.into(), message: message.into() })
    };
    let cut = format!("{}…", "é".repeat(MAX_SYMBOL / 2));
    assert_eq!(
        entries,
        [
            Ok(Instrument::new(exchange.as_str(), longest.as_str())),
            bad(&cut, "NSE", "symbol is longer than 64 bytes"),
            bad("A", &format!("{exchange}…"), "exchange is longer than 32 bytes"),
            bad(r#"["A"]"#, "NSE", "symbol is not a string"),
            bad("A", "5", "exchange is not a string"),
            bad("A\0", "NSE", "symbol has control characters in it"),
            bad(r#""\ud800""#, "NSE", "symbol is not a string"),
            Ok(Instrument::new("NSE", "B")),
        ]
    );
}

#[test]
fn nothing_to_subscribe_to_is_refused() {
    for verb in ["subscribe", "unsubscribe"] {
        for rest in [
            "",
            r#","symbol":"SBIN""#,
            r#","exchange":"NSE""#,
            r#","symbol":"","exchange":"NSE""#,
            r#","symbols":[]"#,
            r#","symbols":null"#,
            r#","instruments":[{"symbol":"SBIN","exchange":"NSE"}],"mode":1"#,
        ] {
            let message = format!(r#"{{"action":"{verb}"{rest}}}"#);
            let refusal = (Code::InvalidParameters, "At least one symbol must be specified".to_owned());
            assert_eq!(refused(&message), refusal, "{message}");
        }
    }
}

#[test]
fn a_list_of_anything_else_is_refused() {
    for verb in ["subscribe", "unsubscribe"] {
        for list in [
            r#"["SBIN"]"#,
            r#"[{"symbol":"SBIN","exchange":"NSE"},"SBIN"]"#,
            "[null]",
            "[[]]",
            "[1]",
            r#""SBIN""#,
            "7",
            "true",
            r#"{"symbol":"SBIN","exchange":"NSE"}"#,
        ] {
            let (code, message) = refused(&format!(r#"{{"action":"{verb}","symbols":{list}}}"#));
            assert_eq!(code, Code::ServerError, "{list}");
            assert_eq!(message, "symbols is a list of objects with symbol and exchange");
        }
    }
}

#[test]
fn a_single_unsubscribe_means_quote_unless_it_says_otherwise() {
    let leave = |mode| [Ok(Leave { instrument: Instrument::new("NSE", "SBIN"), mode: Some(mode) })];
    assert_eq!(left(r#"{"action":"unsubscribe","symbol":"SBIN","exchange":"NSE"}"#), leave(Mode::Quote));
    assert_eq!(left(r#"{"action":"unsubscribe","symbol":"SBIN","exchange":"NSE","mode":"ltp"}"#), leave(Mode::Ltp));
}

#[test]
fn in_a_list_each_entry_has_its_mode_or_the_requests_or_all() {
    let list = r#"[{"symbol":"A","exchange":"NSE","mode":3},{"symbol":"B","exchange":"NSE"}]"#;
    let leave = |symbol: &str, mode| Ok(Leave { instrument: Instrument::new("NSE", symbol), mode });
    let every = format!(r#"{{"action":"unsubscribe","symbols":{list}}}"#);
    assert_eq!(left(&every), [leave("A", Some(Mode::Depth)), leave("B", None)]);
    let shared = format!(r#"{{"action":"unsubscribe","symbols":{list},"mode":"LTP"}}"#);
    assert_eq!(left(&shared), [leave("A", Some(Mode::Depth)), leave("B", Some(Mode::Ltp))]);
    assert_eq!(refused(&format!(r#"{{"action":"unsubscribe","symbols":{list},"mode":9}}"#)).0, Code::InvalidMode);
}

#[test]
fn an_entrys_invalid_mode_is_that_entrys_failure() {
    let entries = left(
        r#"{"action":"unsubscribe","symbols":[{"symbol":"A","exchange":"NSE","mode":null},{"symbol":"B","exchange":"NSE"}]}"#,
    );
    let bad = entries[0].as_ref().unwrap_err();
    assert_eq!((bad.symbol.as_str(), bad.exchange.as_str()), ("A", "NSE"));
    assert!(bad.message.starts_with("Invalid mode: null."), "{bad}");
    assert!(entries[1].is_ok());
}

#[test]
fn unknown_verbs_are_named() {
    for (message, verb) in [
        ("{}", "None"),
        (r#"{"action":null}"#, "None"),
        (r#"{"action":"subscribe_all"}"#, "subscribe_all"),
        (r#"{"action":"Subscribe"}"#, "Subscribe"),
        (r#"{"action":"","type":"x"}"#, "x"),
        (r#"{"action":"","type":null}"#, "None"),
        (r#"{"action":""}"#, "None"),
        (r#"{"type":""}"#, ""),
        (r#"{"action":5,"type":"ping"}"#, "5"),
        (r#"{"action":["ping"]}"#, r#"["ping"]"#),
    ] {
        assert_eq!(refused(message), (Code::InvalidAction, format!("Invalid action: {verb}")), "{message}");
    }
    assert!(refused(&format!(r#"{{"action":"{}"}}"#, "é".repeat(9999))).1.len() < 100);
}

#[test]
fn what_is_no_json_is_refused() {
    for message in [
        "",
        " ",
        "subscribe",
        "{",
        r#"{"action":"ping""#,
        r#"{"action":"ping"} x"#,
        "{'a':1}",
        "[1,",
        "NaN",
        "{\"a\":NaN}",
    ] {
        assert_eq!(refused(message).0, Code::InvalidJson, "{message}");
    }
    assert_eq!(parse(b"{\"action\":\"ping\xff\"}").unwrap_err().code, Code::InvalidJson);
}

#[test]
fn json_that_is_no_object_is_refused() {
    for message in ["[]", "5", "null", "true", r#""ping""#, r#"[{"action":"ping"}]"#, " [1] "] {
        assert_eq!(refused(message), (Code::ServerError, "a request is a JSON object".into()), "{message}");
    }
}

#[test]
fn the_last_of_two_fields_counts() {
    let message =
        r#"{"action":"ping","mode":9,"action":"subscribe","symbol":"A","symbol":"B","exchange":"NSE","mode":1}"#;
    assert_eq!(subscribed(message), (instruments(&[("NSE", "B")]), Mode::Ltp, 5));
}

#[test]
fn refusals_know_whether_their_request_needed_authentication() {
    let needs = |message: &str| parse(message.as_bytes()).unwrap_err().needs_authentication();
    assert!(needs(&with("mode", "9")));
    assert!(needs(r#"{"action":"subscribe"}"#));
    assert!(needs(r#"{"action":"unsubscribe","symbols":[1]}"#));
    assert!(!needs("{"));
    assert!(!needs("[]"));
    assert!(!needs(r#"{"action":"nonsense"}"#));
    assert!(!needs(&format!(r#"{{"action":"ping","_pingId":"{}"}}"#, "x".repeat(MAX_ECHO))));

    let asked = |verb: &str| asked(&format!(r#"{{"action":"{verb}","symbol":"A","exchange":"NSE"}}"#));
    for verb in ["subscribe", "unsubscribe", "unsubscribe_all", "subscribe_orders", "unsubscribe_orders"] {
        assert!(asked(verb).needs_authentication(), "{verb}");
    }
    assert!(asked("get_broker_info").needs_authentication() && asked("get_subscriptions").needs_authentication());
    for verb in ["auth", "ping", "get_supported_brokers"] {
        assert!(!asked(verb).needs_authentication(), "{verb}");
    }
}

#[test]
fn a_message_as_long_and_as_deep_as_may_be_is_read() {
    let list: Vec<String> = (0..30_000).map(|n| format!(r#"{{"symbol":"S{n:05}","exchange":"NSE"}}"#)).collect();
    let (entries, ..) = subscribed(&format!(r#"{{"action":"subscribe","symbols":[{}]}}"#, list.join(",")));
    assert_eq!((entries.len(), entries[29_999].clone()), (30_000, Ok(Instrument::new("NSE", "S29999"))));

    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(asked(&format!(r#"{{"action":"get_broker_info","x":{deep}}}"#)), Request::BrokerInfo { echo: None });
    assert_eq!(refused(&deep).0, Code::ServerError);
    assert_eq!(refused(&format!(r#"{{"action":"subscribe","symbols":{deep}}}"#)).0, Code::ServerError);
}
