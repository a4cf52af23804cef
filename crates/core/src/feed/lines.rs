//! Lines: places for connections, and what each connection carries.

use super::entries::EntryId;
use super::options::Options;
use super::told::Pending;
use super::topic::Level;
use crate::idle::Idleness;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Names a connection, or the attempt to open it; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(super) u64);

impl ConnectionId {
    /// Which one it is, counted from 0; attempts that failed count.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A place for a connection, and the instruments that are at home there.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) state: LineState,
    /// Those that should be carried here.
    pub(super) homes: BTreeSet<EntryId>,
    /// Those that are carried here until their new home has them.
    pub(super) departing: BTreeSet<EntryId>,
    /// Whether a connection has been up.
    pub(super) worked: bool,
    /// Whether its topics lost their connection and are not back yet.
    pub(super) lost: bool,
    pub(super) setback: Option<Setback>,
}

/// What has gone wrong on a line since a connection last lived for long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setback {
    /// Attempts that failed, and connections that ended young or fell silent.
    pub(super) failures: u32,
    /// No connection is opened before.
    pub(super) until: Instant,
    /// Whether every attempt since the last connection has failed.
    pub(super) unopened: bool,
    /// Whether the last one had no credential to present.
    pub(super) uncredentialed: bool,
}

/// What a line is doing.
///
/// ```text
///           a topic needs room           opened
///  Vacant --------------------> Opening ---------> Up
///    |  ^                       ^  ^ |             |||
///    |  | nobody needs it       |  | | failed      ||+-- ended after a long life: Opening at once
///    |  +----------+  delay over|  | |             ||
///    |             |            |  | v  ended young||
///    +--------------> Waiting --+  | +-------------+|  without topics, or stalled
///     failed just       ^ ^--------|-+              v
///     now               |          |             Closing
///                       |          |                |
///                       +----------+----------------+ really ended, and topics need it: Waiting when it had
///                                                     stalled or failed just now, else Opening
/// ```
///
/// What ends without topics is Vacant. When the feed is closed, Opening becomes Closing, and Waiting Vacant.
#[derive(Debug)]
pub(super) enum LineState {
    /// Without a connection, and nobody needs one.
    Vacant,
    /// A connection is being opened.
    Opening { connection: ConnectionId },
    /// A connection is up.
    Up(Up),
    /// The last one failed, and another is opened then; `None` is when the credential is another.
    Waiting { until: Option<Instant> },
    /// The connection was told to end. One that was given up does not keep its topics meanwhile.
    Closing { connection: ConnectionId, given_up: bool },
}

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) connection: ConnectionId,
    pub(super) since: Instant,
    /// When it last said anything.
    pub(super) heard: Instant,
    /// When a topic last came or went.
    pub(super) used: Instant,
    pub(super) idleness: Idleness,
    /// What it carries, or may be carrying.
    pub(super) streams: BTreeMap<EntryId, Stream>,
    /// What it is to drop, and what it is to add or carry differently, in order of first subscription.
    pub(super) outgoing: BTreeSet<EntryId>,
    pub(super) incoming: BTreeSet<EntryId>,
    pub(super) write: Write,
}

/// How much of an instrument a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// So much.
    Held(Level),
    /// A write is under way that changes it.
    Writing { from: Option<Level>, to: Option<Level> },
}

impl Stream {
    /// What is carried whatever comes of the write under way.
    pub(super) fn sure(self) -> Option<Level> {
        match self {
            Stream::Held(level) => Some(level),
            Stream::Writing { from, to } => from.min(to),
        }
    }
}

/// Whether a connection can be written to: one batch at a time, at its pace.
#[derive(Debug)]
pub(super) enum Write {
    /// From then on.
    Ready { from: Instant },
    /// A batch is under way.
    Busy { batch: Vec<EntryId>, since: Instant },
}

impl Line {
    pub(super) fn new() -> Line {
        Line {
            state: LineState::Vacant,
            homes: BTreeSet::new(),
            departing: BTreeSet::new(),
            worked: false,
            lost: false,
            setback: None,
        }
    }

    /// How many more instruments can be at home here.
    pub(super) fn room(&self, options: &Options) -> usize {
        options.max_topics_per_connection.saturating_sub(self.homes.len() + self.departing.len())
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        match &self.state {
            LineState::Vacant | LineState::Waiting { .. } => None,
            LineState::Opening { connection } | LineState::Closing { connection, .. } => Some(*connection),
            LineState::Up(up) => Some(up.connection),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up().is_some()
    }

    pub(super) fn up(&self) -> Option<&Up> {
        match &self.state {
            LineState::Up(up) => Some(up),
            LineState::Vacant | LineState::Opening { .. } | LineState::Waiting { .. } | LineState::Closing { .. } => {
                None
            }
        }
    }

    pub(super) fn up_mut(&mut self) -> Option<&mut Up> {
        match &mut self.state {
            LineState::Up(up) => Some(up),
            LineState::Vacant | LineState::Opening { .. } | LineState::Waiting { .. } | LineState::Closing { .. } => {
                None
            }
        }
    }

    /// How much of it the connection carries for sure.
    pub(super) fn carries(&self, id: EntryId) -> Option<Level> {
        self.up()?.streams.get(&id)?.sure()
    }

    /// Whether the connection carries it, or may.
    pub(super) fn has_stream(&self, id: EntryId) -> bool {
        self.up().is_some_and(|up| up.streams.contains_key(&id))
    }

    /// A topic came or went.
    pub(super) fn used(&mut self, now: Instant) {
        let needed = !self.homes.is_empty() || !self.departing.is_empty();
        if let Some(up) = self.up_mut() {
            up.used = now;
            if needed {
                up.idleness.use_again();
            }
        }
    }

    /// Since when the connection has had no topic; `None` while it has one.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        let up = self.up()?;
        let unused = self.homes.is_empty() && self.departing.is_empty() && up.streams.is_empty();
        unused.then_some(up.used)
    }

    /// Whether attempts to open a connection have failed, and none has succeeded since.
    pub(super) fn is_failing(&self) -> bool {
        self.setback.is_some_and(|setback| setback.unopened)
    }

    /// Why there is no connection.
    pub(super) fn trouble(&self) -> Pending {
        match self.setback {
            Some(Setback { uncredentialed: true, .. }) => Pending::NoCredential,
            Some(Setback { uncredentialed: false, .. }) | None => Pending::Down,
        }
    }

    /// Whether there is no connection, and little hope for one by then.
    pub(super) fn is_down(&self, by: Instant) -> bool {
        match &self.state {
            LineState::Waiting { until } => self.is_failing() || until.is_none_or(|until| until >= by),
            LineState::Opening { .. } => self.is_failing(),
            LineState::Vacant | LineState::Up(_) | LineState::Closing { .. } => false,
        }
    }

    /// Whether its topics are better off elsewhere: there is no connection, and none is being opened.
    pub(super) fn is_stranded(&self) -> bool {
        match &self.state {
            LineState::Waiting { .. } | LineState::Closing { given_up: true, .. } => !self.homes.is_empty(),
            LineState::Vacant | LineState::Opening { .. } | LineState::Up(_) => false,
            LineState::Closing { given_up: false, .. } => false,
        }
    }

    /// Whether the connection is up and carries nothing, not even perhaps.
    pub(super) fn is_drained(&self) -> bool {
        self.up().is_some_and(|up| up.streams.is_empty())
    }

    pub(super) fn next_timeout(&self, options: &Options) -> Option<Instant> {
        match &self.state {
            LineState::Vacant | LineState::Opening { .. } | LineState::Closing { .. } => None,
            LineState::Waiting { until } => *until,
            LineState::Up(up) => {
                let stalled = options.stall_after.map(|stall_after| up.heard + stall_after);
                let write = match &up.write {
                    Write::Busy { since, .. } => Some(*since + options.write_timeout),
                    Write::Ready { from } => up.has_work(options).then_some(*from),
                };
                [stalled, write].into_iter().flatten().min()
            }
        }
    }
}

impl Up {
    pub(super) fn new(connection: ConnectionId, now: Instant) -> Up {
        Up {
            connection,
            since: now,
            heard: now,
            used: now,
            idleness: Idleness::Using,
            streams: BTreeMap::new(),
            outgoing: BTreeSet::new(),
            incoming: BTreeSet::new(),
            write: Write::Ready { from: now },
        }
    }

    /// Whether there is something to write that there is room for.
    pub(super) fn has_work(&self, options: &Options) -> bool {
        let room = self.streams.len() < options.max_topics_per_connection;
        let changes = |id: &EntryId| room || self.streams.contains_key(id);
        !self.outgoing.is_empty() || self.incoming.iter().any(changes)
    }
}
