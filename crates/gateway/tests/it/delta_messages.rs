//! Messages of Delta Exchange: what is written is read identically, and whatever is read is understood or refused.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom_core::random::Random;
use carom_gateway::delta::message::{
    Book, Channel, Complaint, Contract, Message, Number, Request, Subscribed, Subscriptions, Ticker, Values,
};
use serde_json::{Value, json};
use std::borrow::Cow;
use testkit::cases::{bytes, cases, usual};

/// What messages are made of: texts that they borrow.
struct Stock {
    numbers: Vec<String>,
    names: Vec<String>,
}

impl Stock {
    fn new(random: &mut Random) -> Stock {
        let number = |random: &mut Random| {
            let sign = if random.below(5) == 0 { "-" } else { "" };
            let whole = if random.below(4) == 0 { 0 } else { random.bits() >> random.below(64) };
            let places: String = (0..random.below(20)).map(|_| char::from(b'0' + random.below(10) as u8)).collect();
            let dot = if places.is_empty() { "" } else { "." };
            let exponent = if random.below(10) == 0 { "e-7" } else { "" };
            format!("{sign}{whole}{dot}{places}{exponent}")
        };
        let name = |random: &mut Random| -> String {
            let letters = ['A', 'Z', '-', '0', '_', '.', '"', '\\', '\n', 'é', '😀', ' '];
            (0..1 + random.below(12)).map(|_| letters[random.below(letters.len())]).collect()
        };
        Stock { numbers: (0..40).map(|_| number(random)).collect(), names: (0..20).map(|_| name(random)).collect() }
    }

    fn number(&self, random: &mut Random) -> Number<'_> {
        Number::parse(&self.numbers[random.below(self.numbers.len())]).expect("it is one")
    }

    fn name(&self, random: &mut Random) -> Cow<'_, str> {
        Cow::Borrowed(&self.names[random.below(self.names.len())])
    }

    fn values<const N: usize>(&self, random: &mut Random) -> Values<'_, N> {
        Values(std::array::from_fn(|_| maybe(random, |random| self.number(random))))
    }

    fn rows(&self, random: &mut Random) -> Vec<(Number<'_>, Number<'_>)> {
        (0..random.below(16)).map(|_| (self.number(random), self.number(random))).collect()
    }

    fn contract(&self, random: &mut Random) -> Contract<'_> {
        Contract {
            symbol: maybe(random, |random| self.name(random)),
            mark: maybe(random, |random| self.number(random)),
            change: maybe(random, |random| self.number(random)),
            ohlc: maybe(random, |random| self.values(random)),
            oi: maybe(random, |random| self.values(random)),
            quotes: maybe(random, |random| self.values(random)),
            band: maybe(random, |random| self.values(random)),
        }
    }

    fn subscribed(&self, random: &mut Random) -> Subscribed<'_> {
        Subscribed {
            name: self.name(random),
            symbols: (0..random.below(4)).map(|_| self.name(random)).collect(),
            error: maybe(random, |random| self.name(random)),
        }
    }

    fn message(&self, random: &mut Random) -> Message<'_> {
        let micros = maybe(random, Random::bits);
        match random.below(6) {
            0 | 1 => Message::Ticker(Ticker {
                symbol: maybe(random, |random| self.name(random)),
                spot: maybe(random, |random| self.number(random)),
                micros,
                contracts: (0..random.below(5)).map(|_| Some(self.contract(random))).collect(),
            }),
            2 | 3 => Message::Book(Book {
                symbol: self.name(random),
                micros,
                asks: maybe(random, |random| self.rows(random)),
                bids: maybe(random, |random| self.rows(random)),
            }),
            4 => Message::Subscriptions(Subscriptions {
                channels: (0..random.below(5)).map(|_| self.subscribed(random)).collect(),
            }),
            _ => Message::Error(Complaint {
                message: maybe(random, |random| self.name(random)),
                error: maybe(random, |random| self.name(random)),
            }),
        }
    }
}

fn maybe<T>(random: &mut Random, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
    (random.below(3) > 0).then(|| make(random))
}

#[test]
fn what_is_written_is_read_identically() {
    for (_case, mut random) in cases(3_000) {
        let stock = Stock::new(&mut random);
        let message = stock.message(&mut random);
        let text = message.to_json();
        assert_eq!(Message::parse(&text).unwrap(), message, "{text}");
    }
    assert_eq!(Message::parse(&Message::Life.to_json()).unwrap(), Message::Life);
    assert_eq!(Message::parse(&Message::Other.to_json()).unwrap(), Message::Other);
}

#[test]
fn numbers_may_be_strings_or_not_and_fields_in_any_order() {
    for (_case, mut random) in cases(1_000) {
        let stock = Stock::new(&mut random);
        let message = stock.message(&mut random);
        let written: Value = serde_json::from_str(&message.to_json()).unwrap();
        // Keys of a map are in the order of the alphabet, so that the type comes last. A few more are passed over.
        let mut other = written.as_object().unwrap().clone();
        other.insert("zone".to_owned(), json!({"added": ["one", "day"]}));
        let other = bare(&Value::Object(other));
        assert_eq!(Message::parse(&other).unwrap(), message, "{other}");
    }
}

/// The same with bare numbers where strings are numbers, in lists: nothing else is there a number for sure.
fn bare(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let item = |item: &Value| match item.as_str().and_then(Number::parse) {
                Some(number) => number.digits().to_owned(),
                None => bare(item),
            };
            // Names of contracts are texts whatever they look like; none of them here looks like a number without a digit.
            let names = items.iter().any(|item| item.as_str().is_some_and(|text| Number::parse(text).is_none()));
            let write = if names { Value::to_string } else { item };
            format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(","))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let value = if name == "symbols" { value.to_string() } else { bare(value) };
                format!("{}:{value}", json!(name))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[test]
fn messages_with_anything_done_to_them_are_read_or_refused() {
    let (mut read, mut refused) = (0, 0);
    for (_case, mut random) in cases(10_000) {
        let stock = Stock::new(&mut random);
        let mut bytes = stock.message(&mut random).to_json().into_bytes();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes[at] = random.bits() as u8,
                1 => bytes.truncate(at + 1),
                2 => bytes[at] = b"{}[]\",:019-.en"[random.below(14)],
                3 => bytes.insert(at, b'9'),
                _ => drop(bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len())).count()),
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match Message::parse(&text) {
            Ok(message) => {
                // Whatever it is now, it is something that can be said.
                let again = message.to_json();
                assert_eq!(Message::parse(&again).unwrap().to_json(), again, "{text}");
                read += 1;
            }
            Err(error) => {
                assert_eq!(error.to_string(), "that is no message of an exchange");
                refused += 1;
            }
        }
    }
    assert!(read > 100 && refused > 100 || !usual(), "{read} read, {refused} refused");
}

#[test]
fn any_bytes_are_refused() {
    for (_case, mut random) in cases(2_000) {
        let bytes: Vec<u8> = bytes(&mut random, 300);
        Message::parse(&String::from_utf8_lossy(&bytes)).unwrap_err();
    }
    Message::parse(r#"["ticker"]"#).unwrap_err();
    Message::parse(&"[".repeat(100_000)).unwrap_err();
    Message::parse(&format!(r#"{{"type":"ticker","d":{}"#, "[".repeat(100_000))).unwrap_err();
}

#[test]
fn messages_as_the_exchange_writes_them_are_understood() {
    let ticker = r#"{"d":[{"g":[null,null],"i":27,"m":"79750.01150815","m24hc":"0.0716","ohlc":[79694.5,80093.5,79212.5,79753.5],
        "oi":["876853","768171.7700"],"pb":["75761.6","83736.5"],"q":["79753.5","552","79753","4387",null],"qiv":[null],
        "s":"BTCUSD","to":[424418623.002998]}],"sp":"79777.9","sy":"BTCUSD","ts":1788725367575186,"type":"ticker"}"#;
    let Message::Ticker(ticker) = Message::parse(ticker).unwrap() else { panic!("it is a ticker") };
    assert_eq!((ticker.micros, ticker.spot.map(Number::digits)), (Some(1_788_725_367_575_186), Some("79777.9")));
    let digits = |values: &[Option<Number<'_>>]| {
        values.iter().flatten().map(|value| value.digits().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let contract = ticker.contracts[0].as_ref().unwrap();
    assert_eq!(digits(&contract.ohlc.unwrap().0), "79694.5 80093.5 79212.5 79753.5");
    assert_eq!(digits(&contract.quotes.unwrap().0[..4]), "79753.5 552 79753 4387");
    assert_eq!(contract.quotes.unwrap().0[4], None);

    let book = r#"{"type":"ob_l2","sy":"BTCUSD","ts":1,"a":[["63834","718",3],["63835",null]],"b":[["63833","4388"]]}"#;
    let Message::Book(book) = Message::parse(book).unwrap() else { panic!("it is a book") };
    assert_eq!(book.asks.unwrap().len(), 1, "a price without a size is nothing");
    assert_eq!(book.bids.unwrap()[0].1.digits(), "4388");

    let answer = r#"{"type":"subscriptions","channels":[{"name":"ticker","symbols":["BTCUSD"]},{"name":"orders","error":{"code":7}}]}"#;
    let Message::Subscriptions(Subscriptions { channels }) = Message::parse(answer).unwrap() else { panic!("it is") };
    assert_eq!((&*channels[0].symbols[0], channels[1].error.as_deref()), ("BTCUSD", Some(r#"{"code":7}"#)));

    let error = Message::parse(r#"{"type":"error","message":"no \u00e9"}"#).unwrap();
    assert!(matches!(&error, Message::Error(complaint) if complaint.words() == "no é"), "{error:?}");
    assert_eq!(Message::parse(r#"{"type":"heartbeat"}"#).unwrap(), Message::Life);
    assert_eq!(Message::parse(r#"{"type":"trades","sy":"BTCUSD"}"#).unwrap(), Message::Other);
}

#[test]
fn what_stands_in_a_numbers_place_without_being_one_is_no_value_or_an_error() {
    let mark = |value: &str| {
        let text = format!(r#"{{"type":"ticker","d":[{{"m":{value}}}]}}"#);
        let Message::Ticker(ticker) = Message::parse(&text).unwrap() else { panic!("{text}") };
        let [contract] = &*ticker.contracts else { panic!("{ticker:?}") };
        Some(contract.as_ref()?.mark.map(|mark| mark.digits().to_owned()))
    };
    for none in ["null", r#""""#, r#""NaN""#, r#""1,5""#, r#""0x1""#] {
        assert_eq!(mark(none), Some(None), "{none}");
    }
    for wrong in ["true", "[1]", "{}"] {
        assert_eq!(mark(wrong), None, "{wrong}");
    }
    Message::parse(r#"{"type":"ticker","d":[{"m":NaN}]}"#).unwrap_err();
    assert_eq!(mark("0.500"), Some(Some("0.500".to_owned())));
    assert_eq!(mark(r#""0.500""#), Some(Some("0.500".to_owned())));
}

#[test]
fn what_is_odd_about_one_thing_is_nothing_about_the_others() {
    for (ts, micros) in
        [("7", Some(7)), (r#""7""#, Some(7)), ("null", None), (r#""""#, None), ("-7", None), ("{}", None)]
    {
        let ticker = format!(r#"{{"type":"ticker","ts":{ts},"d":[{{"s":"A","q":"x"}},["A"],7,{{"s":"B","m":"1"}}]}}"#);
        let Message::Ticker(ticker) = Message::parse(&ticker).unwrap() else { panic!("it is a ticker") };
        assert_eq!(ticker.micros, micros, "{ts}");
        let symbols: Vec<_> = ticker.contracts.iter().map(|contract| contract.as_ref()?.symbol.as_deref()).collect();
        assert_eq!(symbols, [None, None, None, Some("B")]);
        let book = format!(r#"{{"type":"ob_l2","sy":"A","ts":{ts}}}"#);
        let Message::Book(book) = Message::parse(&book).unwrap() else { panic!("it is a book") };
        assert_eq!(book.micros, micros, "{ts}");
    }
}

#[test]
fn requests_are_as_documented() {
    let parsed =
        |request: Request, symbols: &[&str]| -> Value { serde_json::from_str(&request.to_json(symbols)).unwrap() };
    let channels = |name: &str, symbols: &[&str]| json!({"channels": [{"name": name, "symbols": symbols}]});
    let expected = json!({"type": "subscribe", "payload": channels("ticker", &["BTCUSD", "ETHUSD"])});
    assert_eq!(parsed(Request::Subscribe(Channel::Ticker), &["BTCUSD", "ETHUSD"]), expected);
    let expected = json!({"type": "unsubscribe", "payload": channels("ob_l2", &["BTCUSD"])});
    assert_eq!(parsed(Request::Unsubscribe(Channel::Book), &["BTCUSD"]), expected);
}
