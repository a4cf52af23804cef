//! What a node does when it is asked.

use std::time::Duration;

/// What a node does when it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Conduct {
    /// As it should: an acknowledgement where nodes give one, and the answer.
    #[default]
    Honest,
    /// Listens, and says nothing.
    Mute,
    /// Acknowledges requests, and says nothing more to them; of its ledger it tells as it should.
    AckOnly,
    /// Answers with what is not so: another root, other transactions, other results.
    Lying,
    /// Answers as it should, this much later; acknowledges at once.
    Slow(Duration),
    /// Refuses every request with REQNACK and this reason.
    Nack(String),
    /// Acknowledges every request, and then refuses it with REJECT and this reason.
    Reject(String),
    /// Answers with this text, whatever it is asked.
    Says(String),
    /// Closes the socket instead of an answer.
    Disconnects,
    /// Answers CATCHUP_REQ in parts of so many transactions.
    Splitting(usize),
    /// The same, but the first part comes this much later, and so does each after the one before.
    SplittingSlowly(usize, Duration),
    /// Leaves the last transaction out of its answers to CATCHUP_REQ.
    Lacking,
    /// Answers everything twice.
    Twice,
}
