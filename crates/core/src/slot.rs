//! A slot: a place bound to one backend, with or without a connection.
//!
//! The pool decides what a slot does next; this file says what it can be doing, and what each of these carries along.

use crate::idle::Idleness;
use crate::recovery::Tries;
use std::fmt;
use std::time::{Duration, Instant};

/// A slot in one particular stay in one state. It is stale as soon as the slot has moved on, so that an event that comes
/// late (a connect that was given up, a watcher of an earlier idling) is told apart from one that still matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotRef {
    pub(crate) index: u32,
    pub(crate) epoch: u64,
}

impl SlotRef {
    /// A small number, reused, for tables kept beside the machine.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// What a connection has behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub(crate) born: Instant,
    /// When it was last known to be alive: made, back from use, or checked. Never too late, but perhaps a little early.
    pub(crate) seen: Instant,
    /// When it was last known to work: made, or passed a check or recycle.
    pub(crate) checked: Instant,
    pub(crate) expires: Option<Instant>,
    pub(crate) uses: u64,
    /// Attempts that had failed before it was made. They are forgiven when it has lived for a while.
    pub(crate) failures: u32,
}

impl Life {
    /// It is known to be alive now, or taken to have been until now.
    pub(crate) fn seen_at(self, now: Instant) -> Life {
        Life { seen: self.seen.max(now), ..self }
    }

    /// When it was connected.
    pub fn born(&self) -> Instant {
        self.born
    }

    /// How often it has been lent, the present time included.
    pub fn uses(&self) -> u64 {
        self.uses
    }
}

/// What a slot is doing.
///
/// ```text
///             its turn                connected
///   Held -----------------> Connecting --------+--------> Idle <----------- released --------- Busy
///    ^                      ^   |              |          |  ^ |                               ^ | |
///    |  too many dial       |   | failed       |          |  | +----------- claimed -----------+ | |
///    +---------- Backoff ---+   |              |    check |  | passed                            | |
///                  ^            |              |    after v  |                                   | |
///                  +------------+              |        Checking                                 | |
///                  | attempts left             |              | failed, cut short                | |
///                  +--------------------------------<---------+---------------- failed() --------+ |
///                  |                           |                                                   |
///   given up, unwanted, cut short              |           unwanted, retired, discarded, removed   |
///                  +------> Closing <----------+---------------------------------------------------+
///                              |
///                              +--> Gone, or Backoff when an attempt was cut short
/// ```
///
/// A connection is taken aside for a check when it has idled for a while, after a use, or when another connection of its backend
/// broke: then it is suspect, and waits for its turn.
///
/// `Closing` lasts until the driver says that the connection, or the attempt to make one, has ended; until then the slot
/// counts against the maximum.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Nothing: the place in the table is free.
    Gone,
    /// Planned, but it is not its turn to dial.
    Held { tries: Tries },
    /// An attempt is under way.
    Connecting { tries: Tries, deadline: Instant },
    /// Waiting for the next attempt.
    Backoff { tries: Tries, until: Instant },
    /// Connected and unused. `looked_at` is when it was last used or checked; until it has settled, roughly.
    Idle { life: Life, last_used: Instant, looked_at: Instant, idleness: Idleness },
    /// Lent. An `unwanted` one is closed when it comes back; only for a `timed` one `since` is exact.
    Busy { life: Life, since: Instant, timed: bool, unwanted: bool, report: Report },
    /// Taken aside, for a check or to be cleaned after use.
    Checking { life: Life, last_used: Instant, since: Instant, aside: Aside },
    /// Ending.
    Closing { then: Then, since: Instant },
}

/// What the user of a connection has reported of its backend so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Nothing: returning the connection open is a successful use.
    None,
    /// The use succeeded, and its latency is known.
    Success,
    /// The use is no evidence for or against the backend.
    Neutral,
    /// The use failed.
    Failure,
}

impl Report {
    /// Whether returning the connection open is a successful use.
    pub(crate) fn allows_success(self) -> bool {
        match self {
            Report::None | Report::Success => true,
            Report::Neutral | Report::Failure => false,
        }
    }
}

/// Why a connection was taken aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// It has idled for a while.
    Check,
    /// It has been used. Passing makes that a successful use, unless its user reported otherwise.
    AfterUse { report: Report, was_short: bool },
    /// Another connection of the backend broke: it waits for its check, or, if nothing is known of it, for a connect.
    Suspect { unknown: bool },
    /// Its check because of that.
    SuspectCheck,
}

/// What follows when a slot's connection has ended.
#[derive(Clone, Debug)]
pub(crate) enum Then {
    Gone,
    /// The next attempt, after a delay that began when the last one was cut short.
    Retry {
        tries: Tries,
        until: Instant,
    },
}

/// What a slot is doing, for people and for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// Planned, but it is not its turn to dial.
    Held,
    /// An attempt to connect is under way.
    Connecting,
    /// Waiting for the next attempt.
    Backoff,
    /// Connected and unused.
    Idle,
    /// Lent.
    Busy,
    /// Being checked, or cleaned after use, or waiting for a check because another connection of the backend broke.
    Checking,
    /// Ending.
    Closing,
}

impl Phase {
    pub(crate) const COUNT: usize = 7;

    /// Every phase.
    pub const ALL: [Phase; Phase::COUNT] =
        [Phase::Held, Phase::Connecting, Phase::Backoff, Phase::Idle, Phase::Busy, Phase::Checking, Phase::Closing];

    fn name(self) -> &'static str {
        match self {
            Phase::Held => "held",
            Phase::Connecting => "connecting",
            Phase::Backoff => "backoff",
            Phase::Idle => "idle",
            Phase::Busy => "busy",
            Phase::Checking => "checking",
            Phase::Closing => "closing",
        }
    }
}

impl State {
    /// What the connection has behind it, if there is one that is not ending.
    pub(crate) fn life(&self) -> Option<Life> {
        match self {
            State::Idle { life, .. } | State::Busy { life, .. } | State::Checking { life, .. } => Some(*life),
            State::Gone
            | State::Held { .. }
            | State::Connecting { .. }
            | State::Backoff { .. }
            | State::Closing { .. } => None,
        }
    }

    /// When the attempt to connect began that is under way.
    pub(crate) fn began(&self) -> Option<Instant> {
        match self {
            State::Connecting { tries, deadline } => deadline.checked_sub(tries.timeout()),
            State::Gone
            | State::Held { .. }
            | State::Backoff { .. }
            | State::Idle { .. }
            | State::Busy { .. }
            | State::Checking { .. }
            | State::Closing { .. } => None,
        }
    }

    /// Connected, but not known to work since another connection of the backend broke.
    pub(crate) fn is_suspect(&self) -> bool {
        match self {
            State::Checking { aside: Aside::Suspect { .. } | Aside::SuspectCheck, .. } => true,
            State::Checking { aside: Aside::Check | Aside::AfterUse { .. }, .. }
            | State::Gone
            | State::Held { .. }
            | State::Connecting { .. }
            | State::Backoff { .. }
            | State::Idle { .. }
            | State::Busy { .. }
            | State::Closing { .. } => false,
        }
    }

    pub(crate) fn phase(&self) -> Option<Phase> {
        match self {
            State::Gone => None,
            State::Held { .. } => Some(Phase::Held),
            State::Connecting { .. } => Some(Phase::Connecting),
            State::Backoff { .. } => Some(Phase::Backoff),
            State::Idle { .. } => Some(Phase::Idle),
            State::Busy { .. } => Some(Phase::Busy),
            State::Checking { .. } => Some(Phase::Checking),
            State::Closing { .. } => Some(Phase::Closing),
        }
    }
}

/// How many slots are in each phase.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    phases: [u32; Phase::COUNT],
    /// Of those that are checked: how many are suspect.
    suspects: u32,
}

impl Counts {
    /// How many are in this phase.
    pub fn of(&self, phase: Phase) -> usize {
        self.phases[phase as usize] as usize
    }

    /// All of them.
    pub fn total(&self) -> usize {
        self.phases.iter().map(|count| *count as usize).sum()
    }

    /// Those with a connection that works as far as anyone knows: suspect ones are not among them.
    pub fn working(&self) -> usize {
        self.of(Phase::Idle) + self.of(Phase::Busy) + self.of(Phase::Checking) - self.suspects()
    }

    /// Those with a connection that is checked, or waits to be, because another connection of the backend broke.
    pub fn suspects(&self) -> usize {
        self.suspects as usize
    }

    /// Those on their way to a connection: held, connecting or backing off.
    pub fn pending(&self) -> usize {
        self.of(Phase::Held) + self.of(Phase::Connecting) + self.of(Phase::Backoff)
    }

    #[inline]
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phases[phase as usize] += 1;
    }

    #[inline]
    pub(crate) fn leave(&mut self, phase: Phase) {
        self.phases[phase as usize] -= 1;
    }

    pub(crate) fn note_suspects(&mut self, leave: usize, enter: usize) {
        self.suspects = self.suspects + enter as u32 - leave as u32;
    }
}

/// The phases that any are in: `Counts { idle: 2, busy: 14 }`.
impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = f.debug_struct("Counts");
        for phase in Phase::ALL.into_iter().filter(|&phase| self.of(phase) > 0) {
            counts.field(phase.name(), &self.of(phase));
        }
        counts.finish()
    }
}

/// A slot and who it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) epoch: u64,
    pub(crate) backend: u32,
    /// Where it stands among its backend's slots.
    pub(crate) standing: u32,
    /// When its last attempt to connect began.
    pub(crate) dialled_at: Instant,
    /// It probes a dead backend, and does not count against the maximum.
    pub(crate) probe: bool,
    /// The backend has sent bytes on its connection that no user has read.
    pub(crate) has_unread: bool,
    /// Its connection was reset, or broke in another way that its backend is to blame for.
    pub(crate) is_broken: bool,
    /// Its connection is cleaned after use, before it is lent again.
    pub(crate) recycles: bool,
    pub(crate) state: State,
}

/// How long a connection idles at least, and half of how long at most, before it has settled: before it is watched and
/// asked whether it is open. A busy pool pays nothing for either.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_by_phase() {
        let mut counts = Counts::default();
        assert_eq!(format!("{counts:?}"), "Counts");
        [Phase::Busy, Phase::Idle, Phase::Busy].into_iter().for_each(|phase| counts.enter(phase));
        assert_eq!(format!("{counts:?}"), "Counts { idle: 1, busy: 2 }");
    }
}
