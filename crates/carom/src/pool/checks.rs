//! The outcomes of checks and recycles: how many failed, why the last one did, and whether that is worth a warning.

use crate::cause::{Cause, Chain};
use crate::quiet::text_of;
use carom_core::backend::Backend;
use carom_core::seldom::Seldom;
use std::sync::Arc;
use std::time::Instant;

/// How many of the latest outcomes decide on a warning.
const LATEST: u32 = 20;

/// Checks and recycles of a pool so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) counts: CheckCounts,
    /// A bit for each of the latest outcomes, set if it was a failure.
    latest: u32,
    warnings: Seldom,
}

/// Checks and recycles of a pool so far, and how many of them failed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckCounts {
    /// Checks and recycles that have ended.
    pub ended: u64,
    /// Of these, those that failed or timed out.
    pub failed: u64,
    /// Why the last one failed.
    pub cause: Option<Cause>,
}

/// More than half of the latest checks and recycles failed.
#[must_use = "to be logged when the lock has been let go"]
pub(crate) struct Warning {
    backend: Arc<Backend>,
    cause: Cause,
    failed: u32,
}

impl Checks {
    pub(crate) fn passed(&mut self) {
        self.note(false);
    }

    /// A check or recycle failed. The cause that is replaced must be dropped when the lock has been let go.
    pub(crate) fn failed(
        &mut self,
        now: Instant,
        backend: &Arc<Backend>,
        cause: Cause,
    ) -> (Option<Warning>, Option<Cause>) {
        self.note(true);
        self.counts.failed += 1;
        let failed = self.latest.count_ones();
        let is_told = failed > LATEST / 2 && self.warnings.happened(now).is_some();
        let warning = is_told.then(|| Warning { backend: Arc::clone(backend), cause: cause.clone(), failed });
        (warning, self.counts.cause.replace(cause))
    }

    fn note(&mut self, failed: bool) {
        self.counts.ended += 1;
        self.latest = (self.latest << 1 | u32::from(failed)) & ((1 << LATEST) - 1);
    }
}

impl Warning {
    pub(crate) fn log(self, pool: &str) {
        let Warning { backend, cause, failed } = self;
        let error = text_of(&Chain(cause.error()));
        tracing::warn!(pool, %backend, failed, of = LATEST, error, "most checks and recycles of connections fail");
        crate::quiet::drop_quietly(pool, cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn warning_is_logged_when_more_than_half_of_the_last_20_failed_and_once_a_minute() {
        let backend = Arc::new(Backend::fixed(([10, 0, 0, 1], 5432).into()));
        let error = Arc::new(std::io::Error::other("ROLLBACK refused"));
        let cause = || Cause::Recycle { backend: Arc::clone(&backend), error: Arc::clone(&error) as Arc<_> };
        let mut checks = Checks::default();
        let start = crate::clock::now();
        let mut warns = |seconds: u64| {
            checks.passed();
            checks.failed(start + Duration::from_secs(seconds), &backend, cause()).0.is_some()
        };
        assert!((0..20).all(|_| !warns(0)), "half of them");
        let mut fails = |seconds: u64| {
            checks.failed(start + Duration::from_secs(seconds), &backend, cause()).0.map(|warning| warning.failed)
        };
        assert_eq!(fails(1), Some(11));
        assert!((0..20).all(|_| fails(60).is_none()));
        assert_eq!(fails(61), Some(20));
        (0..9).for_each(|_| checks.passed());
        assert!(
            checks
                .failed(start + Duration::from_secs(200), &backend, cause())
                .0
                .is_some_and(|warning| warning.failed == 11)
        );
        (0..9).for_each(|_| checks.passed());
        assert!(checks.failed(start + Duration::from_secs(300), &backend, cause()).0.is_none());
        assert_eq!((checks.counts.ended, checks.counts.failed), (82, 44));
    }
}
