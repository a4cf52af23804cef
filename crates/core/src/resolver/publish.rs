//! What is known, put together from all lookups, and when it is worth saying.

use super::lookup::{self, Outcome};
use super::question::{Kind, Question};
use super::{Action, Machine, Source};
use crate::backend::{Backend, are_the_same};
use crate::recovery::Tries;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where a resolver is.
///
/// ```text
///  Starting ------> Running     a first set is known; it may become stale, but is never taken back
///      |               ^
///      +---> Failed ---+        every question has ended once, and nothing is known
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No answer yet.
    Starting,
    /// It has answered. Later trouble makes the answer stale, not failed.
    Running,
    /// It has never answered, and its attempts failed.
    Failed,
}

/// Where a backend is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// How long its address was said to be good for.
    pub ttl: Duration,
    /// How it was found.
    pub via: Via,
}

/// How a backend was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// It has an address of the domain itself.
    Domain,
    /// It is the target of an SRV record.
    Srv,
    /// It is the target of an SRV record, whose address came along with it.
    Additional,
}

/// What a resolver knows.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// Where it is.
    pub state: State,
    /// Who serves; by priority, name, port and address, IPv6 first.
    pub backends: Arc<[Backend]>,
    /// Where each of them is known from, in the same order. A change of these alone is not published.
    pub details: Arc<[Detail]>,
    /// Since when some of it is not backed by the latest answers.
    pub stale_since: Option<Instant>,
    /// The questions that ended in trouble last, or left nothing known.
    pub troubles: Vec<Question>,
    /// Whether every question there is has been tried.
    pub complete: bool,
}

impl Resolution {
    pub(super) fn unknown() -> Resolution {
        Resolution {
            state: State::Starting,
            backends: Arc::new([]),
            details: Arc::new([]),
            stale_since: None,
            troubles: Vec::new(),
            complete: false,
        }
    }

    fn says_the_same(&self, other: &Resolution) -> bool {
        self.state == other.state
            && self.stale_since == other.stale_since
            && self.complete == other.complete
            && self.troubles == other.troubles
            && are_the_same(&self.backends, &other.backends)
    }
}

/// Whether there may be something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// No lookup has changed.
    None,
    /// One has; what is known is put together again, and said if it differs.
    Some,
    /// One ended in trouble: said even if nothing differs.
    Trouble,
}

impl News {
    pub(super) fn raise(&mut self, news: News) {
        *self = (*self).max(news);
    }
}

impl Machine {
    /// Says what is known, if that is worth it.
    pub(super) fn publish(&mut self, now: Instant) {
        if self.news == News::None {
            return;
        }
        if self.awaited > 0 {
            let patience = Tries::new(self.policy(Kind::A)).timeout();
            if now < *self.hold_until.get_or_insert(now + patience) {
                return;
            }
        }
        self.hold_until = None;
        let resolution = self.put_together(now);
        let trouble = std::mem::replace(&mut self.news, News::None) == News::Trouble;
        if trouble || !resolution.says_the_same(&self.published) {
            self.published = resolution;
            if self.actions.back() != Some(&Action::Publish) {
                self.actions.push_back(Action::Publish);
                self.counters.published += 1;
            }
        }
    }

    fn put_together(&self, now: Instant) -> Resolution {
        let (backends, details) = self.backends();
        let complete = self.awaited == 0;
        let stale_since = self.lookups.values().filter_map(|lookup| lookup.stale_since).min();
        let troubles = self.troubles(backends.is_empty());
        if !backends.is_empty() {
            // The old list is kept where it is the same, so that followers can tell at a glance.
            let old = &self.published.backends;
            let backends = if are_the_same(old, &backends) { Arc::clone(old) } else { backends.into() };
            let details = details.into();
            return Resolution { state: State::Running, backends, details, stale_since, troubles, complete };
        }
        let kept = Arc::clone(&self.published.backends);
        let state = match self.published.state {
            State::Running => State::Running,
            State::Failed => State::Failed,
            State::Starting if self.lookups.values().any(|lookup| lookup.is_in_first_round()) => State::Starting,
            State::Starting => State::Failed,
        };
        let stale_since = match state {
            State::Running => Some(self.published.stale_since.or(stale_since).unwrap_or(now)),
            State::Starting | State::Failed => None,
        };
        let details = Arc::clone(&self.published.details);
        Resolution { state, backends: kept, details, stale_since, troubles, complete }
    }

    fn backends(&self) -> (Vec<Backend>, Vec<Detail>) {
        let (mut backends, mut details) = (Vec::new(), Vec::new());
        for target in &self.targets {
            let Some(host) = self.hosts.get(&target.name) else { continue };
            for lookup in [host.aaaa, host.a].map(|id| &self.lookups[&id]) {
                let via = match self.source {
                    Source::Service if lookup.state == lookup::State::Off => Via::Additional,
                    Source::Service => Via::Srv,
                    Source::Undecided | Source::Domain => Via::Domain,
                };
                let detail = Detail { ttl: lookup.ttl.unwrap_or_default(), via };
                for &address in lookup.addresses() {
                    let backend = Backend::new(Arc::clone(&target.name), SocketAddr::new(address, target.port));
                    backends.push(backend.with_priority(target.priority, target.weight));
                    details.push(detail);
                }
            }
        }
        (backends, details)
    }

    /// What went wrong, as questions. That there are no records of a kind is only wrong where nothing else was found.
    fn troubles(&self, nothing_known: bool) -> Vec<Question> {
        let without_addresses = |name: &str| {
            self.hosts
                .get(name)
                .is_none_or(|host| [host.aaaa, host.a].iter().all(|id| self.lookups[id].addresses().is_empty()))
        };
        let troubled = self.lookups.values().filter(|lookup| match lookup.outcome {
            Outcome::Unknown | Outcome::Good => false,
            Outcome::Trouble => true,
            Outcome::Nothing { .. } if lookup.question.kind == Kind::Srv => nothing_known,
            Outcome::Nothing { .. } => lookup.found.is_some() || without_addresses(&lookup.question.name),
        });
        troubled.map(|lookup| lookup.question.clone()).collect()
    }
}
