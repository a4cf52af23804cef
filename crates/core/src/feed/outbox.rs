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
    replies: usize,
    /// Since when nothing has been taken although something waits.
    waiting_since: Option<Instant>,
    conflated: u64,
    lost: u64,
}

#[derive(Debug)]
enum Message<K, P> {
    Tick { kind: K, payload: P },
    Reply(P),
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
            replies: 0,
            waiting_since: None,
            conflated: 0,
            lost: 0,
        })
    }

    /// A tick: it takes the place of an earlier one of its kind that still waits.
    pub fn tick(&mut self, now: Instant, kind: K, payload: P) {
        if let Some(number) = self.ticks.get(&kind) {
            self.line[(number - self.left) as usize] = Some(Message::Tick { kind, payload });
            self.conflated += 1;
            return;
        }
        if self.ticks.len() == self.options.max_ticks {
            self.lose_oldest();
        }
        self.ticks.insert(kind.clone(), self.left + self.line.len() as u64);
        self.push(now, Message::Tick { kind, payload });
    }

    /// A reply: it waits its turn.
    ///
    /// # Errors
    /// When too many wait.
    pub fn reply(&mut self, now: Instant, payload: P) -> Result<(), Overflow> {
        if self.replies == self.options.max_replies {
            return Err(Overflow { waiting: self.replies });
        }
        self.replies += 1;
        self.push(now, Message::Reply(payload));
        Ok(())
    }

    /// What is to be sent next.
    pub fn next(&mut self, now: Instant) -> Option<P> {
        loop {
            let message = self.line.pop_front()?;
            self.left += 1;
            let payload = match message {
                None => continue,
                Some(Message::Reply(payload)) => {
                    self.replies -= 1;
                    payload
                }
                Some(Message::Tick { kind, payload }) => {
                    self.ticks.remove(&kind);
                    payload
                }
            };
            self.waiting_since = (!self.is_empty()).then_some(now);
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

    fn lose_oldest(&mut self) {
        let oldest = self.line.iter().find_map(|message| match message {
            Some(Message::Tick { kind, .. }) => Some(kind.clone()),
            Some(Message::Reply(_)) | None => None,
        });
        if let Some(kind) = oldest {
            self.forget(&kind);
            self.lost += 1;
        }
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
            for (at, message) in self.line.iter().enumerate() {
                if let Some(Message::Tick { kind, .. }) = message {
                    self.ticks.insert(kind.clone(), self.left + at as u64);
                }
            }
        }
        if self.is_empty() {
            self.waiting_since = None;
        }
    }
}
