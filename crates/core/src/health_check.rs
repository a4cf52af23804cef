//! Active health checks: every known backend is checked at an interval, whether or not it is in use.
//!
//! A check tests the backend, not one connection. What it does is for the driver: a TCP connect, an HTTP request, a call of
//! `grpc.health.v1`. Here is when it runs, and how many results in a row decide.
//!
//! ```
//! use carom_core::health_check::Schedule;
//! use std::time::Duration;
//!
//! let schedule = Schedule::default().interval(Duration::from_secs(10)).unhealthy_threshold(3);
//! assert!(schedule.validate().is_ok());
//! ```

use crate::options::{OptionsError, recurring, sane};
use crate::random::Random;
use std::time::Duration;

/// When backends are checked, and how many results in a row decide.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    interval: Duration,
    timeout: Duration,
    jitter: f64,
    unhealthy_threshold: u32,
    healthy_threshold: u32,
}

/// Every 5 s with a jitter of 20 %, a timeout of 2 s, 2 failed checks for unhealthy, 2 passed ones for healthy.
impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            jitter: 0.2,
            unhealthy_threshold: 2,
            healthy_threshold: 2,
        }
    }
}

impl Schedule {
    /// The time from the end of a check to the next check of the same backend; at least a millisecond. Default 5 s. The first check
    /// of a backend runs within a second.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Schedule {
        self.interval = interval;
        self
    }

    /// A check that takes longer has failed. Default 2 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Schedule {
        self.timeout = timeout;
        self
    }

    /// The share of the interval by which it varies, so that many clients do not check at the same time; 0 to 1. Default 0.2.
    #[must_use]
    pub fn jitter(mut self, jitter: f64) -> Schedule {
        self.jitter = jitter;
        self
    }

    /// A backend is unhealthy after this many failed checks in a row; at least 1. Default 2.
    #[must_use]
    pub fn unhealthy_threshold(mut self, unhealthy_threshold: u32) -> Schedule {
        self.unhealthy_threshold = unhealthy_threshold;
        self
    }

    /// An unhealthy backend is healthy after this many passed checks in a row, and an ejected one is reinstated; at least 1. Default
    /// 2.
    #[must_use]
    pub fn healthy_threshold(mut self, healthy_threshold: u32) -> Schedule {
        self.healthy_threshold = healthy_threshold;
        self
    }

    /// The time after which a check has failed, for the driver.
    pub fn check_timeout(&self) -> Duration {
        self.timeout
    }

    /// Refuses values that are out of bounds.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        sane("interval", Some(self.interval))?;
        recurring("interval", Some(self.interval))?;
        sane("timeout", Some(self.timeout))?;
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(OptionsError::new("jitter", "must be between 0 and 1"));
        }
        if self.unhealthy_threshold == 0 {
            return Err(OptionsError::new("unhealthy_threshold", "must be at least 1"));
        }
        if self.healthy_threshold == 0 {
            return Err(OptionsError::new("healthy_threshold", "must be at least 1"));
        }
        Ok(())
    }

    /// The delay until the first check of a backend.
    pub(crate) fn first_delay(&self, random: &mut Random) -> Duration {
        self.interval.min(Duration::from_secs(1)).mul_f64(random.fraction())
    }

    /// The delay from the end of a check to the next one.
    pub(crate) fn next_delay(&self, random: &mut Random) -> Duration {
        random.around(self.interval, self.jitter).max(Duration::from_millis(1))
    }

    /// How many results in a row decide.
    pub(crate) fn threshold(&self, passed: bool) -> u32 {
        if passed { self.healthy_threshold } else { self.unhealthy_threshold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_bounds_are_refused_by_name() {
        let refused = |schedule: Schedule| schedule.validate().unwrap_err().to_string();
        let zero = Duration::ZERO;
        assert_eq!(refused(Schedule::default().interval(zero)), "interval must be above zero");
        let often = Duration::from_nanos(1);
        assert_eq!(refused(Schedule::default().interval(often)), "interval must be at least 1ms, not 1ns");
        assert_eq!(refused(Schedule::default().timeout(zero)), "timeout must be above zero");
        assert_eq!(refused(Schedule::default().jitter(1.5)), "jitter must be between 0 and 1");
        assert_eq!(refused(Schedule::default().unhealthy_threshold(0)), "unhealthy_threshold must be at least 1");
        assert_eq!(refused(Schedule::default().healthy_threshold(0)), "healthy_threshold must be at least 1");
    }
}
