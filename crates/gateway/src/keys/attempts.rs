//! Failed attempts, by address: each waits longer for its answer, and too many of them end a connection at once.
//!
//! Nobody is locked out: a right key is accepted whatever came before it, so that one who guesses behind the same address is no
//! trouble to others. And no answer is later than OpenAlgo's clients wait for it, which is 5 s.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// How long a failure is remembered.
const WINDOW: Duration = Duration::from_secs(60);
/// So many failures in a window are guessing.
const GUESSING: usize = 10;
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// Most addresses that are remembered; then the one that failed longest ago is forgotten.
const ADDRESSES: usize = 4096;

/// Who failed lately, and how often. Its memory is bounded.
#[derive(Debug, Default)]
pub struct Attempts {
    by_address: BTreeMap<Origin, VecDeque<Instant>>,
    by_time: BTreeSet<(Instant, Origin)>,
}

/// What a failed attempt leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// How long the answer waits.
    pub delay: Duration,
    /// Whether the connection is to be closed then.
    pub close: bool,
}

impl Attempts {
    /// An attempt from this address failed.
    pub fn failed(&mut self, now: Instant, from: IpAddr) -> Failed {
        self.forget(now);
        let origin = Origin::of(from);
        if !self.by_address.contains_key(&origin) && self.by_address.len() >= ADDRESSES {
            self.drop_oldest();
        }
        let failures = self.by_address.entry(origin).or_default();
        if let Some(last) = failures.back() {
            self.by_time.remove(&(*last, origin));
        }
        // More need not be known than what is guessing.
        if failures.len() == GUESSING {
            failures.pop_front();
        }
        failures.push_back(now);
        self.by_time.insert((now, origin));
        let lately = failures.iter().filter(|at| now.duration_since(**at) < WINDOW).count();
        let doubled = FIRST_DELAY.saturating_mul(1 << (lately.saturating_sub(1)).min(16));
        // Whoever guesses does not wait for answers, and connections that wait for theirs would only take up room.
        let close = lately >= GUESSING;
        Failed { delay: if close { Duration::ZERO } else { doubled.min(LONGEST_DELAY) }, close }
    }

    /// How many addresses are remembered.
    pub fn addresses(&self) -> usize {
        self.by_address.len()
    }

    fn forget(&mut self, now: Instant) {
        while self.by_time.first().is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, origin)) = self.by_time.pop_first() {
            self.by_address.remove(&origin);
        }
    }
}

/// An address, as far as it tells people apart: of IPv6 each has a whole network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    V4(Ipv4Addr),
    V6(u64),
}

impl Origin {
    fn of(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin::V4(address),
            IpAddr::V6(address) => Origin::V6((address.to_bits() >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn answers_come_later_and_later_and_the_tenth_closes_at_once() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let seen: Vec<_> = (0..12).map(|n| attempts.failed(start + Duration::from_secs(n), ip("10.0.0.1"))).collect();
        let delays: Vec<_> = seen.iter().map(|failed| failed.delay.as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000, 0, 0, 0]);
        let closes: Vec<_> = seen.iter().map(|failed| failed.close).collect();
        assert_eq!(closes, [vec![false; 9], vec![true; 3]].concat());
    }

    #[test]
    fn a_minute_later_all_is_forgotten() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..20 {
            attempts.failed(start, ip("10.0.0.1"));
        }
        assert_eq!(attempts.failed(start + WINDOW, ip("10.0.0.2")).delay, FIRST_DELAY);
        assert_eq!(attempts.addresses(), 1);
        let first = Failed { delay: FIRST_DELAY, close: false };
        assert_eq!(attempts.failed(start + WINDOW, ip("10.0.0.1")), first);
    }

    #[test]
    fn what_slides_out_of_the_minute_does_not_count() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let every = WINDOW / 5;
        let last = (0..100).map(|n| attempts.failed(start + every * n, ip("::1"))).last().unwrap();
        assert_eq!(last, Failed { delay: Duration::from_millis(1600), close: false });
    }

    #[test]
    fn addresses_are_told_apart_as_people_are() {
        let (mut attempts, now) = (Attempts::default(), Instant::now());
        let mut delay = |address: &str| attempts.failed(now, ip(address)).delay.as_millis();
        assert_eq!((delay("10.0.0.1"), delay("10.0.0.2")), (100, 100));
        assert_eq!(delay("::ffff:10.0.0.1"), 200, "the same IPv4 address");
        assert_eq!((delay("2001:db8::1"), delay("2001:db8::ffff:2")), (100, 200), "one network");
        assert_eq!(delay("2001:db8:0:1::1"), 100, "another");
    }

    #[test]
    fn memory_is_bounded_and_those_who_go_on_are_remembered() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let tick = Duration::from_micros(100);
        let mut last = attempts.failed(start, ip("192.168.0.1"));
        for n in 0..ADDRESSES as u32 * 2 {
            attempts.failed(start + tick * n, IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)));
            if n % 1000 == 0 {
                last = attempts.failed(start + tick * n, ip("192.168.0.1"));
            }
        }
        assert_eq!((attempts.addresses(), attempts.by_time.len()), (ADDRESSES, ADDRESSES));
        assert!(last.close, "{last:?}");
    }
}
