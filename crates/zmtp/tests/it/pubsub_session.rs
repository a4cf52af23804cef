//! PUB and SUB byte by byte: what each says, what it makes of what it hears, and what ends a session.

use crate::support::{LIMITS, carry, hear, opened};
use bytes::{Buf, Bytes, BytesMut};
use carom_zmtp::ZmtpError;
use carom_zmtp::pubsub::{Encoded, Event, Limits, Role, Session, Skipped};

/// What a PUB of another make says until its handshake is over, with this minor version.
fn greeting(minor: u8, socket_type: &str) -> BytesMut {
    let mut bytes = BytesMut::zeroed(64);
    (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xff, 0x7f, 3, minor);
    bytes[12..16].copy_from_slice(b"NULL");
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    ready.push(socket_type.len() as u8);
    ready.extend_from_slice(socket_type.as_bytes());
    bytes.extend_from_slice(&[0b100, ready.len() as u8]);
    bytes.extend_from_slice(&ready);
    bytes
}

fn opened_by(role: Role, minor: u8, socket_type: &str) -> Result<Session, ZmtpError> {
    let mut session = Session::new(role, LIMITS);
    assert_eq!(hear(&mut session, greeting(minor, socket_type))?, [Event::Open]);
    session.output().clear();
    Ok(session)
}

#[test]
fn what_is_said_in_the_handshake_is_what_others_say() {
    for (role, name) in [(Role::Publisher, "PUB"), (Role::Subscriber, "SUB")] {
        let mut session = Session::new(role, LIMITS);
        let mut said = session.output().split();
        assert_eq!(said.len(), 64);
        hear(&mut session, greeting(1, "XSUB")).err();
        said.unsplit(session.output().split());
        assert_eq!(said, greeting(1, name));
    }
}

#[test]
fn sockets_of_kinds_that_belong_together_open_and_others_do_not() {
    for (role, goes) in [(Role::Publisher, ["SUB", "XSUB"]), (Role::Subscriber, ["PUB", "XPUB"])] {
        for kind in ["PUB", "XPUB", "SUB", "XSUB", "PAIR", "sub", ""] {
            match opened_by(role, 1, kind) {
                Ok(session) => assert!(goes.contains(&kind) && session.due().is_none(), "{role:?} with {kind}"),
                Err(error) => {
                    assert_eq!(error, ZmtpError::SocketType { found: kind.into() });
                    assert!(!goes.contains(&kind), "{role:?} with {kind}");
                }
            }
        }
    }
}

#[test]
fn subscriptions_are_commands_or_for_old_peers_messages() {
    for (minor, written) in
        [(1, &b"\x04\x0d\x09SUBSCRIBENSE\x04\x0a\x06CANCELNSE"[..]), (0, b"\0\x04\x01NSE\0\x04\0NSE")]
    {
        let mut subscriber = opened_by(Role::Subscriber, minor, "PUB").unwrap();
        subscriber.subscribe(b"NSE").unwrap();
        subscriber.unsubscribe(b"NSE").unwrap();
        assert_eq!(subscriber.output()[..], *written);
        let mut publisher = opened_by(Role::Publisher, minor, "SUB").unwrap();
        let heard = hear(&mut publisher, BytesMut::from(written));
        assert_eq!(heard, Ok(vec![Event::Subscribed("NSE".into()), Event::Unsubscribed("NSE".into())]));
    }
}

#[test]
fn a_message_keeps_its_parts() {
    let (mut publisher, mut subscriber) = opened();
    let long = [7; 300];
    for parts in [&[&b"NSE_SBIN_LTP"[..], b"{}"][..], &[b""], &[b"", b""], &[&long, b"", &long]] {
        publisher.push(&Encoded::new(parts)).unwrap();
        let parts = parts.iter().map(|part| part.to_vec().into()).collect();
        assert_eq!(carry(&mut publisher, &mut subscriber), Ok(vec![Event::Message(parts)]));
    }
}

#[test]
fn what_is_too_large_is_skipped_and_the_next_message_comes() {
    let (mut publisher, mut subscriber) = opened();
    let (half, large) = ([7; 600], [7; 1001]);
    let oversized: [(&[&[u8]], &[u8]); 6] = [
        (&[&large], b""),
        (&[b"topic", &large], b"topic"),
        (&[&large, b"payload"], b""),
        (&[&half, &half], &half),
        (&[b"1", b"2", b"3", b"4"], b"1"),
        (&[b"1", b"2", b"3", &large, b"5", b""], b"1"),
    ];
    for (parts, first) in oversized {
        publisher.push(&Encoded::new(parts)).unwrap();
        publisher.push(&Encoded::new(&[b"next"])).unwrap();
        let heard = carry(&mut publisher, &mut subscriber);
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let skipped = Skipped { first: first.to_vec().into(), parts: parts.len(), bytes };
        assert_eq!(heard, Ok(vec![Event::Skipped(skipped), Event::Message(vec!["next".into()])]));
    }
}

#[test]
fn what_is_skipped_is_not_kept() {
    let (_, mut subscriber) = opened();
    let mut bytes = BytesMut::from(&b"\x02\0\0\0\xff\0\0\0\0"[..]);
    for _ in 0..100 {
        bytes.extend_from_slice(&[7; 10_000]);
        assert_eq!((subscriber.handle(&mut bytes), bytes.len()), (Ok(None), 0));
    }
    assert!(bytes.capacity() < 50_000, "{}", bytes.capacity());
}

#[test]
fn pings_are_answered_also_between_the_parts_of_a_message() {
    let (mut publisher, mut subscriber) = opened();
    publisher.push(&Encoded::new(&[b"topic", b"payload"])).unwrap();
    let message = publisher.output().split();
    let (topic, payload) = message.split_at(7);
    let bytes = [topic, b"\x04\x0e\x04PING\0\x0acontext", payload].concat();
    let heard = hear(&mut subscriber, BytesMut::from(&bytes[..]));
    assert_eq!(heard, Ok(vec![Event::Message(vec!["topic".into(), "payload".into()])]));
    assert_eq!(subscriber.output().split()[..], *b"\x04\x0c\x04PONGcontext");
    let malformed = hear(&mut subscriber, BytesMut::from(&b"\x04\x06\x04PING\0"[..]));
    assert_eq!(malformed, Err(ZmtpError::Malformed { command: "PING" }));
}

#[test]
fn who_pings_and_does_not_read_is_not_answered_for_ever() {
    let ping = || BytesMut::from(&b"\x04\x07\x04PING\0\x0a"[..]);
    let (mut publisher, _) = opened();
    let large = vec![b'x'; 10 * LIMITS.message];
    publisher.push(&Encoded::new(&[&large])).unwrap();
    let busy = publisher.output().len();
    hear(&mut publisher, ping()).unwrap();
    let pong = publisher.output().len() - busy;
    assert!(pong > 0, "however much is in line");
    for _ in 0..1000 {
        hear(&mut publisher, ping()).unwrap();
    }
    assert_eq!(publisher.output().len(), busy + 16 * pong);
    // It reads, though never all of it.
    publisher.output().advance(busy + 16 * pong - 1);
    publisher.push(&Encoded::new(&[&large])).unwrap();
    hear(&mut publisher, ping()).unwrap();
    assert_eq!(publisher.output().len(), 1 + busy);
    publisher.output().advance(1);
    hear(&mut publisher, ping()).unwrap();
    assert_eq!(publisher.output().len(), busy + pong);
}

#[test]
fn unknown_commands_are_ignored_and_refusals_end_it() {
    let (mut publisher, mut subscriber) = opened();
    for session in [&mut publisher, &mut subscriber] {
        assert_eq!(hear(session, BytesMut::from(&b"\x04\x04\x03NEW"[..])), Ok(vec![]));
        let refused = hear(session, BytesMut::from(&b"\x04\x0a\x05ERROR\x03why"[..]));
        assert_eq!(refused, Err(ZmtpError::Refused { reason: "why".into() }));
        assert_eq!(hear(session, BytesMut::from(&b"\0\x01x"[..])), Ok(vec![]), "it is over");
        assert_eq!(session.push(&Encoded::new(&[b"x"])), Err(ZmtpError::NotOpen));
    }
}

#[test]
fn frames_that_cannot_be_end_it() {
    for (bytes, error) in [
        (&b"\x08\x01x"[..], ZmtpError::Flags { flags: 8 }),
        (b"\x05\x01x", ZmtpError::Malformed { command: "a command" }),
        (b"\x06\0\0\0\0\0\x01\0\0", ZmtpError::TooLarge { size: 65536, limit: 4096 }),
    ] {
        let (_, mut subscriber) = opened();
        assert_eq!(hear(&mut subscriber, BytesMut::from(bytes)), Err(error));
    }
    let mut subscriber = Session::new(Role::Subscriber, LIMITS);
    let mut bytes = greeting(1, "PUB");
    bytes[64] = 0;
    assert_eq!(hear(&mut subscriber, bytes), Err(ZmtpError::NoCommand { due: "READY" }));
}

#[test]
fn a_prefix_that_is_too_long_is_skipped_and_what_is_no_subscription_is_a_message() {
    for minor in [0, 1] {
        let mut subscriber = opened_by(Role::Subscriber, minor, "PUB").unwrap();
        let mut publisher = Session::new(Role::Publisher, Limits { message: 8, parts: 1 });
        assert_eq!(hear(&mut publisher, greeting(minor, "XSUB")), Ok(vec![Event::Open]));
        subscriber.subscribe(b"123456789").unwrap();
        subscriber.subscribe(b"1234567").unwrap();
        subscriber.push(&Encoded::new(&[b"hello"])).unwrap();
        let heard = carry(&mut subscriber, &mut publisher);
        let taken = Event::Subscribed("1234567".into());
        // The older way has a byte in front of it.
        let skipped = Skipped { first: Bytes::new(), parts: 1, bytes: if minor == 0 { 10 } else { 9 } };
        assert_eq!(heard, Ok(vec![Event::Skipped(skipped), taken, Event::Message(vec!["hello".into()])]));
    }
}
