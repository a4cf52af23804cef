//! What clients are told, byte by byte.

use carom_core::feed::{Instrument, Level, Mode, Pending, Topic};
use carom_gateway::protocol::reply::{self, Answer, Holding, Wanted};
use carom_gateway::protocol::{BadEntry, Code, Echo, Refusal, Request, parse};

/// The `request_id` of a request that has this one.
fn echo(json: &str) -> Option<Echo> {
    match parse(format!(r#"{{"action":"unsubscribe_all","request_id":{json}}}"#).as_bytes()) {
        Ok(Request::UnsubscribeAll { echo }) => echo,
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_have_no_type_unless_they_are_about_a_key() {
    assert_eq!(
        reply::error(&Refusal::not_authenticated()),
        r#"{"status":"error","code":"NOT_AUTHENTICATED","message":"You must authenticate first"}"#
    );
    assert_eq!(
        reply::error(&Refusal::new(Code::TooManyTopics, "a client has at most 2 topics, \"you\" have 2\n")),
        r#"{"status":"error","code":"TOO_MANY_TOPICS","message":"a client has at most 2 topics, \"you\" have 2\n"}"#
    );
    assert_eq!(
        reply::authentication_refused(&Refusal::invalid_key()),
        r#"{"type":"auth","status":"error","code":"AUTHENTICATION_ERROR","message":"Invalid API key"}"#
    );
    assert_eq!(
        reply::error(&Refusal::not_authenticated().echoing(echo(r#""a""#))),
        r#"{"status":"error","code":"NOT_AUTHENTICATED","message":"You must authenticate first","request_id":"a"}"#
    );
    assert_eq!(
        reply::authentication_refused(&Refusal::key_required()),
        r#"{"type":"auth","status":"error","code":"AUTHENTICATION_ERROR","message":"API key is required"}"#
    );
}

#[test]
fn codes_are_spelled_as_clients_know_them() {
    let spelled = Code::ALL.map(|code| code.to_string()).join(" ");
    assert_eq!(
        spelled,
        "INVALID_JSON SERVER_ERROR PROCESSING_ERROR INVALID_ACTION AUTHENTICATION_ERROR NOT_AUTHENTICATED BROKER_ERROR \
         BROKER_INIT_ERROR BROKER_CONNECTION_ERROR BROKER_LIST_ERROR INVALID_MODE INVALID_PARAMETERS RATE_LIMITED \
         TOO_MANY_TOPICS"
    );
    assert_eq!(Refusal::invalid_key().to_string(), "AUTHENTICATION_ERROR: Invalid API key");
}

#[test]
fn authenticated() {
    assert_eq!(
        reply::authenticated("zerodha", "asha"),
        r#"{"type":"auth","status":"success","message":"Authentication successful","broker":"zerodha","user_id":"asha","supported_features":{"ltp":true,"quote":true,"depth":true}}"#
    );
}

#[test]
fn subscribed() {
    let (sbin, tcs) = (Instrument::new("NSE", "SBIN"), Instrument::new("BSE", "TCS"));
    let level = Level { mode: Mode::Quote, depth: 5 };
    let answers = [Answer::served(&sbin, Holding { level, pending: None }), Answer::failed(&tcs, "no such symbol")];
    assert_eq!(
        reply::subscribed("zerodha", &answers, echo(r#"{"n": 1.0}"#).as_ref()),
        r#"{"type":"subscribe","status":"partial","message":"Subscription processing complete","broker":"zerodha","subscriptions":[{"symbol":"SBIN","exchange":"NSE","status":"success","mode":"Quote","depth":5,"broker":"zerodha"},{"symbol":"TCS","exchange":"BSE","status":"error","message":"no such symbol","broker":"zerodha"}],"request_id":{"n": 1.0}}"#
    );
    for (mode, label) in [(Mode::Ltp, "LTP"), (Mode::Quote, "Quote"), (Mode::Depth, "Depth")] {
        assert_eq!(
            reply::subscribed(
                "b",
                &[Answer::served(&sbin, Holding { level: Level { mode, depth: 20 }, pending: None })],
                None
            ),
            format!(
                r#"{{"type":"subscribe","status":"success","message":"Subscription processing complete","broker":"b","subscriptions":[{{"symbol":"SBIN","exchange":"NSE","status":"success","mode":"{label}","depth":20,"broker":"b"}}]}}"#
            )
        );
    }
}

#[test]
fn what_is_pending_has_succeeded_and_says_why_it_waits() {
    let sbin = Instrument::new("NSE", "SBIN");
    let level = Level { mode: Mode::Ltp, depth: 5 };
    for (why, told) in [
        (Pending::Unanswered, "the upstream has not answered yet"),
        (Pending::Down, "the upstream cannot be reached"),
        (Pending::Credential, "the upstream refuses the credential"),
        (Pending::NoCredential, "there is no credential for the upstream"),
    ] {
        assert_eq!(
            reply::subscribed("b", &[Answer::served(&sbin, Holding { level, pending: Some(why) })], None),
            format!(
                r#"{{"type":"subscribe","status":"success","message":"Subscription processing complete","broker":"b","subscriptions":[{{"symbol":"SBIN","exchange":"NSE","status":"success","mode":"LTP","depth":5,"pending":true,"message":"{told}; it will be subscribed as soon as it can be","broker":"b"}}]}}"#
            )
        );
    }
}

#[test]
fn a_subscribe_that_fails_as_a_whole_is_partial_and_one_of_nothing_succeeds() {
    let bad = BadEntry { symbol: "a\"\\\u{1}é".into(), exchange: "NSE".into(), message: "no".into() };
    assert_eq!(
        reply::subscribed("b", &[Answer::from(&bad)], None),
        r#"{"type":"subscribe","status":"partial","message":"Subscription processing complete","broker":"b","subscriptions":[{"symbol":"a\"\\\u0001é","exchange":"NSE","status":"error","message":"no","broker":"b"}]}"#
    );
    assert_eq!(
        reply::subscribed("b", &[], None),
        r#"{"type":"subscribe","status":"success","message":"Subscription processing complete","broker":"b","subscriptions":[]}"#
    );
}

#[test]
fn unsubscribed() {
    let (sbin, tcs) = (Instrument::new("NSE", "SBIN"), Instrument::new("NSE", "TCS"));
    let (served, failed) = (Answer::served(&sbin, ()), Answer::failed(&tcs, "gone"));
    let one = r#"{"symbol":"SBIN","exchange":"NSE","status":"success","broker":"b"}"#;
    let other = r#"{"symbol":"TCS","exchange":"NSE","status":"error","message":"gone","broker":"b"}"#;
    let told = |status: &str, successful: &str, failed: &str, rest: &str| {
        format!(
            r#"{{"type":"unsubscribe","status":"{status}","message":"Unsubscription processing complete","successful":[{successful}],"failed":[{failed}],"broker":"b"{rest}}}"#
        )
    };
    assert_eq!(reply::unsubscribed("b", &[], None), told("success", "", "", ""));
    assert_eq!(
        reply::unsubscribed("b", &[served.clone(), served.clone()], echo("7").as_ref()),
        told("success", &format!("{one},{one}"), "", r#","request_id":7"#)
    );
    assert_eq!(reply::unsubscribed("b", &[failed.clone(), served], None), told("partial", one, other, ""));
    assert_eq!(reply::unsubscribed("b", &[failed], None), told("error", "", other, ""));
}

#[test]
fn orders() {
    assert_eq!(
        reply::orders_subscribed(echo(r#""a""#).as_ref()),
        r#"{"type":"subscribe_orders","status":"success","message":"Subscribed to order updates","request_id":"a"}"#
    );
    assert_eq!(
        reply::orders_unsubscribed(None),
        r#"{"type":"unsubscribe_orders","status":"success","message":"Unsubscribed from order updates"}"#
    );
}

#[test]
fn brokers() {
    assert_eq!(
        reply::broker_info("b", true, "u", None),
        r#"{"type":"broker_info","status":"success","broker":"b","adapter_status":"connected","user_id":"u"}"#
    );
    assert_eq!(
        reply::broker_info("b", false, "u", echo("[1]").as_ref()),
        r#"{"type":"broker_info","status":"success","broker":"b","adapter_status":"disconnected","user_id":"u","request_id":[1]}"#
    );
    assert_eq!(
        reply::supported_brokers(&["a", "b"], echo("0").as_ref()),
        r#"{"type":"supported_brokers","status":"success","brokers":["a","b"],"count":2,"request_id":0}"#
    );
    assert_eq!(
        reply::supported_brokers::<String>(&[], None),
        r#"{"type":"supported_brokers","status":"success","brokers":[],"count":0}"#
    );
}

#[test]
fn subscriptions() {
    let own = [Topic::new("NSE", "SBIN", Mode::Ltp), Topic::new("NSE", "SBIN", Mode::Depth).depth(20)];
    let all = [Wanted { instrument: &own[0].instrument, clients: [3, 0, 1] }];
    assert_eq!(
        reply::subscriptions("b", &own, &all, echo("1").as_ref()),
        r#"{"type":"subscriptions","status":"success","subscriptions":[{"symbol":"SBIN","exchange":"NSE","mode":"LTP","depth":5},{"symbol":"SBIN","exchange":"NSE","mode":"Depth","depth":20}],"count":2,"all":[{"symbol":"SBIN","exchange":"NSE","clients":{"LTP":3,"Quote":0,"Depth":1}}],"broker":"b","request_id":1}"#
    );
    assert_eq!(
        reply::subscriptions("b", &[], &[], None),
        r#"{"type":"subscriptions","status":"success","subscriptions":[],"count":0,"all":[],"broker":"b"}"#
    );
}

#[test]
fn pong() {
    assert_eq!(
        reply::pong(1_763_199_999_123, echo("1.50").as_ref(), echo(r#""x""#).as_ref(), echo("2.0").as_ref()),
        r#"{"type":"pong","status":"success","server_timestamp":1763199999123,"client_timestamp":1.50,"_pingId":"x","request_id":2.0}"#
    );
    assert_eq!(reply::pong(1, None, None, None), r#"{"type":"pong","status":"success","server_timestamp":1}"#);
}
