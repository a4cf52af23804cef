//! What a member is at the moment: the owner of an upstream, or one who knows who is.

use super::clock;
use std::sync::Arc;
use tokio::time::Instant;

/// What a member is. The owner is so by its own clock alone: see [`owns`](Role::owns).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nobody is known to be the owner.
    Unknown,
    /// Another member is.
    Follower {
        /// Who.
        owner: Arc<str>,
        /// In which hold: higher for each later one, whoever has it.
        epoch: u64,
    },
    /// This member is, for a while.
    Owner {
        /// In which hold: higher for each later one, whoever has it.
        epoch: u64,
        /// Nothing may be left of it by then; it moves on whenever the lease is renewed. By a clock that goes on while the machine
        /// is suspended, which tokio's need not: see [`owns`](Role::owns).
        until: Instant,
    },
}

impl Role {
    /// In which hold this member is the owner, now. A role that says so may be out of date: nobody says that the time is over to
    /// one who was asleep. So it is judged by the time of day as well, which goes on while a machine is suspended.
    pub fn owns(&self, now: Instant) -> Option<u64> {
        match self {
            Role::Owner { epoch, until } if clock::counting(now) < *until => Some(*epoch),
            Role::Owner { .. } | Role::Follower { .. } | Role::Unknown => None,
        }
    }
}
