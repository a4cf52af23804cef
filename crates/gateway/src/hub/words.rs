//! What an instrument last said, and whether that is still worth telling.
//!
//! A tick is the last word as long as the next one would have been heard: while somebody wants the mode or a higher one, and for a
//! while after the last who did, so that a client that reconnects finds it. After that it is an old price, and nobody is told.

use bytes::Bytes;
use carom_core::feed::{Level, Mode};
use std::time::{Duration, Instant};

/// How long the last word is kept when nobody wants it.
pub(super) const KEPT: Duration = Duration::from_secs(60);

/// The last words of an instrument.
#[derive(Debug)]
pub(super) struct Words {
    /// The last tick of each mode.
    last: [Option<Word>; 3],
    /// Of each mode, whether ticks that contain it would be heard.
    heeded: [Heeded; 3],
    /// How many levels the order book is streamed with.
    depth: u16,
}

#[derive(Debug)]
struct Word {
    /// Later words have greater counts.
    count: u64,
    heard: Instant,
    /// How many levels of the order book it has, if any.
    depth: u16,
    payload: Bytes,
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
        Words { last: Default::default(), heeded: [heeded; 3], depth: 0 }
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

    pub(super) fn hear(&mut self, now: Instant, mode: Mode, count: u64, payload: Bytes) {
        self.last[at(mode)] = Some(Word { count, heard: now, depth: self.depth, payload });
    }

    /// The latest tick that has so much, with its count, if it is worth telling.
    pub(super) fn latest(&self, now: Instant, level: Level) -> Option<(u64, &Bytes)> {
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
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    fn level(mode: Mode, depth: u16) -> Level {
        Level { mode, depth }
    }

    const LTP: Level = Level { mode: Mode::Ltp, depth: 5 };
    const QUOTE: Level = Level { mode: Mode::Quote, depth: 5 };

    fn told(words: &Words, now: Instant, level: Level) -> Option<&[u8]> {
        words.latest(now, level).map(|(_, payload)| &payload[..])
    }

    #[test]
    fn the_latest_tick_that_contains_a_mode() {
        let now = Instant::now();
        let mut words = Words::new(now);
        words.want(now, Some(level(Mode::Depth, 5)));
        words.hear(now, Mode::Depth, 1, "book".into());
        words.hear(now, Mode::Ltp, 2, "price".into());
        assert_eq!(told(&words, now, LTP), Some(&b"price"[..]));
        assert_eq!(told(&words, now, QUOTE), Some(&b"book"[..]));
    }

    #[test]
    fn a_price_is_told_for_as_long_as_somebody_listens_and_a_while_longer() {
        let start = Instant::now();
        let mut words = Words::new(start);
        words.want(start, Some(LTP));
        words.hear(start, Mode::Ltp, 1, "1".into());
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
        words.hear(start, Mode::Ltp, 1, "1".into());
        words.want(start + HOUR, None);
        words.want(start + HOUR + SECOND, Some(LTP));
        assert!(told(&words, start + 2 * HOUR, LTP).is_some());
    }

    #[test]
    fn each_mode_ages_by_itself() {
        let start = Instant::now();
        let mut words = Words::new(start);
        words.want(start, Some(QUOTE));
        words.hear(start, Mode::Quote, 1, "quote".into());
        words.want(start, Some(LTP));
        let later = start + HOUR;
        assert_eq!(told(&words, later, QUOTE), None, "quotes are not streamed");
        assert_eq!(told(&words, later, LTP), Some(&b"quote"[..]), "prices are, and there was none since");
        words.hear(later, Mode::Ltp, 2, "price".into());
        assert_eq!((told(&words, later, QUOTE), told(&words, later, LTP)), (None, Some(&b"price"[..])));
    }

    #[test]
    fn an_order_book_is_told_to_those_who_want_no_more_levels_than_it_has() {
        let now = Instant::now();
        let mut words = Words::new(now);
        let (five, twenty) = (level(Mode::Depth, 5), level(Mode::Depth, 20));
        words.expect(five);
        words.hear(now, Mode::Depth, 1, "5".into());
        words.want(now, Some(five));
        assert_eq!((told(&words, now, five), told(&words, now, twenty)), (Some(&b"5"[..]), None));
        words.expect(twenty);
        words.hear(now, Mode::Depth, 2, "5".into());
        assert_eq!(told(&words, now, twenty), None, "it is still streamed with 5");
        words.want(now, Some(twenty));
        words.hear(now, Mode::Depth, 3, "20".into());
        assert_eq!((told(&words, now, five), told(&words, now, twenty)), (Some(&b"20"[..]), Some(&b"20"[..])));
    }
}
