//! Health of a backend: what connects, uses and active checks have shown of it.
//!
//! Each of the three judges by itself; [`Record::state`](super::Record::state) says which of them is shown.
//!
//! ```text
//!   unknown           first success                               --> healthy
//!   healthy, unknown  attempts exhausted, no working connection   --> dead       success                           --> healthy
//!   healthy, unknown  `consecutive` failed uses                   --> ejected    time over, or checks pass         --> healthy
//!   healthy, unknown  `unhealthy_threshold` failed active checks  --> unhealthy  `healthy_threshold` passed checks --> healthy
//!   any               the resolver removes it                     --> removed
//! ```
//!
//! If several apply, the order is dead, unhealthy, ejected.

use crate::ejection::Ejection;
use crate::news::Turn;
use std::time::Instant;

/// What connects have shown of a backend.
///
/// ```text
///              first success                        attempts ran out with nothing working
///   Unproven ----------------> Proven <---------+   +--------------------------------+
///      |                         |              |   |                                |
///      |                         +--------------|---+------> Dead <------------------+
///      +--- attempts ran out ----------------------------->   |   |  probed at max_delay; every second if all are dead
///                                               +-- success --+   |
///   any ---- no longer resolved ----> Removed <-------------------+
/// ```
///
/// A dead backend whose tier is not needed, because a better one serves, is not probed and so not called dead for ever: it
/// goes back to where it came from, doubted.
///
/// A doubted backend of which nothing works is probed by a pool like a dead one, so that its slots go where claims can be served. One
/// that has something working keeps that, and gets little more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Never connected to.
    Unproven { doubt: Doubt },
    /// Has worked. While it rests (it works, but further connects fail), it gets no more slots than it had; after that one
    /// more, until a connect beyond those succeeds.
    Proven { doubt: Doubt, rest: Option<Rest> },
    /// Attempts ran out.
    Dead { worked: bool },
    /// No longer known; it goes when its last slot does.
    Removed,
}

/// How much it is doubted that a backend can be connected to. A success ends all doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    None,
    /// An attempt took so long that another backend was tried instead. It may only be slow.
    Slow,
    /// The last attempt failed.
    Failing,
}

/// A backend that works would not have more connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) until: Instant,
    /// The connections it had, with those under way. One that it loses leaves a place, which may be taken again.
    pub(crate) most: usize,
}

impl Health {
    pub(crate) fn is_dead(self) -> bool {
        matches!(self, Health::Dead { .. })
    }

    pub(crate) fn is_removed(self) -> bool {
        matches!(self, Health::Removed)
    }

    pub(crate) fn has_worked(self) -> bool {
        match self {
            Health::Proven { .. } => true,
            Health::Dead { worked } => worked,
            Health::Unproven { .. } | Health::Removed => false,
        }
    }

    /// `None` for what is dead or removed: there is nothing to doubt.
    pub(crate) fn doubt(self) -> Option<Doubt> {
        match self {
            Health::Unproven { doubt } | Health::Proven { doubt, .. } => Some(doubt),
            Health::Dead { .. } | Health::Removed => None,
        }
    }

    pub(crate) fn rest(self) -> Option<Rest> {
        match self {
            Health::Proven { rest, .. } => rest,
            Health::Unproven { .. } | Health::Dead { .. } | Health::Removed => None,
        }
    }

    /// What there is to tell when this becomes that; `works` while it has connections.
    pub(super) fn turn_to(self, after: Health, works: bool) -> Option<Turn> {
        let doubts = |health: Health| health.doubt().is_some_and(|doubt| doubt > Doubt::None);
        match (self, after) {
            (_, Health::Removed) => None,
            (Health::Dead { .. }, Health::Dead { .. }) => None,
            (_, Health::Dead { .. }) => Some(Turn::Dead),
            // One that nobody watches any more is not back for that.
            (Health::Dead { .. }, after) => (!doubts(after)).then_some(Turn::Back),
            (before, after) if doubts(after) => (!doubts(before) && !works).then_some(Turn::Doubted),
            (Health::Unproven { .. }, _) => Some(Turn::Alive),
            (before, _) => doubts(before).then_some(Turn::Alive),
        }
    }

    pub(super) fn doubted(self, doubt: Doubt) -> Health {
        match self {
            Health::Unproven { .. } => Health::Unproven { doubt },
            Health::Proven { rest, .. } => Health::Proven { doubt, rest },
            Health::Dead { .. } | Health::Removed => self,
        }
    }
}

/// What uses have shown of a backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    /// Failed uses since the last successful one.
    failures: u32,
    /// Ejections in a row; each `time` of service between two of them takes one off.
    ejections: u32,
    /// When the ejection ends; `None` while the backend is not ejected.
    ejected_until: Option<Instant>,
    /// When the last ejection ended.
    back_since: Option<Instant>,
    /// When a use last succeeded, to within a few hundred milliseconds.
    last_success: Option<Instant>,
}

impl Uses {
    pub(crate) fn ejected_until(&self) -> Option<Instant> {
        self.ejected_until
    }

    /// Failed uses since the last successful one.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn last_success(&self) -> Option<Instant> {
        self.last_success
    }

    #[inline]
    pub(crate) fn record_success(&mut self, at: Instant) {
        (self.failures, self.last_success) = (0, Some(at));
    }

    pub(super) fn record_failure(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Begins an ejection. Returns when it ends.
    pub(super) fn eject(&mut self, ejection: &Ejection, now: Instant) -> Instant {
        let served = self.back_since.map(|since| now.saturating_duration_since(since)).unwrap_or_default();
        let times = self.ejections.saturating_sub(ejection.forgives(served)) + 1;
        let until = now + ejection.lasts(times);
        (self.failures, self.ejections, self.ejected_until) = (0, times, Some(until));
        until
    }

    /// Forgets failed uses, and ends an ejection. True if there was one.
    pub(super) fn revive(&mut self) -> bool {
        self.failures = 0;
        self.ejected_until.take().is_some()
    }

    /// Ends an ejection if there is one: checks pass.
    pub(super) fn end_ejection(&mut self, now: Instant) -> bool {
        let was_ejected = self.ejected_until.is_some();
        if was_ejected {
            self.reinstate(now);
        }
        was_ejected
    }

    /// Ends an ejection. Failures of uses that began before it are not in a row with later ones.
    pub(super) fn reinstate(&mut self, now: Instant) {
        (self.failures, self.ejected_until, self.back_since) = (0, None, Some(now));
    }
}

/// What active checks have shown of a backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checks {
    pub(super) unhealthy: bool,
    /// A check is due or runs.
    pub(super) scheduled: bool,
    pub(super) last_passed: bool,
    /// Results in a row that were the same as the last.
    pub(super) in_a_row: u32,
    pub(super) counts: CheckCounts,
}

/// Active checks of a backend since it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
}

impl Checks {
    /// An ejection begins: only checks from now on end it.
    pub(super) fn restart(&mut self) {
        self.in_a_row = 0;
    }

    pub(crate) fn is_unhealthy(&self) -> bool {
        self.unhealthy
    }

    /// Whether the backend is checked, and the last check has not passed or the first one has not ended.
    pub(super) fn lacks_pass(&self) -> bool {
        self.scheduled && !self.last_passed
    }

    /// Whether the backend is checked, and the first check has not ended.
    pub(super) fn lacks_result(&self) -> bool {
        self.scheduled && self.counts == CheckCounts::default()
    }

    pub(crate) fn counts(&self) -> CheckCounts {
        self.counts
    }
}
