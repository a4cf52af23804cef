//! Whatever frames come over a bus: they are a message that says what was sent, or none, and nothing panics on the way.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use bytes::{Bytes, BytesMut};
use carom_core::feed::Mode;
use carom_core::random::Random;
use carom_gateway::protocol::frames::{self, LONGEST_TOPIC};
use carom_gateway::protocol::market::Market;
use carom_gateway::protocol::topic::{self, BusTopic};
use carom_zmtp::pubsub::{Encoded, Event, Limits, Role, Session};
use testkit::cases::{bytes, cases};

/// What a bus takes from a publisher.
const LIMITS: Limits = Limits { message: 4096, parts: 2 };

/// A subscriber and a publisher that have greeted each other.
fn opened() -> (Session, Session) {
    let (mut subscriber, mut publisher) =
        (Session::new(Role::Subscriber, LIMITS), Session::new(Role::Publisher, LIMITS));
    for _ in 0..2 {
        while publisher.handle(&mut subscriber.output().split()).unwrap().is_some() {}
        while subscriber.handle(&mut publisher.output().split()).unwrap().is_some() {}
    }
    (subscriber, publisher)
}

/// What brokers are called.
const BROKERS: [&str; 6] = ["zerodha", "Zerodha", "five_paisa", "five", "é", "NSE"];

fn part(random: &mut Random, from: &[&str]) -> String {
    from[random.below(from.len())].to_owned()
}

/// What topics are made of.
fn name(random: &mut Random) -> String {
    let parts = ["NSE", "NSE_INDEX", "SBIN", "A_B", "LTP", "quote", "", "orders", "CACHE_INVALIDATE", "AUTH", "é", "_"];
    (0..1 + random.below(4)).map(|_| part(random, &parts)).collect::<Vec<_>>().join("_")
}

#[test]
fn a_tick_that_has_a_name_is_read_as_what_was_published() {
    let (mut named, mut ran) = (0, 0);
    for (_case, mut random) in cases(2_000) {
        ran += 1;
        let (exchange, symbol) = (name(&mut random), name(&mut random));
        let mode = Mode::ALL[random.below(3)];
        let payload: Vec<u8> = bytes(&mut random, 300);
        let Some(name) = topic::name(&exchange, &symbol, mode) else { continue };
        named += 1;
        let (mut subscriber, mut publisher) = opened();
        publisher.push(&Encoded::new(&[name.as_bytes(), &payload])).unwrap();
        let Ok(Some(Event::Message(parts))) = subscriber.handle(&mut publisher.output().split()) else { panic!() };
        let (topic, said) = frames::read(&parts).unwrap();
        let tick = BusTopic::Tick { exchange: &exchange, symbol: &symbol, mode };
        assert_eq!((topic::parse(topic), said), (Some(tick), &payload[..]));
        let (broker, other) = (part(&mut random, &BROKERS), part(&mut random, &BROKERS));
        let in_front = format!("{broker}_{name}");
        assert_eq!(topic::without_broker(&in_front, &broker), Some(tick), "{in_front}");
        let off = topic::without_broker(&in_front, &other);
        assert!(broker.eq_ignore_ascii_case(&other) || off != Some(tick), "{other} is not in front of {in_front}");
    }
    assert!(ran < 1000 || named > ran / 10, "{named} of {ran}");
}

#[test]
fn frames_with_anything_done_to_them_are_a_message_or_none() {
    let (mut read, mut refused, mut ran) = (0, 0, 0);
    for (_case, mut random) in cases(3_000) {
        ran += 1;
        let (mut subscriber, mut publisher) = opened();
        for _ in 0..1 + random.below(4) {
            let parts: Vec<Vec<u8>> = (0..1 + random.below(3)).map(|_| name(&mut random).into_bytes()).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            publisher.push(&Encoded::new(&parts)).unwrap();
        }
        let mut bytes = publisher.output().split();
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        while let Ok(Some(event)) = subscriber.handle(&mut bytes) {
            let Event::Message(parts) = event else { continue };
            match frames::read(&parts) {
                Ok((topic, payload)) => {
                    assert!(parts.len() == 2 && topic.len() <= LONGEST_TOPIC && topic.as_bytes() == parts[0]);
                    assert_eq!(payload, parts[1]);
                    let _ = (topic::parse(topic), Market::read(payload).is_ok());
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(ran < 1000 || read > ran / 3 && refused > ran / 6, "{read} and {refused} of {ran}");
}

#[test]
fn only_two_frames_with_a_short_text_first_are_a_message() {
    for (_case, mut random) in cases(2_000) {
        let frames: Vec<Bytes> = (0..random.below(4))
            .map(|_| {
                let mut frame = BytesMut::from(name(&mut random).as_bytes());
                if random.chance(0.2) {
                    frame.extend_from_slice(&[b'x'; LONGEST_TOPIC][random.below(LONGEST_TOPIC)..]);
                }
                if random.chance(0.1) {
                    frame.extend_from_slice(&[0xff]);
                }
                frame.freeze()
            })
            .collect();
        let good = frames.len() == 2 && frames[0].len() <= LONGEST_TOPIC && str::from_utf8(&frames[0]).is_ok();
        assert_eq!(frames::read(&frames).is_ok(), good, "{frames:?}");
    }
}
