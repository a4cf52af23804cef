//! The clock of an outage: how long callers wait, and which attempts count.
//!
//! An outage lasts while every known backend is dead or unhealthy and no connection works. Connections of unhealthy backends work
//! in a panic: they are used while there are any.

use super::{Backends, Part, Record, Setback};
use std::time::{Duration, Instant};

/// An attempt that is older than this no longer counts as running.
pub(crate) const RUNNING: Duration = Duration::from_secs(1);

/// The most attempts at dead backends that run at a time.
pub(crate) const MOST_RUNNING: usize = 16;

/// An outage that lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    since: Instant,
    /// How long callers wait; those that came before the outage, from its beginning.
    wait: Duration,
    /// No waiting caller fails before this; `None` while none waits, or without `wait`.
    fail_at: Option<Instant>,
    /// An attempt has failed since waiting callers were last looked at.
    has_failed: bool,
}

impl Outage {
    pub(crate) fn new(now: Instant, wait: Duration) -> Outage {
        Outage { since: now, wait, fail_at: None, has_failed: true }
    }

    /// A caller that arrived at `since` waits. Returns when it fails if no attempt succeeds.
    pub(crate) fn expect_failure(&mut self, since: Instant) -> Option<Instant> {
        let at = (!self.wait.is_zero()).then(|| self.since.max(since) + self.wait)?;
        self.fail_at = Some(self.fail_at.map_or(at, |earlier| earlier.min(at)));
        Some(at)
    }

    /// When a waiting caller may fail next.
    pub(crate) fn next_failure(&self) -> Option<Instant> {
        self.fail_at
    }

    /// Callers that arrived at this moment or earlier have waited for long enough. `tried` is the latest time after which an
    /// attempt began, and failed, at every known backend.
    pub(crate) fn take_failure(&mut self, now: Instant, tried: impl Fn() -> Option<Instant>) -> Option<Instant> {
        if self.wait.is_zero() {
            return std::mem::take(&mut self.has_failed).then(tried).flatten();
        }
        self.fail_at.take_if(|at| *at <= now)?;
        (self.since + self.wait <= now).then(|| now - self.wait)
    }
}

impl<T> Record<T> {
    /// The next attempt is made this long after the last one failed, if it would be made later. Returns when that is.
    pub(crate) fn bring_forward(&mut self, delay: Duration) -> Option<Instant> {
        let setback = self.setback.as_mut()?;
        let earliest = setback.failed_at + delay;
        setback.until = setback.until.min(earliest);
        Some(earliest)
    }

    /// An attempt that hung has failed, the last of so many in a row. The next one began beside it or is due: it is not made later.
    pub(crate) fn fail_hanging(&mut self, now: Instant, failures: u32) {
        let setback = self.setback.get_or_insert(Setback { failures, failed_at: now, until: now });
        setback.failures = failures;
    }
}

impl<T: Part> Backends<T> {
    /// Whether there is an outage.
    pub(crate) fn is_outage(&self) -> bool {
        let (known, all_dead) = (self.known(), self.tally.dead == self.known());
        known > 0 && self.tally.down == known && (all_dead || !self.known_records().any(|record| record.works()))
    }
}

impl<T> Backends<T> {
    /// An attempt that began then has failed.
    pub(crate) fn note_failed_attempt(&mut self, index: u32, began: Option<Instant>, outage: Option<&mut Outage>) {
        let record = self.get_mut(index);
        record.tried = record.tried.max(began);
        if let Some(outage) = outage {
            outage.has_failed = true;
        }
    }

    /// The latest time after which an attempt began, and failed, at every known backend.
    pub(crate) fn tried(&self) -> Option<Instant> {
        self.known_records().map(|record| record.tried).min().flatten()
    }
}
