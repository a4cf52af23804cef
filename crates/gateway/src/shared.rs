//! What all clients of a gateway share.

use crate::bus::Bus;
use crate::cluster::Share;
use crate::hub::{Figures, Hub};
use crate::keys::{Attempts, Identity, Keys};
use crate::options::Options;
use crate::roll::Roll;
use crate::source::{Source, is_connected};
use crate::troubles::Troubles;
use carom_core::feed::interest::ScopeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// See the [module](self).
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) hub: Hub,
    pub(crate) keys: Keys,
    pub(crate) attempts: Mutex<Attempts>,
    pub(crate) roll: Arc<Roll>,
    /// Users who have a feed.
    pub(crate) scopes: BTreeMap<(Arc<str>, Arc<str>), Arc<Scope>>,
    pub(crate) counters: Counters,
    pub(crate) troubles: Troubles,
}

/// A user at a broker, and where its ticks come from.
pub(crate) struct Scope {
    pub(crate) id: ScopeId,
    pub(crate) broker: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) supply: Option<Supply>,
}

/// A feed, and the bus that its ticks go through.
pub(crate) struct Supply {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) bus: Bus,
    /// If other gateways have it too.
    pub(crate) share: Option<Share>,
}

impl Supply {
    /// Whether clients are to be told that the upstream is connected.
    pub(crate) fn is_connected(&self) -> bool {
        let snapshot = self.source.snapshot();
        is_connected(&snapshot) && (snapshot.has_upstream || self.bus.is_published_to())
    }
}

/// What is counted on the way.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Messages that clients' tasks took to write them.
    pub(crate) delivered: Counter,
    /// Connections that were turned away by a limit.
    pub(crate) refused: Counter,
    /// Clients that were closed because they were slow.
    pub(crate) slow_closed: Counter,
    /// Keys that were nobody's.
    pub(crate) wrong_keys: Counter,
    /// Messages that a bus lost because they were not read in time.
    pub(crate) missed: Counter,
}

/// Counts up. It says nothing of the order in which things happen.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Whom a key makes its client. A user may have none of the feeds.
    pub(crate) fn scope(&self, identity: &Identity) -> Arc<Scope> {
        let Identity { broker, user, .. } = identity;
        if let Some(scope) = self.scopes.get(&(Arc::clone(broker), Arc::clone(user))) {
            return Arc::clone(scope);
        }
        let id = self.hub.scope(broker, user);
        Arc::new(Scope { id, broker: Arc::clone(broker), user: Arc::clone(user), supply: None })
    }

    /// A client is closed because it does not read.
    pub(crate) fn slow_closed(&self) {
        self.counters.slow_closed.add(1);
        self.troubles.slow();
    }

    /// Messages of buses that made no sense: so many to the hub, and others by their form alone.
    pub(crate) fn malformed(&self, figures: &Figures) -> u64 {
        let buses = self.scopes.values().filter_map(|scope| Some(scope.supply.as_ref()?.bus.malformed()));
        figures.malformed + buses.sum::<u64>()
    }

    /// Brokers that somebody has a feed of, in order.
    pub(crate) fn brokers(&self) -> Vec<Arc<str>> {
        let mut brokers: Vec<_> = self.scopes.keys().map(|(broker, _)| Arc::clone(broker)).collect();
        brokers.dedup();
        brokers
    }
}
