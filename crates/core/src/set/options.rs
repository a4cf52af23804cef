//! What a set is told: how much it keeps, and for how long.

use crate::ejection::Ejection;
use crate::health_check::Schedule;
use crate::idle;
use crate::options::{OptionsError, recurring, sane};
use crate::recovery::{DAY, Recovery};
use std::time::Duration;

/// Every backend has room for so many connections, and pays for it in memory. Nobody needs more.
const MOST_PLACES: usize = 10_000;

/// What a set is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether backends are connected to before anybody wants to.
    pub eager: bool,
    /// How many backends an eager set keeps connected; `None` is all that are known.
    pub target: Option<usize>,
    /// Most connections that an eager set keeps, one more aside while one takes the place of another. What is dialled on
    /// demand, and what is on its way out and still held, comes on top.
    pub maximum: Option<usize>,
    /// Connections to one backend, at most 10,000; 0 is a fresh one for each lease.
    pub per_backend: usize,
    /// A connection that nobody has held for this long is released; `None` keeps it.
    pub max_idle: Option<Duration>,
    /// How often idle connections are looked at; `None` is a quarter of `max_idle`, between a second and a minute.
    pub idle_interval: Option<Duration>,
    /// How long the holders of a connection to a removed backend may keep it.
    pub drain_timeout: Duration,
    /// How long a lease may take in all.
    pub lease_timeout: Duration,
    /// How long a lease of any backend waits while every known backend is dead or unhealthy, at most `lease_timeout`. With 0 it fails once an
    /// attempt that began after it arrived has failed at every known backend.
    pub outage_wait: Duration,
    /// Attempts, timeouts and delays of connecting; of an eager set, delays of at least 1 ms.
    pub recovery: Recovery,
    /// When a backend that serves badly is left out; `None` never does.
    pub ejection: Option<Ejection>,
    /// The share of a backend that is new, or is back after it was dead, ejected or unhealthy, grows over this time; `None` gives it
    /// its whole share at once.
    pub slow_start: Option<Duration>,
    /// Active health checks of every known backend: [`Action::HealthCheck`](super::Action::HealthCheck). Default off.
    pub health_check: Option<Schedule>,
    /// How often the order in which backends are preferred is disturbed.
    pub decoherence: Duration,
    /// Connects under way to one backend at a time.
    pub connecting_per_backend: usize,
}

/// Lazy, 1 connection per backend, released after 60 s; 30 s to drain and to lease, 5 s of that in an outage; the rest as for a pool.
impl Default for Options {
    fn default() -> Options {
        Options {
            eager: false,
            target: None,
            maximum: None,
            per_backend: 1,
            max_idle: Some(Duration::from_secs(60)),
            idle_interval: None,
            drain_timeout: Duration::from_secs(30),
            lease_timeout: Duration::from_secs(30),
            outage_wait: Duration::from_secs(5),
            recovery: Recovery::default(),
            ejection: None,
            slow_start: None,
            health_check: None,
            decoherence: Duration::from_secs(60),
            connecting_per_backend: 4,
        }
    }
}

impl Options {
    /// How often the detector looks; `None` when there is nothing to look for.
    pub fn looks(&self) -> Option<Duration> {
        let max_idle = self.max_idle?;
        Some(self.idle_interval.unwrap_or_else(|| idle::interval(max_idle)))
    }

    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        fn refuse(option: &'static str, problem: impl Into<String>) -> Result<(), OptionsError> {
            Err(OptionsError::new(option, problem))
        }
        let times = [
            ("max_idle", self.max_idle),
            ("idle_interval", self.idle_interval),
            ("lease_timeout", Some(self.lease_timeout)),
            ("decoherence", Some(self.decoherence)),
            ("slow_start", self.slow_start),
        ];
        for (option, time) in times {
            sane(option, time)?;
        }
        sane("outage_wait", Some(self.outage_wait).filter(|wait| !wait.is_zero()))?;
        recurring("max_idle", self.max_idle)?;
        recurring("idle_interval", self.idle_interval)?;
        recurring("decoherence", Some(self.decoherence))?;
        if self.drain_timeout > 365 * DAY {
            return refuse("drain_timeout", "must be at most a year");
        }
        if self.target == Some(0) {
            return refuse("target", "must be at least 1; a set that is not eager keeps none");
        }
        if self.maximum == Some(0) {
            return refuse("maximum", "must be at least 1");
        }
        if !self.eager && (self.target.is_some() || self.maximum.is_some()) {
            let option = if self.target.is_some() { "target" } else { "maximum" };
            return refuse(option, "is for an eager set: a lazy one connects on demand");
        }
        if self.eager && self.per_backend == 0 {
            return refuse(
                "per_backend",
                "must be at least 1 for an eager set: it keeps connections before anybody asks",
            );
        }
        if let (Some(target), Some(maximum)) = (self.target, self.maximum)
            && target > maximum
        {
            return refuse("target", "must not be above maximum");
        }
        if self.per_backend > MOST_PLACES {
            return refuse("per_backend", format!("must be at most {MOST_PLACES}"));
        }
        if let Some(Err(problem)) = self.ejection.as_ref().map(Ejection::validate) {
            return refuse("ejection", problem);
        }
        if let Some(Err(problem)) = self.health_check.as_ref().map(Schedule::validate) {
            return refuse("health_check", problem.to_string());
        }
        if self.connecting_per_backend == 0 {
            return refuse("connecting_per_backend", "must be at least 1");
        }
        self.recovery.validate().map_err(|problem| OptionsError::new("recovery", problem.to_string()))?;
        if self.eager
            && let Err(problem) = self.recovery.require_connect_delay()
        {
            return refuse("recovery", format!("of an eager set: {problem}"));
        }
        Ok(())
    }
}
