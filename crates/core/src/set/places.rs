//! Backends, their places, and what is in them.

use super::open::Class;
use super::{Machine, Timer, WaiterId};
use crate::backend::Backend;
use crate::backends::{self, Part};
use crate::idle::Idleness;
use crate::recovery::{SHORTEST_DELAY, Tries};
use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

/// Names a dial, and the connection that comes of it. Never used again, so that what is removed is always the very
/// connection that was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub(super) epoch: u64,
    pub(super) index: u32,
}

impl ConnectionId {
    /// A small number, reused, for tables kept beside the machine.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

pub(super) type Record = backends::Record<BackendPlaces>;

/// What a set has of a backend.
#[derive(Debug)]
pub(super) struct BackendPlaces {
    /// An eager set wants it connected.
    pub(super) wanted: bool,
    pub(super) places: Vec<Place>,
    /// Dials under way.
    pub(super) connecting: usize,
    /// Places that wait for their turn to dial; some may have moved on.
    pub(super) held: VecDeque<u32>,
    /// The connection whose early end is the reason for the setback. A late report that it was used cancels that.
    pub(super) accused: Option<ConnectionId>,
    /// Dials and connections of it, those that take no more leases included.
    pub(super) alive: usize,
    /// The wave in which its attempts ran out last.
    pub(super) failed_in: u64,
    /// A timer is set to forget it by then.
    pub(super) forget_at: Option<Instant>,
    /// Where it stands among those that a lease of any backend may be of; `None` if it does not.
    pub(super) class: Option<Class>,
}

/// A place for one connection that takes leases.
///
/// ```text
///            wanted               its turn               connected
///  Nothing ----------> Held ---------------> Connecting -----------> Nothing, and the connection takes the place
///    ^  |               |  ^                    |
///    |  |     too early |  | delay over         | failed
///    |  | too early     v  |                    |
///    |  +-----------> Backoff <-----------------+
///    +--- out of attempts, unless an eager set watches it; or nobody wants it any more
/// ```
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dial: Dial,
    /// Counts the states of dialling, so that a timer set for an earlier one is told apart.
    pub(super) stay: u64,
    /// When its last dial began.
    pub(super) dialled_at: Option<Instant>,
    /// Dials that have taken longer than a second in an outage.
    pub(super) hanging: Vec<Hanging>,
    pub(super) connection: Option<ConnectionId>,
    pub(super) waiters: BTreeSet<WaiterId>,
    /// For one lease alone.
    pub(super) private: bool,
    /// What is in it is there because an eager set's plan wanted it, not because somebody asked.
    pub(super) planned: bool,
}

/// How far a place is on its way to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dial {
    Nothing,
    Held { tries: Tries },
    Connecting { id: ConnectionId, tries: Tries, doubted: bool },
    Backoff { tries: Tries, until: Instant },
}

/// A dial of a place that dials once more beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hanging {
    pub(super) id: ConnectionId,
    pub(super) began: Instant,
}

/// What a number in the table stands for now.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) epoch: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Nothing,
    Dial { backend: u32, place: u32 },
    Connection(Connection),
}

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) backend: u32,
    pub(super) place: u32,
    pub(super) leases: usize,
    /// How many leases the far side can serve at a time, as far as is known.
    pub(super) capacity: usize,
    /// The number of its last lease.
    pub(super) turn: u64,
    /// A use of it succeeded: one was reported, or a lease has ended while it took others.
    pub(super) served: bool,
    pub(super) idleness: Idleness,
    pub(super) created: Instant,
    pub(super) last_used: Instant,
    /// Attempts that had failed before it was made.
    pub(super) failures: u32,
    pub(super) taking: Taking,
}

/// Connections of a lower rank are leased first: those that the plan wants before those made on demand, and lower
/// priority numbers before higher ones.
pub(super) type Rank = (bool, u16);

/// Whether it takes leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// It has its place.
    Leases,
    /// Its place is given to others; it ends with its last lease.
    NoMore,
}

impl Connection {
    /// Whether it has as many leases as the far side can serve at a time.
    pub(super) fn is_full(&self) -> bool {
        self.leases >= self.capacity
    }
}

impl BackendPlaces {
    pub(super) fn new(places: usize) -> BackendPlaces {
        BackendPlaces {
            wanted: false,
            places: (0..places).map(|_| Place::new(false)).collect(),
            connecting: 0,
            held: VecDeque::new(),
            accused: None,
            alive: 0,
            failed_in: 0,
            forget_at: None,
            class: None,
        }
    }
}

impl Part for BackendPlaces {
    fn works(&self) -> bool {
        self.places.iter().any(|place| place.connection.is_some())
    }
}

impl Dial {
    pub(super) fn tries(&self) -> Option<&Tries> {
        match self {
            Dial::Held { tries } | Dial::Connecting { tries, .. } | Dial::Backoff { tries, .. } => Some(tries),
            Dial::Nothing => None,
        }
    }

    /// It dials, or waits for its turn to: not for the time of its next attempt.
    pub(super) fn is_under_way(&self) -> bool {
        match self {
            Dial::Held { .. } | Dial::Connecting { .. } => true,
            Dial::Nothing | Dial::Backoff { .. } => false,
        }
    }
}

impl Place {
    pub(super) fn new(private: bool) -> Place {
        Place {
            dial: Dial::Nothing,
            stay: 0,
            dialled_at: None,
            hanging: Vec::new(),
            connection: None,
            waiters: BTreeSet::new(),
            private,
            planned: false,
        }
    }

    pub(super) fn enter(&mut self, dial: Dial) {
        self.dial = dial;
        self.stay += 1;
    }

    /// Whatever was dialled or connected is not any more.
    pub(super) fn vacate(&mut self) {
        self.enter(Dial::Nothing);
        (self.connection, self.planned) = (None, false);
    }

    /// There is a connection, or one on its way.
    pub(super) fn is_taken(&self) -> bool {
        self.connection.is_some() || self.dial != Dial::Nothing || !self.hanging.is_empty()
    }

    /// Dials under way or waiting for their turn.
    pub(super) fn dialling(&self) -> usize {
        usize::from(self.dial.is_under_way()) + self.hanging.len()
    }

    /// Nobody is in it and nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_taken() && self.waiters.is_empty()
    }
}

impl Machine {
    /// The record of a backend, known or not.
    pub(super) fn record_of(&mut self, now: Instant, backend: &Backend) -> u32 {
        let places = self.options.per_backend;
        let id = self.backends.find_or_insert(backend, || BackendPlaces::new(places));
        self.weigh(now, id);
        id
    }

    /// Makes room for the load of a backend, which is of this weight.
    pub(super) fn weigh(&mut self, now: Instant, id: u32) {
        if id as usize >= self.loads.len() {
            self.loads.add(id);
        }
        self.loads.set_weight(now, id, self.backends.get(id).backend.weight());
    }

    pub(super) fn record(&mut self, id: u32) -> &mut Record {
        self.backends.get_mut(id)
    }

    pub(super) fn place(&mut self, backend: u32, place: u32) -> &mut Place {
        &mut self.record(backend).places[place as usize]
    }

    /// The place that a new lease of a backend goes to: the one with the fewest leases and waiters, one with a connection if
    /// there are several.
    pub(super) fn choose_place(&mut self, backend: u32) -> u32 {
        if self.options.per_backend == 0 {
            let record = self.record(backend);
            let free = record.places.iter().position(Place::is_empty);
            return free.unwrap_or_else(|| {
                record.places.push(Place::new(true));
                record.places.len() - 1
            }) as u32;
        }
        let record = self.backends.get(backend);
        let burden = |place: &Place| {
            let leases = place.connection.and_then(|id| self.connection(id)).map_or(0, |connection| connection.leases);
            (leases + place.waiters.len(), place.connection.is_none())
        };
        (0..record.places.len()).min_by_key(|&i| burden(&record.places[i])).unwrap_or(0) as u32
    }

    /// A number in the table, for a dial of this place.
    pub(super) fn new_entry(&mut self, backend: u32, place: u32) -> ConnectionId {
        self.record(backend).alive += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { epoch: 0, what: What::Nothing });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.epoch += 1;
        entry.what = What::Dial { backend, place };
        ConnectionId { epoch: entry.epoch, index }
    }

    /// The number may be used again, the name may not.
    pub(super) fn free_entry(&mut self, id: ConnectionId) {
        let entry = &mut self.entries[id.index as usize];
        debug_assert_eq!(entry.epoch, id.epoch, "freed once");
        entry.epoch += 1;
        self.free.push(id.index);
        let backend = match std::mem::replace(&mut entry.what, What::Nothing) {
            What::Nothing => return,
            What::Dial { backend, .. } => backend,
            What::Connection(connection) => {
                self.loads.end_uses(connection.backend, connection.leases);
                connection.backend
            }
        };
        self.record(backend).alive -= 1;
    }

    /// Forgets a foreign backend that nothing names any more, once its next dial may begin at any time.
    pub(super) fn forget_if_unused(&mut self, now: Instant, backend: u32) {
        let Some(record) = self.backends.lookup(backend) else { return };
        if record.known || record.alive > 0 || record.places.iter().any(|place| !place.is_empty()) {
            return;
        }
        let dialled = record.places.iter().filter_map(|place| place.dialled_at).max();
        let allowed = record.setback.map(|setback| setback.until);
        match allowed.max(dialled.map(|at| at + SHORTEST_DELAY)) {
            Some(until) if until > now => {
                if record.forget_at.is_none_or(|at| at <= now) {
                    self.record(backend).forget_at = Some(until);
                    self.set_timer(until, Timer::Forget(backend));
                }
            }
            Some(_) | None => {
                self.loads.add(backend);
                self.backends.forget(backend);
            }
        }
    }
}
