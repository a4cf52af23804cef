//! What has happened so far, counted once more: the machine's counters are held against it after every event.

use super::World;
use carom_core::backend::BackendState;
use carom_core::set::{Observation, Options, Refusal};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) leases: u64,
    pub(super) waited: u64,
    pub(super) waited_for: Duration,
    timeouts: u64,
    refused: u64,
    pub(super) given_up: u64,
    pub(super) connects: u64,
    pub(super) connect_failures: u64,
    /// Connections that ended because nobody used them. Those of an eager set may have been in the way of others as well.
    released: u64,
    /// What the machine does now it does because time has passed.
    pub(super) time_passes: bool,
}

impl Figures {
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::TimedOut { .. } => self.timeouts += 1,
            Refusal::Unreachable(_) | Refusal::Failed { .. } | Refusal::NoSuchPlace { .. } | Refusal::Closed => {
                self.refused += 1;
            }
        }
    }

    pub(super) fn shut(&mut self, unused: bool, idle: Duration, options: &Options) {
        let was_long = options.max_idle.is_some_and(|max_idle| idle >= max_idle);
        self.released += u64::from(self.time_passes && unused && was_long);
    }
}

impl World {
    /// The monitor's figures agree with each other, and with what has happened.
    pub(super) fn figures_agree(&self, seen: &Observation) {
        let (counters, own) = (seen.counters, &self.figures);
        assert_eq!((counters.leases, counters.waited, counters.waited_for), (own.leases, own.waited, own.waited_for));
        assert_eq!((counters.timeouts, counters.refused), (own.timeouts, own.refused), "timeouts, refused");
        assert_eq!(counters.given_up, own.given_up, "given up");
        assert_eq!((counters.connects, counters.connect_failures), (own.connects, own.connect_failures), "dials");
        if self.setting.options.eager {
            assert!(counters.released <= own.released, "{counters:?}, {own:?}");
        } else {
            assert_eq!(counters.released, own.released, "released");
        }
        let dead = |state| usize::from(state == BackendState::Dead);
        let known = &seen.backends[..seen.figures.known];
        assert_eq!(known.iter().map(|backend| dead(backend.state)).sum::<usize>(), seen.figures.dead);
        assert_eq!(seen.backends.iter().map(|backend| backend.dialling).sum::<usize>(), seen.figures.dialling);
        for glance in &seen.figures.connections {
            let own = |backend: &Arc<_>| Arc::ptr_eq(backend, &glance.backend);
            let found = seen.backends.iter().find(|backend| own(&backend.backend)).expect("it is to somebody");
            match found.state {
                BackendState::Removed => assert!(glance.draining, "{found:?}"),
                BackendState::Healthy | BackendState::Unhealthy | BackendState::Ejected => {}
                // What is left of it takes no more leases, and no other works.
                BackendState::Unknown | BackendState::Dead => assert!(glance.draining, "{found:?}"),
            }
            assert_eq!(found.next_attempt.filter(|_| !glance.draining), None, "{found:?}");
        }
    }
}
