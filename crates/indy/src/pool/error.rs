//! Why a pool cannot be opened, brought up to date, or asked.

use crate::catch_up::CatchUpError;
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
    /// The nodes do not agree on a ledger, or say nothing.
    #[error("the nodes do not agree on a ledger")]
    NoAgreement(#[source] RequestError<Message>),
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
    /// Nobody answered in time.
    #[error("no node answered in time")]
    TimedOut(#[source] RequestError<Message>),
    /// Too few nodes gave the same answer.
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
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed,
    /// The request could not be made as wanted.
    #[error("the request could not be made")]
    Request(#[source] RequestError<Message>),
}

impl From<RequestError<Message>> for SubmitError {
    fn from(error: RequestError<Message>) -> SubmitError {
        let said = |wanted: fn(&Told<Message>) -> bool| error.accounts().iter().any(|account| wanted(&account.told));
        let answered = said(|told| matches!(told, Told::Reply(_) | Told::Invalid(_)));
        let refusal = error.accounts().iter().find_map(|account| match &account.told {
            Told::Nack(Message::Refusal { reason, .. }) => Some(reason.clone()),
            _ => None,
        });
        match (&error, refusal) {
            (RequestError::Closed { .. }, _) => SubmitError::Closed,
            (RequestError::Refused { .. } | RequestError::NoAnswer { .. }, Some(reason)) if !answered => {
                SubmitError::Rejected { reason, source: error }
            }
            (RequestError::NoQuorum { .. } | RequestError::NoAnswer { .. }, refusal) => {
                if answered || refusal.is_some() {
                    SubmitError::NoConsensus(error)
                } else {
                    SubmitError::TimedOut(error)
                }
            }
            (RequestError::TimedOut { .. }, _) => SubmitError::TimedOut(error),
            _ => SubmitError::Request(error),
        }
    }
}
