//! Why things failed last, by backend: what whoever is not served is told.
//!
//! Errors belong to users and may do anything when dropped, so whatever is replaced here is handed out, to be dropped when
//! the lock has been let go.

use crate::quiet::{drop_quietly, text_of};
use carom_core::backend::{Backend, BackendState};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

pub(crate) type Reason = Arc<dyn Error + Send + Sync>;

/// The last real error that a pool, a set or another of its kind met.
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
    Recycle {
        /// Which backend.
        backend: Arc<Backend>,
        /// What went wrong.
        error: Arc<dyn Error + Send + Sync>,
    },
    /// The active health check of a backend failed.
    #[non_exhaustive]
    HealthCheck {
        /// Which backend.
        backend: Arc<Backend>,
        /// Why.
        error: Arc<dyn Error + Send + Sync>,
    },
    /// A user blamed a backend, with [`Claim::fail`](crate::Claim::fail), and no new connection has been made since.
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
    pub(crate) fn new(failing: Failing, backend: Arc<Backend>, error: Reason) -> Cause {
        match failing {
            Failing::Connect => Cause::Connect { backend, error },
            Failing::Check => Cause::Check { backend, error },
            Failing::HealthCheck => Cause::HealthCheck { backend, error },
            Failing::Recycle => Cause::Recycle { backend, error },
            Failing::Use => Cause::Use { backend, error },
        }
    }

    /// What failed, as texts call it.
    fn kind(&self) -> &'static str {
        match self {
            Cause::Connect { .. } => "last connect error",
            Cause::Check { .. } => "last failed check",
            Cause::Recycle { .. } => "last failed recycle",
            Cause::HealthCheck { .. } => "last failed health check",
            Cause::Use { .. } => "last failed use",
            Cause::Resolve { .. } => "last resolver error",
        }
    }

    /// Who failed; `None` when it was the resolver.
    pub(crate) fn backend(&self) -> Option<&Backend> {
        match self {
            Cause::Connect { backend, .. }
            | Cause::Check { backend, .. }
            | Cause::HealthCheck { backend, .. }
            | Cause::Recycle { backend, .. }
            | Cause::Use { backend, .. } => Some(backend),
            Cause::Resolve { .. } => None,
        }
    }

    pub(crate) fn error(&self) -> &(dyn Error + 'static) {
        match self {
            Cause::Connect { error, .. }
            | Cause::Check { error, .. }
            | Cause::HealthCheck { error, .. }
            | Cause::Recycle { error, .. }
            | Cause::Use { error, .. }
            | Cause::Resolve { error } => &**error,
        }
    }
}

/// ``last connect error: 10.0.0.2:5432: connection refused``
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = Chain(self.error());
        match self.backend() {
            Some(backend) => write!(f, "{}: {backend}: {error}", self.kind()),
            None => write!(f, "{}: {error}", self.kind()),
        }
    }
}

/// Several causes, those of a kind together: ``last connect errors: 10.0.0.1:5432: refused; 10.0.0.2:5432: refused``
pub(crate) struct Several<'a>(pub(crate) Vec<&'a Cause>);

impl fmt::Display for Several<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&str> = Vec::new();
        for cause in &self.0 {
            if !kinds.contains(&cause.kind()) {
                kinds.push(cause.kind());
            }
        }
        for (at, kind) in kinds.into_iter().enumerate() {
            let plural = if self.0.iter().filter(|cause| cause.kind() == kind).count() > 1 { "s" } else { "" };
            let mut before = if at == 0 { format!("{kind}{plural}: ") } else { format!("; {kind}{plural}: ") };
            for cause in self.0.iter().filter(|cause| cause.kind() == kind) {
                let error = Chain(cause.error());
                match cause.backend() {
                    Some(backend) => write!(f, "{before}{backend}: {error}")?,
                    None => write!(f, "{before}{error}")?,
                }
                before = "; ".into();
            }
        }
        Ok(())
    }
}

/// An error and its sources. Many drivers keep the reason there, and somebody reads the text at three in the morning.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

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

/// What somebody said, with what is behind it, for people to read. It is dropped here.
pub(crate) fn in_words(reason: Reason, whose: &str) -> String {
    let text = text_of(&Chain(&*reason));
    drop_quietly(whose, reason);
    text
}

/// What a backend failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Connect,
    Check,
    HealthCheck,
    Recycle,
    Use,
}

/// The last error of each known backend that has not worked since, and the resolver's.
#[derive(Default)]
pub(crate) struct Causes {
    backends: BTreeMap<Backend, Failure>,
    /// The last failed use of each backend, whether it connects or not: why it is ejected.
    uses: BTreeMap<Backend, Failure>,
    /// The last failed health check of each backend.
    health_checks: BTreeMap<Backend, Failure>,
    resolver: Option<Reason>,
    count: u64,
}

#[derive(Clone)]
struct Failure {
    backend: Arc<Backend>,
    failing: Failing,
    error: Reason,
    number: u64,
}

impl Failure {
    fn cause(&self) -> Cause {
        Cause::new(self.failing, Arc::clone(&self.backend), Arc::clone(&self.error))
    }
}

/// What was replaced; to be dropped outside the lock.
#[must_use = "to be dropped when the lock has been let go"]
pub(crate) struct Outdated(Vec<Reason>);

impl Causes {
    pub(crate) fn failed(&mut self, backend: Arc<Backend>, failing: Failing, error: Reason) -> Outdated {
        self.count += 1;
        let failure = Failure { backend: Arc::clone(&backend), failing, error, number: self.count };
        let kept = match failing {
            Failing::Connect | Failing::Check | Failing::Recycle => None,
            Failing::Use => self.uses.insert((*backend).clone(), failure.clone()),
            Failing::HealthCheck => self.health_checks.insert((*backend).clone(), failure.clone()),
        };
        let before = self.backends.insert((*backend).clone(), failure);
        outdated(kept.into_iter().chain(before).map(|failure| failure.error))
    }

    /// A use of a backend failed that connects: why it is ejected, if it is, but not why a claim fails.
    pub(crate) fn use_failed(&mut self, backend: Arc<Backend>, error: Reason) -> Outdated {
        self.count += 1;
        let key = (*backend).clone();
        let failure = Failure { backend, failing: Failing::Use, error, number: self.count };
        outdated(self.uses.insert(key, failure).map(|failure| failure.error))
    }

    /// A backend works: what it said before is not why anything fails now.
    pub(crate) fn worked(&mut self, backend: &Backend) -> Outdated {
        outdated(self.backends.remove(backend).map(|failure| failure.error))
    }

    /// The health check of a backend passes: if it failed before, that is over.
    pub(crate) fn health_check_passed(&mut self, backend: &Backend) -> Outdated {
        match self.backends.get(backend) {
            Some(Failure { failing: Failing::HealthCheck, .. }) => self.worked(backend),
            Some(_) | None => Outdated(Vec::new()),
        }
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

    /// Why a backend failed last, if it has not worked since.
    pub(crate) fn cause(&self, backend: &Backend) -> Option<Cause> {
        self.backends.get(backend).map(Failure::cause)
    }

    /// A copy, to be looked through when the lock has been let go. Linear in those that fail.
    pub(crate) fn told(&self) -> Told {
        let copy = |failures: &BTreeMap<Backend, Failure>| failures.values().cloned().collect();
        Told {
            failures: copy(&self.backends),
            uses: copy(&self.uses),
            health_checks: copy(&self.health_checks),
            resolver: self.resolver.clone(),
        }
    }

    /// The last failed use of a backend.
    pub(crate) fn failed_use(&self, backend: &Backend) -> Option<Reason> {
        self.uses.get(backend).map(|failure| Arc::clone(&failure.error))
    }

    /// The last failed health check of a backend.
    pub(crate) fn failed_health_check(&self, backend: &Backend) -> Option<Reason> {
        self.health_checks.get(backend).map(|failure| Arc::clone(&failure.error))
    }

    /// Why one failed last, if it has not worked since.
    pub(crate) fn reason(&self, backend: &Backend) -> Option<Reason> {
        self.backends.get(backend).map(|failure| Arc::clone(&failure.error))
    }

    /// How many backends have said something.
    pub(crate) fn len(&self) -> usize {
        self.backends.len().max(self.uses.len()).max(self.health_checks.len())
    }

    /// Forgets all backends but these.
    pub(crate) fn keep(&mut self, kept: impl Fn(&Backend) -> bool) -> Outdated {
        let Causes { backends, uses, health_checks, .. } = self;
        let gone = [backends, uses, health_checks].into_iter().flat_map(|failures| {
            let gone: Vec<Backend> = failures.keys().filter(|backend| !kept(backend)).cloned().collect();
            gone.into_iter().filter_map(|backend| failures.remove(&backend)).collect::<Vec<Failure>>()
        });
        outdated(gone.map(|failure| failure.error))
    }

    /// The latest of them; the resolver's when nobody else has anything to say, or when nobody is known.
    pub(crate) fn latest(&self) -> Option<Cause> {
        self.latest_of(|_| true)
    }

    /// The latest of some backends; the resolver's when none of them has anything to say.
    pub(crate) fn latest_of(&self, counts: impl Fn(&Backend) -> bool) -> Option<Cause> {
        latest(self.backends.values().filter(|failure| counts(&failure.backend)), self.resolver.as_ref())
    }
}

/// What was said when somebody looked: in order of backends.
pub(crate) struct Told {
    failures: Vec<Failure>,
    uses: Vec<Failure>,
    health_checks: Vec<Failure>,
    resolver: Option<Reason>,
}

impl Told {
    /// Why a backend is in this state, in words; why it failed last, if it has not worked since.
    pub(crate) fn reason_of(&self, backend: &Backend, state: BackendState) -> Option<String> {
        match state {
            BackendState::Ejected => words_of(&self.uses, backend),
            BackendState::Unhealthy => words_of(&self.health_checks, backend),
            BackendState::Unknown | BackendState::Healthy | BackendState::Dead | BackendState::Removed => {
                words_of(&self.failures, backend)
            }
        }
    }

    /// The last failed health check of one, in words.
    pub(crate) fn failed_health_check(&self, backend: &Backend) -> Option<String> {
        words_of(&self.health_checks, backend)
    }

    /// The latest of some backends, in words; the resolver's when none of them has anything to say.
    pub(crate) fn latest_of(&self, counts: impl Fn(&Backend) -> bool) -> Option<String> {
        let latest = latest(self.failures.iter().filter(|failure| counts(&failure.backend)), self.resolver.as_ref())?;
        Some(text_of(&latest))
    }
}

fn words_of(failures: &[Failure], backend: &Backend) -> Option<String> {
    let found = failures.binary_search_by(|failure| (*failure.backend).cmp(backend)).ok()?;
    Some(text_of(&Chain(&*failures[found].error)))
}

/// Why a use failed whose user gave no reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FailedUse {
    #[error("reported without a reason")]
    Unexplained,
    #[error("connection closed during use")]
    Closed,
    #[error("validation failed")]
    Validation(#[source] Reason),
    #[error("recycle failed")]
    Recycle(#[source] Reason),
}

fn latest<'a>(failures: impl Iterator<Item = &'a Failure>, resolver: Option<&Reason>) -> Option<Cause> {
    match (failures.max_by_key(|failure| failure.number), resolver) {
        (Some(failure), _) => Some(failure.cause()),
        (None, Some(error)) => Some(Cause::Resolve { error: Arc::clone(error) }),
        (None, None) => None,
    }
}

fn outdated(reasons: impl IntoIterator<Item = Reason>) -> Outdated {
    Outdated(reasons.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
