//! Readiness of a pool: connecting to further backends until as many are ready as a caller waits for.
//!
//! The backends that a caller waits for get a slot each, as far as `maximum` has room. Without room, idle connections of ready backends
//! are closed for backends that have not been tried: all but the last one, and none while claims wait. Connections beyond the
//! target are surplus when no caller waits any more, and idle out.

use super::{Machine, Readiness};
use crate::backend::{Backend, BackendState};
use crate::backends::Missing;
use crate::slot::Phase;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after a plan without room for a backend that has not been tried the next is made.
const NEXT_LOOK: Duration = Duration::from_millis(100);

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

    /// Gives a slot to backends that are not ready until enough have one. A slot of a backend that fails counts for nothing, so
    /// that another is tried beside it.
    pub(super) fn connect_until_ready(&mut self, now: Instant, order: &[u32], want: &mut [usize]) {
        let Some(Missing { mut many, candidates }) = self.backends.missing() else { return };
        let mut room = self.options.maximum.saturating_sub(want.iter().sum());
        let places: BTreeMap<u32, usize> = order.iter().enumerate().map(|(place, &index)| (index, place)).collect();
        for index in candidates {
            let Some(&place) = places.get(&index).filter(|_| many > 0) else { continue };
            let is_untried = self.backends.is_untried(index);
            if want[place] == 0 {
                if room > 0 {
                    room -= 1;
                } else if !is_untried {
                    continue;
                } else if !self.give_way(order, want) {
                    // All connections are in use. A connection that is released while it is warm asks for no plan.
                    return self.look_again(now + NEXT_LOOK);
                }
                want[place] = 1;
            }
            many -= usize::from(is_untried);
        }
    }

    /// Takes a slot that is not in use from a backend that was tried before, one that is not ready rather than one that is; false if
    /// there is none to take.
    fn give_way(&self, order: &[u32], want: &mut [usize]) -> bool {
        if self.waiters.len() > 0 {
            return false;
        }
        let is_ready = |place: usize| self.backends.is_ready(order[place]);
        let ready: usize = (0..order.len()).filter(|&place| is_ready(place)).map(|place| want[place]).sum();
        let may_take_ready = ready > 1 || self.options.maximum == 1;
        let gives = |&place: &usize| {
            let in_use = self.backends.get(order[place]).counts.of(Phase::Busy);
            let was_tried = !self.backends.is_untried(order[place]);
            want[place] > in_use && was_tried && (may_take_ready || !is_ready(place))
        };
        let found = (0..order.len()).filter(gives).max_by_key(|&place| (!is_ready(place), want[place]));
        found.inspect(|&place| want[place] -= 1).is_some()
    }
}
