//! What an instrument last said, and whether that is still worth telling.
//!
//! A tick is the last word as long as the next one would have been heard: while somebody wants the mode or a higher one, and for a
//! while after the last who did, so that a client that reconnects finds it. After that it is an old price, and nobody is told.

use carom_core::feed::{Level, Mode};
use std::time::{Duration, Instant};

/// What is published together is heard within this time.
const TOGETHER: Duration = Duration::from_secs(3);

/// After so many ticks that were published in two modes each, the higher one is not for those who want the lower.
const CERTAIN: u8 = 2;

/// How long the last word is kept when nobody wants it.
pub(super) const KEPT: Duration = Duration::from_secs(60);

/// The last words of an instrument.
#[derive(Debug)]
pub(super) struct Words {
    /// The last tick of each mode.
    last: [Option<Word>; 3],
    /// Of each mode, whether ticks that contain it would be heard.
    heeded: [Heeded; 3],
    /// Of each mode, how many ticks in a row came in each lower mode as well.
    beside: [[u8; 3]; 3],
    /// How many levels the order book is streamed with.
    depth: u16,
}

/// How the name of a tick was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `NSE_SBIN_LTP`.
    Plain,
    /// With the name of the broker in front.
    WithBroker,
}

/// Who is served by a tick: of each mode, whether it is for those who want that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Serves([bool; 3]);

impl Serves {
    pub(super) fn mode(self, mode: Mode) -> bool {
        self.0[at(mode)]
    }
}

#[derive(Debug)]
struct Word {
    /// Later words have greater counts.
    count: u64,
    heard: Instant,
    spelling: Spelling,
    /// How many levels of the order book it has, if any.
    depth: u16,
    /// Its own bytes: a piece of what an upstream said would keep all of that for as long as nothing newer comes.
    payload: Vec<u8>,
}

/// When somebody wanted a mode or a higher one.
#[derive(Clone, Copy, Debug)]
struct Heeded {
    /// What was heard before is not told: there may have been others since, when nobody listened.
    from: Instant,
    /// Since when nobody does; `None` while somebody does.
    unheeded: Option<Instant>,
}

impl Words {
    /// Nothing was said, and nobody wants it.
    pub(super) fn new(now: Instant) -> Words {
        let heeded = Heeded { from: now, unheeded: Some(now) };
        Words { last: Default::default(), heeded: [heeded; 3], beside: [[0; 3]; 3], depth: 0 }
    }

    /// So much is wanted from now on.
    pub(super) fn want(&mut self, now: Instant, greatest: Option<Level>) {
        for mode in Mode::ALL {
            self.heeded[at(mode)].set(now, greatest.is_some_and(|level| level.mode >= mode));
        }
        if let Some(Level { mode: Mode::Depth, depth }) = greatest {
            self.depth = depth;
        }
    }

    /// So much will be wanted. An order book that is streamed already is taken for what it was until that is so.
    pub(super) fn expect(&mut self, level: Level) {
        if level.mode == Mode::Depth && self.heeded[at(Mode::Depth)].unheeded.is_some() {
            self.depth = level.depth;
        }
    }

    /// Whether this was said just now under the other name: there are publishers that say each thing under both.
    pub(super) fn repeats(&self, now: Instant, mode: Mode, spelling: Spelling, payload: &[u8]) -> bool {
        self.last[at(mode)].as_ref().is_some_and(|word| {
            let together = now.saturating_duration_since(word.heard) <= TOGETHER;
            together && word.spelling != spelling && word.payload == payload
        })
    }

    /// Something was said. Whom that serves.
    ///
    /// Feeds say each thing once, in the highest mode that anybody wants. Some of OpenAlgo's publishers say each thing in all
    /// modes, one after the other: once that is certain, whoever wants a lower mode is served by that one alone.
    pub(super) fn hear(&mut self, now: Instant, mode: Mode, spelling: Spelling, count: u64, payload: &[u8]) -> Serves {
        let mut serves = Serves([false; 3]);
        serves.0[at(mode)] = true;
        for lower in (0..at(mode)).rev() {
            let beside = &mut self.beside[at(mode)][lower];
            *beside = match (&self.last[lower], &self.last[at(mode)]) {
                (Some(word), Some(before)) if word.is_between(before, now) => beside.saturating_add(1),
                _ => 0,
            };
            // What is said in this mode serves the lower ones too, unless one between does.
            serves.0[lower] = serves.0[lower + 1] && *beside < CERTAIN;
        }
        let fresh = || Word { count, heard: now, spelling, depth: 0, payload: Vec::new() };
        let word = self.last[at(mode)].get_or_insert_with(fresh);
        (word.count, word.heard, word.spelling, word.depth) = (count, now, spelling, self.depth);
        word.payload.clear();
        word.payload.extend_from_slice(payload);
        // One that was much larger is not paid for ever after.
        word.payload.shrink_to(payload.len().saturating_mul(4));
        serves
    }

    /// The latest tick that has so much, with its count, if it is worth telling.
    pub(super) fn latest(&self, now: Instant, level: Level) -> Option<(u64, &[u8])> {
        let heeded = self.heeded[at(level.mode)];
        let word = self.newest(level.mode).filter(|word| heeded.keeps(now, word.heard))?;
        let enough = level.mode < Mode::Depth || word.depth >= level.depth;
        enough.then_some((word.count, &word.payload))
    }

    /// The count of the latest tick that contains this mode.
    pub(super) fn count(&self, mode: Mode) -> Option<u64> {
        self.newest(mode).map(|word| word.count)
    }

    /// Whether nobody has wanted any of it for so long that it can be forgotten.
    pub(super) fn are_old(&self, now: Instant) -> bool {
        self.heeded[at(Mode::Ltp)].unheeded.is_some_and(|since| since + KEPT <= now)
    }

    fn newest(&self, mode: Mode) -> Option<&Word> {
        self.last[at(mode)..].iter().flatten().max_by_key(|word| word.count)
    }
}

impl Word {
    /// Whether it came since `before`, and together with that or with what comes now.
    fn is_between(&self, before: &Word, now: Instant) -> bool {
        let near = |earlier: Instant, later: Instant| later.saturating_duration_since(earlier) <= TOGETHER;
        self.count > before.count && (near(before.heard, self.heard) || near(self.heard, now))
    }
}

impl Heeded {
    fn set(&mut self, now: Instant, heeded: bool) {
        match (self.unheeded, heeded) {
            (Some(since), true) => {
                if since + KEPT <= now
                    && let Some(recent) = now.checked_sub(KEPT)
                {
                    self.from = self.from.max(recent);
                }
                self.unheeded = None;
            }
            (None, false) => self.unheeded = Some(now),
            (Some(_), false) | (None, true) => {}
        }
    }

    fn keeps(self, now: Instant, heard: Instant) -> bool {
        heard >= self.from && self.unheeded.is_none_or(|since| now < since.max(heard) + KEPT)
    }
}

fn at(mode: Mode) -> usize {
    usize::from(mode.number() - 1)
}

#[cfg(test)]
mod tests {
    use super::Spelling::{Plain, WithBroker};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    fn level(mode: Mode, depth: u16) -> Level {
        Level { mode, depth }
    }

    const LTP: Level = Level { mode: Mode::Ltp, depth: 5 };
    const QUOTE: Level = Level { mode: Mode::Quote, depth: 5 };

    fn told(words: &Words, now: Instant, level: Level) -> Option<&[u8]> {
        words.latest(now, level).map(|(_, payload)| payload)
    }

    #[test]
    fn the_latest_tick_that_contains_a_mode() {
        let now = Instant::now();
        let mut words = Words::new(now);
        words.want(now, Some(level(Mode::Depth, 5)));
        words.hear(now, Mode::Depth, Plain, 1, b"book");
        words.hear(now, Mode::Ltp, Plain, 2, b"price");
        assert_eq!(told(&words, now, LTP), Some(&b"price"[..]));
        assert_eq!(told(&words, now, QUOTE), Some(&b"book"[..]));
    }

    #[test]
    fn a_price_is_told_for_as_long_as_somebody_listens_and_a_while_longer() {
        let start = Instant::now();
        let mut words = Words::new(start);
        words.want(start, Some(LTP));
        words.hear(start, Mode::Ltp, Plain, 1, b"1");
        let left = start + 6 * HOUR;
        assert!(told(&words, left, LTP).is_some(), "nothing was traded since");
        words.want(left, None);
        assert!(told(&words, left + KEPT - SECOND, LTP).is_some());
        assert_eq!(told(&words, left + KEPT, LTP), None, "something may have been traded since");
        words.want(left + HOUR, Some(LTP));
        assert_eq!(told(&words, left + HOUR, LTP), None, "and that somebody listens again makes it no newer");
    }

    #[test]
    fn whoever_comes_back_soon_makes_it_last() {
        let start = Instant::now();
        let mut words = Words::new(start);
        words.want(start, Some(LTP));
        words.hear(start, Mode::Ltp, Plain, 1, b"1");
        words.want(start + HOUR, None);
        words.want(start + HOUR + SECOND, Some(LTP));
        assert!(told(&words, start + 2 * HOUR, LTP).is_some());
    }

    #[test]
    fn each_mode_ages_by_itself() {
        let start = Instant::now();
        let mut words = Words::new(start);
        words.want(start, Some(QUOTE));
        words.hear(start, Mode::Quote, Plain, 1, b"quote");
        words.want(start, Some(LTP));
        let later = start + HOUR;
        assert_eq!(told(&words, later, QUOTE), None, "quotes are not streamed");
        assert_eq!(told(&words, later, LTP), Some(&b"quote"[..]), "prices are, and there was none since");
        words.hear(later, Mode::Ltp, Plain, 2, b"price");
        assert_eq!((told(&words, later, QUOTE), told(&words, later, LTP)), (None, Some(&b"price"[..])));
    }

    #[test]
    fn an_order_book_is_told_to_those_who_want_no_more_levels_than_it_has() {
        let now = Instant::now();
        let mut words = Words::new(now);
        let (five, twenty) = (level(Mode::Depth, 5), level(Mode::Depth, 20));
        words.expect(five);
        words.hear(now, Mode::Depth, Plain, 1, b"5");
        words.want(now, Some(five));
        assert_eq!((told(&words, now, five), told(&words, now, twenty)), (Some(&b"5"[..]), None));
        words.expect(twenty);
        words.hear(now, Mode::Depth, Plain, 2, b"5");
        assert_eq!(told(&words, now, twenty), None, "it is still streamed with 5");
        words.want(now, Some(twenty));
        words.hear(now, Mode::Depth, Plain, 3, b"20");
        assert_eq!((told(&words, now, five), told(&words, now, twenty)), (Some(&b"20"[..]), Some(&b"20"[..])));
    }

    /// Which modes a tick serves.
    fn served(words: &mut Words, now: Instant, count: u64, mode: Mode) -> Vec<Mode> {
        let serves = words.hear(now, mode, Plain, count, b"{}");
        Mode::ALL.into_iter().filter(|mode| serves.mode(*mode)).collect()
    }

    /// That of each tick in these modes, a minute apart, the third and later serve each of `wanted` once.
    fn once_each(published: &[Mode], wanted: &[Mode]) {
        let start = Instant::now();
        let (mut words, mut count) = (Words::new(start), 0);
        for tick in 0..6_u32 {
            let mut told = Vec::new();
            for (ms, mode) in (0_u32..).zip(published) {
                count += 1;
                told.extend(served(&mut words, start + KEPT * tick + Duration::from_millis(1) * ms, count, *mode));
            }
            told.sort_unstable();
            assert!(tick < 2 || told == wanted, "{told:?} of {published:?}");
            assert!(wanted.iter().all(|mode| told.contains(mode)), "nobody is left out: {told:?} of {published:?}");
        }
    }

    #[test]
    fn what_is_published_in_all_modes_is_told_once_to_each() {
        use Mode::{Depth, Ltp, Quote};
        once_each(&[Depth, Quote, Ltp], &[Ltp, Quote, Depth]);
        once_each(&[Ltp, Quote, Depth], &[Ltp, Quote, Depth]);
        once_each(&[Quote, Ltp], &[Ltp, Quote]);
        once_each(&[Depth, Quote], &[Ltp, Quote, Depth]);
        once_each(&[Ltp, Depth], &[Ltp, Quote, Depth]);
        once_each(&[Depth], &[Ltp, Quote, Depth]);
    }

    #[test]
    fn a_feed_that_goes_up_and_down_leaves_nobody_out() {
        use Mode::{Depth, Ltp};
        let (start, all) = (Instant::now(), Mode::ALL.to_vec());
        let (mut words, mut count) = (Words::new(start), 0);
        let mut tick = |at: Duration, mode| {
            count += 1;
            served(&mut words, start + at, count, mode)
        };
        for round in 0..5 {
            let at = HOUR * round;
            assert_eq!((tick(at, Ltp), tick(at, Depth), tick(at, Depth)), (vec![Ltp], all.clone(), all.clone()));
        }
        for round in 0..5 {
            let at = HOUR * (10 + round);
            assert_eq!((tick(at, Ltp), tick(at + HOUR / 2, Depth)), (vec![Ltp], all.clone()), "not together");
        }
    }

    #[test]
    fn a_lower_mode_that_is_published_no_more_is_served_by_the_higher_again() {
        use Mode::{Depth, Ltp};
        let start = Instant::now();
        let mut words = Words::new(start);
        for count in 0..4 {
            served(&mut words, start, 2 * count, Depth);
            served(&mut words, start, 2 * count + 1, Ltp);
        }
        assert_eq!(served(&mut words, start, 8, Depth), [Mode::Quote, Depth]);
        assert_eq!(served(&mut words, start, 9, Depth), Mode::ALL);
    }

    #[test]
    fn what_is_said_under_two_names_is_said_once() {
        let now = Instant::now();
        let mut words = Words::new(now);
        for (first, other) in [(Plain, WithBroker), (WithBroker, Plain)] {
            words.hear(now, Mode::Ltp, first, 1, b"1");
            assert!(words.repeats(now + SECOND, Mode::Ltp, other, b"1"));
            assert!(!words.repeats(now, Mode::Ltp, first, b"1"), "nothing has changed, and that is said");
            assert!(!words.repeats(now, Mode::Ltp, other, b"2"), "there is one that says it differently");
            assert!(!words.repeats(now, Mode::Quote, other, b"1"));
            assert!(!words.repeats(now + HOUR, Mode::Ltp, other, b"1"));
        }
    }

    #[test]
    fn a_word_keeps_no_more_than_it_needs() {
        let now = Instant::now();
        let mut words = Words::new(now);
        words.hear(now, Mode::Depth, Plain, 1, &[b' '; 100_000]);
        words.hear(now, Mode::Depth, Plain, 2, b"{}");
        assert!(words.last[at(Mode::Depth)].as_ref().is_some_and(|word| word.payload.capacity() < 100));
    }
}
