//! Tiers: which priority serves, for the plan to know who counts as dead.
//!
//! The plan serves the lowest priority number that has a live backend. What is alive is for the pool to say, and it would
//! rather have claims served by a worse tier than have them wait for a better one:
//!
//! ```text
//!   the first tier that works       something of it works, or has and nothing is known against it
//!   else the first that may         it has not been tried
//!   else the least doubted          attempts fail or hang, but have not run out; of equals the last, as the others are
//!                                   tried beside it
//!   else none                       all are dead
//! ```
//!
//! Every tier before that one counts as dead, so each of its backends is tried by one slot; what an ejected backend would
//! be good for does not count. So a better tier that is new, or comes back, takes over when it has its first connection,
//! and nobody has to wait for that. Connections to the worse tier are surplus then: they idle out, or make room as the
//! better tier needs it, and are lent only when nothing else is idle.
//!
//! Nobody watches a tier that is worse than the one that serves. So that it is not called dead for what it was long ago,
//! it is only doubted from then on.

use super::Machine;
use super::membership::Record;
use crate::backends::{Doubt, Health};
use std::collections::BTreeMap;

/// The tier that serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tier {
    pub(super) priority: u16,
    standing: Standing,
    /// How little the best of its backends is doubted.
    pub(super) least_doubt: Doubt,
    slots: usize,
    works: bool,
}

/// How a backend stands, or the best of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Dead,
    Doubted,
    Untried,
    Trusted,
}

impl Machine {
    /// Finds out who serves, of the backends that are not ejected.
    pub(super) fn find_serving(&self, order: &[u32]) -> Option<Tier> {
        let mut tiers: BTreeMap<u16, Tier> = BTreeMap::new();
        for &index in order {
            let record = self.backends.get(index);
            let priority = record.backend.priority();
            let nothing =
                Tier { priority, standing: Standing::Dead, least_doubt: Doubt::Failing, slots: 0, works: false };
            let tier = tiers.entry(priority).or_insert(nothing);
            tier.standing = tier.standing.max(self.standing(record));
            tier.least_doubt = tier.least_doubt.min(record.health.doubt().unwrap_or(Doubt::Failing));
            tier.slots += record.counts.total();
            tier.works |= record.counts.working() > 0;
        }
        let first = |standing| tiers.values().find(|tier| tier.standing == standing);
        let doubted = tiers.values().rev().filter(|tier| tier.standing == Standing::Doubted);
        let least_doubted = doubted.min_by_key(|tier| tier.least_doubt);
        first(Standing::Trusted).or_else(|| first(Standing::Untried)).or(least_doubted).copied()
    }

    fn standing(&self, record: &Record) -> Standing {
        match record.health {
            Health::Dead { .. } | Health::Removed => Standing::Dead,
            Health::Unproven { .. } | Health::Proven { .. } if record.counts.working() > 0 => Standing::Trusted,
            Health::Proven { doubt: Doubt::None, .. } => Standing::Trusted,
            // With room for one connection in all it would never be tried beside another.
            Health::Unproven { doubt: Doubt::None } if self.options.maximum == 1 => Standing::Trusted,
            Health::Unproven { doubt: Doubt::None } => Standing::Untried,
            Health::Unproven { doubt: Doubt::Slow | Doubt::Failing }
            | Health::Proven { doubt: Doubt::Slow | Doubt::Failing, .. } => Standing::Doubted,
        }
    }

    /// Who is in which tier is known to the picker, and what was held against worse tiers is forgotten.
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
            let is_not_needed = is_worse && self.outage.is_none();
            if is_not_needed && serving.is_some_and(|serving| serving.standing == Standing::Trusted) {
                self.backends.forgive(index);
            }
        }
    }
}

impl Tier {
    /// How many connections may be closed for this tier's sake, with so much room already there or to come. Until the tier
    /// works that is one: enough to try it.
    pub(super) fn may_displace(&self, room: usize) -> usize {
        if self.works { usize::MAX } else { 1_usize.saturating_sub(self.slots + room) }
    }
}
