//! The origins an agent knows: made when they are first asked for, dropped when nobody has asked for a while.

use super::error::Error;
use super::origin::Origin;
use super::target::{Named, Parts, Target};
use crate::clock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The origins of an agent.
#[derive(Debug)]
pub(super) struct Origins {
    table: Mutex<Table>,
}

#[derive(Debug)]
enum Table {
    Open(HashMap<Target, Origin>),
    /// Those that were closed with the agent, for who waits until nothing is left of them.
    Closed(Vec<Origin>),
}

impl Origins {
    pub(super) fn new() -> Origins {
        Origins { table: Mutex::new(Table::Open(HashMap::new())) }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(&*self.lock(), Table::Closed(_))
    }

    /// `None` if there is none, or the agent is closed.
    pub(super) fn find(&self, parts: Parts<'_>) -> Option<Origin> {
        match &*self.lock() {
            Table::Open(origins) => origins.get(&parts as &dyn Named).cloned(),
            Table::Closed(_) => None,
        }
    }

    /// Adds one, unless somebody was faster: that one then, as an error.
    pub(super) fn add(&self, target: Target, origin: Origin) -> Result<Origin, Taken> {
        let mut table = self.lock();
        let Table::Open(origins) = &mut *table else {
            drop(table);
            origin.close();
            return Err(Taken::Closed);
        };
        match origins.entry(target) {
            Entry::Occupied(other) => {
                let other = other.get().clone();
                drop(table);
                // What was made in vain ends here, outside the lock.
                drop(origin);
                Err(Taken::Exists(other))
            }
            Entry::Vacant(free) => Ok(free.insert(origin).clone()),
        }
    }

    /// Closes the table: whatever was in it then.
    pub(super) fn close(&self) -> Vec<Origin> {
        let mut table = self.lock();
        if let Table::Open(origins) = &mut *table {
            *table = Table::Closed(std::mem::take(origins).into_values().collect());
        }
        match &*table {
            Table::Open(_) => Vec::new(),
            Table::Closed(origins) => origins.clone(),
        }
    }

    /// All there are at present.
    pub(super) fn all(&self) -> Vec<Origin> {
        match &*self.lock() {
            Table::Open(origins) => origins.values().cloned().collect(),
            Table::Closed(_) => Vec::new(),
        }
    }

    /// Drops those that nobody has used for so long.
    pub(super) fn drop_idle(&self, now: Instant, max_idle: Duration) {
        let mut dropped = Vec::new();
        if let Table::Open(origins) = &mut *self.lock() {
            let idle = origins.extract_if(|_, origin| origin.is_idle(now, max_idle));
            dropped.extend(idle.map(|(_, origin)| origin));
        }
        for origin in dropped {
            tracing::debug!(origin = origin.name(), "an origin was dropped: nobody asked for anything");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an origin was not added.
pub(super) enum Taken {
    /// There is one.
    Exists(Origin),
    /// The agent is closed.
    Closed,
}

impl Taken {
    /// The other one will do.
    pub(super) fn or_existing(self) -> Result<Origin, Error> {
        match self {
            Taken::Exists(origin) => Ok(origin),
            Taken::Closed => Err(Error::closed()),
        }
    }
}

/// Drops idle origins for as long as there is a table.
pub(super) async fn sweep(origins: Weak<Origins>, max_idle: Duration) {
    loop {
        sleep((max_idle / 4).max(Duration::from_millis(1))).await;
        let Some(origins) = origins.upgrade() else { return };
        origins.drop_idle(clock::now(), max_idle);
    }
}
