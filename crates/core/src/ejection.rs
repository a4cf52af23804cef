//! Ejection: a backend that connects well but serves badly is left out for a while.
//!
//! Users say when a use failed. A backend that fails so many uses in a row leaves the plan, longer each time. Too many may
//! not be out at once: below a share of healthy backends it is likelier that something else is wrong, and all are used.
//!
//! ```
//! use carom_core::ejection::Ejection;
//! use std::time::Duration;
//!
//! let ejection = Ejection::default().consecutive(3).time(Duration::from_secs(10));
//! assert!(ejection.validate().is_ok());
//! ```

use std::time::Duration;

/// When a backend is ejected, for how long, and how many may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Ejection {
    consecutive: u32,
    time: Duration,
    max_ejected: f64,
}

/// 5 failures in a row, 30 s times the number of ejections, at most half of the backends.
impl Default for Ejection {
    fn default() -> Ejection {
        Ejection { consecutive: 5, time: Duration::from_secs(30), max_ejected: 0.5 }
    }
}

impl Ejection {
    /// How many failed uses in a row eject a backend; at least 1. Default 5.
    #[must_use]
    pub fn consecutive(mut self, consecutive: u32) -> Ejection {
        self.consecutive = consecutive;
        self
    }

    /// For how long the first time; each further time as much longer. Default 30 s.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Ejection {
        self.time = time;
        self
    }

    /// The share of backends that may be out at a time, and the share of healthy ones below which all are used; 0 to 1.
    /// Default 0.5.
    #[must_use]
    pub fn max_ejected(mut self, max_ejected: f64) -> Ejection {
        self.max_ejected = max_ejected;
        self
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// What is out of bounds, in words.
    pub fn validate(&self) -> Result<(), &'static str> {
        if self.consecutive == 0 {
            return Err("consecutive must be at least 1");
        }
        if self.time.is_zero() {
            return Err("time must be above zero");
        }
        if self.time > Duration::from_secs(86_400) {
            return Err("time must be at most a day");
        }
        if !(0.0..=1.0).contains(&self.max_ejected) {
            return Err("max_ejected must be between 0 and 1");
        }
        Ok(())
    }

    /// Whether so many failures in a row are too many.
    pub(crate) fn is_too_much(&self, failures: u32) -> bool {
        failures >= self.consecutive
    }

    /// How long the `times`-th ejection lasts.
    pub(crate) fn lasts(&self, times: u32) -> Duration {
        self.time.saturating_mul(times).min(Duration::from_secs(86_400))
    }

    /// Whether one more may be out.
    pub(crate) fn allows_one_more(&self, known: usize, dead: usize, ejected: usize) -> bool {
        let out = ejected + 1;
        out as f64 <= known as f64 * self.max_ejected && !self.is_panic(known, dead, out)
    }

    /// Whether so few are healthy that all must be used.
    pub(crate) fn is_panic(&self, known: usize, dead: usize, ejected: usize) -> bool {
        ((known - dead - ejected) as f64) < known as f64 * self.max_ejected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_half_are_out_and_below_half_healthy_all_are_used() {
        let ejection = Ejection::default();
        assert!(ejection.allows_one_more(5, 0, 0) && ejection.allows_one_more(5, 0, 1));
        assert!(!ejection.allows_one_more(5, 0, 2), "three of five would be out");
        assert!(!ejection.allows_one_more(1, 0, 0), "the only one stays");
        assert!(ejection.allows_one_more(2, 0, 0));
        assert!(!ejection.allows_one_more(4, 2, 0), "a quarter would be healthy");
        assert!(ejection.is_panic(5, 1, 2) && !ejection.is_panic(5, 0, 2));
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(Ejection::default().consecutive(0).validate(), Err("consecutive must be at least 1"));
        assert_eq!(Ejection::default().max_ejected(1.5).validate(), Err("max_ejected must be between 0 and 1"));
        assert_eq!(Ejection::default().time(Duration::ZERO).validate(), Err("time must be above zero"));
    }
}
