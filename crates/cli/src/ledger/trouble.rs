//! Trouble with a pool, for people: what failed, and a line for each node that was asked.

use crate::failure::{Failure, with_causes};
use crate::output::printable;
use carom::window::{Account, Told};
use carom_indy::message::Message;
use carom_indy::{PoolError, SubmitError};
use std::error::Error;
use std::fmt::Write as _;

/// A pool that could not be opened.
pub(super) fn of_pool(error: PoolError) -> Failure {
    match &error {
        PoolError::NoAgreement(source) | PoolError::TimedOut(source) | PoolError::Disconnected(source) => {
            told(&error, source.accounts())
        }
        PoolError::NoTransactions { accounts, .. } => told(&error, accounts),
        PoolError::Options(_) => Failure::Usage(with_causes(&error)),
        _ => Failure::Unavailable(printable(&with_causes(&error))),
    }
}

/// A request without an answer.
pub(super) fn of_request(error: SubmitError) -> Failure {
    match &error {
        SubmitError::TimedOut(source)
        | SubmitError::Disconnected(source)
        | SubmitError::OutcomeUnknown(source)
        | SubmitError::NoConsensus(source)
        | SubmitError::Rejected { source, .. }
        | SubmitError::Request(source) => told(&error, source.accounts()),
        SubmitError::Malformed(_) => Failure::Input(error.to_string()),
        _ => Failure::Unavailable(printable(&with_causes(&error))),
    }
}

fn told(error: &dyn Error, accounts: &[Account<Message>]) -> Failure {
    if accounts.is_empty() {
        return Failure::Unavailable(printable(&with_causes(error)));
    }
    let mut text = printable(&error.to_string());
    for account in accounts {
        let told = match &account.told {
            Told::Nack(Message::Refusal { reason, .. }) => format!("refused: {reason}"),
            Told::Reply(answer) | Told::Invalid(answer) => said(answer, &account.told),
            Told::Closed(error) => with_causes(&**error),
            told => told.to_string(),
        };
        let _ = write!(text, "\n  {}: {}", printable(&account.node), printable(&told));
    }
    Failure::Unavailable(text)
}

/// An answer that was not enough, as far as it fits in a line.
fn said(answer: &Message, told: &Told<Message>) -> String {
    match answer {
        Message::Status(head) => format!("{told}: {head}"),
        Message::Proof(proof) => format!("{told}: {}", proof.new),
        Message::Ack { .. }
        | Message::Refusal { .. }
        | Message::Reply { .. }
        | Message::Transactions(_)
        | Message::Other => told.to_string(),
    }
}
