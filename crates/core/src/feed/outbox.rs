//! The outbox: messages that wait until a client reads them.
//!
//! A tick is worth something only while it is the latest: a newer one of the same kind takes the place of one that was not
//! sent yet, in the same spot of the line. So a client that reads slowly gets fewer ticks, never old ones, and its outbox has at
//! most one message of each kind. Replies to what it asked are kept as they are.
//!
//! ```
//! use carom_core::feed::outbox::{Outbox, Options};
//! use std::time::Instant;
//!
//! # #[allow(clippy::disallowed_methods)]
//! let now = Instant::now();
//! let mut outbox = Outbox::new(Options::default()).unwrap();
//! outbox.tick(now, "SBIN", "812.05");
//! outbox.reply(now, "pong").unwrap();
//! outbox.tick(now, "SBIN", "812.10");
//! assert_eq!((outbox.next(now), outbox.next(now), outbox.next(now)), (Some("812.10"), Some("pong"), None));
//! assert_eq!(outbox.conflated(), 1);
//! ```

use crate::options::{OptionsError, sane};
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
}

/// 10,000 ticks, 1,000 replies, 30 s.
impl Default for Options {
    fn default() -> Options {
        Options { max_ticks: 10_000, max_replies: 1_000, slow_after: Duration::from_secs(30) }
    }
}

impl Options {
    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        for (option, count) in [("max_ticks", self.max_ticks), ("max_replies", self.max_replies)] {
            if count == 0 {
                return Err(OptionsError::new(option, "must be at least 1"));
            }
        }
        sane("slow_after", Some(self.slow_after))
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
    line: VecDeque<Option<Message<K, P>>>,
    /// How many have left the line: the first in it has this number.
    left: u64,
    /// The number of the tick of each kind that waits.
    ticks: BTreeMap<K, u64>,
    /// No tick that waits has a smaller number.
    oldest: u64,
    replies: usize,
    /// What the replies that wait weigh.
    weight: usize,
    /// Since when nothing has been taken although something waits.
    waiting_since: Option<Instant>,
    conflated: u64,
    lost: u64,
}

/// What became of the ticks that wait when another came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// All of them wait still.
    Beside,
    /// An earlier one of its kind gave its place.
    Conflated,
    /// The oldest is lost: there were too many.
    Lost,
}

#[derive(Debug)]
enum Message<K, P> {
    Tick { kind: K, payload: P },
    Reply { weight: usize, payload: P },
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
            line: VecDeque::new(),
            left: 0,
            ticks: BTreeMap::new(),
            oldest: 0,
            replies: 0,
            weight: 0,
            waiting_since: None,
            conflated: 0,
            lost: 0,
        })
    }

    /// A tick: it takes the place of an earlier one of its kind that still waits. What became of those that wait.
    pub fn tick(&mut self, now: Instant, kind: K, payload: P) -> Put {
        if let Some(number) = self.ticks.get(&kind) {
            self.line[(number - self.left) as usize] = Some(Message::Tick { kind, payload });
            self.conflated += 1;
            return Put::Conflated;
        }
        let put = match self.ticks.len() == self.options.max_ticks {
            true => self.lose_oldest(),
            false => Put::Beside,
        };
        let number = self.left + self.line.len() as u64;
        // Gaps that were taken off the end give their numbers back.
        self.oldest = self.oldest.min(number);
        self.ticks.insert(kind.clone(), number);
        self.push(now, Message::Tick { kind, payload });
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
        self.push(now, Message::Reply { weight, payload });
        Ok(())
    }

    /// What is to be sent next.
    pub fn next(&mut self, now: Instant) -> Option<P> {
        loop {
            let message = self.line.pop_front()?;
            self.left += 1;
            let payload = match message {
                None => continue,
                Some(Message::Reply { weight, payload }) => {
                    self.replies -= 1;
                    self.weight -= weight;
                    payload
                }
                Some(Message::Tick { kind, payload }) => {
                    self.ticks.remove(&kind);
                    payload
                }
            };
            self.waiting_since = (!self.is_empty()).then_some(now);
            self.shrink();
            return Some(payload);
        }
    }

    /// Forgets a tick of this kind that waits: the client does not want any more of them.
    pub fn forget(&mut self, kind: &K) {
        if let Some(number) = self.ticks.remove(kind) {
            self.line[(number - self.left) as usize] = None;
            self.trim();
        }
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
        self.ticks.len() + self.replies
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

    fn push(&mut self, now: Instant, message: Message<K, P>) {
        self.waiting_since.get_or_insert(now);
        self.line.push_back(Some(message));
    }

    fn lose_oldest(&mut self) -> Put {
        // What was passed over once need not be again: a tick is never put before another.
        let passed = self.oldest.saturating_sub(self.left) as usize;
        let found = self.line.iter().enumerate().skip(passed).find_map(|(at, message)| match message {
            Some(Message::Tick { kind, .. }) => Some((at, kind.clone())),
            Some(Message::Reply { .. }) | None => None,
        });
        let Some((at, kind)) = found else { return Put::Beside };
        self.oldest = self.left + at as u64;
        self.forget(&kind);
        self.lost += 1;
        Put::Lost
    }

    /// Takes gaps off both ends, and all of them when they are many, so that memory follows what waits.
    fn trim(&mut self) {
        while let Some(None) = self.line.front() {
            self.line.pop_front();
            self.left += 1;
        }
        while let Some(None) = self.line.back() {
            self.line.pop_back();
        }
        if self.line.len() > 2 * self.len() + 64 {
            self.line.retain(Option::is_some);
            self.oldest = self.left;
            for (at, message) in self.line.iter().enumerate() {
                if let Some(Message::Tick { kind, .. }) = message {
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
