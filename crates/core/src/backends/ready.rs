//! Readiness: how many backends can be used at once, and which are connected to until enough can.

use super::{Backends, Doubt, Health, Part, Record};
use crate::backend::{Backend, BackendState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many backends of a pool or a set are ready: connected to successfully, with no failed attempt since unless a connection
/// works, and in rotation. With active health checks, the last check must have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Known backends that are ready.
    pub ready: usize,
    /// Known backends.
    pub known: usize,
}

impl Readiness {
    /// How many backends a caller gets that asks for `n`: at most all that are known, but at least one.
    pub fn wanted(self, n: usize) -> usize {
        n.min(self.known.max(1))
    }

    /// Whether `n` backends are ready, or all that are known. Without a known backend none is.
    pub fn is_enough(self, n: usize) -> bool {
        self.ready >= self.wanted(n)
    }
}

/// The callers that wait until backends are ready, by how many they wait for.
#[derive(Debug, Default)]
pub(super) struct Expected(BTreeMap<usize, usize>);

/// The backends to connect to until enough are ready.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// How many backends are still to become ready.
    pub(crate) many: usize,
    /// Backends in rotation that are not ready, those first that have not been tried, then the less doubted.
    pub(crate) candidates: Vec<u32>,
}

impl<T: Part> Backends<T> {
    /// A caller waits until `n` backends are ready.
    pub(crate) fn expect_ready(&mut self, n: usize) {
        *self.expected.0.entry(n).or_default() += 1;
    }

    /// A caller that waited until `n` backends are ready does so no more.
    pub(crate) fn forget_ready(&mut self, n: usize) {
        let Some(callers) = self.expected.0.get_mut(&n) else { return };
        *callers -= 1;
        if *callers == 0 {
            self.expected.0.remove(&n);
        }
    }

    /// Whether a caller waits until backends are ready.
    pub(crate) fn expects_ready(&self) -> bool {
        !self.expected.0.is_empty()
    }

    /// Linear in backends.
    pub(crate) fn readiness(&self) -> Readiness {
        let ready = self.order().iter().filter(|&&index| self.is_ready(index)).count();
        Readiness { ready, known: self.known() }
    }

    /// Known backends that are not ready, most preferred first, with the state that is shown.
    pub(crate) fn unready(&self) -> Vec<(Arc<Backend>, BackendState)> {
        let unready = self.order().iter().filter(|&&index| !self.is_ready(index)).map(|&index| self.get(index));
        unready.map(|record| (Arc::clone(&record.backend), record.state())).collect()
    }

    /// The backends to connect to; `None` when no caller waits for more than are ready.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let (&most, _) = self.expected.0.last_key_value()?;
        let Readiness { ready, known } = self.readiness();
        // Those that wait for their first check alone are nearly ready.
        let is_unchecked = |&&index: &&u32| self.is_connected(index) && self.get(index).checks.lacks_result();
        let unchecked = self.order().iter().filter(is_unchecked).count();
        let many = most.min(known).checked_sub(ready + unchecked).filter(|many| *many > 0)?;
        let is_candidate = |&index: &u32| !self.is_ready(index) && !self.is_out(index);
        let mut candidates: Vec<u32> = self.order().iter().copied().filter(is_candidate).collect();
        candidates.sort_by_key(|&index| {
            let Record { health, backend, setback, .. } = self.get(index);
            let failed_at = setback.map(|setback| setback.failed_at);
            (health.is_dead(), health.doubt(), backend.priority(), failed_at)
        });
        Some(Missing { many, candidates })
    }

    pub(crate) fn is_ready(&self, index: u32) -> bool {
        self.is_connected(index) && !self.get(index).checks.lacks_pass()
    }

    /// Whether the backend is ready but for its active checks.
    fn is_connected(&self, index: u32) -> bool {
        let record = self.get(index);
        let is_proven = match record.health {
            Health::Proven { .. } => true,
            Health::Unproven { .. } | Health::Dead { .. } | Health::Removed => false,
        };
        is_proven && !record.is_failing() && !self.is_out(index)
    }

    /// Whether a connect to the backend has not been attempted, or has only just begun.
    pub(crate) fn is_untried(&self, index: u32) -> bool {
        self.get(index).health == Health::Unproven { doubt: Doubt::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ejection::Ejection;
    use crate::health_check::Schedule;
    use crate::random::Random;
    use std::time::{Duration, Instant};

    #[derive(Clone, Copy, Default)]
    struct Works(bool);

    impl Part for Works {
        fn works(&self) -> bool {
            self.0
        }
    }

    const PROVEN: Health = Health::Proven { doubt: Doubt::None, rest: None };

    /// With this health in the order of the resolver.
    fn with(healths: &[Health]) -> Backends<Works> {
        let mut backends = Backends::default();
        let known: Vec<Backend> =
            (1..).zip(healths).map(|(port, _)| Backend::fixed(([10, 0, 0, 1], port).into())).collect();
        backends.update(&known, Works::default, &mut Random::new(1));
        for (backend, &health) in known.iter().zip(healths) {
            let index = backends.find(backend).unwrap();
            backends.set_health(index, health);
        }
        backends
    }

    fn ports(backends: &Backends<Works>, indices: &[u32]) -> Vec<u16> {
        indices.iter().map(|&index| backends.get(index).backend.port()).collect()
    }

    #[test]
    fn a_backend_is_ready_when_a_connect_succeeded_and_none_failed_since() {
        let failing = Health::Proven { doubt: Doubt::Failing, rest: None };
        let dead = Health::Dead { worked: true };
        let unknown = Health::Unproven { doubt: Doubt::None };
        let mut backends = with(&[PROVEN, failing, dead, unknown]);
        assert_eq!(backends.readiness(), Readiness { ready: 1, known: 4 });
        let failing = backends.find(&Backend::fixed(([10, 0, 0, 1], 2).into())).unwrap();
        backends.get_mut(failing).part = Works(true);
        assert_eq!(backends.readiness().ready, 2, "a connection works beside the failed attempt");
    }

    #[test]
    fn an_ejected_backend_is_not_ready_unless_there_is_a_panic() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let mut backends = with(&[PROVEN, PROVEN]);
        let ejection = Ejection::default().consecutive(1);
        let first = backends.order()[0];
        assert!(backends.record_failed_use(now, first, Some(&ejection)));
        backends.panic = false;
        assert_eq!(backends.readiness(), Readiness { ready: 1, known: 2 });
        backends.panic = true;
        assert_eq!(backends.readiness().ready, 2);
    }

    #[test]
    fn a_backend_with_active_checks_is_ready_when_the_last_one_has_passed() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let (mut backends, mut random) = (with(&[PROVEN, PROVEN]), Random::new(1));
        let (schedule, order) = (Schedule::default(), backends.order().to_vec());
        backends.schedule_checks(now, &order, &schedule, &mut random);
        backends.expect_ready(1);
        assert_eq!((backends.readiness().ready, backends.missing()), (0, None), "no further backend is connected to");
        let later = now + Duration::from_secs(5);
        let checks = backends.start_checks(later);
        backends.record_check(later, checks[0].0, false, &schedule, &mut random);
        assert_eq!((backends.readiness().ready, backends.missing()), (0, None));
        backends.record_check(later, checks[1].0, true, &schedule, &mut random);
        assert_eq!(backends.readiness().ready, 1);
        let again = later + Duration::from_secs(10);
        for (check, _) in backends.start_checks(again) {
            backends.record_check(again, check, true, &schedule, &mut random);
        }
        assert_eq!(backends.readiness().ready, 2, "one passed check is enough");
    }

    #[test]
    fn untried_backends_are_candidates_before_slow_failing_and_dead_ones() {
        let unproven = |doubt| Health::Unproven { doubt };
        let dead = Health::Dead { worked: false };
        let mut backends =
            with(&[dead, unproven(Doubt::Failing), unproven(Doubt::Slow), unproven(Doubt::None), PROVEN]);
        assert_eq!(backends.missing(), None, "no caller waits");
        backends.expect_ready(3);
        backends.expect_ready(2);
        let Missing { many, candidates } = backends.missing().unwrap();
        assert_eq!((many, ports(&backends, &candidates)), (2, vec![4, 3, 2, 1]));
        backends.forget_ready(3);
        assert_eq!(backends.missing().map(|missing| missing.many), Some(1));
        backends.forget_ready(2);
        assert!(!backends.expects_ready());
    }

    #[test]
    fn the_number_is_capped_by_the_known_backends_but_none_is_never_enough() {
        assert!(Readiness { ready: 2, known: 2 }.is_enough(5));
        assert!(!Readiness { ready: 1, known: 2 }.is_enough(5));
        assert!(!Readiness { ready: 0, known: 0 }.is_enough(1));
        let mut backends = with(&[PROVEN, Health::Dead { worked: true }]);
        backends.expect_ready(5);
        assert_eq!(backends.missing().map(|missing| missing.many), Some(1));
    }
}
