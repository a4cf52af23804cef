//! Why a claim, or building a pool, failed.

use crate::resolver::InputError;
use carom_core::backend::Backend;
use carom_core::pool::OptionsError;
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
    /// Every known backend is dead. Dead backends keep being tried; one that answers ends this.
    #[non_exhaustive]
    Failed {
        /// How many backends are dead.
        dead: usize,
        /// How many are known.
        known: usize,
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
    /// Slots on their way to a connection.
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

/// The last real error a pool met.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Connecting to a backend failed.
    #[non_exhaustive]
    Connect {
        /// Which backend.
        backend: Arc<Backend>,
        /// What the connector said.
        error: Arc<dyn Error + Send + Sync>,
    },
    /// The check of an idle connection failed, and no new connection has been made since.
    #[non_exhaustive]
    Check {
        /// Which backend.
        backend: Arc<Backend>,
        /// What the connector said.
        error: Arc<dyn Error + Send + Sync>,
    },
    /// Cleaning a connection after use hung or panicked, and no new connection has been made since. One that the connector
    /// says cannot be cleaned is none of these.
    #[non_exhaustive]
    Reset {
        /// Which backend.
        backend: Arc<Backend>,
        /// What went wrong.
        error: Arc<dyn Error + Send + Sync>,
    },
    /// A user blamed a backend, with [`Claim::fail`](super::Claim::fail), and no new connection has been made since.
    #[non_exhaustive]
    Use {
        /// Which backend.
        backend: Arc<Backend>,
        /// The reason its user gave.
        error: Arc<dyn Error + Send + Sync>,
    },
    /// The resolver could not say who serves.
    #[non_exhaustive]
    Resolve {
        /// What it said.
        error: Arc<dyn Error + Send + Sync>,
    },
}

impl Cause {
    pub(crate) fn error(&self) -> &(dyn Error + 'static) {
        match self {
            Cause::Connect { error, .. }
            | Cause::Check { error, .. }
            | Cause::Reset { error, .. }
            | Cause::Use { error, .. }
            | Cause::Resolve { error } => &**error,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Connect { backend, error } => write!(f, "last connect error: {backend}: {}", Chain(&**error)),
            Cause::Check { backend, error } => write!(f, "last failed check: {backend}: {}", Chain(&**error)),
            Cause::Reset { backend, error } => write!(f, "last failed reset: {backend}: {}", Chain(&**error)),
            Cause::Use { backend, error } => write!(f, "last failed use: {backend}: {}", Chain(&**error)),
            Cause::Resolve { error } => write!(f, "last resolver error: {}", Chain(&**error)),
        }
    }
}

/// An error and its sources. Many drivers keep the reason there, and somebody reads the text at three in the morning.
struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut next = self.0.source();
        while let Some(source) = next {
            let text = source.to_string();
            // Others repeat it.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            next = source.source();
        }
        Ok(())
    }
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
            ClaimError::Failed { known: 0, summary, .. } => {
                write!(f, "`{}` has failed: no backends are known{}", summary.pool, summary.because())
            }
            ClaimError::Failed { dead, known, summary } => {
                write!(f, "`{}` has failed: {dead} of {known} backends dead{}", summary.pool, summary.because())
            }
            ClaimError::Full { summary } => {
                write!(f, "`{}` is full: {} are waiting already{}", summary.pool, summary.waiting, summary.because())
            }
            ClaimError::Busy { pool } => write!(f, "no connection of `{pool}` is idle"),
            ClaimError::Closed { pool } => write!(f, "`{pool}` is closed"),
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

/// Why connecting failed when it was not the connector that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// It took longer than the recovery policy allows.
    #[error("connecting timed out after {0:?}")]
    ConnectTimedOut(Duration),
    /// The check took longer than `check_timeout`.
    #[error("the check timed out after {0:?}")]
    CheckTimedOut(Duration),
    /// Cleaning after use took longer than `check_timeout`.
    #[error("the reset timed out after {0:?}")]
    ResetTimedOut(Duration),
    /// The connector panicked.
    #[error("the connector panicked")]
    Panicked,
}

/// Why a pool could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An option makes no sense.
    #[error("{0}")]
    Option(#[from] OptionsError),
    /// The service is no name and no address.
    #[error("service {0}")]
    Service(InputError),
    /// Nothing says who serves.
    #[error("nothing says who serves: give a `service`, `backends` or a `resolver`")]
    NoResolver,
    /// There is no tokio runtime here, and none was named.
    #[error("no tokio runtime here: build inside one, or name one with `runtime`")]
    NoRuntime,
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_reason_behind_an_error_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("db error")]
        struct Terse(#[source] std::io::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("login: {0}")]
        struct Wordy(#[source] Terse);
        let error = Wordy(Terse(std::io::Error::other("password rejected")));
        assert_eq!(Chain(&error).to_string(), "login: db error: password rejected");
    }

    #[test]
    fn a_claim_result_stays_small() {
        // It is moved on every claim, errors or not.
        assert!(size_of::<ClaimError>() <= 32, "{}", size_of::<ClaimError>());
    }
}
