//! The record of a resolver: what it has published and noted, for whoever looks at it.

use super::{Resolution, ResolverEnded, ResolverState};
use crate::cause::in_words;
use crate::clock;
use crate::monitor::{self, Id, Monitor, Object, Observe, Observed};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tracing::Span;

/// What is called that nobody has named.
const UNNAMED: &str = "resolver";

/// What is seen of a resolver that was started. Whoever runs it holds it; a monitor does not.
pub(crate) struct Record {
    sender: watch::Sender<Resolution>,
    notes: Arc<Notes>,
    /// Who sees it, and as what.
    seen: Mutex<Vec<(Monitor, Id)>>,
}

/// What a resolver says of itself beside what it publishes.
#[derive(Default)]
pub(crate) struct Notes {
    noted: Mutex<Noted>,
}

#[derive(Clone, Default)]
struct Noted {
    name: Option<Arc<str>>,
    /// Somebody else has named it, and it stays so.
    is_named: bool,
    /// What it runs in, until that has its name.
    span: Option<Span>,
    /// Who saw it first.
    monitor: Option<Monitor>,
    dns: Option<Arc<dyn AsksDns>>,
}

/// A resolver that asks DNS, seen from outside.
pub(crate) trait AsksDns: Send + Sync + 'static {
    /// What it asks for and how that stands. Quick.
    fn look(&self) -> monitor::Dns;
}

impl Record {
    pub(super) fn new(sender: watch::Sender<Resolution>) -> Record {
        Record { sender, notes: Arc::default(), seen: Mutex::default() }
    }

    pub(super) fn notes(&self) -> &Arc<Notes> {
        &self.notes
    }

    /// The resolver says nothing more. What it has said stays; if that is nothing, it has failed.
    pub(super) fn returned(&self) {
        self.sender.send_if_modified(|resolution| {
            let silent = resolution.state == ResolverState::Starting;
            if silent {
                resolution.state = ResolverState::Failed;
                resolution.last_error.get_or_insert_with(|| Arc::new(ResolverEnded));
            }
            silent
        });
    }

    /// However it ended, it has stopped. If it was not told to, from now on nobody sees to it that what it said is true.
    pub(super) fn stopped(&self) {
        self.sender.send_modify(|resolution| {
            if resolution.state != ResolverState::Stopping && !resolution.backends.is_empty() {
                resolution.stale_since.get_or_insert_with(clock::now);
            }
            resolution.state = ResolverState::Stopped;
        });
    }

    /// Says that it is to stop. Whether that is news.
    pub(super) fn stopping(&self) -> bool {
        self.sender.send_if_modified(|resolution| match resolution.state {
            ResolverState::Stopping | ResolverState::Stopped => false,
            ResolverState::Starting | ResolverState::Running | ResolverState::Failed => {
                resolution.state = ResolverState::Stopping;
                true
            }
        })
    }

    /// What this monitor calls it; from now on it sees it.
    pub(super) fn seen_by(self: &Arc<Self>, monitor: &Monitor) -> Id {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = seen.iter().find(|(other, _)| other.is(monitor)) {
            return *id;
        }
        let id = monitor.register(self);
        seen.push((monitor.clone(), id));
        self.notes.lock().monitor.get_or_insert_with(|| monitor.clone());
        id
    }
}

impl Observe for Record {
    fn observe(&self) -> Option<Observed> {
        let Noted { name, dns, .. } = self.notes.lock().clone();
        let name = name.as_deref().unwrap_or(UNNAMED);
        let known = self.sender.borrow().clone();
        let error = known.last_error.map(|error| in_words(error, name));
        let state = match known.state {
            ResolverState::Starting => monitor::State::Starting,
            ResolverState::Running => monitor::State::Running,
            ResolverState::Failed => monitor::State::Failed,
            ResolverState::Stopping => monitor::State::Stopping,
            ResolverState::Stopped => return None,
        };
        let now = clock::now();
        let resolver = monitor::Resolver {
            state,
            backends: known.backends.iter().map(Into::into).collect(),
            stale_ms: known.stale_since.map(|since| monitor::ms_since(since, now)),
            error,
            dns: dns.map(|dns| dns.look()),
        };
        Some(Observed { name: name.to_owned(), object: Object::Resolver(resolver) })
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("notes", &self.notes).finish_non_exhaustive()
    }
}

impl Notes {
    /// It is called after its type, whose whole name this is, until it says otherwise.
    pub(super) fn call_after(&self, whole: &str) {
        let bare = whole.split('<').next().unwrap_or(whole);
        self.lock().name = Some(bare.rsplit("::").next().unwrap_or(bare).into());
    }

    /// However it calls itself, it is called this from now on.
    pub(super) fn name_for_good(&self, name: &str) {
        self.name(name);
        self.lock().is_named = true;
    }

    pub(super) fn name(&self, name: &str) {
        let span = {
            let mut noted = self.lock();
            if noted.is_named {
                return;
            }
            noted.name = Some(name.into());
            // Whoever writes spans down writes every word that a field was ever given: it is given one.
            noted.span.take()
        };
        if let Some(span) = span {
            span.record("resolver", name);
        }
    }

    /// What it is called.
    pub(super) fn title(&self) -> Arc<str> {
        self.lock().name.clone().unwrap_or_else(|| UNNAMED.into())
    }

    /// The span that the resolver is to run in; it has the name that the resolver gives itself first, and none until then.
    pub(super) fn span(&self) -> Span {
        let span = tracing::info_span!(parent: None, "resolver", resolver = tracing::field::Empty);
        self.lock().span = Some(span.clone());
        span
    }

    /// Who sees what the resolver starts for itself.
    #[allow(dead_code, reason = "for DNS alone")]
    pub(crate) fn monitor(&self) -> Monitor {
        self.lock().monitor.clone().unwrap_or_else(|| Monitor::global().clone())
    }

    #[allow(dead_code, reason = "for DNS alone")]
    pub(crate) fn asks(&self, dns: Arc<dyn AsksDns>) {
        self.lock().dns = Some(dns);
    }

    /// Another resolver has taken over, which may not ask DNS.
    pub(super) fn asks_no_more(&self) {
        self.lock().dns = None;
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        // Whoever panicked with it had written one word.
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").field("name", &self.lock().name).finish_non_exhaustive()
    }
}
