//! Which connection a lease of any backend is of.
//!
//! Backends with a connection that such a lease may be of stand in classes: those that respond come before stalled ones, then those
//! whose uses succeed before failing ones, those with room before full ones, those that the plan wants before those connected to on
//! demand, and lower priority numbers before higher ones. A lease is of the least loaded backend of the first class, and there of the
//! connection with the fewest leases, or of several such the one that was leased longest ago.
//!
//! A backend that is left out of its class because uses were slow or failed is leased once a second, so that it is noticed when it has
//! recovered.

use super::Machine;
use super::places::{ConnectionId, Rank};

/// Backends of a lower class are leased first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    stalled: bool,
    /// Its last uses failed.
    failing: bool,
    full: bool,
    rank: Rank,
}

impl Machine {
    /// The connection that the next lease of any backend is of: rather not of the backend to avoid, if another has as much room.
    pub(super) fn choose_open(&mut self, avoid: Option<u32>) -> Option<ConnectionId> {
        let backend = self.choose_backend(avoid).or_else(|| self.choose_backend(None))?;
        self.least_leased(backend).map(|(_, connection)| connection)
    }

    #[inline]
    fn choose_backend(&mut self, avoid: Option<u32>) -> Option<u32> {
        let Machine { open, loads, backends, random, .. } = self;
        let &(first, _) = open.first()?;
        if loads.has_due() {
            let is_due = |backend: u32| {
                let class = backends.get(backend).class.map(|class| Class { failing: false, ..class });
                Some(backend) != avoid && class.is_some_and(|class| class <= first)
            };
            let due = loads.take_due(|loads, backend| loads.is_penalised(backend) && is_due(backend));
            if due.is_some() {
                return due;
            }
        }
        let start = match avoid {
            None => 0,
            Some(avoid) => open.iter().position(|&(_, backend)| backend != avoid)?,
        };
        let class = open[start].0;
        if (class.stalled, class.failing, class.full) > (first.stalled, first.failing, first.full) {
            return None;
        }
        let end = match open.last() {
            Some((last, _)) if *last == class => open.len(),
            Some(_) | None => open.partition_point(|(other, _)| *other <= class),
        };
        loads.least_loaded(&open[start..end], avoid, random)
    }

    /// The connection of a backend that the next lease of any backend would be of, and whether it is full.
    fn least_leased(&self, backend: u32) -> Option<((bool, Rank), ConnectionId)> {
        let record = self.backends.get(backend);
        let open = record.places.iter().filter(|place| !place.private).filter_map(|place| {
            let id = place.connection?;
            let connection = self.connection(id)?;
            let rank = (self.options.eager && !place.planned, record.backend.priority());
            Some(((connection.is_full(), rank), connection.leases, connection.turn, id))
        });
        open.min().map(|(order, _, _, id)| (order, id))
    }

    /// Puts a backend into its class. To be called when something changed that the class depends on.
    pub(super) fn classify(&mut self, backend: u32) {
        let class = self.class_of(backend);
        let before = std::mem::replace(&mut self.record(backend).class, class);
        if before == class {
            return;
        }
        if let Some(Ok(at)) = before.map(|before| self.open.binary_search(&(before, backend))) {
            self.open.remove(at);
        }
        if let Some(Err(at)) = class.map(|class| self.open.binary_search(&(class, backend))) {
            self.open.insert(at, (class.expect("it has one"), backend));
        }
    }

    /// The class of a backend; `None` if no lease of any backend may be of it.
    pub(super) fn class_of(&self, backend: u32) -> Option<Class> {
        if !self.backends.get(backend).known || self.is_out(backend) {
            return None;
        }
        let ((full, rank), _) = self.least_leased(backend)?;
        let (stalled, failing) = (self.loads.is_stalled(backend), self.loads.is_failing(backend));
        Some(Class { stalled, failing, full, rank })
    }
}
