//! The outbox: messages that wait until a client reads them.
//!
//! A client that keeps up gets every tick, in order. One that falls behind gets the latest of each kind: ticks are conflated when too
//! many messages or bytes wait for it, or the oldest has waited for too long. Then a newer tick takes the place of the unsent one of
//! its kind, and the outbox has at most one of each kind, until the client has caught up. Replies are never conflated.
//!
//! ```
//! use carom_core::feed::outbox::{Outbox, Options};
//! use std::time::{Duration, Instant};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let now = Instant::now();
//! let mut outbox = Outbox::new(Options::default()).unwrap();
//! outbox.tick(now, "SBIN", "812.05");
//! outbox.reply(now, "pong").unwrap();
//! outbox.tick(now, "SBIN", "812.10");
//! assert_eq!([outbox.next(now), outbox.next(now), outbox.next(now)], [Some("812.05"), Some("pong"), Some("812.10")]);
//!
//! outbox.tick(now, "SBIN", "812.15");
//! outbox.tick(now + Duration::from_secs(1), "SBIN", "812.20");
//! assert_eq!((outbox.next(now), outbox.next(now)), (Some("812.20"), None));
//! assert_eq!(outbox.conflated(), 1);
//! ```

use crate::options::{OptionsError, sane};
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

/// So many messages have room when nothing waits.
const ROOM: usize = 64;

/// What an outbox is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most ticks that wait; one more takes the place of the oldest, which is lost and counted.
    pub max_ticks: usize,
    /// Most replies that wait; one more is refused, and the client had better be closed.
    pub max_replies: usize,
    /// A client is slow that has taken nothing for this long although something waits for it.
    pub slow_after: Duration,
    /// Most messages that wait before ticks are conflated.
    pub conflate_messages: usize,
    /// Most bytes, or whatever the caller weighs messages in, that wait before ticks are conflated.
    pub conflate_bytes: usize,
    /// How long the oldest message waits at most before ticks are conflated.
    pub conflate_after: Duration,
}

/// 10,000 ticks, 1,000 replies, slow after 30 s. Ticks are conflated when 256 messages or 1 MiB wait, or one for more than 250 ms.
impl Default for Options {
    fn default() -> Options {
        Options {
            max_ticks: 10_000,
            max_replies: 1_000,
            slow_after: Duration::from_secs(30),
            conflate_messages: 256,
            conflate_bytes: 1 << 20,
            conflate_after: Duration::from_millis(250),
        }
    }
}

impl Options {
    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let counts = [
            ("max_ticks", self.max_ticks),
            ("max_replies", self.max_replies),
            ("conflate_messages", self.conflate_messages),
            ("conflate_bytes", self.conflate_bytes),
        ];
        for (option, count) in counts {
            if count == 0 {
                return Err(OptionsError::new(option, "must be at least 1"));
            }
        }
        sane("slow_after", Some(self.slow_after))?;
        sane("conflate_after", Some(self.conflate_after))
    }
}

/// More replies wait than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// How many wait.
    pub waiting: usize,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replies wait to be read, and there may be no more", self.waiting)
    }
}

impl Error for Overflow {}

/// Messages for one client. `K` tells kinds of ticks apart: a topic and a mode.
#[derive(Debug)]
pub struct Outbox<K, P> {
    options: Options,
    delivery: Delivery,
    line: VecDeque<Option<Message<K, P>>>,
    /// How many have left the line: the first in it has this number.
    left: u64,
    /// The number of the last tick of each kind that waits.
    ticks: BTreeMap<K, u64>,
    /// How many ticks wait: more than there are kinds while none is conflated.
    queued: usize,
    /// No tick that waits has a smaller number.
    oldest: u64,
    replies: usize,
    /// What the replies that wait weigh.
    weight: usize,
    /// What the ticks that wait weigh.
    tick_weight: usize,
    /// Since when nothing has been taken although something waits.
    waiting_since: Option<Instant>,
    conflated: u64,
    lost: u64,
}

/// Which ticks the client gets.
///
/// ```text
///   Every -- too much waits, or for too long --> Latest -- at most half of that waits, and not for long --> Every
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// All of them, in order.
    Every,
    /// The latest of each kind.
    Latest,
}

/// How many ticks a new one displaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Ticks that were replaced by newer ones of their kind.
    pub conflated: u64,
    /// Ticks that were lost because too many kinds waited.
    pub lost: u64,
}

#[derive(Debug)]
struct Message<K, P> {
    /// When it was queued; of a tick that was conflated, when the first in its place was.
    since: Instant,
    weight: usize,
    /// Which ticks may replace it; none for a reply.
    kind: Option<K>,
    payload: P,
}

impl<K: Ord + Clone, P> Outbox<K, P> {
    /// Nothing waits.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn new(options: Options) -> Result<Outbox<K, P>, OptionsError> {
        options.validate()?;
        Ok(Outbox {
            options,
            delivery: Delivery::Every,
            line: VecDeque::new(),
            left: 0,
            ticks: BTreeMap::new(),
            queued: 0,
            oldest: 0,
            replies: 0,
            weight: 0,
            tick_weight: 0,
            waiting_since: None,
            conflated: 0,
            lost: 0,
        })
    }

    /// Queues a tick. If the client is behind, the tick replaces the one of its kind that waits.
    pub fn tick(&mut self, now: Instant, kind: K, payload: P) -> Put {
        self.weighed_tick(now, kind, 0, payload)
    }

    /// As [`tick`](Outbox::tick), with a weight that counts towards [`conflate_bytes`](Options::conflate_bytes).
    pub fn weighed_tick(&mut self, now: Instant, kind: K, weight: usize, payload: P) -> Put {
        let mut put = Put::default();
        self.delivery = self.delivery_at(now);
        if self.delivery == Delivery::Latest {
            put.conflated = self.conflate();
            if let Some(number) = self.ticks.get(&kind)
                && let Some(message) = &mut self.line[(number - self.left) as usize]
            {
                self.tick_weight = self.tick_weight - message.weight + weight;
                (message.weight, message.payload) = (weight, payload);
                self.conflated += 1;
                put.conflated += 1;
                return put;
            }
            if self.queued == self.options.max_ticks {
                put.lost = self.lose_oldest();
            }
        }
        let number = self.left + self.line.len() as u64;
        // Gaps that were taken off the end give their numbers back.
        self.oldest = self.oldest.min(number);
        self.ticks.insert(kind.clone(), number);
        self.queued += 1;
        self.tick_weight += weight;
        self.push(Message { since: now, weight, kind: Some(kind), payload });
        put
    }

    /// A reply: it waits its turn.
    ///
    /// # Errors
    /// When too many wait.
    pub fn reply(&mut self, now: Instant, payload: P) -> Result<(), Overflow> {
        self.weighed_reply(now, 0, payload)
    }

    /// A reply that weighs something, in whatever the caller measures: how much waits is [known](Outbox::weight), and up to the
    /// caller.
    ///
    /// # Errors
    /// When too many wait.
    pub fn weighed_reply(&mut self, now: Instant, weight: usize, payload: P) -> Result<(), Overflow> {
        if self.replies == self.options.max_replies {
            return Err(Overflow { waiting: self.replies });
        }
        self.replies += 1;
        self.weight += weight;
        self.push(Message { since: now, weight, kind: None, payload });
        Ok(())
    }

    /// What is to be sent next.
    pub fn next(&mut self, now: Instant) -> Option<P> {
        let Message { weight, kind, payload, .. } = self.line.pop_front()??;
        match kind {
            None => {
                self.replies -= 1;
                self.weight -= weight;
            }
            Some(kind) => {
                self.queued -= 1;
                self.tick_weight -= weight;
                if let Entry::Occupied(last) = self.ticks.entry(kind)
                    && *last.get() == self.left
                {
                    last.remove();
                }
            }
        }
        self.left += 1;
        self.drop_leading_gaps();
        self.waiting_since = (!self.is_empty()).then_some(now);
        self.shrink();
        Some(payload)
    }

    /// Removes the ticks of this kind that wait: the client does not want any more of them.
    pub fn forget(&mut self, kind: &K) {
        let Some(last) = self.ticks.remove(kind) else { return };
        let last = (last - self.left) as usize;
        // With one tick of each kind the last is the only one.
        let first = if self.queued > self.ticks.len() + 1 { 0 } else { last };
        for at in first..=last {
            if self.line[at].as_ref().is_some_and(|message| message.kind.as_ref() == Some(kind)) {
                self.remove_tick(at);
            }
        }
        self.trim();
    }

    /// When the client is slow, if it takes nothing until then.
    pub fn slow_at(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since + self.options.slow_after)
    }

    /// Whether the client has taken nothing for `slow_after` although something waits.
    pub fn is_slow(&self, now: Instant) -> bool {
        self.slow_at().is_some_and(|at| at <= now)
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.queued + self.replies
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of these are replies.
    pub fn replies(&self) -> usize {
        self.replies
    }

    /// What the replies that wait weigh in all.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// How many ticks gave their place to newer ones.
    pub fn conflated(&self) -> u64 {
        self.conflated
    }

    /// How many ticks were lost because too many kinds of them waited.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Which ticks the client gets if one more comes now.
    fn delivery_at(&self, now: Instant) -> Delivery {
        let Options { max_ticks, conflate_messages, conflate_bytes, conflate_after, .. } = self.options;
        // Half of it on the way back, so that it does not change with every tick.
        let exceeds = |waiting: usize, most: usize| match self.delivery {
            Delivery::Every => waiting >= most,
            Delivery::Latest => waiting > most / 2,
        };
        // There is no gap in front.
        let first = self.line.front().and_then(Option::as_ref);
        let late = first.is_some_and(|first| now.saturating_duration_since(first.since) > conflate_after);
        let behind = late
            || exceeds(self.len(), conflate_messages)
            || exceeds(self.weight + self.tick_weight, conflate_bytes)
            || exceeds(self.queued, max_ticks);
        if behind { Delivery::Latest } else { Delivery::Every }
    }

    /// Leaves one tick of each kind: the latest, in the place of the first. How many are gone.
    fn conflate(&mut self) -> u64 {
        let before = self.queued;
        if before == self.ticks.len() {
            return 0;
        }
        for at in 0..self.line.len() {
            let number = self.left + at as u64;
            let Some(Message { kind: Some(kind), .. }) = &self.line[at] else { continue };
            let Some(place) = self.ticks.get_mut(kind) else { continue };
            match number.cmp(place) {
                Ordering::Less => {
                    let last = (std::mem::replace(place, number) - self.left) as usize;
                    self.line.swap(at, last);
                    // The place keeps its time.
                    let since = self.line[last].as_ref().map(|first| first.since);
                    if let (Some(latest), Some(since)) = (&mut self.line[at], since) {
                        latest.since = since;
                    }
                    self.remove_tick(last);
                }
                Ordering::Equal => {}
                Ordering::Greater => self.remove_tick(at),
            }
        }
        self.trim();
        let conflated = (before - self.queued) as u64;
        self.conflated += conflated;
        conflated
    }

    fn push(&mut self, message: Message<K, P>) {
        self.waiting_since.get_or_insert(message.since);
        self.line.push_back(Some(message));
    }

    /// Leaves a gap where this tick is.
    fn remove_tick(&mut self, at: usize) {
        if let Some(message) = self.line[at].take() {
            self.queued -= 1;
            self.tick_weight -= message.weight;
        }
    }

    fn lose_oldest(&mut self) -> u64 {
        // What was passed over once need not be again: a tick is never put before another.
        let passed = self.oldest.saturating_sub(self.left) as usize;
        let ticks = self.line.iter().enumerate().skip(passed);
        let found = ticks.filter_map(|(at, message)| Some((at, message.as_ref()?.kind.clone()?))).next();
        let Some((at, kind)) = found else { return 0 };
        self.oldest = self.left + at as u64;
        self.forget(&kind);
        self.lost += 1;
        1
    }

    fn drop_leading_gaps(&mut self) {
        while let Some(None) = self.line.front() {
            self.line.pop_front();
            self.left += 1;
        }
    }

    /// Takes gaps off both ends, and all of them when they are many, so that memory follows what waits.
    fn trim(&mut self) {
        self.drop_leading_gaps();
        while let Some(None) = self.line.back() {
            self.line.pop_back();
        }
        if self.line.len() > 2 * self.len() + 64 {
            self.line.retain(Option::is_some);
            self.oldest = self.left;
            for (at, message) in self.line.iter().enumerate() {
                if let Some(Message { kind: Some(kind), .. }) = message {
                    self.ticks.insert(kind.clone(), self.left + at as u64);
                }
            }
        }
        if self.is_empty() {
            self.waiting_since = None;
        }
        self.shrink();
    }

    /// Half of the room goes when three quarters of it are empty, so that it is not got back at once.
    fn shrink(&mut self) {
        let capacity = self.line.capacity();
        if capacity > ROOM && self.line.len() < capacity / 4 {
            self.line.shrink_to(capacity / 2);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_what_waits() {
        let (mut outbox, now) = (Outbox::new(Options::default()).unwrap(), Instant::now());
        for kind in 0..10_000 {
            outbox.tick(now, kind, ());
        }
        while outbox.len() > 1_000 {
            outbox.next(now);
        }
        assert!(outbox.line.capacity() <= 4 * 1_000, "{}", outbox.line.capacity());
        (0..10_000).for_each(|kind| outbox.forget(&kind));
        assert!(outbox.line.capacity() <= ROOM, "{}", outbox.line.capacity());
    }

    #[test]
    fn replies_are_passed_over_once_when_the_oldest_tick_is_lost() {
        let options = Options { max_ticks: 10, ..Options::default() };
        let (mut outbox, now) = (Outbox::new(options).unwrap(), Instant::now());
        (0..1_000).for_each(|_| outbox.reply(now, None).unwrap());
        for kind in 0..100_u32 {
            outbox.tick(now, kind, Some(kind));
        }
        assert_eq!((outbox.oldest, outbox.lost()), (1_000 + 89, 90));
        let left: Vec<u32> = std::iter::from_fn(|| outbox.next(now)).flatten().collect();
        assert_eq!(left, (90..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_oldest_tick_is_lost_although_its_number_was_anothers_before() {
        let options = Options { max_ticks: 2, ..Options::default() };
        let (mut outbox, now) = (Outbox::new(options).unwrap(), Instant::now());
        outbox.reply(now, 0).unwrap();
        for kind in [1, 2] {
            outbox.tick(now, kind, kind);
        }
        outbox.forget(&1);
        for kind in [3, 4] {
            outbox.tick(now, kind, kind);
        }
        [3, 4].into_iter().for_each(|kind| outbox.forget(&kind));
        for kind in [5, 6, 7] {
            outbox.tick(now, kind, kind);
        }
        assert_eq!(std::iter::from_fn(|| outbox.next(now)).collect::<Vec<_>>(), [0, 6, 7]);
    }

    #[test]
    fn replies_weigh_as_long_as_they_wait() {
        let (mut outbox, now) = (Outbox::<u8, _>::new(Options::default()).unwrap(), Instant::now());
        outbox.weighed_reply(now, 3, "a").unwrap();
        outbox.weighed_reply(now, 4, "b").unwrap();
        assert_eq!((outbox.weight(), outbox.next(now), outbox.weight()), (7, Some("a"), 4));
    }
}
