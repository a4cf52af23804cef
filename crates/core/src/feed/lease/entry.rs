//! What a register holds for a lease: whose it is, and for which time.

use std::sync::Arc;

/// Whose a lease is, as the register says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nothing is written, or nothing that can be read: there may be a holder whom the register has forgotten.
    Unknown,
    /// Nobody's: who had it has given it back.
    Free,
    /// This member's, for as long as it renews it.
    Member(Arc<str>),
}

/// What is written into a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose the lease is from now on.
    pub holder: Holder,
    /// Which hold it is: higher for each later one. One hold lasts from a claim until it ends, for whatever reason.
    pub epoch: u64,
}

/// What is read from a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Another one with every write; 0 if nothing was ever written.
    pub revision: u64,
    /// What was written.
    pub mark: Mark,
}

impl Entry {
    /// What a register says that knows nothing.
    pub fn absent() -> Entry {
        Entry::unreadable(0)
    }

    /// Something is written, and it says nothing about a holder.
    pub fn unreadable(revision: u64) -> Entry {
        Entry { revision, mark: Mark { holder: Holder::Unknown, epoch: 0 } }
    }
}
