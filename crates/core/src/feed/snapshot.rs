//! A copy of a feed's state, for people.

use super::entries::{Entry, EntryId, Home};
use super::lines::{Line, LineState, Up, Write};
use super::told::Pending;
use super::topic::{Instrument, Level};
use super::{Due, Machine, State};
use crate::idle::Idleness;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// A feed at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Where it is.
    pub state: State,
    /// Topics that are at home somewhere: distinct instruments, those that only linger among them.
    pub topics: usize,
    /// Of these, those that are carried as they are wanted.
    pub live: usize,
    /// Topics that the upstream has accepted and cannot carry for now, as it says itself.
    pub withheld: usize,
    /// Who waits to hear of a topic.
    pub waiting: usize,
    /// The most there was.
    pub peak: Peak,
    /// Every connection, and every attempt to open one.
    pub connections: Vec<ConnectionGlance>,
    /// What has happened so far.
    pub counters: Counters,
}

/// What has happened to a feed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Ticks that counted.
    pub ticks: u64,
    /// Attempts to open a connection.
    pub connects: u64,
    /// Of these, those that failed.
    pub connect_failures: u64,
    /// Of these, those that led to a connection. The rest is under way, or was given up because nobody needed it.
    pub opened: u64,
    /// Of these, those that have ended and lived for long enough to be nothing to worry about.
    pub settled: u64,
    /// Connections that were up and ended by themselves, or were given up because they had stalled.
    pub lost: u64,
}

/// The most topics there were at a time, and how they lay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Topics.
    pub topics: usize,
    /// Connections they were on.
    pub connections: usize,
    /// Topics on each of these.
    pub on_each: Vec<usize>,
}

/// A connection of a feed at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionGlance {
    /// Which one, counted from 1.
    pub index: usize,
    /// What it is doing.
    pub state: ConnectionState,
    /// Topics at home on it.
    pub topics: usize,
    /// Changes that wait to be written, or are being written.
    pub unwritten: usize,
    /// How far it is on its way out for want of topics.
    pub idleness: Option<Idleness>,
    /// When it last said anything.
    pub heard: Option<Instant>,
    /// Whether it is not up, though there was a connection before, or an attempt to open one: it was lost, did not last, or
    /// failed.
    pub failing: bool,
    /// Whether it waits because there was no credential to present.
    pub lacks_credential: bool,
    /// When it is opened again, if opening it failed and there is such a time: not while the credential is refused.
    pub next_attempt: Option<Instant>,
}

/// What a connection of a feed is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// It is being opened.
    Opening,
    /// It is up.
    Up,
    /// Opening it failed; it is tried again later.
    Waiting,
    /// It is about to end.
    Closing,
}

/// How a topic stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is carried as it is wanted.
    Live,
    /// The upstream has not been told yet, or has not answered.
    Pending,
    /// The upstream does not want so much of it; it is tried again now and then.
    Refused {
        /// What it said.
        reason: Arc<str>,
    },
    /// Nobody wants it any more, and it is about to be given up.
    Lingering,
}

/// A topic of a feed at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicGlance {
    /// Of what.
    pub instrument: Instrument,
    /// The most that is wanted of it.
    pub wanted: Level,
    /// What is carried of it; what is less than wanted, or nothing, is on its way.
    pub carried: Option<Level>,
    /// Which connection it is at home on, counted from 1.
    pub connection: usize,
    /// How many want it.
    pub interest: usize,
    /// How it stands.
    pub standing: Standing,
    /// When it last ticked: how stale it is.
    pub last_tick: Option<Instant>,
}

impl Machine {
    /// A copy of its state, without the topics.
    pub fn snapshot(&self) -> Snapshot {
        let connections = self.lines.iter().enumerate().filter_map(|(at, line)| {
            let state = match &line.state {
                LineState::Vacant => return None,
                LineState::Opening { .. } => ConnectionState::Opening,
                LineState::Up(_) => ConnectionState::Up,
                LineState::Waiting { .. } => ConnectionState::Waiting,
                LineState::Closing { .. } => ConnectionState::Closing,
            };
            Some(ConnectionGlance {
                index: at + 1,
                state,
                topics: line.homes.len(),
                unwritten: line.up().map_or(line.homes.len(), Up::unwritten),
                idleness: line.up().map(|up| up.idleness),
                heard: line.up().map(|up| up.heard),
                failing: match line.state {
                    LineState::Opening { .. }
                    | LineState::Waiting { .. }
                    | LineState::Closing { given_up: true, .. } => line.lost || line.setback.is_some(),
                    LineState::Vacant | LineState::Up(_) | LineState::Closing { given_up: false, .. } => false,
                },
                lacks_credential: match line.state {
                    LineState::Waiting { .. } => line.trouble() == Pending::NoCredential,
                    LineState::Vacant | LineState::Opening { .. } | LineState::Up(_) | LineState::Closing { .. } => {
                        false
                    }
                },
                next_attempt: match line.state {
                    LineState::Waiting { until } => until,
                    LineState::Vacant | LineState::Opening { .. } | LineState::Up(_) | LineState::Closing { .. } => {
                        None
                    }
                },
            })
        });
        Snapshot {
            state: self.state,
            topics: self.topics(),
            live: self.live,
            withheld: self.withheld,
            waiting: self.waiters.len(),
            peak: self.peak.clone(),
            connections: connections.collect(),
            counters: self.counters,
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether something is wanted, and all of it is carried as it is wanted: whatever went wrong before is over.
    pub fn is_whole(&self) -> bool {
        self.live > 0 && self.live == self.topics() && self.waiters.is_empty()
    }

    /// Every topic that is at home somewhere, in order of first subscription.
    pub fn glances(&self) -> Vec<TopicGlance> {
        self.entries.iter().filter_map(|(id, entry)| self.glance(*id, entry)).collect()
    }

    /// One instrument, if it is at home somewhere.
    pub fn glance_at(&self, instrument: &Instrument) -> Option<TopicGlance> {
        let id = *self.ids.get(instrument)?;
        self.glance(id, self.entries.get(&id)?)
    }

    fn glance(&self, id: EntryId, entry: &Entry) -> Option<TopicGlance> {
        let (line, wanted) = (entry.home.line()?, entry.wants.highest()?);
        let standing = match &entry.refused {
            _ if !entry.wants.is_counted() => Standing::Lingering,
            // If less of it was refused, more is carried.
            Some(_) | None if self.is_live(id, entry) => Standing::Live,
            Some(refused) => Standing::Refused { reason: Arc::clone(&refused.reason) },
            None => Standing::Pending,
        };
        Some(TopicGlance {
            instrument: entry.instrument.clone(),
            wanted,
            carried: self.carried(id),
            connection: line + 1,
            interest: entry.wants.count(),
            standing,
            last_tick: entry.last_tick,
        })
    }

    pub(super) fn is_live(&self, id: EntryId, entry: &Entry) -> bool {
        let carried = self.carried(id);
        carried.is_some() && carried >= entry.wants.highest()
    }

    pub(super) fn note_peak(&mut self) {
        let topics = self.topics();
        if topics > self.peak.topics {
            let homes = self.lines.iter().map(|line| line.homes.len());
            let on_each: Vec<usize> = homes.filter(|topics| *topics > 0).collect();
            self.peak = Peak { topics, connections: on_each.len(), on_each };
        }
    }

    /// How many things it remembers: for simulations.
    pub fn footprint(&self) -> usize {
        let of_line = |line: &Line| {
            let of_up = |up: &Up| up.streams.len() + up.unwritten();
            1 + line.homes.len() + line.departing.len() + line.up().map_or(0, of_up)
        };
        let lines: usize = self.lines.iter().map(of_line).sum();
        let entries = self.entries.len() + self.ids.len() + self.lingering.len();
        entries + lines + self.waiters.len() + self.agenda.len()
    }

    /// Whether everything it keeps is accounted for: for simulations.
    ///
    /// # Errors
    /// What is not, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.ids.len() != self.entries.len() {
            return Err(format!("{} instruments, {} entries", self.ids.len(), self.entries.len()));
        }
        if self.lines.len() > self.options.max_connections {
            return Err(format!("{} lines", self.lines.len()));
        }
        for (at, line) in self.lines.iter().enumerate() {
            let homes = |id: &EntryId| self.entries.get(id).is_some_and(|entry| entry.home.line() == Some(at));
            let departs = |id: &EntryId| {
                self.entries.get(id).is_some_and(|entry| matches!(entry.home, Home::Moving { from, .. } if from == at))
            };
            if !line.homes.iter().all(homes) || !line.departing.iter().all(departs) {
                return Err(format!("line {at} has what is at home elsewhere"));
            }
            let limit = self.options.max_topics_per_connection;
            let (held, streams) = (line.homes.len() + line.departing.len(), line.up().map_or(0, |up| up.streams.len()));
            if held > limit || streams > limit {
                return Err(format!("line {at} has {held} topics and carries {streams}"));
            }
            if matches!(line.state, LineState::Vacant | LineState::Waiting { .. })
                && line.homes.is_empty() != matches!(line.state, LineState::Vacant)
            {
                return Err(format!("line {at} is {:?} with {} topics", line.state, line.homes.len()));
            }
        }
        let has_room = |line: &Line| line.is_up() && line.room(&self.options) > 0;
        let may_move = self.moves_at.is_none() && self.lines.iter().any(Line::is_stranded);
        if may_move && self.lines.iter().any(has_room) {
            return Err("topics wait on a line that cannot be reopened, though another has room".to_owned());
        }
        for (id, entry) in &self.entries {
            let places = [entry.home.line(), entry.home.source()];
            let known = places
                .into_iter()
                .flatten()
                .all(|line| self.lines[line].homes.contains(id) || self.lines[line].departing.contains(id));
            if !known || entry.wants.is_empty() != (entry.home == Home::Nowhere) {
                return Err(format!("{} is wanted, or has a home, but not both", entry.instrument));
            }
            if entry.home == Home::Nowhere && !self.lines.iter().any(|line| line.has_stream(*id)) {
                return Err(format!("{} is kept for nothing", entry.instrument));
            }
        }
        let live = self.entries.iter().filter(|(id, entry)| self.is_live(**id, entry)).count();
        if live != self.live {
            return Err(format!("{live} are live, counted {}", self.live));
        }
        let withheld = self.entries.values().filter(|entry| entry.is_kept_back()).count();
        if withheld != self.withheld {
            return Err(format!("{withheld} are withheld, counted {}", self.withheld));
        }
        let lingers = |(id, entry): (&EntryId, &Entry)| Some((entry.wants.only_lingers_until()?, *id));
        if !self.entries.iter().filter_map(lingers).collect::<BTreeSet<_>>().eq(&self.lingering) {
            return Err(format!("noted as lingering: {:?}", self.lingering));
        }
        for (waiter, found) in &self.waiters {
            if !self.entries.get(&found.entry).is_some_and(|entry| entry.wants.is_counted_at(found.level)) {
                return Err(format!("{waiter:?} waits for what nobody wants"));
            }
        }
        let waiting: usize = self.entries.values().map(|entry| entry.waiters.len()).sum();
        let due = self.agenda.iter().filter(|(_, due)| matches!(due, Due::Waiter(_))).count();
        if waiting != self.waiters.len() || due != waiting {
            return Err(format!("{} waiters, {waiting} at entries, {due} on the agenda", self.waiters.len()));
        }
        Ok(())
    }
}

impl Up {
    fn unwritten(&self) -> usize {
        let writing = match &self.write {
            Write::Ready { .. } => 0,
            Write::Busy { batch, .. } => batch.len(),
        };
        writing + self.incoming.len() + self.outgoing.len()
    }
}
