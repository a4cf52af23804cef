//! What the machine and its driver tell each other.

use super::lines::ConnectionId;
use super::snapshot::Peak;
use super::topic::{Instrument, Level};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a connection to the upstream, and say what came of it with [`Machine::handle_opened`] or
    /// [`Machine::handle_ended`], at the latest after `timeout`.
    ///
    /// [`Machine::handle_opened`]: super::Machine::handle_opened
    /// [`Machine::handle_ended`]: super::Machine::handle_ended
    Open {
        /// How to name it.
        connection: ConnectionId,
        /// How long it may take.
        timeout: Duration,
    },
    /// Write these changes, and say what came of it with [`Machine::handle_written`], or that the connection has ended.
    ///
    /// [`Machine::handle_written`]: super::Machine::handle_written
    Write {
        /// Where.
        connection: ConnectionId,
        /// What; each instrument once.
        changes: Vec<Change>,
    },
    /// End this connection, or the attempt to open it, and say with [`Machine::handle_ended`] when it really has ended.
    ///
    /// [`Machine::handle_ended`]: super::Machine::handle_ended
    Close {
        /// Which.
        connection: ConnectionId,
        /// Whether it works, and a goodbye may take its time; otherwise it is dropped at once.
        goodbye: bool,
    },
    /// Something that people want to know.
    Tell(Milestone),
}

/// How much of an instrument a connection carries, and is to carry. Both are never nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of what.
    pub instrument: Instrument,
    /// What the connection carries of it so far; `None` is nothing: it is to be added.
    pub from: Option<Level>,
    /// What it is to carry; `None` is nothing: it is to be dropped.
    pub to: Option<Level>,
}

/// How a connection, or the attempt to open one, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It failed, was cut, or was closed as asked.
    Lost,
    /// The upstream refused the credential: trying again makes no sense.
    Credential,
    /// There was no credential to present. There may be one the next time.
    NoCredential,
}

/// What comes of a subscription, to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// It is streamed, or there is nothing to wait for.
    Placed(Placement),
    /// The upstream is told; there will be a [`Delivery`].
    Waiting(WaiterId),
    /// It cannot be.
    Refused(Refusal),
}

/// What a waiter gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Its topic has a place.
    Placed {
        /// Who.
        waiter: WaiterId,
        /// Where.
        placement: Placement,
    },
    /// Its topic has none, and its interest is not counted any more.
    Refused {
        /// Who.
        waiter: WaiterId,
        /// Why.
        refusal: Refusal,
    },
}

/// Where a topic was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// On which connection, counted from 1.
    pub connection: usize,
    /// How many connections there are.
    pub total_connections: usize,
    /// How many instruments are on that connection.
    pub on_connection: usize,
    /// Whether somebody had subscribed to the same before: this mode, and of an order book this depth.
    pub already: bool,
    /// Whether the upstream has not accepted it yet, or cannot carry it for now; it will be carried as soon as it can be.
    pub pending: bool,
    /// Why it is pending; `None` when it is not.
    pub why: Option<Pending>,
}

/// Why a topic is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The upstream has not said anything yet, neither yes nor no.
    Unanswered,
    /// There is no connection, and the last attempts to open one have failed; there will be others.
    Down,
    /// The upstream refuses the credential; nothing is tried until somebody says to go on.
    Credential,
    /// There is no connection, as there is no credential to present; it is looked for again.
    NoCredential,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pending::Unanswered => "the upstream has not answered yet",
            Pending::Down => "the upstream cannot be reached",
            Pending::Credential => "the upstream refuses the credential",
            Pending::NoCredential => "there is no credential for the upstream",
        })
    }
}

/// Why a topic has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Every connection that there may be is full.
    CapacityReached {
        /// Most connections.
        max_connections: usize,
        /// Most topics on each.
        max_topics_per_connection: usize,
        /// Topics there are.
        topics: usize,
    },
    /// The upstream does not want it.
    Upstream {
        /// What it said.
        reason: Arc<str>,
    },
    /// It was unsubscribed meanwhile: everything was, or this very interest was taken back.
    Unsubscribed,
    /// The feed is closed.
    Closed,
}

/// Names a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) u64);

/// Something that people want to know. Connections are counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Milestone {
    /// The feed is there.
    Created {
        /// Most topics on a connection.
        max_topics_per_connection: usize,
        /// Most connections.
        max_connections: usize,
        /// Most topics in all.
        capacity: usize,
    },
    /// A connection is opened because those there are cannot take another topic.
    Opening {
        /// Which.
        connection: usize,
        /// Topics on the one before it; `None` for the first.
        on_previous: Option<usize>,
        /// Topics there are.
        topics: usize,
    },
    /// A connection got its first topic.
    Started {
        /// Which.
        connection: usize,
        /// What.
        first: Instrument,
    },
    /// A connection has another hundred topics, or is full.
    Filled {
        /// Which.
        connection: usize,
        /// Topics on it.
        on_connection: usize,
        /// Topics in all.
        topics: usize,
        /// Connections in all.
        connections: usize,
    },
    /// An instrument is streamed at another level than before.
    Changed {
        /// Which.
        instrument: Instrument,
        /// What was streamed of it.
        from: Level,
        /// What is.
        to: Level,
        /// Where.
        connection: usize,
    },
    /// A connection has ended that had topics.
    Lost {
        /// Which.
        connection: usize,
        /// How many.
        topics: usize,
        /// Whether it is one of several in a row that did not last.
        again: bool,
    },
    /// A connection says nothing, or takes nothing, and is given up.
    Stalled {
        /// Which.
        connection: usize,
        /// Topics on it.
        topics: usize,
        /// Whether it is one of several in a row that did not last.
        again: bool,
    },
    /// The upstream cannot carry topics for now that it has accepted, as it says itself.
    Withheld {
        /// How many, to begin with.
        topics: usize,
    },
    /// The upstream carries everything again that it has accepted.
    Restored,
    /// A connection is back that had been lost, and its topics are subscribed again.
    Reopened {
        /// Which.
        connection: usize,
        /// How many.
        topics: usize,
    },
    /// Topics move to other connections: because theirs cannot be reopened, or to free it.
    Moved {
        /// From which.
        connection: usize,
        /// How many.
        topics: usize,
        /// Whether it works, and is to be freed.
        compacted: bool,
    },
    /// A connection was without topics for too long.
    Released {
        /// Which.
        connection: usize,
    },
    /// The upstream does not want a topic.
    TopicRefused {
        /// Which.
        instrument: Instrument,
        /// How much of it.
        level: Level,
        /// What it said.
        reason: Arc<str>,
        /// Whether it was asked for so much before, and refused that: it is asked again for those who were told that it is pending.
        again: bool,
    },
    /// The upstream refuses the credential; nothing is tried until somebody says to go on.
    CredentialRefused,
    /// Somebody said to go on.
    Resumed,
    /// Everything was unsubscribed.
    UnsubscribedAll {
        /// How many topics.
        topics: usize,
    },
    /// It has ended.
    Closed {
        /// The most there was.
        peak: Peak,
    },
}
