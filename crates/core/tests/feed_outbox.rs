//! The outbox against one kept the plain way: order, conflation, counts, and who is slow.

use carom_core::feed::outbox::{Options, Outbox, Overflow};
use carom_core::random::Random;
use std::time::{Duration, Instant};

/// A message as a plain list keeps it: the kind of a tick, or none for a reply.
type Plain = Vec<(Option<u8>, u64)>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
#[allow(clippy::disallowed_methods)]
fn whatever_happens_it_is_what_a_plain_list_would_be() {
    for seed in 1..=500 {
        let (mut random, mut now) = (Random::new(seed), Instant::now());
        let options = Options { max_ticks: 1 + random.below(6), max_replies: 1 + random.below(4), slow_after: ms(100) };
        let mut outbox = Outbox::new(options).unwrap();
        let (mut plain, mut since, mut conflated, mut lost): (Plain, Option<Instant>, u64, u64) = Default::default();
        for number in 0..300_u64 {
            now += ms(random.below(40) as u64);
            let kind = random.below(8) as u8;
            match random.below(10) {
                0..=4 => {
                    outbox.tick(now, kind, number);
                    match plain.iter_mut().find(|(found, _)| *found == Some(kind)) {
                        Some((_, payload)) => {
                            *payload = number;
                            conflated += 1;
                        }
                        None => {
                            let ticks = plain.iter().filter(|(found, _)| found.is_some()).count();
                            if ticks == options.max_ticks {
                                let oldest = plain.iter().position(|(found, _)| found.is_some()).unwrap();
                                plain.remove(oldest);
                                lost += 1;
                                since = since.filter(|_| !plain.is_empty());
                            }
                            plain.push((Some(kind), number));
                            since.get_or_insert(now);
                        }
                    }
                }
                5 => {
                    let waiting = plain.iter().filter(|(found, _)| found.is_none()).count();
                    let expected = if waiting == options.max_replies { Err(Overflow { waiting }) } else { Ok(()) };
                    assert_eq!(outbox.reply(now, number), expected, "seed {seed}");
                    if expected.is_ok() {
                        plain.push((None, number));
                        since.get_or_insert(now);
                    }
                }
                6 => {
                    outbox.forget(&kind);
                    plain.retain(|(found, _)| *found != Some(kind));
                    since = since.filter(|_| !plain.is_empty());
                }
                _ => {
                    let expected = (!plain.is_empty()).then(|| plain.remove(0).1);
                    assert_eq!(outbox.next(now), expected, "seed {seed}");
                    if expected.is_some() {
                        since = (!plain.is_empty()).then_some(now);
                    }
                }
            }
            assert_eq!((outbox.len(), outbox.is_empty()), (plain.len(), plain.is_empty()), "seed {seed}");
            let replies = plain.iter().filter(|(found, _)| found.is_none()).count();
            assert_eq!(outbox.replies(), replies, "seed {seed}");
            assert_eq!((outbox.conflated(), outbox.lost()), (conflated, lost), "seed {seed}");
            assert_eq!(outbox.slow_at(), since.map(|since| since + ms(100)), "seed {seed}");
            assert_eq!(outbox.is_slow(now), since.is_some_and(|since| now - since >= ms(100)), "seed {seed}");
        }
    }
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
    assert_eq!(said(Options { slow_after: Duration::ZERO, ..Options::default() }), "slow_after must be above zero");
}
