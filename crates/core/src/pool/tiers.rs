//! Tiers: which priority serves.
//!
//! The first of these tiers serves:
//!
//! ```text
//!   the first that works or has worked     a connection of it works, or has and no attempt has failed or hung since
//!   else the first that is untried         nothing is known of one of its backends
//!   else none                              nothing of any tier can be connected to
//! ```
//!
//! An ejected backend does not count. The plan covers the tier that serves; backends of better tiers, and of all tiers while none
//! serves, are [probed](super::probes) without a slot. So claims are served by a worse tier rather than wait for a better one, and a
//! better tier takes over when one of its backends has been connected to. Connections to the worse tier are surplus then: they idle
//! out, or make room as the better tier needs it, and are lent only when nothing else is idle.
//!
//! Backends of a tier that is worse than the one that serves are not probed, but in an outage. A dead one is only doubted from then on.

use super::Machine;
use super::membership::Record;
use crate::backends::{Doubt, Health};
use std::collections::BTreeMap;

/// The tier that serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tier {
    pub(super) priority: u16,
    standing: Standing,
    slots: usize,
    works: bool,
}

/// How a backend stands, or the best of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It is dead, or attempts fail or hang.
    Down,
    Untried,
    Trusted,
}

impl Machine {
    /// Finds the tier that serves, of backends that are not ejected.
    pub(super) fn find_serving(&self, order: &[u32]) -> Option<Tier> {
        let mut tiers: BTreeMap<u16, Tier> = BTreeMap::new();
        for &index in order {
            let record = self.backends.get(index);
            let priority = record.backend.priority();
            let nothing = Tier { priority, standing: Standing::Down, slots: 0, works: false };
            let tier = tiers.entry(priority).or_insert(nothing);
            tier.standing = tier.standing.max(standing(record));
            tier.slots += record.counts.total();
            tier.works |= record.counts.working() > 0;
        }
        let first = |standing| tiers.values().find(|tier| tier.standing == standing);
        first(Standing::Trusted).or_else(|| first(Standing::Untried)).copied()
    }

    /// Tells the picker which backends are of a worse tier, and forgives those their death.
    pub(super) fn arrange_tiers(&mut self, order: &[u32], serving: Option<Tier>) {
        let priority = |index: &u32| self.backends.get(*index).backend.priority();
        let has_tiers = order.iter().any(|index| priority(index) != priority(&order[0]));
        if !has_tiers && !self.has_tiers {
            return;
        }
        self.has_tiers = has_tiers;
        for &index in order {
            let priority = self.backends.get(index).backend.priority();
            let is_worse = serving.is_some_and(|serving| priority > serving.priority);
            self.picker.set_worse(index, is_worse);
            let is_needed = self.outage.is_some() || !is_worse;
            if !is_needed && serving.is_some_and(|serving| serving.standing == Standing::Trusted) {
                self.backends.forgive(index);
            }
        }
    }
}

fn standing(record: &Record) -> Standing {
    match record.health {
        Health::Dead { .. } | Health::Removed => Standing::Down,
        Health::Unproven { .. } | Health::Proven { .. } if record.counts.working() > 0 => Standing::Trusted,
        Health::Proven { doubt: Doubt::None, .. } => Standing::Trusted,
        Health::Unproven { doubt: Doubt::None } => Standing::Untried,
        Health::Unproven { doubt: Doubt::Slow | Doubt::Failing }
        | Health::Proven { doubt: Doubt::Slow | Doubt::Failing, .. } => Standing::Down,
    }
}

impl Tier {
    /// How many connections may be closed for this tier's sake, with so much room already there or to come. Until the tier
    /// works that is one: enough to try it.
    pub(super) fn may_displace(&self, room: usize) -> usize {
        if self.works { usize::MAX } else { 1_usize.saturating_sub(self.slots + room) }
    }
}
