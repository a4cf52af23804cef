//! The instruments of a scope: what they last said, and when their prices may be told again.

use super::words::{KEPT, Serves, Spelling, Words};
use crate::mailbox::Kind;
use bytes::Bytes;
use carom_core::feed::interest::ClientId;
use carom_core::feed::{Instrument, Level, Mode, Topic};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Names an instrument of a scope, as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u32);

impl Number {
    /// The kind of its ticks of this mode.
    pub(super) fn kind(self, mode: Mode) -> Kind {
        Kind(self.0 << 2 | u32::from(mode.number()))
    }
}

/// The instruments of a scope. Each is known from when the feed is asked for it until a while after the last who wanted it.
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
    /// How many requests for it are under way.
    expected: u32,
    words: Words,
    /// When its price was last told.
    told: Option<Instant>,
    /// The price that is told next.
    held: Option<Held>,
}

/// A price that was held back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) text: Bytes,
    /// Who subscribed since, and was told it, or a newer one, then.
    pub(super) known_to: BTreeSet<ClientId>,
}

/// What is to be done with a price.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Price {
    /// Tell it.
    Tell(Bytes),
    /// It is told later, instead of one that was held back before if `replaced`.
    Held { replaced: bool },
}

/// The last known tick of a topic.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) number: Number,
    /// Which one it is.
    pub(super) count: u64,
    pub(super) payload: Bytes,
}

impl Known {
    /// The number of an instrument, if it is known.
    pub(super) fn number(&self, instrument: &Instrument) -> Option<Number> {
        self.numbers.get(instrument).copied()
    }

    /// The feed is being asked for this: what is heard of it from now on is kept until [`settled`](Known::settled).
    pub(super) fn expect(&mut self, now: Instant, topic: &Topic) -> Number {
        let number = self.learn(now, &topic.instrument);
        let entry = self.entry(number);
        entry.expected += 1;
        entry.words.expect(topic.level);
        number
    }

    /// A request for it is not under way any more.
    pub(super) fn settled(&mut self, number: Number) {
        self.entry(number).expected -= 1;
    }

    /// So much of an instrument is wanted from now on. Its number, if it is known, as all are that somebody wants.
    pub(super) fn want(&mut self, now: Instant, instrument: &Instrument, greatest: Option<Level>) -> Option<Number> {
        let number = match greatest {
            Some(_) => self.learn(now, instrument),
            None => self.number(instrument)?,
        };
        self.entry(number).words.want(now, greatest);
        Some(number)
    }

    /// An instrument that is known said something. Whom that serves; none if it was said already, under the other name.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        number: Number,
        mode: Mode,
        spelling: Spelling,
        payload: &[u8],
    ) -> Option<Serves> {
        self.ticks += 1;
        let count = self.ticks;
        let words = &mut self.entry(number).words;
        (!words.repeats(now, mode, spelling, payload)).then(|| words.hear(now, mode, spelling, count, payload))
    }

    /// The latest tick that has so much of the instrument, if it is worth telling.
    pub(super) fn latest(&self, now: Instant, topic: &Topic) -> Option<Latest> {
        let number = self.number(&topic.instrument)?;
        let (count, payload) = self.entries[number.0 as usize].words.latest(now, topic.level)?;
        Some(Latest { number, count, payload: Bytes::copy_from_slice(payload) })
    }

    /// Whether nothing that contains this mode was said since.
    pub(super) fn is_latest(&self, latest: &Latest, mode: Mode) -> bool {
        self.entries[latest.number.0 as usize].words.count(mode) == Some(latest.count)
    }

    /// A price, when each instrument's is told once in `interval`: the first at once, and the last of those that come too soon
    /// when it has passed.
    pub(super) fn throttle(&mut self, now: Instant, number: Number, interval: Duration, text: Bytes) -> Price {
        let entry = &mut self.entries[number.0 as usize];
        match entry.told.map(|told| told + interval) {
            Some(next) if next > now => {
                let replaced = entry.held.replace(Held { text, known_to: BTreeSet::new() }).is_some();
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

    /// A client was told the latest price: if that is held back, it need not be told again.
    pub(super) fn told(&mut self, number: Number, client: ClientId) {
        if let Some(held) = &mut self.entry(number).held {
            held.known_to.insert(client);
        }
    }

    /// When the next price that was held back may be told.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The prices whose time has come.
    pub(super) fn release(&mut self, now: Instant) -> Vec<(Number, Instrument, Held)> {
        let mut released = Vec::new();
        while let Some(&(at, number)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let entry = &mut self.entries[number.0 as usize];
            if let Some(held) = entry.held.take() {
                entry.told = Some(now);
                released.push((number, entry.instrument.clone(), held));
            }
        }
        released
    }

    /// Forgets, now and then, what nobody has wanted for a while.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now < swept + KEPT / 2) {
            return;
        }
        self.swept = Some(now);
        let Known { numbers, entries, free, due, .. } = self;
        let kept = free.len();
        numbers.retain(|_, number| {
            let entry = &mut entries[number.0 as usize];
            let keep = entry.expected > 0 || !entry.words.are_old(now);
            if !keep {
                (entry.words, entry.held) = (Words::new(now), None);
                free.push(*number);
            }
            keep
        });
        let forgotten: BTreeSet<Number> = free[kept..].iter().copied().collect();
        if !forgotten.is_empty() {
            due.retain(|(_, number)| !forgotten.contains(number));
        }
    }

    /// The number of an instrument, which is known from now on.
    fn learn(&mut self, now: Instant, instrument: &Instrument) -> Number {
        if let Some(number) = self.number(instrument) {
            return number;
        }
        let entry =
            Entry { instrument: instrument.clone(), expected: 0, words: Words::new(now), told: None, held: None };
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

    fn entry(&mut self, number: Number) -> &mut Entry {
        &mut self.entries[number.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sbin() -> Topic {
        Topic::new("NSE", "SBIN", Mode::Ltp)
    }

    fn held(text: &'static str) -> Held {
        Held { text: text.into(), known_to: BTreeSet::new() }
    }

    /// Somebody wants it.
    fn wanted(known: &mut Known, now: Instant, topic: &Topic) -> Number {
        known.want(now, &topic.instrument, Some(topic.level)).unwrap()
    }

    #[test]
    fn prices_that_come_too_soon_are_held_and_the_last_one_is_told() {
        let (mut known, start, ms) = (Known::default(), Instant::now(), Duration::from_millis);
        let number = wanted(&mut known, start, &sbin());
        let price = |known: &mut Known, after: u64, text: &'static str| {
            known.throttle(start + ms(after), number, ms(50), Bytes::from_static(text.as_bytes()))
        };
        assert_eq!(price(&mut known, 0, "1"), Price::Tell("1".into()));
        assert_eq!(price(&mut known, 10, "2"), Price::Held { replaced: false });
        assert_eq!(price(&mut known, 20, "3"), Price::Held { replaced: true });
        assert_eq!(known.next_due(), Some(start + ms(50)));
        assert_eq!(known.release(start + ms(49)), []);
        assert_eq!(known.release(start + ms(50)), [(number, sbin().instrument, held("3"))]);
        assert_eq!(price(&mut known, 60, "4"), Price::Held { replaced: false }, "10 ms after the last one was told");
        assert_eq!(price(&mut known, 100, "5"), Price::Tell("5".into()), "its time has come, and it is newer");
        assert_eq!(known.release(start + ms(100)), [], "the one that was held is not told after it");
    }

    #[test]
    fn what_nobody_wants_is_forgotten_after_a_while_and_its_number_used_again() {
        let (mut known, start) = (Known::default(), Instant::now());
        let number = wanted(&mut known, start, &sbin());
        known.heard(start, number, Mode::Ltp, Spelling::Plain, b"1");
        known.sweep(start + KEPT);
        assert!(known.latest(start + KEPT, &sbin()).is_some(), "somebody wants it");
        known.want(start + KEPT, &sbin().instrument, None);
        known.sweep(start + KEPT * 3 / 2);
        assert!(known.number(&sbin().instrument).is_some(), "somebody wanted it a moment ago");
        known.throttle(start, number, KEPT * 3, "1".into());
        known.throttle(start, number, KEPT * 3, "2".into());
        known.sweep(start + KEPT * 2);
        assert_eq!((known.number(&sbin().instrument), known.next_due()), (None, None));
        let other = Topic::new("NSE", "INFY", Mode::Ltp);
        assert_eq!(wanted(&mut known, start + KEPT * 2, &other), number);
        assert_eq!(known.latest(start + KEPT * 2, &other), None);
    }

    #[test]
    fn what_is_asked_for_is_kept_until_that_is_settled() {
        let (mut known, start) = (Known::default(), Instant::now());
        let number = known.expect(start, &sbin());
        known.sweep(start + KEPT * 2);
        known.heard(start + KEPT * 2, number, Mode::Ltp, Spelling::Plain, b"1");
        assert_eq!(known.latest(start + KEPT * 2, &sbin()), Some(Latest { number, count: 1, payload: "1".into() }));
        known.settled(number);
        known.sweep(start + KEPT * 4);
        assert_eq!(known.number(&sbin().instrument), None);
    }
}
