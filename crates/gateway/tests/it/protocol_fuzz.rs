//! Whatever the bytes, a request is understood or refused, a tick is passed on or dropped, and what goes out is JSON.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom_core::feed::{Instrument, Level, Mode};
use carom_core::random::Random;
use carom_gateway::protocol::market::Market;
use carom_gateway::protocol::reply::{self, Answer, Holding};
use carom_gateway::protocol::{ApiKey, Code, Echo, Leave, Refusal, Request, parse};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use testkit::cases::{bytes, cases, usual};

#[test]
fn any_bytes_are_answered() {
    for (_case, mut random) in cases(2_000) {
        let message: Vec<u8> = bytes(&mut random, 300);
        answered(&message).expect_err("no request");
    }
}

#[test]
fn requests_with_anything_done_to_them_are_answered() {
    let mut understood = 0;
    for (_case, mut random) in cases(5_000) {
        let mut message = pick(&mut random, &REQUESTS).as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            mutate(&mut random, &mut message);
        }
        understood += usize::from(answered(&message).is_ok());
    }
    assert!(understood > 200 || !usual(), "{understood}");
}

#[test]
fn requests_of_any_json_are_understood_as_a_plain_reading_of_them_says() {
    let (mut understood, mut codes) = (0, std::collections::BTreeSet::new());
    for (_case, mut random) in cases(5_000) {
        let message = request(&mut random);
        let found = answered(message.to_string().as_bytes());
        let echo = found.as_ref().map_or_else(Refusal::echo, Request::echo);
        let id = message.as_object().and_then(|fields| fields.get("request_id")).filter(|id| !id.is_null());
        assert_eq!(echo.map(Echo::as_json), id.map(Value::to_string).as_deref(), "{message}");
        match (found, expected(&message)) {
            (Ok(request), Ok(expected)) => {
                assert_eq!(entries(&request), expected, "{message}");
                understood += 1;
            }
            (Err(refusal), Err(code)) => {
                assert_eq!(refusal.code, code, "{message}: {refusal}");
                codes.insert(code);
            }
            (found, expected) => panic!("{message}: {found:?} instead of {expected:?}"),
        }
    }
    assert!(understood > 500 && codes.len() == 4 || !usual(), "{understood} {codes:?}");
}

#[test]
fn ticks_keep_their_fields_and_lose_nulls() {
    for (_case, mut random) in cases(2_000) {
        let tick = tick(&mut random);
        for mode in Mode::ALL {
            let sent = sent(tick.to_string().as_bytes(), mode).expect("it is JSON");
            let told: Value = serde_json::from_str::<Value>(&sent).expect("and so is this")["data"].take();
            let mut expected = without_nulls(&tick);
            if let Some(fields) = expected.as_object_mut() {
                let without = fields.clone();
                for name in QUOTE.into_iter().filter(|name| !without.contains_key(*name)) {
                    fields.extend(other_spelling(&without, name).map(|value| (name.to_owned(), value.clone())));
                }
            }
            assert_eq!(told, expected, "{sent}");
        }
    }
}

#[test]
fn ticks_with_anything_done_to_them_are_sent_as_json_or_not_at_all() {
    for (_case, mut random) in cases(5_000) {
        let mut payload = tick(&mut random).to_string().replace("2.5", "NaN").into_bytes();
        for _ in 0..random.below(4) {
            mutate(&mut random, &mut payload);
        }
        let mode = pick(&mut random, &Mode::ALL);
        let whole = serde_json::from_slice::<Value>(&payload).is_ok();
        match sent(&payload, mode) {
            Some(message) => valid(&message),
            None => assert!(!whole, "{}", String::from_utf8_lossy(&payload)),
        }
    }
}

/// Parses it, and sees that whatever is answered is JSON and brings back the request's `request_id`, if that is one.
fn answered(message: &[u8]) -> Result<Request, Refusal> {
    let parsed = parse(message);
    match &parsed {
        Err(refusal) => {
            let known =
                [Code::InvalidJson, Code::ServerError, Code::InvalidAction, Code::InvalidMode, Code::InvalidParameters];
            assert!(known.contains(&refusal.code), "{refusal}");
            assert!(refusal.message.len() < 250, "{refusal}");
            for reply in [reply::error(refusal), reply::authentication_refused(refusal)] {
                brings_back(&reply, refusal.echo());
            }
        }
        Ok(request) => {
            // A key that is accepted is answered as OpenAlgo answers it.
            let echo = request.echo().filter(|_| !matches!(request, Request::Authenticate { .. }));
            brings_back(&replied(request), echo);
        }
    }
    parsed
}

/// That the reply is JSON, and ends with this `request_id`, or has none.
#[track_caller]
fn brings_back(reply: &str, echo: Option<&Echo>) {
    valid(reply);
    match echo {
        Some(echo) => assert!(reply.ends_with(&format!(r#","request_id":{}}}"#, echo.as_json())), "{reply}"),
        None => assert_eq!(
            serde_json::from_str::<Value>(reply).map_or(None, |reply| reply.get("request_id").cloned()),
            None
        ),
    }
}

/// What a server that serves everything replies.
fn replied(request: &Request) -> String {
    let echo = request.echo();
    match request {
        Request::Authenticate { key, .. } => reply::authenticated("b", key.as_ref().map_or("", ApiKey::reveal)),
        Request::Subscribe { entries, mode, depth, .. } => {
            let level = Level { mode: *mode, depth: *depth };
            let answers = entries.iter().map(|entry| match entry {
                Ok(instrument) => Answer::served(instrument, Holding { level, pending: None }),
                Err(bad) => bad.into(),
            });
            reply::subscribed("b", &answers.collect::<Vec<_>>(), echo)
        }
        Request::Unsubscribe { entries, .. } => {
            let answers = entries.iter().map(|entry| match entry {
                Ok(leave) => Answer::served(&leave.instrument, ()),
                Err(bad) => bad.into(),
            });
            reply::unsubscribed("b", &answers.collect::<Vec<_>>(), echo)
        }
        Request::UnsubscribeAll { .. } => reply::unsubscribed("b", &[], echo),
        Request::SubscribeOrders { .. } => reply::orders_subscribed(echo),
        Request::UnsubscribeOrders { .. } => reply::orders_unsubscribed(echo),
        Request::BrokerInfo { .. } => reply::broker_info("b", true, "u", echo),
        Request::SupportedBrokers { .. } => reply::supported_brokers(&["b"], echo),
        Request::Subscriptions { .. } => reply::subscriptions("b", &[], &[], echo),
        Request::Ping { timestamp, id, .. } => reply::pong(1, timestamp.as_ref(), id.as_ref(), echo),
    }
}

/// The message for a tick with this payload.
fn sent(payload: &[u8], mode: Mode) -> Option<String> {
    let tick = Market::read(payload).ok()?;
    Some(tick.message(&Instrument::new("NSE", "SBIN"), mode, "b", true))
}

#[track_caller]
fn valid(text: &str) {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        panic!("{error}: {text}");
    }
}

/// What a request names, and how much of it: none where it names nothing.
type Named = Option<Vec<Option<(String, Option<Mode>)>>>;

fn entries(request: &Request) -> Named {
    let named = |instrument: &Instrument, mode| (instrument.to_string(), mode);
    match request {
        Request::Subscribe { entries, mode, .. } => {
            Some(entries.iter().map(|entry| Some(named(entry.as_ref().ok()?, Some(*mode)))).collect())
        }
        Request::Unsubscribe { entries, .. } => {
            let named = |leave: &Leave| named(&leave.instrument, leave.mode);
            Some(entries.iter().map(|entry| entry.as_ref().ok().map(named)).collect())
        }
        _ => None,
    }
}

/// The protocol once more, as a walk over a tree of values.
fn expected(message: &Value) -> Result<Named, Code> {
    let fields = message.as_object().ok_or(Code::ServerError)?;
    let verb = given(fields, "action").or(given(fields, "type")).and_then(Value::as_str);
    let verb = verb.filter(|verb| VERBS.contains(verb)).ok_or(Code::InvalidAction)?;
    if verb != "subscribe" && verb != "unsubscribe" {
        return Ok(None);
    }
    let mode = fields.get("mode").map(|given| mode(given).ok_or(Code::InvalidMode)).transpose()?;
    let Some(list) = given(fields, "symbols") else {
        let mode = mode.unwrap_or(Mode::Quote);
        let named = named(fields).ok_or(Code::InvalidParameters)?;
        return Ok(Some(vec![named.map(|named| (named, Some(mode)))]));
    };
    let list: Option<Vec<_>> = list.as_array().and_then(|list| list.iter().map(Value::as_object).collect());
    let entries = list.ok_or(Code::ServerError)?.into_iter().filter_map(|entry| {
        let named = named(entry)?;
        let mode = match (verb, entry.get("mode")) {
            ("subscribe", _) => Some(Some(mode.unwrap_or(Mode::Quote))),
            (_, None) => Some(mode),
            (_, Some(own)) => self::mode(own).map(Some),
        };
        Some(named.zip(mode))
    });
    Ok(Some(entries.collect()))
}

/// The instrument's name, if there is one; none within if it cannot be served.
fn named(fields: &Map<String, Value>) -> Option<Option<String>> {
    let (symbol, exchange) = (given(fields, "symbol")?, given(fields, "exchange")?);
    let fit = |name: &Value, most| {
        let name = name.as_str()?;
        (name.len() <= most && !name.contains(char::is_control)).then(|| name.to_owned())
    };
    Some(fit(exchange, 32).zip(fit(symbol, 64)).map(|(exchange, symbol)| format!("{exchange}:{symbol}")))
}

fn mode(given: &Value) -> Option<Mode> {
    match given {
        Value::Number(number) => number.as_u64().and_then(Mode::from_number),
        Value::String(text) => ["ltp", "quote", "depth"]
            .iter()
            .position(|label| *label == text.trim().to_lowercase())
            .map(|index| Mode::ALL[index]),
        _ => None,
    }
}

/// What Python takes for something.
fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields
        .get(name)
        .filter(|value| ![json!(null), json!(false), json!(0), json!(""), json!([]), json!({})].contains(value))
}

/// The same without fields that are null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(values) => values.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn other_spelling<'a>(tick: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let pairs = [("average_price", "avg_trade_price"), ("last_quantity", "last_trade_quantity")];
    let other = pairs.iter().find_map(|(one, other)| match name {
        _ if name == *one => Some(other),
        _ if name == *other => Some(one),
        _ => None,
    })?;
    tick.get(*other)
}

const VERBS: [&str; 11] = [
    "subscribe",
    "unsubscribe",
    "authenticate",
    "auth",
    "unsubscribe_all",
    "subscribe_orders",
    "unsubscribe_orders",
    "get_broker_info",
    "get_supported_brokers",
    "get_subscriptions",
    "ping",
];

const QUOTE: [&str; 13] = [
    "open",
    "high",
    "low",
    "close",
    "ltp",
    "volume",
    "last_trade_quantity",
    "last_quantity",
    "avg_trade_price",
    "average_price",
    "change",
    "change_percent",
    "timestamp",
];

const REQUESTS: [&str; 6] = [
    r#"{"action":"authenticate","api_key":"k\u00e9y","apikey":"other"}"#,
    r#"{"action":"subscribe","symbols":[{"symbol":"SBIN","exchange":"NSE"},{"symbol":"A\"B","exchange":"NFO"}],"mode":1,"depth":5,"request_id":[1,"\ud83d\ude00"]}"#,
    r#"{"type":"subscribe","symbol":"TCS:20","exchange":"NSE","mode":" Depth ","depth":20,"request_id":1}"#,
    r#"{"action":"unsubscribe","symbols":[{"symbol":"SBIN","exchange":"NSE","mode":2},{"symbol":"é","exchange":"NSE"}],"mode":"LTP"}"#,
    r#"{"action":"get_subscriptions","request_id":{"a":{"b":[null,true,1.5e3]}}}"#,
    r#"{"action":"ping","timestamp":1763199999123,"_pingId":"abc"}"#,
];

fn request(random: &mut Random) -> Value {
    if random.below(20) == 0 {
        return value(random, 2);
    }
    let mut fields = Map::new();
    for name in ["type", "symbols", "symbol", "exchange", "mode", "depth", "request_id", "timestamp", "_pingId"] {
        if random.below(3) == 0 {
            fields.insert(name.into(), value(random, 2));
        }
    }
    if random.below(10) > 0 {
        // The two with the most to them are asked for more often.
        let verb = if random.below(2) == 0 { VERBS[random.below(2)] } else { pick(random, &VERBS) };
        fields.insert("action".into(), verb.into());
    }
    if random.below(2) == 0 {
        fields.insert("mode".into(), pick(random, &[json!(1), json!(3), json!("Quote"), json!("LTP")]));
    }
    if random.below(2) == 0 {
        let list = (0..random.below(4)).map(|_| Value::Object(object(random, &["symbol", "exchange", "mode"], 1)));
        fields.insert("symbols".into(), list.collect());
    }
    fields.into()
}

fn tick(random: &mut Random) -> Value {
    if random.below(20) == 0 { value(random, 2) } else { object(random, &QUOTE, 2).into() }
}

fn object(random: &mut Random, names: &[&str], deep: usize) -> Map<String, Value> {
    let mut fields = Map::new();
    for name in names.iter().chain(&["oi", "é\"", ""]) {
        if random.below(3) > 0 {
            fields.insert((*name).into(), value(random, deep));
        }
    }
    fields
}

fn value(random: &mut Random, deep: usize) -> Value {
    match random.below(if deep == 0 { 8 } else { 10 }) {
        0 => Value::Null,
        1 => (random.below(2) == 0).into(),
        2 => pick(random, &[json!(0), json!(1), json!(2), json!(3), json!(4), json!(-1), json!(1.0), json!(2.5)]),
        3 => pick(random, &["", " ", "LTP", " quote\n", "Depth", "2", "\u{7f}", "\0"]).into(),
        4 => "é".repeat(random.below(40)).into(),
        5..8 => pick(random, &["NSE", "SBIN", "M&M-EQ", "a\"b\\c", "\u{1f600}"]).into(),
        8 => (0..random.below(3)).map(|_| value(random, deep - 1)).collect(),
        _ => object(random, &["symbol", "exchange", "ltp"], deep - 1).into(),
    }
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len() + 1);
    let until = (at + random.below(8)).min(bytes.len());
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..until)),
        2 => bytes.extend_from_within(at..until),
        3 => bytes.splice(at..at, (0..3).map(|_| random.bits() as u8)).for_each(drop),
        4 => bytes.splice(at..until, pick(random, &WORDS).bytes()).for_each(drop),
        _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
    }
}

const WORDS: [&str; 12] =
    ["NaN", "-Infinity", "null", "{}", "[]", "\"", "\\ud800", "\\", ",", ":", "1e999", "\"symbol\":\"\","];

fn pick<T: Clone>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())].clone()
}
