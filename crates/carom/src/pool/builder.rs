//! Building a pool: what it connects with, to whom, and every option.

use super::Pool;
use super::driver::Driver;
use super::shared::Shared;
use crate::building::{self, BuildError};
use crate::clock;
use crate::connect::Connect;
use crate::health_check::{HealthCheck, Runner};
use crate::meter::Meter;
use crate::monitor::Monitor;
use crate::resolver::Resolve;
use crate::resolver::source::Source;
use crate::seed::seed;
use carom_core::backend::Backend;
use carom_core::ejection::Ejection;
use carom_core::options::OptionsError;
use carom_core::pick::Pick;
use carom_core::pool::{Machine, Options};
use carom_core::recovery::Recovery;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Instrument;

/// Builds a [`Pool`]; made by [`Pool::builder`]. Every option has a default; [`build`](Builder::build) refuses what makes
/// no sense.
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<C> {
    connector: C,
    source: Source,
    name: Option<Arc<str>>,
    claim_timeout: Duration,
    runtime: Option<Handle>,
    monitor: Option<Monitor>,
    options: Options,
    health_check: Option<HealthCheck>,
}

impl<C: Connect> Builder<C> {
    pub(super) fn new(connector: C) -> Builder<C> {
        Builder {
            connector,
            source: Source::default(),
            name: None,
            claim_timeout: Duration::from_secs(30),
            runtime: None,
            monitor: None,
            options: Options::default(),
            health_check: None,
        }
    }

    /// These backends and no others. Takes socket addresses, or [`Backend`]s with names.
    pub fn backends(self, backends: impl IntoIterator<Item = impl Into<Backend>>) -> Builder<C> {
        self.source(Source::fixed(backends))
    }

    /// Whoever this resolver says serves. It runs on the pool's runtime and ends with the pool.
    pub fn resolver(self, resolver: impl Resolve) -> Builder<C> {
        self.source(Source::resolver(resolver))
    }

    pub(crate) fn source(mut self, source: Source) -> Builder<C> {
        self.source = source;
        self
    }

    /// Shown in errors, logs and snapshots. Default: the service, or the first backend.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Builder<C> {
        self.name = Some(name.into());
        self
    }

    /// Idle or connecting connections that the whole pool keeps beyond what is in use. Default 2; at most `maximum`.
    pub fn spares(mut self, spares: usize) -> Builder<C> {
        self.options.spares = spares;
        self
    }

    /// Most connections the whole pool ever has, those of removed backends that are still in use aside. Default 16. Attempts at dead
    /// backends do not count: so many of them run at a time, and at most 16.
    pub fn maximum(mut self, maximum: usize) -> Builder<C> {
        self.options.maximum = maximum;
        self
    }

    /// How long a claim may take in all, waiting and connecting included. Default 30 s; per claim with
    /// [`Pool::claim_within`].
    pub fn claim_timeout(mut self, claim_timeout: Duration) -> Builder<C> {
        self.claim_timeout = claim_timeout;
        self
    }

    /// More waiters than this are refused at once, with [`ClaimError::Full`](super::ClaimError::Full). Default none. With 0
    /// there must be `spares`: nobody could wait for a connection to be made.
    pub fn max_waiters(mut self, max_waiters: impl Into<Option<usize>>) -> Builder<C> {
        self.options.max_waiters = max_waiters.into();
        self
    }

    /// How long a claim waits while every known backend is dead or unhealthy, at most until its own deadline. Connects are attempted at least
    /// every second meanwhile, and every claim that arrives triggers one. Then the claim fails with
    /// [`ClaimError::Failed`](super::ClaimError::Failed). A claim that was waiting when the last backend died waits this long
    /// from then on. With 0 a claim fails once an attempt that began after it arrived has failed at every known backend.
    /// `max_waiters` limits how many claims wait. Default 5 s.
    pub fn outage_wait(mut self, outage_wait: Duration) -> Builder<C> {
        self.options.outage_wait = outage_wait;
        self
    }

    /// Attempts, timeouts and delays of connecting. Takes a [`Recovery`], or one [`Policy`](crate::Policy) for everything.
    /// Default: 3 attempts, timeout 2 s up to 8 s, delay 100 ms up to 3 s, spread 0.2.
    pub fn recovery(mut self, recovery: impl Into<Recovery>) -> Builder<C> {
        self.options.recovery = recovery.into();
        self
    }

    /// A connection beyond what the load and `spares` ask for is released after idling this long; `None` keeps it.
    /// Default 60 s. Looked at every quarter of it, at least every minute, at most every second.
    pub fn max_idle(mut self, max_idle: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.max_idle = max_idle.into();
        self
    }

    /// A connection older than this is retired when it is not in use; `None` keeps it. Up to 20 % is taken off when it is
    /// born, so that connections made together do not end together. Default 30 min.
    pub fn max_lifetime(mut self, max_lifetime: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.max_lifetime = max_lifetime.into();
        self
    }

    /// When a backend closes a connection that was never used, and on which it has sent nothing
    /// ([`has_unread`](Connect::has_unread)), its other unused connections are closed, and it gets no new spares for this long;
    /// claims that wait are connected all the same. For servers that wait for open connections when they shut down, and for
    /// connections that say nothing until they are used. Default none: what is closed is replaced at once.
    ///
    /// The backend is *held off* meanwhile, which snapshots show: its state stays as it was. A backend that is gone is not held off: an unused
    /// connection that was reset begins no hold-off, and ends one, as does a connect that fails. The backend is then tried with the delays of
    /// its recovery policy, and is dead when the attempts run out.
    pub fn replace_unused_after(mut self, replace_unused_after: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.replace_unused_after = replace_unused_after.into();
        self
    }

    /// A connection is retired after so many claims. Default none.
    pub fn max_uses(mut self, max_uses: impl Into<Option<u64>>) -> Builder<C> {
        self.options.max_uses = max_uses.into();
        self
    }

    /// An idle connection is [checked](Connect::check) in the background each time it has idled this long, at least a
    /// millisecond. Default off.
    pub fn check_after(mut self, check_after: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.check_after = check_after.into();
        self
    }

    /// How long a check, a recycle, or an orderly close may take. Default 3 s.
    pub fn check_timeout(mut self, check_timeout: Duration) -> Builder<C> {
        self.options.check_timeout = check_timeout;
        self
    }

    /// How long claims should wait at most when the pool is overloaded: at its turn a claim that waited longer is shed, with
    /// [`ClaimError::Shed`](super::ClaimError::Shed), once the line has not been empty for 100 ms; before that, only one that
    /// waited ten times as long. What is served then waits about this long. A claim's own timeout still holds. Default off.
    pub fn target_delay(mut self, target_delay: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.target_delay = target_delay.into();
        self
    }

    /// Leaves out a backend for a while when its users [`fail`](super::Claim::fail) so often in a row. Default off;
    /// [`Ejection::default`] is 5 failures, 30 s times the number of ejections, at most half of the backends.
    pub fn ejection(mut self, ejection: impl Into<Option<Ejection>>) -> Builder<C> {
        self.options.ejection = ejection.into();
        self
    }

    /// An active [health check](crate::health_check) of every known backend, whether or not it is in use. Default off.
    pub fn health_check(mut self, health_check: impl Into<Option<HealthCheck>>) -> Builder<C> {
        self.health_check = health_check.into();
        self.options.health_check = self.health_check.as_ref().map(|check| check.schedule.clone());
        self
    }

    /// New or closed connections per second and backend, so that a change of plan does not fall on a backend all at once.
    /// The first change is free; removal, death, ejection, a maximum made smaller, and reconnecting under the recovery policy
    /// are not limited. Connections that are used up after each claim are: they cannot be replaced faster. Default none.
    pub fn churn_per_second(mut self, churn_per_second: impl Into<Option<f64>>) -> Builder<C> {
        self.options.churn_per_second = churn_per_second.into();
        self
    }

    /// A claim held longer than this is reported once, as a warning with the place it was claimed at. Default off; it takes
    /// claims off the warm path, which makes an uncontended one about four times as dear (`make bench`).
    pub fn leak_after(mut self, leak_after: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.leak_after = leak_after.into();
        self
    }

    /// Which idle connection a claim gets. Default [`Pick::LeastLoaded`].
    pub fn pick(mut self, pick: Pick) -> Builder<C> {
        self.options.pick = pick;
        self
    }

    /// Whether the length of claims counts as the latency of a backend. Default true.
    ///
    /// [`Pick::LeastLoaded`] picks a backend less whose uses take more than twice as long as those of the others. One use in 16
    /// is timed, from the claim to its return. That is right where a claim lasts for one request. Turn it off where claims last as
    /// long as the user likes: sessions, transactions that span user think time, streams. There the length of a claim says
    /// nothing about its backend. Latency that is [reported](super::Claim::report_success_in) counts, and so do failed uses, in
    /// either case.
    pub fn learn_latency(mut self, learn_latency: bool) -> Builder<C> {
        self.options.learn_latency = learn_latency;
        self
    }

    /// Slow start: a new or recovered backend begins with a tenth of its share, which grows to the whole over this time. For
    /// backends that are slow until their caches are warm. With [`Pick::LeastLoaded`] only; claims that wait take what there
    /// is. Default none: a backend gets its share at once.
    pub fn slow_start(mut self, slow_start: impl Into<Option<Duration>>) -> Builder<C> {
        self.options.slow_start = slow_start.into();
        self
    }

    /// Connects under way to one backend at a time. Default 4. Until a backend has worked once it is always one.
    pub fn connecting_per_backend(mut self, connecting_per_backend: usize) -> Builder<C> {
        self.options.connecting_per_backend = connecting_per_backend;
        self
    }

    /// How often the order in which backends are preferred is disturbed, so that many clients with few connections each do
    /// not drift onto the same backends. Default 60 s.
    pub fn decoherence(mut self, decoherence: Duration) -> Builder<C> {
        self.options.decoherence = decoherence;
        self
    }

    /// The tokio runtime that the pool lives on, with its timers enabled. Deadlines are kept by that runtime, so it must be
    /// driven. Default: the one that `build` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Builder<C> {
        self.runtime = Some(runtime);
        self
    }

    /// Which monitor sees it. Default: [`Monitor::global`].
    pub fn monitor(mut self, monitor: &Monitor) -> Builder<C> {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Builds the pool, which starts connecting at once, in the background.
    ///
    /// # Errors
    /// When an option makes no sense (the error names it), when nothing says who serves, or when there is no runtime.
    pub fn build(self) -> Result<Pool<C>, BuildError> {
        if self.claim_timeout.is_zero() {
            return Err(OptionsError::new("claim_timeout", "must be above zero").into());
        }
        let validate_every = self.connector.validate_every();
        let options = Options { validate_every, ..self.options };
        let mut machine = Machine::new(options, seed(), clock::now())?;
        let name = self.name.or_else(|| self.source.name.clone()).unwrap_or_else(|| "pool".into());
        if !self.source.fixed.is_empty() {
            machine.handle_backends(clock::now(), &self.source.fixed);
        }
        let resolver = self.source.prepare(&machine.options().recovery)?;
        let runtime = building::runtime(self.runtime)?;
        let monitor = self.monitor.as_ref().unwrap_or(Monitor::global());
        let (resolution, resolving, resolver) = resolver.start(&runtime, monitor);
        let shared = Arc::new(Shared::new(name, self.connector, machine, self.claim_timeout, resolver));
        let id = monitor.register(&shared);
        let meter = Meter::new(monitor, &shared.name);
        let span = tracing::info_span!(parent: None, "pool", pool = &*shared.name);
        let checks = Runner::new(self.health_check);
        let driver = Driver::new(Arc::clone(&shared), resolution, resolving, meter, checks);
        runtime.spawn(driver.run().instrument(span));
        Ok(Pool::new(shared, id, runtime))
    }
}

impl<C> fmt::Debug for Builder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}
