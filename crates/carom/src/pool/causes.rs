//! Why things failed last, by backend: what failing claims are told.
//!
//! Errors belong to users and may do anything when dropped, so whatever is replaced here is handed out, to be dropped when
//! the lock has been let go.

use super::error::Cause;
use carom_core::backend::Backend;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

type Reason = Arc<dyn Error + Send + Sync>;

/// What a backend failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Connect,
    Check,
    Reset,
    Use,
}

/// The last error of each known backend that has not worked since, and the resolver's.
#[derive(Default)]
pub(crate) struct Causes {
    backends: BTreeMap<Backend, Failure>,
    resolver: Option<Reason>,
    count: u64,
}

struct Failure {
    backend: Arc<Backend>,
    failing: Failing,
    error: Reason,
    number: u64,
}

/// What was replaced; to be dropped outside the lock.
#[must_use = "to be dropped when the lock has been let go"]
pub(crate) struct Outdated(Vec<Reason>);

impl Causes {
    pub(crate) fn failed(&mut self, backend: Arc<Backend>, failing: Failing, error: Reason) -> Outdated {
        self.count += 1;
        let failure = Failure { backend: Arc::clone(&backend), failing, error, number: self.count };
        outdated(self.backends.insert((*backend).clone(), failure).map(|failure| failure.error))
    }

    /// A backend works: what it said before is not why anything fails now.
    pub(crate) fn worked(&mut self, backend: &Backend) -> Outdated {
        outdated(self.backends.remove(backend).map(|failure| failure.error))
    }

    /// The resolver has spoken: who serves, unless that is as before, and what troubles it.
    pub(crate) fn resolved(&mut self, known: Option<&Arc<[Backend]>>, trouble: Option<Reason>) -> Outdated {
        let before = std::mem::replace(&mut self.resolver, trouble);
        let Some(known) = known else { return outdated(before) };
        let known: BTreeSet<&Backend> = known.iter().collect();
        let mut gone = self.keep(|backend| known.contains(backend));
        gone.0.extend(before);
        gone
    }

    /// That of one backend.
    pub(crate) fn of(&self, backend: &Backend) -> Option<Cause> {
        let Failure { backend, error, .. } = self.backends.get(backend)?;
        Some(Cause::Connect { backend: Arc::clone(backend), error: Arc::clone(error) })
    }

    /// How many backends have said something.
    pub(crate) fn len(&self) -> usize {
        self.backends.len()
    }

    /// Forgets all backends but these.
    pub(crate) fn keep(&mut self, kept: impl Fn(&Backend) -> bool) -> Outdated {
        let gone: Vec<Backend> = self.backends.keys().filter(|backend| !kept(backend)).cloned().collect();
        outdated(gone.iter().filter_map(|backend| self.backends.remove(backend)).map(|failure| failure.error))
    }

    /// The latest of them; the resolver's when nobody else has anything to say, or when nobody is known.
    pub(crate) fn latest(&self) -> Option<Cause> {
        self.latest_of(|_| true)
    }

    /// The latest of some backends; the resolver's when none of them has anything to say.
    pub(crate) fn latest_of(&self, counts: impl Fn(&Backend) -> bool) -> Option<Cause> {
        let counting = self.backends.values().filter(|failure| counts(&failure.backend));
        let latest = counting.max_by_key(|failure| failure.number);
        match (latest, &self.resolver) {
            (Some(Failure { backend, failing, error, .. }), _) => {
                let (backend, error) = (Arc::clone(backend), Arc::clone(error));
                Some(match failing {
                    Failing::Connect => Cause::Connect { backend, error },
                    Failing::Check => Cause::Check { backend, error },
                    Failing::Reset => Cause::Reset { backend, error },
                    Failing::Use => Cause::Use { backend, error },
                })
            }
            (None, Some(error)) => Some(Cause::Resolve { error: Arc::clone(error) }),
            (None, None) => None,
        }
    }
}

fn outdated(reasons: impl IntoIterator<Item = Reason>) -> Outdated {
    Outdated(reasons.into_iter().collect())
}
