//! Readiness of a pool: connecting to further backends until as many are ready as a caller waits for.
//!
//! The backends that a caller waits for are [probed](super::probes) if the plan gives them no slot, so that connections in use and
//! connections that are idle stay. Connections beyond the target are surplus when no caller waits any more, and idle out.

use super::tiers::Tier;
use super::{Machine, Readiness};
use crate::backend::{Backend, BackendState};
use crate::backends::Missing;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Machine {
    /// A caller waits until `n` backends are [ready](Readiness). It must call [`forget_ready`](Machine::forget_ready) at the end.
    pub fn expect_ready(&mut self, n: usize) {
        self.backends.expect_ready(n);
        self.plan_soon();
    }

    /// A caller that waited until `n` backends are ready does so no more.
    pub fn forget_ready(&mut self, n: usize) {
        self.backends.forget_ready(n);
        self.plan_soon();
    }

    /// How many backends are ready. Linear in backends.
    pub fn readiness(&self) -> Readiness {
        self.backends.readiness()
    }

    /// The known backends that are not ready, and their state.
    pub fn unready(&self) -> Vec<(Arc<Backend>, BackendState)> {
        self.backends.unready()
    }

    /// The backends that are probed while this tier serves, for this plan: those that cannot be connected to, and those that a
    /// caller waits for and that have no slot. One that was tried before does not count, so that another is tried beside it.
    pub(super) fn probed(&self, order: &[u32], want: &[usize], serving: Option<Tier>) -> Vec<u32> {
        let is_probed = |&index: &u32| self.is_probed(index, serving);
        let mut probed: Vec<u32> = order.iter().copied().filter(is_probed).collect();
        let Some(Missing { mut many, candidates }) = self.backends.missing() else { return probed };
        let planned: BTreeSet<u32> =
            order.iter().zip(want).filter_map(|(&index, &want)| (want > 0).then_some(index)).collect();
        for index in candidates {
            if many == 0 {
                break;
            }
            many -= usize::from(self.backends.is_untried(index));
            if !planned.contains(&index) && !is_probed(&index) {
                probed.push(index);
            }
        }
        probed
    }
}
