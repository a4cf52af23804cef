//! What a pool can be told, and what it refuses to be told.

use crate::ejection::Ejection;
use crate::health_check::Schedule;
use crate::options::{OptionsError, recurring, sane};
use crate::pick::Pick;
use crate::recovery::Recovery;
use std::time::Duration;

/// The options of a pool. Every field has a default; [`Options::validate`] refuses combinations that make no sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Idle or connecting connections that the whole pool keeps beyond what is in use. Default 2.
    pub spares: usize,
    /// Most slots the whole pool ever has, those of removed backends that are still in use aside. Probes of dead backends have
    /// no slot; at most this many run at a time, and at most 16. Default 16.
    pub maximum: usize,
    /// More waiters than this are refused at once; with 0 there must be `spares`. Default none: the line is as long as callers
    /// make it.
    pub max_waiters: Option<usize>,
    /// How long a claim waits while every known backend is dead or unhealthy, at most until its own deadline. With 0 it fails once an
    /// attempt that began after it arrived has failed at every known backend. Default 5 s.
    pub outage_wait: Duration,
    /// Attempts, timeouts and delays of connecting. Default [`Recovery::default`].
    pub recovery: Recovery,
    /// A connection beyond `spares` is released after idling this long; `None` keeps it. Default 60 s.
    pub max_idle: Option<Duration>,
    /// A connection older than this is retired when it is not in use. Up to 20 % is taken off at its birth, so that
    /// connections made together do not end together. Default 30 min.
    pub max_lifetime: Option<Duration>,
    /// When a backend closes a connection that was never used, and on which it has sent nothing
    /// ([`handle_unread`](super::Machine::handle_unread)), its other unused connections are closed, and it gets no new spares for
    /// this long; claims that wait are connected all the same. An unused connection that is reset begins no hold-off, and ends one, as
    /// does a connect that fails. Default none: what is closed is replaced at once.
    pub replace_unused_after: Option<Duration>,
    /// A connection is retired after so many claims. Default none.
    pub max_uses: Option<u64>,
    /// An idle connection is checked each time it has idled this long, at least a millisecond. Default off.
    pub check_after: Option<Duration>,
    /// How long a check, a recycle, or an orderly close may take. Default 3 s.
    pub check_timeout: Duration,
    /// A connection is checked after use, within `check_timeout`, before it is lent again, if its last check is older than
    /// this; at least a millisecond. Then it is also checked after a use that was much shorter than usual, and after every use while its
    /// backend is distrusted. Default off.
    pub validate_every: Option<Duration>,
    /// How long claims should wait at most under overload: at its turn a claim is shed that waited longer, once the line has
    /// not been empty for 100 ms (and one that waited ten times as long in any case). Default off.
    pub target_delay: Option<Duration>,
    /// Leaving out backends that fail their users. Default off.
    pub ejection: Option<Ejection>,
    /// Active health checks of every known backend: [`Action::HealthCheck`](super::Action::HealthCheck). Default off.
    pub health_check: Option<Schedule>,
    /// New or closed connections per second and backend. Default none: as the plan says.
    pub churn_per_second: Option<f64>,
    /// A claim held longer is reported, once. Default off.
    pub leak_after: Option<Duration>,
    /// Which idle connection a claim gets. Default [`Pick::LeastLoaded`].
    pub pick: Pick,
    /// Whether the length of uses counts as the latency of a backend. Latency that is
    /// [reported](super::Machine::report_success_in) counts all the same. Default true.
    pub learn_latency: bool,
    /// A new or recovered backend begins with a tenth of its share, which grows to the whole over this time. With
    /// [`Pick::LeastLoaded`] only. Default none: it gets its share at once.
    pub slow_start: Option<Duration>,
    /// Connects under way to one backend at a time. Default 4.
    pub connecting_per_backend: usize,
    /// How often the preference order is disturbed, so that many clients do not drift onto the same backends; at least a
    /// millisecond. Default 60 s.
    pub decoherence: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            spares: 2,
            maximum: 16,
            max_waiters: None,
            outage_wait: Duration::from_secs(5),
            recovery: Recovery::default(),
            max_idle: Some(Duration::from_secs(60)),
            max_lifetime: Some(Duration::from_secs(30 * 60)),
            replace_unused_after: None,
            max_uses: None,
            check_after: None,
            check_timeout: Duration::from_secs(3),
            validate_every: None,
            target_delay: None,
            ejection: None,
            health_check: None,
            churn_per_second: None,
            leak_after: None,
            pick: Pick::default(),
            learn_latency: true,
            slow_start: None,
            connecting_per_backend: 4,
            decoherence: Duration::from_secs(60),
        }
    }
}

impl Options {
    /// Refuses what makes no sense, naming the option. Nothing is corrected silently.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        self.refuse_size(self.spares, self.maximum)?;
        sane("outage_wait", Some(self.outage_wait).filter(|wait| !wait.is_zero()))?;
        sane("max_idle", self.max_idle)?;
        recurring("max_idle", self.max_idle)?;
        sane("max_lifetime", self.max_lifetime)?;
        recurring("max_lifetime", self.max_lifetime)?;
        sane("replace_unused_after", self.replace_unused_after)?;
        recurring("replace_unused_after", self.replace_unused_after)?;
        sane("check_after", self.check_after)?;
        recurring("check_after", self.check_after)?;
        sane("validate_every", self.validate_every)?;
        recurring("validate_every", self.validate_every)?;
        sane("check_timeout", Some(self.check_timeout))?;
        sane("decoherence", Some(self.decoherence))?;
        recurring("decoherence", Some(self.decoherence))?;
        sane("target_delay", self.target_delay)?;
        sane("slow_start", self.slow_start)?;
        sane("leak_after", self.leak_after)?;
        if let Some(Err(problem)) = self.ejection.as_ref().map(Ejection::validate) {
            return Err(OptionsError::new("ejection", problem));
        }
        if let Some(Err(problem)) = self.health_check.as_ref().map(Schedule::validate) {
            return Err(OptionsError::new("health_check", problem.to_string()));
        }
        if self.churn_per_second.is_some_and(|churn| !(churn.is_finite() && churn >= MIN_CHURN)) {
            return Err(OptionsError::new("churn_per_second", format!("must be a number of at least {MIN_CHURN}")));
        }
        if self.max_uses == Some(0) {
            return Err(OptionsError::new("max_uses", "must be at least 1"));
        }
        if self.connecting_per_backend == 0 {
            return Err(OptionsError::new("connecting_per_backend", "must be at least 1"));
        }
        self.recovery.validate().map_err(|problem| OptionsError::new("recovery", problem.to_string()))
    }

    /// Refuses sizes that make no sense; also asked when a pool is resized.
    pub(crate) fn refuse_size(&self, spares: usize, maximum: usize) -> Result<(), OptionsError> {
        if maximum == 0 {
            return Err(OptionsError::new("maximum", "must be at least 1"));
        }
        if u32::try_from(maximum).is_err() {
            return Err(OptionsError::new("maximum", format!("must be at most {}, not {maximum}", u32::MAX)));
        }
        if spares > maximum {
            return Err(OptionsError::new("spares", format!("must not be above maximum ({spares} > {maximum})")));
        }
        if spares == 0 && self.max_waiters == Some(0) {
            let problem =
                "must be at least 1 with max_waiters 0: nobody could wait for a connection, so none would be made";
            return Err(OptionsError::new("spares", problem));
        }
        Ok(())
    }
}

/// One change in a day, more or less: below that a pool would not follow its service.
const MIN_CHURN: f64 = 0.00001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Policy;

    #[test]
    fn nonsense_is_refused_by_name() {
        let said = |options: Options| options.validate().unwrap_err().to_string();
        let sane = Options::default;
        assert!(sane().validate().is_ok());
        assert_eq!(said(Options { maximum: 0, spares: 0, ..sane() }), "maximum must be at least 1");
        assert_eq!(said(Options { spares: 17, ..sane() }), "spares must not be above maximum (17 > 16)");
        assert_eq!(said(Options { max_uses: Some(0), ..sane() }), "max_uses must be at least 1");
        assert_eq!(said(Options { check_timeout: Duration::ZERO, ..sane() }), "check_timeout must be above zero");
        assert_eq!(said(Options { max_idle: Some(Duration::ZERO), ..sane() }), "max_idle must be above zero");
        assert_eq!(said(Options { outage_wait: Duration::MAX, ..sane() }), "outage_wait must be at most a year");
        assert!(Options { outage_wait: Duration::ZERO, ..sane() }.validate().is_ok());
        assert_eq!(said(Options { connecting_per_backend: 0, ..sane() }), "connecting_per_backend must be at least 1");
        assert_eq!(said(Options { decoherence: Duration::MAX, ..sane() }), "decoherence must be at most a year");
        let often = Duration::from_nanos(1);
        assert_eq!(said(Options { check_after: Some(often), ..sane() }), "check_after must be at least 1ms, not 1ns");
        let validate_every = Some(often);
        assert_eq!(said(Options { validate_every, ..sane() }), "validate_every must be at least 1ms, not 1ns");
        assert_eq!(said(Options { decoherence: often, ..sane() }), "decoherence must be at least 1ms, not 1ns");
        let without_any = said(Options { spares: 0, max_waiters: Some(0), ..sane() });
        assert!(without_any.starts_with("spares must be at least 1 with max_waiters 0"), "{without_any}");
        assert!(Options { spares: 1, max_waiters: Some(0), ..sane() }.validate().is_ok());
        assert_eq!(
            said(Options { max_lifetime: Some(Duration::MAX), ..sane() }),
            "max_lifetime must be at most a year"
        );
        let slow = Policy::default().delay(Duration::from_secs(20));
        let recovery = Recovery::from(slow);
        assert_eq!(said(Options { recovery, ..sane() }), "recovery default policy: max_delay must not be below delay");
    }
}
