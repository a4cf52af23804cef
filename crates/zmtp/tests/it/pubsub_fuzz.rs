//! Whatever comes over the wire: nothing panics, nothing is kept beyond the limits, and what was sent is what arrives.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use crate::support::{LIMITS, opened};
use bytes::{Bytes, BytesMut};
use carom_core::random::Random;
use carom_zmtp::pubsub::{Encoded, Event, Prefixes, Role, Session, Skipped};
use std::collections::BTreeSet;
use testkit::cases::{bytes, cases, usual};

#[test]
fn what_is_sent_arrives_however_the_bytes_arrive() {
    let mut skipped = 0;
    for (_case, mut random) in cases(300) {
        let (mut publisher, mut subscriber) = opened();
        let mut expected = Vec::new();
        for _ in 0..random.below(20) {
            let count = 1 + random.below(LIMITS.parts + 1);
            let parts: Vec<_> = (0..count).map(|_| bytes(&mut random, LIMITS.message * 3 / 5)).collect();
            let size: usize = parts.iter().map(Vec::len).sum();
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            publisher.push(&Encoded::new(&slices)).unwrap();
            let fits = size <= LIMITS.message && count <= LIMITS.parts;
            skipped += usize::from(!fits);
            expected.push(match fits {
                true => Event::Message(parts.into_iter().map(Bytes::from).collect()),
                false => Event::Skipped(Skipped { first: parts[0].clone().into(), parts: count, bytes: size as u64 }),
            });
        }
        let sent = publisher.output().split();
        assert_eq!(in_pieces(&mut random, &mut subscriber, sent), Ok((expected, 0)));
    }
    assert!(skipped > 100 || !usual(), "{skipped}");
}

#[test]
fn subscriptions_arrive_however_the_bytes_arrive() {
    for (_case, mut random) in cases(200) {
        let (mut publisher, mut subscriber) = opened();
        let mut expected = Vec::new();
        for _ in 0..random.below(10) {
            let prefix = bytes(&mut random, LIMITS.message);
            if random.chance(0.5) {
                subscriber.subscribe(&prefix).unwrap();
                expected.push(Event::Subscribed(prefix.into()));
            } else {
                subscriber.unsubscribe(&prefix).unwrap();
                expected.push(Event::Unsubscribed(prefix.into()));
            }
        }
        let sent = subscriber.output().split();
        assert_eq!(in_pieces(&mut random, &mut publisher, sent), Ok((expected, 0)));
    }
}

#[test]
fn no_bytes_make_a_session_panic_or_keep_more_than_its_limit() {
    for (_case, mut random) in cases(2_000) {
        let (mut publisher, mut subscriber) = opened();
        let mut fresh = Session::new(Role::Subscriber, LIMITS);
        publisher.push(&Encoded::new(&[b"topic", &[7; 300]])).unwrap();
        subscriber.subscribe(b"topic").unwrap();
        let mut sent = publisher.output().split();
        sent.unsplit(subscriber.output().split());
        if random.chance(0.3) {
            sent = Session::new(Role::Publisher, LIMITS).output().split();
        }
        for _ in 0..1 + random.below(5) {
            let at = random.below(sent.len());
            sent[at] = if random.chance(0.5) { random.bits() as u8 } else { sent[at] ^ 1 << random.below(8) };
        }
        sent.extend_from_slice(&bytes(&mut random, 3000));
        let session = [&mut publisher, &mut subscriber, &mut fresh].into_iter().nth(random.below(3)).unwrap();
        if let Ok((_, left)) = in_pieces(&mut random, session, sent) {
            assert!(left <= LIMITS.message.max(4096) + 9, "{left} bytes wait for more");
        }
        assert!(session.output().len() <= LIMITS.message + 100);
    }
}

#[test]
fn what_is_wanted_is_what_begins_like_a_prefix() {
    let mut wanted = 0;
    for (_case, mut random) in cases(300) {
        let (mut prefixes, mut plain) = (Prefixes::new(50), BTreeSet::new());
        for _ in 0..60 {
            let prefix = word(&mut random);
            if random.chance(0.6) {
                let inserted = prefixes.insert(prefix.clone()).is_ok();
                assert_eq!(inserted, plain.contains(&prefix) || plain.len() < 50);
                plain.extend(inserted.then_some(prefix));
            } else {
                prefixes.remove(&prefix);
                plain.remove(&prefix);
            }
            let topic = word(&mut random);
            let expected = plain.iter().any(|prefix| topic.starts_with(prefix));
            assert_eq!(prefixes.want(&topic), expected, "{topic:?} of {plain:?}");
            wanted += usize::from(expected);
        }
    }
    assert!(wanted > 1000 || !usual(), "{wanted}");
}

/// Few letters, so that words begin alike.
fn word(random: &mut Random) -> Bytes {
    (0..random.below(7)).map(|_| b"ab\xff"[random.below(3)]).collect()
}

/// Gives it these bytes in pieces. What happened, and how much it has not used.
fn in_pieces(
    random: &mut Random,
    session: &mut Session,
    mut sent: BytesMut,
) -> Result<(Vec<Event>, usize), carom_zmtp::ZmtpError> {
    let (mut arrived, mut events) = (BytesMut::new(), Vec::new());
    while !sent.is_empty() {
        let piece = 1 + random.below(sent.len());
        arrived.extend_from_slice(&sent.split_to(piece));
        while let Some(event) = session.handle(&mut arrived)? {
            events.push(event);
        }
    }
    Ok((events, arrived.len()))
}
