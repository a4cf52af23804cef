//! Why there was no lease.

use super::Share;
use super::shared::Table;
use crate::cause::Cause;
use crate::cause::Outdated;
use carom_core::backend::Backend;
use carom_core::set::{Figures, Refusal};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why there was no lease. `source()` is the last real error: what connecting (or the resolver) said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeaseError {
    /// Connecting to the backend failed as often as the recovery policy allows.
    #[non_exhaustive]
    Unreachable {
        /// Which.
        backend: Arc<Backend>,
        /// The set at that moment, and why connecting failed last.
        summary: Box<Summary>,
    },
    /// Connecting failed to every known backend, or the resolver knows none.
    #[non_exhaustive]
    Failed {
        /// The set at that moment, and why connecting failed last.
        summary: Box<Summary>,
    },
    /// It took too long.
    #[non_exhaustive]
    TimedOut {
        /// How long it had waited.
        waited: Duration,
        /// The set at that moment, and why connecting failed last.
        summary: Box<Summary>,
    },
    /// A [place](super::LeaseOptions::place) was asked for that the backend does not have, or without naming a backend.
    #[non_exhaustive]
    NoSuchPlace {
        /// The name of the set.
        set: Arc<str>,
        /// The place.
        place: usize,
        /// How many there are; 0 when no backend was named.
        places: usize,
    },
    /// The set is closed, or the runtime it lived on has ended.
    #[non_exhaustive]
    Closed {
        /// The name of the set.
        set: Arc<str>,
    },
}

/// A set's figures when a lease failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The name of the set.
    pub set: Arc<str>,
    /// Connections that take leases.
    pub connected: usize,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// Dead backends.
    pub dead: usize,
    /// Known backends.
    pub known: usize,
    /// The last real error.
    pub cause: Option<Cause>,
}

impl LeaseError {
    pub(super) fn closed(name: &Arc<str>) -> LeaseError {
        LeaseError::Closed { set: Arc::clone(name) }
    }

    fn summary(&self) -> Option<&Summary> {
        match self {
            LeaseError::Unreachable { summary, .. }
            | LeaseError::Failed { summary }
            | LeaseError::TimedOut { summary, .. } => Some(summary),
            LeaseError::NoSuchPlace { .. } | LeaseError::Closed { .. } => None,
        }
    }
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseError::Unreachable { backend, summary } => {
                write!(f, "`{}` cannot reach {backend}", summary.set)?;
            }
            LeaseError::Failed { summary } if summary.known == 0 => {
                write!(f, "`{}` has failed: no backends are known", summary.set)?;
            }
            LeaseError::Failed { summary } => {
                write!(f, "`{}` has failed: {} of {} backends dead", summary.set, summary.dead, summary.known)?;
            }
            LeaseError::TimedOut { waited, summary } => {
                let Summary { set, connected, dialling, dead, known, .. } = &**summary;
                let waited = Duration::from_millis(waited.as_millis() as u64);
                write!(
                    f,
                    "timed out after {waited:?} waiting for `{set}` ({connected} connected, {dialling} connecting, {dead} of \
                     {known} backends dead)"
                )?;
            }
            LeaseError::NoSuchPlace { set, place, places: 0 } => {
                write!(f, "`{set}` was asked for place {place} of no backend in particular")?;
            }
            LeaseError::NoSuchPlace { set, place, places } => {
                write!(f, "`{set}` has no place {place}: a backend has {places}, counted from 0")?;
            }
            LeaseError::Closed { set } => write!(f, "`{set}` is closed")?,
        }
        match self.summary().and_then(|summary| summary.cause.as_ref()) {
            Some(cause) => write!(f, "; {cause}"),
            None => Ok(()),
        }
    }
}

impl Error for LeaseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.summary().and_then(|summary| summary.cause.as_ref()).map(Cause::error)
    }
}

impl<S: Share> Table<S> {
    /// In words and figures; `wanted` is the backend that was asked for, if it was one.
    pub(super) fn explain(
        &self,
        refusal: &Refusal,
        wanted: Option<&Backend>,
        waited: Duration,
        name: &Arc<str>,
    ) -> LeaseError {
        let summary = || {
            let Figures { connected, dialling, dead, known, .. } = self.machine.figures();
            Box::new(Summary { set: Arc::clone(name), connected, dialling, dead, known, cause: self.cause(wanted) })
        };
        match refusal {
            Refusal::Unreachable(backend) => {
                LeaseError::Unreachable { backend: Arc::clone(backend), summary: summary() }
            }
            Refusal::Failed { .. } => LeaseError::Failed { summary: summary() },
            Refusal::TimedOut { .. } => LeaseError::TimedOut { waited, summary: summary() },
            &Refusal::NoSuchPlace { place, places } => LeaseError::NoSuchPlace { set: Arc::clone(name), place, places },
            Refusal::Closed => LeaseError::closed(name),
        }
    }

    /// The last real error of this backend, or of all that are known.
    pub(super) fn cause(&self, wanted: Option<&Backend>) -> Option<Cause> {
        match wanted {
            Some(backend) => self.causes.of(backend),
            None => self.causes.latest_of(|backend| self.machine.knows(backend)),
        }
    }

    /// Forgets what backends said that the machine has forgotten, now and then: those that were asked for by name may be
    /// many.
    pub(super) fn forget_causes(&mut self) -> Option<Outdated> {
        let Table { machine, causes, .. } = self;
        let many = causes.len() > 2 * machine.remembered() + 64;
        many.then(|| causes.keep(|backend| machine.remembers(backend)))
    }
}

#[cfg(all(test, not(feature = "__shuttle")))]
mod tests {
    use super::*;
    use crate::{Connect, Policy, Set};
    use std::io;
    use std::net::SocketAddr;

    struct Refusing;

    impl Connect for Refusing {
        type Connection = ();
        type Error = io::Error;

        async fn connect(&self, _backend: &Backend) -> io::Result<()> {
            Err(io::ErrorKind::ConnectionRefused.into())
        }
    }

    impl Share for Refusing {
        fn shut(&self, _connection: &()) {}
    }

    #[tokio::test(start_paused = true)]
    async fn what_foreign_backends_said_is_forgotten_with_them() {
        let ms = Duration::from_millis(1);
        let policy = Policy::default().attempts(1).delay(ms).max_delay(ms);
        let known = SocketAddr::from(([10, 0, 0, 1], 6650));
        let set = Set::builder(Refusing).backends([known]).recovery(policy).build().unwrap();
        assert!(set.lease().await.is_err());
        for n in 0..2000_u16 {
            let there = SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 6650));
            let error = set.lease_to(&Backend::fixed(there)).await.unwrap_err();
            assert!(error.source().is_some(), "{error}");
            tokio::time::sleep(2 * ms).await; // the delay is over
        }
        let table = set.owner.shared.lock();
        assert!(table.causes.len() < 200, "{} are kept", table.causes.len());
        assert!(table.cause(Some(&Backend::fixed(known))).is_some());
    }
}
