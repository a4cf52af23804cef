//! Garbage from Kite: messages and lists of instruments are understood or not, and nothing panics, hangs or grows.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use carom::feed::{Adapter, Change, Instrument, Level, Mode};
use carom_core::random::Random;
use carom_gateway::credential::Credential;
use carom_gateway::kite::packet::{self, Message, PacketError};
use carom_gateway::kite::{Instruments, InstrumentsError, Kite};
use std::sync::Arc;
use std::time::Duration;
use testkit::cases::{bytes, cases, usual};
use testkit::kite::{Seen, Ticker};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;

const LIST: &str = include_str!("../data/kite_instruments.csv");

fn bent(random: &mut Random, right: &[u8]) -> Vec<u8> {
    let mut bytes = right.to_vec();
    for _ in 0..1 + random.below(6) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.bits() as u8,
            1 => bytes.truncate(at + 1),
            2 => bytes[at] = b"\",\n\r0-9\0"[random.below(8)],
            3 => bytes.insert(at, random.bits() as u8),
            _ => drop(bytes.remove(at)),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

fn message(random: &mut Random) -> Vec<u8> {
    let bodies: Vec<_> = (0..random.below(8))
        .map(|_| {
            let token = [779_521, 256_265, 412_675][random.below(3)];
            testkit::kite::packet(token, ["ltp", "quote", "full"][random.below(3)], random.bits() as i32 >> 2)
        })
        .collect();
    testkit::kite::packets(&bodies)
}

/// What anybody would make of it, byte by byte.
fn plainly(bytes: &[u8]) -> (usize, usize, bool) {
    let (mut read, mut unknown) = (0, 0);
    let mut rest = &bytes[2..];
    for _ in 0..u16::from_be_bytes([bytes[0], bytes[1]]) {
        if rest.len() < 2 {
            return (read, unknown, true);
        }
        let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        if rest.len() < 2 + length {
            return (read, unknown, true);
        }
        rest = &rest[2 + length..];
        if [8, 28, 32, 44, 184].contains(&length) { read += 1 } else { unknown += 1 }
    }
    (read, unknown, false)
}

#[test]
fn any_bytes_are_taken_apart_as_a_plain_reading_of_them_says() {
    for (_case, mut random) in cases(5_000) {
        let bytes = match random.below(3) {
            0 => bytes(&mut random, 300),
            _ => {
                let right = message(&mut random);
                bent(&mut random, &right)
            }
        };
        match packet::read(&bytes) {
            Err(error) => assert!(bytes.is_empty(), "{error}"),
            Ok(Message::Heartbeat) => assert_eq!(bytes.len(), 1),
            Ok(Message::Packets(packets)) => {
                let (mut read, mut unknown, mut cut) = (0, 0, false);
                for packet in packets {
                    assert!(!cut, "nothing follows what is cut off");
                    match packet {
                        Ok(_) => read += 1,
                        Err(PacketError::Unknown { .. }) => unknown += 1,
                        Err(PacketError::CutOff { .. }) => cut = true,
                    }
                }
                assert_eq!((read, unknown, cut), plainly(&bytes));
            }
        }
    }
}

#[test]
fn any_list_is_read_or_refused_with_its_line() {
    let (mut read, mut refused) = (0, 0);
    for (_case, mut random) in cases(3_000) {
        let list = match random.below(8) {
            0 => bytes(&mut random, 500),
            _ => bent(&mut random, LIST.as_bytes()),
        };
        match Instruments::read(&*list) {
            Ok(instruments) => {
                assert!(!instruments.is_empty() && instruments.len() < 40);
                read += 1;
            }
            Err(InstrumentsError::Line { line, .. }) => {
                let lines = 1 + list.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64;
                assert!((1..=lines).contains(&line), "{line} of {lines}");
                refused += 1;
            }
            Err(InstrumentsError::Other { .. } | InstrumentsError::Column { .. } | InstrumentsError::Empty) => {
                refused += 1
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(read > 0 && refused > 0 || !usual(), "{read} {refused}");
}

/// Whatever the ticker says, the connection goes on, and what is right in it becomes ticks of what was asked for.
#[tokio::test]
async fn an_adapter_survives_whatever_the_ticker_says() {
    let ticker = Ticker::start("key", "token").await.unwrap();
    let instruments = Arc::new(Instruments::read(LIST.as_bytes()).unwrap());
    let kite = Kite::builder("key", Credential::fixed("token"), instruments).url(ticker.url()).build().unwrap();
    let (mut writer, mut reader) = kite.open().await.unwrap();
    let level = Some(Level { mode: Mode::Depth, depth: 5 });
    let sbin = Instrument::new("NSE", "SBIN");
    kite.write(&mut writer, &[Change { instrument: sbin.clone(), from: None, to: level }]).await.unwrap();
    let full = |seen: &Seen| seen.connections.values().any(|has| has.get(&779_521).is_some_and(|mode| mode == "full"));
    ticker.until("all of it is streamed", full).await;

    let texts =
        [r#"{"type":"order","data":{"order_id":"1"}}"#, r#"{"type":"error","data":"no"}"#, r#"{"type":7}"#, "["];
    for (_case, mut random) in cases(300) {
        let right = message(&mut random);
        ticker.say(match random.below(4) {
            0 => tungstenite::Message::text(texts[random.below(4)]),
            _ => tungstenite::Message::binary(bent(&mut random, &right)),
        });
        ticker.trade(779_521, 81_205);
        let mut ticks = Vec::new();
        let reading = async {
            // Until that trade is heard of, which comes last.
            while !ticks.iter().any(is_trade) {
                kite.read(&mut reader, &mut ticks).await.unwrap();
            }
        };
        timeout(Duration::from_secs(30), reading).await.expect("it hangs");
        for tick in &ticks {
            assert_eq!(tick.instrument, sbin);
            serde_json::from_slice::<serde_json::Value>(&tick.payload).expect("a payload is JSON");
        }
    }
}

fn is_trade(tick: &carom::feed::Tick) -> bool {
    let payload: serde_json::Value = serde_json::from_slice(&tick.payload).unwrap();
    payload["ltp"] == 812.05 && tick.mode == Mode::Depth
}
