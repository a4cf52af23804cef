//! Building a set: what it connects with, to whom, and every option.

use super::driver::Driver;
use super::shared::Shared;
use super::{Set, Share};
use crate::building::{self, BuildError};
use crate::clock;
use crate::health_check::{HealthCheck, Runner};
use crate::monitor::Monitor;
use crate::resolver::Resolve;
use crate::resolver::source::Source;
use crate::seed::seed;
use carom_core::backend::Backend;
use carom_core::ejection::Ejection;
use carom_core::recovery::Recovery;
use carom_core::set::{Machine, Options};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Instrument;

/// Builds a [`Set`]; made by [`Set::builder`]. Every option has a default; [`build`](Builder::build) refuses what makes no
/// sense.
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<S> {
    connector: S,
    source: Source,
    name: Option<Arc<str>>,
    runtime: Option<Handle>,
    monitor: Option<Monitor>,
    options: Options,
    health_check: Option<HealthCheck>,
}

impl<S: Share> Builder<S> {
    pub(super) fn new(connector: S) -> Builder<S> {
        let (source, options) = (Source::default(), Options::default());
        Builder { connector, source, name: None, runtime: None, monitor: None, options, health_check: None }
    }

    /// These backends and no others. Takes socket addresses, or [`Backend`]s with names.
    pub fn backends(self, backends: impl IntoIterator<Item = impl Into<Backend>>) -> Builder<S> {
        self.source(Source::fixed(backends))
    }

    /// Whoever this resolver says serves. It runs on the set's runtime and ends with the set.
    pub fn resolver(self, resolver: impl Resolve) -> Builder<S> {
        self.source(Source::resolver(resolver))
    }

    pub(crate) fn source(mut self, source: Source) -> Builder<S> {
        self.source = source;
        self
    }

    /// Shown in errors, logs and snapshots. Default: the service, or the first backend.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Builder<S> {
        self.name = Some(name.into());
        self
    }

    /// Whether backends are connected to before anybody asks. Default: no, connections are made on demand.
    pub fn eager(mut self, eager: bool) -> Builder<S> {
        self.options.eager = eager;
        self
    }

    /// How many backends an eager set keeps connected. Default: all that are known.
    pub fn target(mut self, target: impl Into<Option<usize>>) -> Builder<S> {
        self.options.target = target.into();
        self
    }

    /// Most backends an eager set is connected to, one more aside while one takes the place of another. Default none.
    pub fn maximum(mut self, maximum: impl Into<Option<usize>>) -> Builder<S> {
        self.options.maximum = maximum.into();
        self
    }

    /// Connections to one backend, at most 10,000; 0 makes a fresh one for each lease, which ends with it. Default 1.
    pub fn per_backend(mut self, per_backend: usize) -> Builder<S> {
        self.options.per_backend = per_backend;
        self
    }

    /// A connection that nobody has held for this long is released; `None` keeps it. Default 60 s. What an eager set keeps is
    /// not released. Should not be below the interval of a user that comes back regularly: each round would dial anew.
    pub fn max_idle(mut self, max_idle: impl Into<Option<Duration>>) -> Builder<S> {
        self.options.max_idle = max_idle.into();
        self
    }

    /// How often idle connections are looked at: after its last use a connection lives between `max_idle` and `max_idle` and
    /// twice this. Default: a quarter of `max_idle`, at least a second, at most a minute.
    pub fn idle_interval(mut self, idle_interval: impl Into<Option<Duration>>) -> Builder<S> {
        self.options.idle_interval = idle_interval.into();
        self
    }

    /// How long those who hold a connection to a backend that is gone may keep it. Default 30 s.
    pub fn drain_timeout(mut self, drain_timeout: Duration) -> Builder<S> {
        self.options.drain_timeout = drain_timeout;
        self
    }

    /// How long a lease may take in all. Default 30 s.
    pub fn lease_timeout(mut self, lease_timeout: Duration) -> Builder<S> {
        self.options.lease_timeout = lease_timeout;
        self
    }

    /// How long a lease of any backend waits while every known backend is dead or unhealthy, at most `lease_timeout`. Connects are attempted at
    /// least every second meanwhile, and the lease fails with the reason of the last one. With 0 it fails once an attempt that
    /// began after it arrived has failed at every known backend. A lease that names its backend fails with its own attempts.
    /// Default 5 s.
    pub fn outage_wait(mut self, outage_wait: Duration) -> Builder<S> {
        self.options.outage_wait = outage_wait;
        self
    }

    /// Attempts, timeouts and delays of connecting. Takes a [`Recovery`], or one [`Policy`](crate::Policy) for everything.
    /// Default: 3 attempts, timeout 2 s up to 8 s, delay 100 ms up to 3 s, spread 0.2. An eager set takes no delay below 1 ms:
    /// it connects although nobody waits.
    pub fn recovery(mut self, recovery: impl Into<Recovery>) -> Builder<S> {
        self.options.recovery = recovery.into();
        self
    }

    /// Leaves out a backend for a while after so many [reported failures](super::Lease::report_failure) in a row: leases of
    /// any backend are not of it, and an eager set keeps no connection to it. Default none: off.
    pub fn ejection(mut self, ejection: impl Into<Option<Ejection>>) -> Builder<S> {
        self.options.ejection = ejection.into();
        self
    }

    /// Slow start: a new or recovered backend begins with a tenth of its share, which grows to the whole over this time. For
    /// backends that are slow until their caches are warm. Default none: a backend gets its share at once.
    pub fn slow_start(mut self, slow_start: impl Into<Option<Duration>>) -> Builder<S> {
        self.options.slow_start = slow_start.into();
        self
    }

    /// An active [health check](crate::health_check) of every known backend, whether or not it is in use. Default off.
    pub fn health_check(mut self, health_check: impl Into<Option<HealthCheck>>) -> Builder<S> {
        self.health_check = health_check.into();
        self.options.health_check = self.health_check.as_ref().map(|check| check.schedule.clone());
        self
    }

    /// How often an eager set disturbs the order in which it prefers backends. Default 60 s.
    pub fn decoherence(mut self, decoherence: Duration) -> Builder<S> {
        self.options.decoherence = decoherence;
        self
    }

    /// Connects under way to one backend at a time. Default 4.
    pub fn connecting_per_backend(mut self, connecting_per_backend: usize) -> Builder<S> {
        self.options.connecting_per_backend = connecting_per_backend;
        self
    }

    /// The tokio runtime that the set lives on, with its timers enabled. Default: the one that `build` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Builder<S> {
        self.runtime = Some(runtime);
        self
    }

    /// Which monitor sees it. Default: [`Monitor::global`].
    pub fn monitor(mut self, monitor: &Monitor) -> Builder<S> {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Builds the set.
    ///
    /// # Errors
    /// When an option makes no sense (the error names it), when nothing says who serves, or when there is no runtime.
    pub fn build(self) -> Result<Set<S>, BuildError> {
        let mut machine = Machine::new(self.options, seed(), clock::now())?;
        let name = self.name.or_else(|| self.source.name.clone()).unwrap_or_else(|| "set".into());
        if !self.source.fixed.is_empty() {
            machine.handle_backends(clock::now(), &self.source.fixed);
        }
        let resolver = self.source.prepare(&machine.options().recovery)?;
        let runtime = building::runtime(self.runtime)?;
        let monitor = self.monitor.as_ref().unwrap_or(Monitor::global());
        let (resolution, resolving, resolver) = resolver.start(&runtime, monitor);
        let shared = Arc::new(Shared::new(name, self.connector, machine, resolver));
        let id = monitor.register(&shared);
        let span = tracing::info_span!(parent: None, "set", set = &*shared.name);
        let checks = Runner::new(self.health_check);
        runtime.spawn(Driver::new(Arc::clone(&shared), resolution, resolving, checks).run().instrument(span));
        Ok(Set::new(shared, id, runtime))
    }
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}
