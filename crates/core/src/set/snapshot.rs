//! A copy of a set's state, for people.

use super::places::{Dial, Place, Record, Taking, What};
use super::{ConnectionId, Machine, State};
use crate::backend::Backend;
use crate::idle::Idleness;
use std::sync::Arc;
use std::time::Instant;

/// A set at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where it is.
    pub state: State,
    /// Backends that the resolver knows.
    pub known: usize,
    /// Of these, those that are dead.
    pub dead: usize,
    /// Of these, those that are left out for having served badly, and until when. Dead ones may be among them.
    pub ejected: Vec<(Arc<Backend>, Instant)>,
    /// Of these, those that are stalled: they get no leases while another is connected.
    pub stalled: Vec<Arc<Backend>>,
    /// So few backends are healthy that those that are ejected or unhealthy are used as well.
    pub is_panic: bool,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// Who waits for a lease.
    pub waiting: usize,
    /// Leases that are out.
    pub leases: usize,
    /// Every connection.
    pub connections: Vec<Glance>,
}

/// A set at one moment, in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Backends that the resolver knows.
    pub known: usize,
    /// Of these, those that are dead.
    pub dead: usize,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// Who waits for a lease.
    pub waiting: usize,
    /// Connections that take leases.
    pub connected: usize,
}

/// A connection at one moment.
#[derive(Clone, Debug)]
pub struct Glance {
    /// Its name.
    pub connection: ConnectionId,
    /// Where it leads.
    pub backend: Arc<Backend>,
    /// Which of the backend's places it has, or had.
    pub place: usize,
    /// How far it is on its way out for want of use.
    pub idleness: Idleness,
    /// Whether it takes no more leases because its backend is gone or not wanted.
    pub draining: bool,
    /// Whether an eager set keeps it, used or not.
    pub kept: bool,
    /// When it was connected.
    pub created: Instant,
    /// When its last lease ended; when it was made, if it never had one.
    pub last_used: Instant,
    /// Leases that are out.
    pub leases: usize,
}

impl Machine {
    /// A copy of its state.
    pub fn snapshot(&self) -> Snapshot {
        let connections: Vec<Glance> = self.up().filter_map(|id| self.glance(id)).collect();
        let Figures { known, dead, dialling, waiting, .. } = self.figures();
        Snapshot {
            state: self.state,
            known,
            dead,
            ejected: self.known(|id| self.backends.get(id).uses.ejected_until()).collect(),
            stalled: self.known(|id| self.loads.is_stalled(id).then_some(())).map(|(backend, ())| backend).collect(),
            is_panic: self.backends.is_panic(),
            dialling,
            waiting,
            leases: connections.iter().map(|connection| connection.leases).sum(),
            connections,
        }
    }

    /// The known backends of which this is true, most preferred first.
    fn known<R>(&self, find: impl Fn(u32) -> Option<R>) -> impl Iterator<Item = (Arc<Backend>, R)> {
        let known = self.backends.order().iter();
        known.filter_map(move |&id| Some((Arc::clone(&self.backends.get(id).backend), find(id)?)))
    }

    /// What there is of every backend, known or not.
    fn records(&self) -> impl Iterator<Item = &Record> {
        self.backends.all().map(|(_, record)| record)
    }

    /// The figures alone, which are had without a look at every connection.
    pub fn figures(&self) -> Figures {
        let places = || self.records().flat_map(|record| &record.places);
        Figures {
            known: self.backends.known(),
            dead: self.backends.dead(),
            dialling: places().map(Place::dialling).sum(),
            waiting: self.waiters.len(),
            connected: places().filter(|place| place.connection.is_some()).count(),
        }
    }

    /// Whether the resolver says that it serves.
    pub fn knows(&self, backend: &Backend) -> bool {
        self.backends.find(backend).is_some_and(|id| self.backends.get(id).known)
    }

    /// Whether anything is kept about it: it is known, or somebody asked for it a while ago.
    pub fn remembers(&self, backend: &Backend) -> bool {
        self.backends.find(backend).is_some()
    }

    /// How many backends something is kept about.
    pub fn remembered(&self) -> usize {
        self.backends.len()
    }

    /// One connection, if it is still there.
    pub fn glance(&self, id: ConnectionId) -> Option<Glance> {
        let connection = self.connection(id)?;
        Some(Glance {
            connection: id,
            backend: Arc::clone(&self.backends.get(connection.backend).backend),
            place: connection.place as usize,
            idleness: connection.idleness,
            draining: connection.taking == Taking::NoMore,
            kept: self.backends.get(connection.backend).places[connection.place as usize].planned
                && connection.taking == Taking::Leases,
            created: connection.created,
            last_used: connection.last_used,
            leases: connection.leases,
        })
    }

    /// How many things it remembers, whether they still mean something or not: for simulations.
    pub fn footprint(&self) -> usize {
        let places: usize = self.records().map(|record| record.places.len() + record.held.len()).sum();
        self.backends.len() + places + self.entries.len() + self.waiters.len() + self.timers.len()
    }

    /// Whether everything it keeps is accounted for: for simulations.
    ///
    /// # Errors
    /// What is not, in words.
    pub fn check(&self) -> Result<(), String> {
        let is_connection = |entry: &&super::places::Entry| matches!(entry.what, What::Connection(_));
        let up = self.entries.iter().filter(is_connection).count();
        if up != self.connected {
            return Err(format!("{up} connections, {} counted", self.connected));
        }
        for (id, record) in self.backends.all() {
            let dialling =
                |place: &Place| usize::from(matches!(place.dial, Dial::Connecting { .. })) + place.hanging.len();
            let connecting: usize = record.places.iter().map(dialling).sum();
            if connecting != record.connecting {
                return Err(format!("backend {id}: {connecting} connecting, {} counted", record.connecting));
            }
            if self.backends.order().contains(&id) != record.known {
                return Err(format!("backend {id} is known, or in the order of preference, but not both"));
            }
            if record.held.len() > record.places.len() {
                return Err(format!("backend {id}: {} turns for {} places", record.held.len(), record.places.len()));
            }
            if !record.known
                && record.alive == 0
                && record.forget_at.is_none()
                && record.places.iter().all(Place::is_empty)
            {
                return Err(format!("backend {id} is kept for nothing"));
            }
            for place in &record.places {
                let (connection, planned) = (place.connection, place.planned);
                if (connection.is_some() && place.dialling() > 0) || (planned && !place.is_taken()) {
                    return Err(format!("backend {id}: a place is not what it is said to be: {place:?}"));
                }
                let Some(connection) = connection else { continue };
                if self.connection(connection).is_none_or(|found| found.taking != Taking::Leases) {
                    return Err(format!("backend {id}: a place has a connection that takes no leases"));
                }
            }
            if record.class != self.class_of(id) || record.class.is_some_and(|class| !self.open.contains(&(class, id)))
            {
                return Err(format!("backend {id}: class is {:?}, not {:?}", record.class, self.class_of(id)));
            }
        }
        let is_out = |id: &&u32| self.is_out(**id);
        let out = self.backends.order().iter().filter(is_out).count();
        let serves = |id: &u32| !self.is_out(*id) && !self.backends.get(*id).health.is_dead();
        if out > 0 && !self.backends.order().iter().any(serves) {
            return Err(format!("{out} backends are out of rotation, and no other is healthy"));
        }
        let planned = |id: &&u32| self.backends.get(**id).is_planned();
        let planned = self.backends.order().iter().filter(planned).count();
        if self.options.maximum.is_some_and(|maximum| planned > maximum + 1) {
            return Err(format!("{planned} are kept"));
        }
        let alive: usize = self.records().map(|record| record.alive).sum();
        if self.entries.len() != alive + self.free.len() {
            return Err(format!("{} entries, {alive} in use, {} free", self.entries.len(), self.free.len()));
        }
        if !self.open.is_sorted() || self.open.len() != self.records().filter(|record| record.class.is_some()).count() {
            return Err(format!("not the backends that leases may be of: {:?}", self.open));
        }
        let waiting: usize = self.records().flat_map(|record| &record.places).map(|place| place.waiters.len()).sum();
        if waiting + self.any.len() != self.waiters.len() {
            return Err(format!("{} waiters, {} of them in line", self.waiters.len(), waiting + self.any.len()));
        }
        Ok(())
    }
}
