//! A lookup: one question, asked for as long as its answer is wanted.

use super::question::{AskId, Kind, Question, Target};
use crate::recovery::Tries;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Where a lookup is.
///
/// ```text
///        wanted            room                 answered, or no attempts left
///  Off ----------> Queued -------> Asking -----------------------------------> Resting
///   ^                ^                |  trouble                                 |
///   |                |                +----------> Delayed                       |
///   |                +--- delay over (*) ------------'                           |
///   |                +--- time over (*) -----------------------------------------'
///   +--- from anywhere, when something else answers it
///
///  (*) or nameservers are back, after trouble
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not asked: the answer came along with another, or is of no use.
    Off,
    /// Waits for room among the questions under way.
    Queued { tries: Tries },
    /// Under way.
    Asking { id: AskId, tries: Tries },
    /// An attempt failed; the next is made later.
    Delayed { tries: Tries },
    /// Nothing to ask for a while.
    Resting,
}

/// How the question ended last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has not.
    Unknown,
    /// With records.
    Good,
    /// There are none; the name itself `exists` or not.
    Nothing { exists: bool },
    /// In trouble.
    Trouble,
}

/// What an answer brought, sorted and without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Targets(Vec<Target>),
    Addresses(Vec<IpAddr>),
}

/// One question, where it is, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) question: Question,
    pub(super) state: State,
    /// Counts the states it has been in, so that a timer set for an earlier one is told apart.
    pub(super) stay: u32,
    /// When time ends the state it is in, if it does.
    pub(super) wakes_at: Option<Instant>,
    pub(super) outcome: Outcome,
    /// The last good answer. It stays in trouble.
    pub(super) found: Option<Found>,
    /// How long the last good answer was good for; there has been one if it is known.
    pub(super) ttl: Option<Duration>,
    /// The question was answered at least once, perhaps that there are no records.
    pub(super) answered: bool,
    /// Since when what was found is not backed by the latest outcome.
    pub(super) stale_since: Option<Instant>,
    /// Its last attempt failed.
    pub(super) faltered: bool,
    /// An attempt has ended, or something else answered it.
    pub(super) tried: bool,
    /// It is to be tried, and has not been yet: nothing should be concluded without it.
    pub(super) awaited: bool,
}

impl Lookup {
    pub(super) fn new(question: Question) -> Lookup {
        Lookup {
            question,
            state: State::Off,
            stay: 0,
            wakes_at: None,
            outcome: Outcome::Unknown,
            found: None,
            ttl: None,
            answered: false,
            stale_since: None,
            faltered: false,
            tried: false,
            awaited: false,
        }
    }

    pub(super) fn enter(&mut self, state: State) {
        self.state = state;
        self.stay = self.stay.wrapping_add(1);
        self.wakes_at = None;
    }

    /// Whether its first attempts are under way or still to come. Later ones prove nothing: of many lookups one is always busy.
    pub(super) fn is_in_first_round(&self) -> bool {
        match self.state {
            State::Off | State::Resting => false,
            State::Queued { .. } | State::Asking { .. } | State::Delayed { .. } => self.outcome == Outcome::Unknown,
        }
    }

    /// The addresses found.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        match &self.found {
            Some(Found::Addresses(addresses)) => addresses,
            Some(Found::Targets(_)) | None => &[],
        }
    }

    /// Whether it is one of those that do not answer. SRV never counts as such: everything depends on it.
    pub(super) fn is_troubled(&self) -> bool {
        self.faltered && self.question.kind != Kind::Srv
    }

    /// It ended well. Whether that changes anything.
    pub(super) fn succeed(&mut self, found: Found, ttl: Duration) -> bool {
        let news = self.found.as_ref() != Some(&found) || self.outcome != Outcome::Good;
        self.found = Some(found);
        self.ttl = Some(ttl);
        self.outcome = Outcome::Good;
        self.answered = true;
        self.faltered = false;
        self.stale_since = None;
        news
    }

    /// It ended otherwise; what was found before stays, as stale.
    pub(super) fn disappoint(&mut self, now: Instant, outcome: Outcome) {
        self.outcome = outcome;
        self.answered |= matches!(outcome, Outcome::Nothing { .. });
        self.faltered = outcome == Outcome::Trouble;
        if self.found.is_some() {
            self.stale_since.get_or_insert(now);
        }
    }

    /// Begins anew, as if it had never been asked. Whether that changes anything.
    pub(super) fn reset(&mut self) -> bool {
        let news = self.found.is_some() || self.outcome != Outcome::Unknown;
        self.forget();
        self.ttl = None;
        self.answered = false;
        self.outcome = Outcome::Unknown;
        self.faltered = false;
        news
    }

    /// Forgets what was found: it is no longer so.
    pub(super) fn forget(&mut self) {
        self.found = None;
        self.stale_since = None;
    }
}
