//! Why a pool cannot be opened, brought up to date, or asked.

use crate::catch_up::{CatchUpError, Wanted};
use crate::genesis::GenesisError;
use crate::message::Message;
use carom::window::{Account, BuildError, NodesError, RequestError, Told};

/// Why a pool is not open, or not up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The genesis is of no use.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// An option makes no sense.
    #[error(transparent)]
    Options(#[from] BuildError),
    /// The nodes do not agree on a ledger.
    #[error("the nodes do not agree on a ledger")]
    NoAgreement(#[source] RequestError<Message>),
    /// No node said in time how far its ledger goes.
    #[error("no node answered in time")]
    TimedOut(#[source] RequestError<Message>),
    /// There was no connection to any node, or none that lasted until an answer.
    #[error("no node could be reached, or the connection broke")]
    Disconnected(#[source] RequestError<Message>),
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed,
    /// What the nodes agree on is not what there is here.
    #[error("the ledger here is not that of the pool")]
    Conflict(#[from] CatchUpError),
    /// No node gave the transactions that are missing.
    #[error("nobody gave transactions {start} to {end}")]
    NoTransactions {
        /// The first of them.
        start: u64,
        /// The last.
        end: u64,
        /// What every node said, in the order in which they were asked.
        accounts: Vec<Account<Message>>,
        /// How asking ended.
        #[source]
        source: RequestError<Message>,
    },
    /// The ledger names nobody to ask.
    #[error("the ledger with {size} transactions names no validator that can be used")]
    NoNodes {
        /// How many transactions it has.
        size: u64,
        /// What is wrong with the nodes.
        #[source]
        source: NodesError,
    },
}

/// Why there is no answer to a request. The source says who answered what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The request cannot be sent.
    #[error("the request is malformed: {0}")]
    Malformed(String),
    /// No node answered in time. Of a write: it was not sent.
    #[error("no node answered in time")]
    TimedOut(#[source] RequestError<Message>),
    /// There was no connection to any node, or none that lasted until an answer; one that is too long ends it too. Of a write:
    /// it was not sent.
    #[error("no node could be reached, or the connection broke")]
    Disconnected(#[source] RequestError<Message>),
    /// A write was sent, too few nodes gave the same answer, and not all that may have it have refused it: no node answered in time,
    /// connections ended before the answer, or the pool was closed. It may have been carried out. The same request can be submitted
    /// again; nodes that have carried it out answer it without doing so again.
    #[error("sent, outcome unknown: submit the same request again")]
    OutcomeUnknown(#[source] RequestError<Message>),
    /// Too few nodes gave the same answer. Of a write: all that it was sent to have refused it.
    #[error("too few nodes gave the same answer")]
    NoConsensus(#[source] RequestError<Message>),
    /// The pool does not want it.
    #[error("the request was rejected: {reason}")]
    Rejected {
        /// Why.
        reason: String,
        /// Who said so.
        #[source]
        source: RequestError<Message>,
    },
    /// The pool is closed. Of a write: it was not sent.
    #[error("the pool is closed")]
    Closed,
    /// The request could not be made as wanted.
    #[error("the request could not be made")]
    Request(#[source] RequestError<Message>),
}

impl PoolError {
    /// Of a question that all nodes were asked.
    pub(super) fn of_question(error: RequestError<Message>) -> PoolError {
        match (&error, Heard::of(&error)) {
            (RequestError::Closed { .. }, _) => PoolError::Closed,
            (RequestError::TimedOut { .. }, _) | (_, Heard::Silence) => PoolError::TimedOut(error),
            (_, Heard::NoConnection) => PoolError::Disconnected(error),
            (_, Heard::Answers | Heard::Nothing) => PoolError::NoAgreement(error),
        }
    }

    /// Of transactions that were asked of these nodes before the last attempt.
    pub(super) fn of_transactions(
        wanted: Wanted,
        mut accounts: Vec<Account<Message>>,
        source: RequestError<Message>,
    ) -> PoolError {
        if let RequestError::Closed { .. } = source {
            return PoolError::Closed;
        }
        accounts.extend_from_slice(source.accounts());
        PoolError::NoTransactions { start: wanted.start, end: wanted.end, accounts, source }
    }
}

impl From<RequestError<Message>> for SubmitError {
    fn from(error: RequestError<Message>) -> SubmitError {
        let refusal = error.accounts().iter().find_map(|account| match &account.told {
            Told::Nack(Message::Refusal { reason, .. }) => Some(reason.clone()),
            _ => None,
        });
        match (&error, Heard::of(&error), refusal) {
            (RequestError::Closed { .. }, ..) => SubmitError::Closed,
            (RequestError::TimedOut { .. }, ..) => SubmitError::TimedOut(error),
            (RequestError::Refused { .. } | RequestError::NoAnswer { .. }, heard, Some(reason))
                if heard != Heard::Answers =>
            {
                SubmitError::Rejected { reason, source: error }
            }
            (RequestError::NoQuorum { .. } | RequestError::NoAnswer { .. }, heard, refusal) => match heard {
                Heard::Silence if refusal.is_none() => SubmitError::TimedOut(error),
                Heard::NoConnection if refusal.is_none() => SubmitError::Disconnected(error),
                Heard::Answers | Heard::Silence | Heard::NoConnection | Heard::Nothing => {
                    SubmitError::NoConsensus(error)
                }
            },
            _ => SubmitError::Request(error),
        }
    }
}

impl SubmitError {
    /// Of a write: it may have been carried out if a node can have received it and has not refused it. That so many nodes as
    /// should agree refuse it for the same reason is an answer.
    pub(super) fn of_write(error: RequestError<Message>) -> SubmitError {
        let may_have_it = |account: &Account<Message>| account.sent && !matches!(account.told, Told::Nack(_));
        let unknown = match &error {
            RequestError::NoQuorum { accounts, .. } | RequestError::NoAnswer { accounts, .. } => {
                accounts.iter().any(may_have_it)
            }
            RequestError::Closed { sent, .. } => *sent,
            _ => false,
        };
        if unknown { SubmitError::OutcomeUnknown(error) } else { SubmitError::from(error) }
    }
}

/// The most that was heard of the nodes that were asked, but for refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heard {
    /// Nobody was asked, or all refused, or still had time.
    Nothing,
    /// Connections failed.
    NoConnection,
    /// Somebody had the time to answer, and did not.
    Silence,
    /// Somebody answered, well or not.
    Answers,
}

impl Heard {
    fn of(error: &RequestError<Message>) -> Heard {
        let heard = error.accounts().iter().map(|account| match account.told {
            Told::Reply(_) | Told::Invalid(_) => Heard::Answers,
            Told::NoAck { .. } | Told::NoReply { .. } => Heard::Silence,
            Told::Closed(_) => Heard::NoConnection,
            // Who is still waited for when the rest settle it had not all of its time.
            Told::Nack(_) | Told::Waiting | Told::NotAsked => Heard::Nothing,
        });
        heard.max().unwrap_or(Heard::Nothing)
    }
}
