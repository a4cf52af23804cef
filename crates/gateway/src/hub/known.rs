//! What the instruments of a scope last said, and when their prices may be told again.

use crate::mailbox::Kind;
use bytes::Bytes;
use carom_core::feed::{Instrument, Mode};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long the last word of an instrument is kept when nobody wants it: a client that reconnects finds it.
const KEPT: Duration = Duration::from_secs(60);

/// Names an instrument of a scope, as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u32);

impl Number {
    /// The kind of its ticks of this mode.
    pub(super) fn kind(self, mode: Mode) -> Kind {
        Kind(self.0 << 2 | u32::from(mode.number()))
    }
}

/// The instruments of a scope. Each is known from the first tick that somebody wanted until a while after the last.
#[derive(Debug, Default)]
pub(super) struct Known {
    numbers: BTreeMap<Instrument, Number>,
    entries: Vec<Entry>,
    free: Vec<Number>,
    /// Counts ticks, so that the latest of several modes can be told.
    ticks: u64,
    /// When prices that were held back may be told.
    due: BTreeSet<(Instant, Number)>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    instrument: Instrument,
    heard: Instant,
    /// The last tick of each mode, with its count.
    last: [Option<(u64, Bytes)>; 3],
    /// When its price was last told.
    told: Option<Instant>,
    /// The price that is told next.
    held: Option<Bytes>,
}

/// What is to be done with a price.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Price {
    /// Tell it.
    Tell(Bytes),
    /// It is told later, instead of one that was held back before if `replaced`.
    Held { replaced: bool },
}

impl Known {
    /// The number of an instrument, if it is known.
    pub(super) fn number(&self, instrument: &Instrument) -> Option<Number> {
        self.numbers.get(instrument).copied()
    }

    /// An instrument said something. `None` if it is not known, and not `wanted`.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        instrument: &Instrument,
        mode: Mode,
        payload: Bytes,
        wanted: bool,
    ) -> Option<Number> {
        let number = match self.number(instrument) {
            Some(number) => number,
            None if wanted => self.learn(now, instrument),
            None => return None,
        };
        self.ticks += 1;
        let entry = &mut self.entries[number.0 as usize];
        entry.heard = now;
        entry.last[at(mode)] = Some((self.ticks, payload));
        Some(number)
    }

    /// The latest tick that contains this mode.
    pub(super) fn latest(&self, instrument: &Instrument, mode: Mode) -> Option<(Number, Bytes)> {
        let number = self.number(instrument)?;
        let last = &self.entries[number.0 as usize].last;
        let (_, payload) = last[at(mode)..].iter().flatten().max_by_key(|(count, _)| *count)?;
        Some((number, payload.clone()))
    }

    /// A price, when each instrument's is told once in `interval`: the first at once, and the last of those that come too soon
    /// when it has passed.
    pub(super) fn throttle(&mut self, now: Instant, number: Number, interval: Duration, text: Bytes) -> Price {
        let entry = &mut self.entries[number.0 as usize];
        match entry.told.map(|told| told + interval) {
            Some(next) if next > now => {
                let replaced = entry.held.replace(text).is_some();
                self.due.insert((next, number));
                Price::Held { replaced }
            }
            Some(_) | None => {
                entry.told = Some(now);
                // Its time has come and this one is newer.
                entry.held = None;
                Price::Tell(text)
            }
        }
    }

    /// When the next price that was held back may be told.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The prices whose time has come.
    pub(super) fn release(&mut self, now: Instant) -> Vec<(Number, Instrument, Bytes)> {
        let mut released = Vec::new();
        while let Some(&(at, number)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let entry = &mut self.entries[number.0 as usize];
            if let Some(text) = entry.held.take() {
                entry.told = Some(now);
                released.push((number, entry.instrument.clone(), text));
            }
        }
        released
    }

    /// Forgets, now and then, what nobody wants and what has said nothing for a while.
    pub(super) fn sweep(&mut self, now: Instant, wanted: impl Fn(&Instrument) -> bool) {
        if self.swept.is_some_and(|swept| now < swept + KEPT / 2) {
            return;
        }
        self.swept = Some(now);
        let Known { numbers, entries, free, due, .. } = self;
        numbers.retain(|instrument, number| {
            let entry = &mut entries[number.0 as usize];
            let keep = now < entry.heard + KEPT || wanted(instrument);
            if !keep {
                (entry.last, entry.held) = (Default::default(), None);
                due.retain(|(_, other)| other != number);
                free.push(*number);
            }
            keep
        });
    }

    fn learn(&mut self, now: Instant, instrument: &Instrument) -> Number {
        let entry =
            Entry { instrument: instrument.clone(), heard: now, last: Default::default(), told: None, held: None };
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number.0 as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                Number(self.entries.len() as u32 - 1)
            }
        };
        self.numbers.insert(instrument.clone(), number);
        number
    }
}

fn at(mode: Mode) -> usize {
    usize::from(mode.number() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sbin() -> Instrument {
        Instrument::new("NSE", "SBIN")
    }

    #[test]
    fn the_latest_tick_that_contains_a_mode() {
        let (mut known, now) = (Known::default(), Instant::now());
        assert_eq!(known.heard(now, &sbin(), Mode::Ltp, "1".into(), false), None, "nobody wants it");
        let number = known.heard(now, &sbin(), Mode::Depth, "book".into(), true).unwrap();
        assert_eq!(known.heard(now, &sbin(), Mode::Ltp, "price".into(), false), Some(number), "it is known by now");
        let latest = |mode| known.latest(&sbin(), mode).map(|(_, payload)| payload);
        assert_eq!(latest(Mode::Ltp).unwrap(), "price");
        assert_eq!(latest(Mode::Quote).unwrap(), "book");
        assert_eq!(known.latest(&Instrument::new("BSE", "SBIN"), Mode::Ltp), None);
    }

    #[test]
    fn prices_that_come_too_soon_are_held_and_the_last_one_is_told() {
        let (mut known, start, ms) = (Known::default(), Instant::now(), Duration::from_millis);
        let number = known.heard(start, &sbin(), Mode::Ltp, "1".into(), true).unwrap();
        let price = |known: &mut Known, after: u64, text: &'static str| {
            known.throttle(start + ms(after), number, ms(50), Bytes::from_static(text.as_bytes()))
        };
        assert_eq!(price(&mut known, 0, "1"), Price::Tell("1".into()));
        assert_eq!(price(&mut known, 10, "2"), Price::Held { replaced: false });
        assert_eq!(price(&mut known, 20, "3"), Price::Held { replaced: true });
        assert_eq!(known.next_due(), Some(start + ms(50)));
        assert_eq!(known.release(start + ms(49)), []);
        assert_eq!(known.release(start + ms(50)), [(number, sbin(), "3".into())]);
        assert_eq!(price(&mut known, 60, "4"), Price::Held { replaced: false }, "10 ms after the last one was told");
        assert_eq!(price(&mut known, 100, "5"), Price::Tell("5".into()), "its time has come, and it is newer");
        assert_eq!(known.release(start + ms(100)), [], "the one that was held is not told after it");
    }

    #[test]
    fn what_nobody_wants_is_forgotten_after_a_while_and_its_number_used_again() {
        let (mut known, start) = (Known::default(), Instant::now());
        let number = known.heard(start, &sbin(), Mode::Ltp, "1".into(), true).unwrap();
        known.sweep(start + KEPT, |_| true);
        assert!(known.latest(&sbin(), Mode::Ltp).is_some(), "somebody wants it");
        known.sweep(start + KEPT + KEPT / 4, |_| false);
        assert!(known.latest(&sbin(), Mode::Ltp).is_some(), "it was swept a moment ago");
        known.sweep(start + KEPT * 2, |_| false);
        assert_eq!(known.number(&sbin()), None);
        let other = Instrument::new("NSE", "INFY");
        assert_eq!(known.heard(start, &other, Mode::Ltp, "2".into(), true), Some(number));
    }
}
