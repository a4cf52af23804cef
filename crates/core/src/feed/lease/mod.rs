//! The lease: which of several members may have connections to an upstream, agreed upon by way of a register.
//!
//! The register keeps one entry with a revision, and writes over it only for who names the revision it has. The holder renews
//! its entry every `renew`, and holds for `hold` from when it *sent* the latest renewal that was done, by its own clock and
//! whatever anybody answers. The others claim the lease when they have seen the same entry for `ttl`, from when they saw it
//! first, by theirs. As a renewal is sent before it can be seen, and `hold` is shorter than `ttl` by more than clocks differ, there
//! are never two who hold: however late, lost or out of order messages are, and however long a member was stopped. Its clock must
//! go on meanwhile, also while the whole machine is suspended.
//!
//! An entry that is not there is that of a holder whom the register has forgotten, and waited for as long. One that says *free*
//! is claimed at once, and so is one's own, when a hold has ended and nobody else has claimed meanwhile; not when a later hold
//! is known of, as a register that was restored says what was so once. Nothing is claimed but what was read a moment ago.
//!
//! What is not promised is that a register may forget what hardly anybody has seen: a claim that is gone before the others have
//! read it, or were told of it, has never been for them.
//!
//! An *epoch* is one unbroken hold. Each later one is higher, as who claims has read the one before; also if the register has
//! forgotten it, as it is at least the time in milliseconds since 1970, and members do not disagree about that by `ttl`.
//!
//! ```
//! use carom_core::feed::lease::{Action, Entry, Machine, Options, Standing, Written};
//! use std::time::{Duration, Instant};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let mut lease = Machine::new(start, "this".into(), Options::default(), Duration::from_secs(1_800_000_000), 7).unwrap();
//!
//! // It reads every half second, and nothing is there.
//! let mut now = start;
//! let (over, mark, request) = loop {
//!     lease.handle_timeout(now);
//!     match lease.poll_action() {
//!         Some(Action::Read { request }) => lease.handle_read(now, request, Some(Entry::absent())),
//!         Some(Action::Write { over, mark, request }) => break (over, mark, request),
//!         None => now = lease.next_timeout().unwrap(),
//!     }
//! };
//! assert!((over, now >= start + Duration::from_secs(3)) == (0, true));
//!
//! lease.handle_written(now + Duration::from_millis(2), request, Written::Done(1));
//! assert_eq!(lease.standing(), Standing::Mine { epoch: mark.epoch, until: now + Duration::from_secs(2) });
//! ```

mod answers;
mod entry;
mod leaving;
mod options;

pub use entry::{Entry, Holder, Mark};
pub use options::Options;

use crate::options::OptionsError;
use crate::random::Random;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names a request to the register; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(u64);

/// What the driver is to do, now. An answer that comes after another request was made is not waited for any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the entry, and say so with [`Machine::handle_read`].
    Read {
        /// Which request this is.
        request: RequestId,
    },
    /// Write over the entry of this revision, and say so with [`Machine::handle_written`].
    Write {
        /// Which request this is.
        request: RequestId,
        /// The revision that the entry must have; 0 if there must be none.
        over: u64,
        /// What to write.
        mark: Mark,
    },
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is done, and this is the entry's revision.
    Done(u64),
    /// The entry has another revision.
    Conflict,
    /// It cannot be told: it may have been done, or be done later.
    Failed,
}

/// What this member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody is known to hold the lease.
    Nobody,
    /// Another member holds it, or did when it was heard of last.
    Other {
        /// Who.
        holder: Arc<str>,
        /// In which hold.
        epoch: u64,
    },
    /// This member holds it until then, unless it is renewed.
    Mine {
        /// In which hold.
        epoch: u64,
        /// The hold is over then by this member's own clock, also if the machine was not told what time it is.
        until: Instant,
    },
}

/// Where a member is.
///
/// ```text
///        another was faster, no answer
///      +-------------------------------------+
///      v                                     |
///  +----------+  free, own, or unchanged  +----------+  done  +-----------------------------------+
///  | Watching | ------------------------> | Claiming | -----> | Holding                           |
///  +----------+  for ttl                  +----------+        |           due                     |
///      ^  |                                   |               | RenewAt ------> Renewing          |
///      |  |                                   |               |    ^  ^   done   |   | not done   |
///      |  |                                   |               |    |  +----------+   v            |
///      |  |                                   |               |    +------------- Looking         |
///      |  |                                   |               |     still own                     |
///      |  |                                   |               +-----------------------------------+
///      +--|-- hold has passed, or not own ----|-------------------------+         |
///         |                                   |                                   |
///         | release                           | release                           | release
///         v                                   v                                   v
///      +------+         freed, or not own  +----------------------------------------+
///      | Left | <------------------------- | Leaving: Settling -> Freeing <- Looking |
///      +------+                            +----------------------------------------+
/// ```
///
/// Who stands aside does the same as who is released, and is Watching in the end, where it claims nothing.
#[derive(Debug)]
enum State {
    /// Not a holder: reads at intervals, and waits for its turn.
    Watching { sight: Option<Sight>, look: Look },
    /// A claim over what was seen has been sent.
    Claiming { sight: Sight, epoch: u64, sent: Instant, request: RequestId },
    /// The holder.
    Holding { hold: Hold, upkeep: Upkeep },
    /// On the way out: what is this member's is written free.
    Leaving(Leaving),
    /// Nothing is asked any more.
    Left,
}

/// Which part a member takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It claims the lease when it can be had.
    Candidate,
    /// It knows who has it.
    Aside,
    /// None, as soon as nothing is left of its hold.
    Leaver,
}

/// What was seen, and since when it is the same.
#[derive(Clone, Debug)]
struct Sight {
    entry: Entry,
    /// When it was read last.
    seen: Instant,
    /// From when on it may be claimed, unless it changes or is out of sight for long.
    claim_at: Instant,
}

/// A hold: nothing is left of it at `until`.
#[derive(Clone, Copy, Debug)]
struct Hold {
    revision: u64,
    epoch: u64,
    until: Instant,
}

/// What a holder does to stay one.
#[derive(Debug)]
enum Upkeep {
    RenewAt(Instant),
    Renewing {
        sent: Instant,
        request: RequestId,
    },
    /// A renewal was not done, or nobody knows: what does the register say?
    Looking(Look),
}

/// Reading the entry.
#[derive(Clone, Copy, Debug)]
enum Look {
    At(Instant),
    Asked { request: RequestId, deadline: Instant },
}

/// What is left to do for one who leaves.
#[derive(Debug)]
enum Leaving {
    /// A claim or a renewal is under way, and is better heard of first.
    Settling { request: RequestId, deadline: Instant, epoch: u64 },
    /// It has been written that the lease is free.
    Freeing { request: RequestId, deadline: Instant },
    /// It is not known whether the lease is this member's.
    Looking(Look),
}

/// The machine behind one member's part in a lease.
#[derive(Debug)]
pub struct Machine {
    me: Arc<str>,
    options: Options,
    random: Random,
    /// The time since 1970, as of lately.
    wall: Duration,
    /// The highest epoch of which it is certain that the register had it: it was read, or held.
    known: u64,
    /// The highest epoch that was read or claimed with.
    highest: u64,
    part: Part,
    state: State,
    requests: u64,
    actions: VecDeque<Action>,
}

impl Machine {
    /// A member that begins to watch at once. `me` is its name, which no other has, nor has had in another life of the same
    /// process. `wall` is the time since 1970; see [`handle_wall_clock`](Machine::handle_wall_clock).
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn new(
        now: Instant,
        me: Arc<str>,
        options: Options,
        wall: Duration,
        seed: u64,
    ) -> Result<Machine, OptionsError> {
        options.validate()?;
        Ok(Machine {
            me,
            options,
            random: Random::new(seed),
            wall,
            known: 0,
            highest: 0,
            part: Part::Candidate,
            state: State::Watching { sight: None, look: Look::At(now) },
            requests: 0,
            actions: VecDeque::new(),
        })
    }

    /// What this member is, as far as the machine was told what time it is.
    pub fn standing(&self) -> Standing {
        match &self.state {
            State::Watching { sight: Some(sight), .. } | State::Claiming { sight, .. } => {
                let Mark { holder, epoch } = &sight.entry.mark;
                match holder {
                    Holder::Member(holder) if *holder != self.me => {
                        Standing::Other { holder: holder.clone(), epoch: *epoch }
                    }
                    Holder::Member(_) | Holder::Free | Holder::Unknown => Standing::Nobody,
                }
            }
            State::Holding { hold, .. } => Standing::Mine { epoch: hold.epoch, until: hold.until },
            State::Watching { sight: None, .. } | State::Leaving(_) | State::Left => Standing::Nobody,
        }
    }

    /// Whether there is nothing more to do, after [`release`](Machine::release).
    pub fn has_left(&self) -> bool {
        matches!(self.state, State::Left)
    }

    /// Whether it gives the lease back as it was told to, or has done so for good.
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving(_) | State::Left)
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What time it is, since 1970: epochs begin there when the register has forgotten, and nothing else depends on it. Told before
    /// what was read is, as the clock that `now` comes from may not agree with it for long.
    pub fn handle_wall_clock(&mut self, wall: Duration) {
        self.wall = wall;
    }

    /// When [`handle_timeout`](Machine::handle_timeout) is to be called, if nothing else happens before.
    pub fn next_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Watching { look, .. } => Some(look.due()),
            State::Claiming { sent, .. } => Some(*sent + self.options.renew),
            State::Holding { hold, upkeep } => {
                let due = match upkeep {
                    Upkeep::RenewAt(at) => *at,
                    Upkeep::Renewing { sent, .. } => *sent + self.options.renew,
                    Upkeep::Looking(look) => look.due(),
                };
                Some(due.min(hold.until))
            }
            State::Leaving(Leaving::Settling { deadline, .. } | Leaving::Freeing { deadline, .. }) => Some(*deadline),
            State::Leaving(Leaving::Looking(look)) => Some(look.due()),
            State::Left => None,
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.next_timeout().is_some_and(|due| due <= now) {
            self.state = match mem::replace(&mut self.state, State::Left) {
                State::Watching { sight, look } => State::Watching { sight, look: self.look(now, look) },
                State::Claiming { sight, .. } => State::Watching { sight: Some(sight), look: Look::At(now) },
                State::Holding { hold, .. } if now >= hold.until => {
                    State::Watching { sight: None, look: Look::At(now) }
                }
                State::Holding { hold, upkeep: Upkeep::RenewAt(_) } => self.renew(now, hold),
                State::Holding { hold, upkeep: Upkeep::Renewing { .. } } => {
                    State::Holding { hold, upkeep: Upkeep::Looking(Look::At(now)) }
                }
                State::Holding { hold, upkeep: Upkeep::Looking(look) } => {
                    State::Holding { hold, upkeep: Upkeep::Looking(self.look(now, look)) }
                }
                State::Leaving(Leaving::Settling { .. } | Leaving::Freeing { .. }) => {
                    State::Leaving(Leaving::Looking(Look::At(now)))
                }
                State::Leaving(Leaving::Looking(look)) => State::Leaving(Leaving::Looking(self.look(now, look))),
                State::Left => State::Left,
            };
        }
    }

    /// Reads, if it is time to; if there was no answer in time, it is.
    fn look(&mut self, now: Instant, look: Look) -> Look {
        match look {
            Look::At(_) => {
                let request = self.request();
                self.actions.push_back(Action::Read { request });
                Look::Asked { request, deadline: now + self.options.renew }
            }
            Look::Asked { .. } => Look::At(now),
        }
    }

    fn renew(&mut self, now: Instant, hold: Hold) -> State {
        let mark = Mark { holder: Holder::Member(self.me.clone()), epoch: hold.epoch };
        let request = self.write(hold.revision, mark);
        State::Holding { hold, upkeep: Upkeep::Renewing { sent: now, request } }
    }

    fn write(&mut self, over: u64, mark: Mark) -> RequestId {
        let request = self.request();
        self.actions.push_back(Action::Write { request, over, mark });
        request
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }
}

impl Look {
    fn due(&self) -> Instant {
        match self {
            Look::At(at) => *at,
            Look::Asked { deadline, .. } => *deadline,
        }
    }

    fn is(&self, request: RequestId) -> bool {
        matches!(self, Look::Asked { request: asked, .. } if *asked == request)
    }
}
