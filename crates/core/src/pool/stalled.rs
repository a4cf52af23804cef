//! Stalled backends: they get no claims while another backend can serve. The user of the pool says which backends are stalled.

use super::Machine;
use crate::backend::Backend;
use crate::pick::Loads;
use crate::waiters::{Avoid, Place};
use std::time::Instant;

/// The backends that a claim does not take now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avoided {
    named: Option<u32>,
    stalled: bool,
}

impl Avoided {
    pub(super) fn is_nothing(self) -> bool {
        self.named.is_none() && !self.stalled
    }

    pub(super) fn includes(self, backend: u32, loads: &Loads) -> bool {
        self.named == Some(backend) || self.stalled && loads.is_stalled(backend)
    }
}

impl Machine {
    /// A backend has stopped responding while others respond, or responds again. A stalled one gets no claims while another can
    /// serve, and the plan leaves it one slot if it has a connection. Its idle connections stay open unless the room is needed.
    pub fn set_stalled(&mut self, now: Instant, backend: &Backend, stalled: bool) {
        let Some(index) = self.backends.find(backend) else { return };
        if self.is_closed() || !self.picker.loads.set_stalled(index, stalled) {
            return;
        }
        if !stalled {
            self.serve_choosy(now);
        }
        self.plan_soon();
    }

    /// What a claim does not take. If nothing else can serve, it is rather the backend it named than a stalled one.
    pub(super) fn avoided(&self, now: Instant, place: Place) -> Avoided {
        let named = place.avoid.filter(|avoid| avoid.until > now).map(|Avoid { backend, .. }| backend);
        let all = Avoided { named, stalled: self.picker.loads.has_stalled() };
        let nothing = Avoided { named: None, stalled: false };
        let candidates = [all, Avoided { named: None, ..all }, Avoided { stalled: false, ..all }];
        let can_serve = |avoided: &Avoided| {
            // Rather a failing backend than a stalled one, and rather the one that was named than a failing one.
            let fails = |backend| avoided.named.is_some() && self.picker.is_failing(backend);
            let avoids = |backend| avoided.includes(backend, &self.picker.loads) || fails(backend);
            avoided.is_nothing() || self.another_can_serve(avoids)
        };
        candidates.into_iter().find(can_serve).unwrap_or(nothing)
    }

    /// Whether a claim takes a connection to this backend.
    pub(super) fn takes(&self, now: Instant, place: Place, backend: u32) -> bool {
        let is_avoided =
            place.avoid.is_some_and(|avoid| avoid.backend == backend) || self.picker.loads.is_stalled(backend);
        !is_avoided || !self.avoided(now, place).includes(backend, &self.picker.loads)
    }

    /// Whether the plan leaves a backend out: it is stalled, and another backend is not.
    pub(super) fn is_set_aside_as_stalled(&self, index: u32) -> bool {
        let responds =
            |other: &u32| !self.picker.loads.is_stalled(*other) && self.backends.get(*other).counts.working() > 0;
        self.picker.loads.is_stalled(index) && self.backends.order().iter().any(responds)
    }
}
