//! Whatever comes over the wire: nothing panics, nothing is reserved beyond the limit, and nothing damaged is believed.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use bytes::{Bytes, BytesMut};
use carom_core::random::Random;
use carom_indy::message::{LONGEST_REPLY, Message};
use carom_indy::zmtp::{Event, Fresh, KeyPair, Session, ZmtpError};
use serde_json::{Value, json};
use testkit::cases::{bytes, cases};

const LIMIT: usize = 4096;

fn pair() -> (Session, Session) {
    pair_with(LIMIT)
}

fn pair_with(limit: usize) -> (Session, Session) {
    let (server, client) = (KeyPair::random().unwrap(), KeyPair::random().unwrap());
    let calling = Session::client(server.public(), client, Bytes::from_static(b"me"), Fresh::random().unwrap(), limit);
    (calling, Session::server(server, Fresh::random().unwrap(), limit))
}

/// Gives one what the other has to say, in pieces, and returns what happened.
fn carry(random: &mut Random, from: &mut Session, to: &mut Session) -> Result<Vec<Event>, ZmtpError> {
    let mut sent = from.output().split();
    let (mut arrived, mut events) = (BytesMut::new(), Vec::new());
    while !sent.is_empty() {
        let piece = 1 + random.below(sent.len());
        arrived.extend_from_slice(&sent.split_to(piece));
        while let Some(event) = to.handle(&mut arrived)? {
            events.push(event);
        }
    }
    assert!(arrived.is_empty(), "what is whole is taken");
    Ok(events)
}

fn opened(random: &mut Random) -> (Session, Session) {
    let (mut client, mut server) = pair();
    let mut events = Vec::new();
    for _ in 0..4 {
        events.extend(carry(random, &mut client, &mut server).unwrap());
        events.extend(carry(random, &mut server, &mut client).unwrap());
    }
    assert_eq!(events, [Event::Open { identity: "me".into() }, Event::Open { identity: Bytes::new() }]);
    assert_eq!((client.due(), server.due()), (None, None));
    (client, server)
}

#[test]
fn messages_arrive_as_they_were_however_the_bytes_arrive() {
    for (_case, mut random) in cases(100) {
        let (mut client, mut server) = opened(&mut random);
        for _ in 0..5 {
            let messages: Vec<_> = (0..random.below(4)).map(|_| bytes(&mut random, LIMIT + 1)).collect();
            messages.iter().for_each(|message| client.send(message).unwrap());
            let expected: Vec<_> = messages.into_iter().map(|message| Event::Message(message.into())).collect();
            assert_eq!(carry(&mut random, &mut client, &mut server), Ok(expected));
            std::mem::swap(&mut client, &mut server);
        }
    }
}

/// Flags of frames, and what fills HELLO up, mean nothing; all else in the commands of a handshake is proved.
#[test]
fn with_a_bit_changed_in_the_handshake_there_is_no_channel() {
    for (_case, mut random) in cases(400) {
        let (mut client, mut server) = pair();
        let broken = 2 + random.below(4);
        let mut open = 0;
        for turn in 0..6 {
            let (from, to) = if turn % 2 == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
            if turn == broken {
                let at = 1 + random.below(from.output().len() - 1);
                let at = if turn == 2 && (10..82).contains(&at) { 9 } else { at };
                from.output()[at] ^= 1 << random.below(8);
            }
            match carry_any(from, to) {
                Ok(events) => open += events.len(),
                Err(_) => break,
            }
            if turn >= broken && to.output().is_empty() {
                break;
            }
        }
        assert!(open < 2, "both believe it after a change in turn {broken}");
    }
}

/// As [`carry`], but some may be left: a changed length makes a frame longer.
fn carry_any(from: &mut Session, to: &mut Session) -> Result<Vec<Event>, ZmtpError> {
    let (mut arrived, mut events) = (from.output().split(), Vec::new());
    while let Some(event) = to.handle(&mut arrived)? {
        events.push(event);
    }
    Ok(events)
}

#[test]
fn a_damaged_message_ends_the_session_and_an_old_one_too() {
    for (_case, mut random) in cases(400) {
        let (mut client, mut server) = opened(&mut random);
        client.send(b"first").unwrap();
        let first = client.output().split();
        assert_eq!(server.handle(&mut first.clone()), Ok(Some(Event::Message("first".into()))));
        let mut second = first.clone();
        if random.chance(0.5) {
            assert!(matches!(server.handle(&mut second), Err(ZmtpError::Replayed { .. })));
        } else {
            let at = 2 + random.below(second.len() - 2);
            second[at] ^= 1 << random.below(8);
            assert!(server.handle(&mut second).is_err());
        }
        client.send(b"third").unwrap();
        assert_eq!(server.handle(&mut client.output().split()), Ok(None), "it is over");
    }
}

#[test]
fn no_bytes_make_a_session_panic_or_reserve_beyond_its_limit() {
    for (_case, mut random) in cases(400) {
        let (mut client, mut server) = if random.chance(0.5) { opened(&mut random) } else { pair() };
        let session = if random.chance(0.5) { &mut client } else { &mut server };
        let mut arrived = BytesMut::from(&bytes(&mut random, 300)[..]);
        if random.chance(0.5) {
            // A greeting that is good, and frames of small sizes, so that more than the first check is reached.
            let mut other = pair().1;
            let mut begin = other.output().split();
            for _ in 0..3 {
                let body = bytes(&mut random, 250);
                begin.extend_from_slice(&[4 * (random.below(2) as u8), body.len() as u8]);
                begin.extend_from_slice(&body);
            }
            arrived = begin;
        }
        while let Ok(Some(_)) = session.handle(&mut arrived) {}
        assert!(arrived.capacity() <= 4 * LIMIT + 2048, "{}", arrived.capacity());
    }
}

/// A frame with this head, and nothing of its body.
fn announced(size: u64, command: bool) -> Vec<u8> {
    [&[if command { 0b110 } else { 0b010 }][..], &size.to_be_bytes()].concat()
}

#[test]
fn a_peer_without_a_finished_handshake_cannot_announce_more_than_a_command() {
    let greeting = pair().1.output().split();
    let (client, server) = pair_with(LONGEST_REPLY);
    for mut session in [client, server] {
        let mut arrived = greeting.clone();
        arrived.extend_from_slice(&announced(LONGEST_REPLY as u64, true));
        assert!(matches!(session.handle(&mut arrived), Err(ZmtpError::TooLarge { limit: 4096, .. })));
        assert!(arrived.capacity() < 8192, "{}", arrived.capacity());
    }
}

#[test]
fn a_message_that_is_only_announced_reserves_little() {
    let (mut client, mut node) = pair_with(LONGEST_REPLY);
    for _ in 0..3 {
        carry_any(&mut client, &mut node).unwrap();
        carry_any(&mut node, &mut client).unwrap();
    }
    assert_eq!(client.due(), None);
    let mut arrived = BytesMut::new();
    arrived.extend_from_slice(&announced(LONGEST_REPLY as u64, false));
    for _ in 0..3 {
        assert_eq!(client.handle(&mut arrived), Ok(None));
        assert!(arrived.capacity() <= 2 * arrived.len() + (256 << 10), "{} of {}", arrived.capacity(), arrived.len());
        arrived.extend_from_slice(&vec![7; 1 << 20]);
    }
}

#[test]
fn the_wrong_key_and_the_wrong_role_are_told() {
    let (mut client, _) = pair();
    let (_, mut server) = pair();
    carry_any(&mut client, &mut server).unwrap();
    carry_any(&mut server, &mut client).unwrap();
    assert_eq!(carry_any(&mut client, &mut server), Err(ZmtpError::Sealed { command: "HELLO" }));
    let ((mut one, _), (mut other, _)) = (pair(), pair());
    carry_any(&mut one, &mut other).unwrap();
    assert_eq!(other.send(b"early"), Err(ZmtpError::NotOpen));
    assert_eq!(carry_any(&mut other, &mut one), Err(ZmtpError::Unexpected { due: "WELCOME" }));
    assert_eq!(one.send(b"early"), Err(ZmtpError::NotOpen));
}

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => random.chance(0.5).into(),
        2 => random.bits().into(),
        3 => (random.bits() as i64).into(),
        4 => json!(random.bits() as f64 / 7.0),
        5 => ["", "0", "17", "REQACK", "abc", "GKot5hBsd81kMupNCXHaqbhv3huEbxAFMLnpcX2hniwn"][random.below(6)].into(),
        6 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let names = ["reqId", "txn", "metadata", "reason", "1", "2", "x"];
            (0..random.below(4)).map(|_| (names[random.below(7)].to_owned(), value(random, depth - 1))).collect()
        }
    }
}

#[test]
fn no_text_makes_reading_a_message_panic() {
    let ops = ["REQACK", "REQNACK", "REJECT", "REPLY", "LEDGER_STATUS", "CONSISTENCY_PROOF", "CATCHUP_REP", "?"];
    let fields = [
        "reqId",
        "result",
        "metadata",
        "ledgerId",
        "txnSeqNo",
        "merkleRoot",
        "seqNoStart",
        "seqNoEnd",
        "oldMerkleRoot",
        "newMerkleRoot",
        "hashes",
        "txns",
        "consProof",
        "reason",
    ];
    for (_case, mut random) in cases(3_000) {
        let mut message = json!({"op": ops[random.below(ops.len())], "ledgerId": 0});
        for _ in 0..random.below(10) {
            message[fields[random.below(fields.len())]] = value(&mut random, 3);
        }
        let mut text = message.to_string().into_bytes();
        let _ = Message::parse(&text);
        let at = random.below(text.len());
        text[at] ^= 1 << random.below(8);
        let _ = Message::parse(&text);
    }
}

#[test]
fn a_reply_of_many_small_values_takes_no_more_memory_than_is_allowed() {
    let most = 192 << 20;
    for (bomb, taken) in
        [("{\"\":0},", false), ("[0],", false), ("0,", false), ("123456,", true), ("\"abcdefgh\",", true)]
    {
        let items = bomb.repeat((LONGEST_REPLY - 100) / bomb.len());
        let text =
            format!("{{\"op\":\"REPLY\",\"result\":{{\"reqId\":7,\"data\":[{}]}}}}", items.trim_end_matches(','));
        assert!(text.len() <= LONGEST_REPLY);
        let mut parsed = None;
        let memory = allocation_counter::measure(|| parsed = Some(Message::parse(text.as_bytes()))).bytes_max;
        assert!(memory < most, "{bomb}: {memory} bytes");
        assert_eq!(parsed.unwrap().is_ok(), taken, "{bomb}");
    }
}
