//! A glance: every question and how it stands, and what has been asked so far, for people.

use super::Machine;
use super::lookup::{Found, Lookup, Outcome, State};
use super::question::{Answer, Question};
use std::time::Instant;

/// A question that is asked now and then, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// What is asked.
    pub question: Question,
    /// How it stands.
    pub standing: Standing,
    /// How many records it has brought; those of the last good answer, also when later ones were none.
    pub records: usize,
    /// When it is asked again; `None` while it is under way, or waits for its turn.
    pub next: Option<Instant>,
}

/// How a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Under way, or waits for its turn.
    Asking,
    /// Records were found.
    Answered,
    /// There are none of the kind.
    Nothing,
    /// The last attempt failed.
    Failed,
}

/// What was asked and said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions that were asked, each attempt for itself.
    pub asked: u64,
    /// Of these, those that nameservers answered, and be it that there is nothing.
    pub answered: u64,
    /// Of these, those that failed. The rest is under way or was cancelled.
    pub failed: u64,
    /// How often something was published.
    pub published: u64,
}

impl Counters {
    pub(super) fn ended(&mut self, answer: &Answer) {
        match answer {
            Answer::Targets { .. } | Answer::NotOffered { .. } | Answer::Addresses { .. } | Answer::Nothing { .. } => {
                self.answered += 1
            }
            Answer::NotImplemented | Answer::Refused | Answer::Trouble => self.failed += 1,
        }
    }
}

impl Machine {
    /// Every question that is asked now and then: first that for the service, then those for addresses. What came along with
    /// another answer is not asked for.
    pub fn glances(&self) -> Vec<Glance> {
        self.lookups.values().filter(|lookup| lookup.state != State::Off).map(Lookup::glance).collect()
    }

    /// What was asked and said so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl Lookup {
    fn glance(&self) -> Glance {
        let standing = match (&self.state, self.outcome) {
            (State::Off | State::Queued { .. } | State::Asking { .. }, _) => Standing::Asking,
            (State::Delayed { .. }, _) => Standing::Failed,
            // It has ended, or it would not rest.
            (State::Resting, Outcome::Good | Outcome::Unknown) => Standing::Answered,
            (State::Resting, Outcome::Nothing { .. }) => Standing::Nothing,
            (State::Resting, Outcome::Trouble) => Standing::Failed,
        };
        let records = match &self.found {
            Some(Found::Targets(targets)) => targets.len(),
            Some(Found::Addresses(addresses)) => addresses.len(),
            None => 0,
        };
        Glance { question: self.question.clone(), standing, records, next: self.wakes_at }
    }
}
