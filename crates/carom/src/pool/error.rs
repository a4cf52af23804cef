//! Why a claim failed.

use crate::cause::Cause;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a claim was not granted.
///
/// `source()` is the last real error: what connecting, a check, or the resolver said, as it was returned, so that it can be
/// downcast; or the reason that a claim was [failed](super::Claim::fail) with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// The deadline passed before a connection was free.
    #[non_exhaustive]
    TimedOut {
        /// How long the claim waited.
        waited: Duration,
        /// The pool at that moment, and why connecting failed last.
        summary: Box<Summary>,
    },
    /// No backend is known, and the claim was made with `error_on_empty`.
    #[non_exhaustive]
    NoBackends {
        /// The pool at that moment, and what the resolver said last.
        summary: Box<Summary>,
    },
    /// Every known backend is dead or unhealthy, and none came back within `outage_wait`. Dead backends keep being tried; one that answers
    /// ends this. Or no backend is known, and the resolver has failed.
    #[non_exhaustive]
    Failed {
        /// How long the claim waited; zero if it failed at once.
        waited: Duration,
        /// How many backends are dead; at most 65535, the exact count is in the summary.
        dead: u16,
        /// How many are known; at most 65535, the exact count is in the summary.
        known: u16,
        /// The pool at that moment, and why connecting failed last.
        summary: Box<Summary>,
    },
    /// The pool is overloaded: the claim had waited longer than `target_delay` when its turn came.
    #[non_exhaustive]
    Shed {
        /// How long the claim waited.
        waited: Duration,
        /// The pool at that moment.
        summary: Box<Summary>,
    },
    /// As many wait as `max_waiters` allows.
    #[non_exhaustive]
    Full {
        /// The pool at that moment.
        summary: Box<Summary>,
    },
    /// Nothing is idle; [`try_claim`](super::Pool::try_claim) does not wait.
    #[non_exhaustive]
    Busy {
        /// The name of the pool.
        pool: Arc<str>,
    },
    /// The pool is closed, or the runtime it lived on has ended.
    #[non_exhaustive]
    Closed {
        /// The name of the pool.
        pool: Arc<str>,
    },
}

/// A pool's figures when a claim failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The name of the pool.
    pub pool: Arc<str>,
    /// Slots in all.
    pub total: usize,
    /// Connections nobody uses.
    pub idle: usize,
    /// Connections in use.
    pub busy: usize,
    /// Slots and probes on their way to a connection.
    pub connecting: usize,
    /// Most slots there may be.
    pub maximum: usize,
    /// Claims still in line.
    pub waiting: usize,
    /// Claims that were ahead of this one in line.
    pub ahead: usize,
    /// Dead backends.
    pub dead: usize,
    /// Known backends.
    pub known: usize,
    /// The last real error.
    pub cause: Option<Cause>,
}

impl Summary {
    fn figures(&self) -> String {
        let mut parts =
            vec![format!("{} busy of {}", self.busy, self.maximum), format!("{} waiting ahead", self.ahead)];
        if self.idle > 0 {
            parts.push(format!("{} idle", self.idle));
        }
        if self.connecting > 0 {
            parts.push(format!("{} connecting", self.connecting));
        }
        match (self.dead, self.known) {
            (_, 0) => parts.push("no backends known".into()),
            (0, _) => {}
            (dead, known) => parts.push(format!("{dead} of {known} backends dead")),
        }
        parts.join(", ")
    }

    fn because(&self) -> String {
        self.cause.as_ref().map(|cause| format!("; {cause}")).unwrap_or_default()
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::Shed { waited, summary } => {
                let (rounded, pool) = (rounded(*waited), &summary.pool);
                write!(f, "shed after {rounded:?} waiting for `{pool}`, which is overloaded ({})", summary.figures())
            }
            ClaimError::TimedOut { waited, summary } => {
                let rounded = rounded(*waited);
                let (pool, figures) = (&summary.pool, summary.figures());
                write!(f, "timed out after {rounded:?} waiting for `{pool}` ({figures}){}", summary.because())
            }
            ClaimError::NoBackends { summary } => {
                write!(f, "no backends are known for `{}`{}", summary.pool, summary.because())
            }
            ClaimError::Failed { waited, dead, known, summary } => {
                write!(f, "`{}` has failed: {}; ", summary.pool, Waited(*waited))?;
                match known {
                    0 => f.write_str("no backends are known")?,
                    known => write!(f, "{dead} of {known} backends dead")?,
                }
                f.write_str(&summary.because())
            }
            ClaimError::Full { summary } => {
                write!(f, "`{}` is full: {} are waiting already{}", summary.pool, summary.waiting, summary.because())
            }
            ClaimError::Busy { pool } => write!(f, "no connection of `{pool}` is idle"),
            ClaimError::Closed { pool } => write!(f, "`{pool}` is closed"),
        }
    }
}

/// How long a claim waited before the pool was given up.
struct Waited(Duration);

impl fmt::Display for Waited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match rounded(self.0) {
            Duration::ZERO => f.write_str("did not wait"),
            waited if waited < Duration::from_secs(1) => write!(f, "waited {waited:?}"),
            waited => write!(f, "waited {waited:.1?}"),
        }
    }
}

/// Nobody wants to read microseconds here.
fn rounded(waited: Duration) -> Duration {
    Duration::from_millis(waited.as_millis() as u64)
}

impl Error for ClaimError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ClaimError::TimedOut { summary, .. }
            | ClaimError::NoBackends { summary }
            | ClaimError::Shed { summary, .. }
            | ClaimError::Failed { summary, .. }
            | ClaimError::Full { summary } => summary.cause.as_ref().map(Cause::error),
            ClaimError::Busy { .. } | ClaimError::Closed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;

    fn summary(cause: Option<Cause>) -> Box<Summary> {
        Box::new(Summary {
            pool: "orders".into(),
            total: 16,
            idle: 0,
            busy: 16,
            connecting: 0,
            maximum: 16,
            waiting: 4,
            ahead: 3,
            dead: 0,
            known: 3,
            cause,
        })
    }

    #[test]
    fn a_timeout_names_the_pool_the_counts_and_the_cause() {
        let error: Arc<dyn Error + Send + Sync> = Arc::new(std::io::Error::other("password rejected"));
        let backend = Arc::new(Backend::fixed("10.0.0.2:5432".parse().unwrap()));
        let timed_out = ClaimError::TimedOut {
            waited: Duration::from_micros(30_000_123),
            summary: summary(Some(Cause::Connect { backend, error })),
        };
        assert_eq!(
            timed_out.to_string(),
            "timed out after 30s waiting for `orders` (16 busy of 16, 3 waiting ahead); \
             last connect error: 10.0.0.2:5432: password rejected"
        );
        let source = timed_out.source().unwrap();
        assert!(source.downcast_ref::<std::io::Error>().is_some(), "the connector's own error can be downcast");
    }

    #[test]
    fn failed_claim_says_how_long_it_waited() {
        let failed =
            |waited, known| ClaimError::Failed { waited, dead: known, known, summary: summary(None) }.to_string();
        let expected = "`orders` has failed: waited 5.0s; 2 of 2 backends dead";
        assert_eq!(failed(Duration::from_micros(5_001_234), 2), expected);
        assert_eq!(failed(Duration::from_millis(50), 1), "`orders` has failed: waited 50ms; 1 of 1 backends dead");
        assert_eq!(failed(Duration::ZERO, 0), "`orders` has failed: did not wait; no backends are known");
    }

    #[test]
    fn a_claim_result_stays_small() {
        // It is moved on every claim, errors or not.
        assert!(size_of::<ClaimError>() <= 32, "{}", size_of::<ClaimError>());
    }
}
