//! The outbox against one kept the plain way: order, conflation, counts, and who is slow.

use crate::time::ms;
use carom_core::feed::outbox::{Options, Outbox, Overflow, Put};
use carom_core::random::Random;
use std::time::{Duration, Instant};

/// A message as a plain list keeps it.
#[derive(Clone, Copy)]
struct Plain {
    /// The kind of a tick, or none for a reply.
    kind: Option<u8>,
    payload: u64,
    weight: usize,
    since: Instant,
}

#[test]
#[allow(clippy::disallowed_methods)]
fn whatever_happens_it_is_what_a_plain_list_would_be() {
    for seed in 1..=500 {
        let (mut random, mut now) = (Random::new(seed), Instant::now());
        let options = Options {
            max_ticks: 1 + random.below(12),
            max_replies: 1 + random.below(4),
            slow_after: ms(100),
            conflate_messages: 1 + random.below(8),
            conflate_bytes: 1 + random.below(200),
            conflate_after: ms(1 + random.below(200) as u64),
        };
        let mut outbox = Outbox::new(options).unwrap();
        let (mut plain, mut latest): (Vec<Plain>, bool) = Default::default();
        let (mut since, mut conflated, mut lost): (Option<Instant>, u64, u64) = Default::default();
        for number in 0..300_u64 {
            now += ms(random.below(40) as u64);
            let (kind, weight) = (random.below(4 + seed as usize % 5) as u8, random.below(30));
            match random.below(10) {
                0..=4 => {
                    let before = (conflated, lost);
                    let ticks = plain.iter().filter(|message| message.kind.is_some()).count();
                    let weighs: usize = plain.iter().map(|message| message.weight).sum();
                    let over = [
                        (plain.len(), options.conflate_messages),
                        (weighs, options.conflate_bytes),
                        (ticks, options.max_ticks),
                    ]
                    .into_iter()
                    .any(|(waiting, most)| if latest { waiting > most / 2 } else { waiting >= most });
                    latest = over || plain.first().is_some_and(|first| now - first.since > options.conflate_after);
                    let tick = Plain { kind: Some(kind), payload: number, weight, since: now };
                    if latest {
                        conflated += conflate(&mut plain);
                    }
                    match plain.iter_mut().find(|message| latest && message.kind == Some(kind)) {
                        Some(message) => {
                            *message = Plain { since: message.since, ..tick };
                            conflated += 1;
                        }
                        None => {
                            let ticks = plain.iter().filter(|message| message.kind.is_some()).count();
                            if ticks == options.max_ticks {
                                let oldest = plain.iter().position(|message| message.kind.is_some()).unwrap();
                                plain.remove(oldest);
                                lost += 1;
                                since = since.filter(|_| !plain.is_empty());
                            }
                            plain.push(tick);
                            since.get_or_insert(now);
                        }
                    }
                    let put = outbox.weighed_tick(now, kind, weight, number);
                    let displaced = (before.0 + put.conflated, before.1 + put.lost);
                    assert_eq!(displaced, (conflated, lost), "seed {seed}");
                }
                5 => {
                    let waiting = plain.iter().filter(|message| message.kind.is_none()).count();
                    let expected = if waiting == options.max_replies { Err(Overflow { waiting }) } else { Ok(()) };
                    assert_eq!(outbox.weighed_reply(now, weight, number), expected, "seed {seed}");
                    if expected.is_ok() {
                        plain.push(Plain { kind: None, payload: number, weight, since: now });
                        since.get_or_insert(now);
                    }
                }
                6 => {
                    outbox.forget(&kind);
                    plain.retain(|message| message.kind != Some(kind));
                    since = since.filter(|_| !plain.is_empty());
                }
                _ => {
                    let expected = (!plain.is_empty()).then(|| plain.remove(0).payload);
                    assert_eq!(outbox.next(now), expected, "seed {seed}");
                    if expected.is_some() {
                        since = (!plain.is_empty()).then_some(now);
                    }
                }
            }
            assert_eq!((outbox.len(), outbox.is_empty()), (plain.len(), plain.is_empty()), "seed {seed}");
            let replies = plain.iter().filter(|message| message.kind.is_none());
            assert_eq!(outbox.replies(), replies.clone().count(), "seed {seed}");
            assert_eq!(outbox.weight(), replies.map(|reply| reply.weight).sum::<usize>(), "seed {seed}");
            assert_eq!((outbox.conflated(), outbox.lost()), (conflated, lost), "seed {seed}");
            assert_eq!(outbox.slow_at(), since.map(|since| since + ms(100)), "seed {seed}");
            assert_eq!(outbox.is_slow(now), since.is_some_and(|since| now - since >= ms(100)), "seed {seed}");
        }
    }
}

/// Leaves the last tick of each kind, where the first is. How many are gone.
fn conflate(plain: &mut Vec<Plain>) -> u64 {
    let before = std::mem::take(plain);
    for message in &before {
        match plain.iter_mut().find(|kept| message.kind.is_some() && kept.kind == message.kind) {
            Some(kept) => *kept = Plain { since: kept.since, ..*message },
            None => plain.push(*message),
        }
    }
    (before.len() - plain.len()) as u64
}

/// Takes all that waits.
fn drain(outbox: &mut Outbox<u8, u64>, now: Instant) -> Vec<u64> {
    std::iter::from_fn(|| outbox.next(now)).collect()
}

#[test]
#[allow(clippy::disallowed_methods)]
fn up_to_256_messages_are_kept_in_order_and_one_more_conflates() {
    let (mut outbox, now) = (Outbox::new(Options::default()).unwrap(), Instant::now());
    for burst in 0..10 {
        (0..256).for_each(|price| assert_eq!(outbox.tick(now, (price % 2) as u8, price), Put::default()));
        assert_eq!(drain(&mut outbox, now), (0..256).collect::<Vec<_>>(), "burst {burst}");
    }
    for price in 0..256 {
        outbox.tick(now, (price % 2) as u8, price);
    }
    assert_eq!(outbox.tick(now, 0, 256), Put { conflated: 255, lost: 0 });
    assert_eq!(drain(&mut outbox, now), [256, 255], "the latest of each kind");
    assert_eq!(outbox.conflated(), 255);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn ticks_are_conflated_when_the_oldest_has_waited_for_250_ms_and_until_it_is_taken() {
    let (mut outbox, start) = (Outbox::new(Options::default()).unwrap(), Instant::now());
    outbox.tick(start, 0, 1);
    outbox.tick(start + ms(250), 0, 2);
    outbox.reply(start + ms(250), 3).unwrap();
    assert_eq!(outbox.len(), 3);
    assert_eq!(outbox.tick(start + ms(251), 0, 4), Put { conflated: 2, lost: 0 });
    assert_eq!(outbox.tick(start + ms(251), 1, 5), Put::default());
    assert_eq!(outbox.tick(start + ms(252), 1, 6), Put { conflated: 1, lost: 0 }, "the first waits since the start");
    assert_eq!(outbox.next(start + ms(253)), Some(4));
    assert_eq!(outbox.tick(start + ms(253), 1, 7), Put::default());
    assert_eq!(drain(&mut outbox, start + ms(254)), [3, 6, 7]);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn large_messages_are_conflated_before_they_are_many() {
    let (mut outbox, now) = (Outbox::new(Options::default()).unwrap(), Instant::now());
    let weight = Options::default().conflate_bytes / 4;
    let puts: Vec<u64> = (0..6).map(|price| outbox.weighed_tick(now, 0, weight, price).conflated).collect();
    assert_eq!(puts, [0, 0, 0, 0, 4, 0], "and the rest has room again");
    assert_eq!(drain(&mut outbox, now), [4, 5]);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn all_ticks_of_a_kind_are_forgotten() {
    let (mut outbox, now) = (Outbox::new(Options::default()).unwrap(), Instant::now());
    for price in 0..9 {
        outbox.tick(now, (price % 3) as u8, price);
    }
    outbox.forget(&0);
    outbox.forget(&2);
    assert_eq!((outbox.len(), drain(&mut outbox, now)), (3, vec![1, 4, 7]));
}

#[test]
#[allow(clippy::disallowed_methods)]
fn a_client_that_reads_is_never_slow_and_one_that_stops_is() {
    let start = Instant::now();
    let mut outbox = Outbox::new(Options::default()).unwrap();
    for second in 0..100 {
        let now = start + ms(1_000 * second);
        outbox.tick(now, second % 7, second);
        outbox.tick(now, second % 5, second);
        outbox.next(now);
        assert!(!outbox.is_slow(now));
    }
    let last = start + ms(99_000);
    assert!(!outbox.is_empty());
    assert!(!outbox.is_slow(last + ms(29_999)) && outbox.is_slow(last + ms(30_000)));
}

#[test]
fn nonsense_is_named() {
    let said = |options| Outbox::<u8, u8>::new(options).unwrap_err().to_string();
    assert_eq!(said(Options { max_ticks: 0, ..Options::default() }), "max_ticks must be at least 1");
    assert_eq!(said(Options { max_replies: 0, ..Options::default() }), "max_replies must be at least 1");
    assert_eq!(said(Options { conflate_messages: 0, ..Options::default() }), "conflate_messages must be at least 1");
    assert_eq!(said(Options { conflate_bytes: 0, ..Options::default() }), "conflate_bytes must be at least 1");
    let never = Options { conflate_after: Duration::ZERO, ..Options::default() };
    assert_eq!(said(never), "conflate_after must be above zero");
    assert_eq!(said(Options { slow_after: Duration::ZERO, ..Options::default() }), "slow_after must be above zero");
}
