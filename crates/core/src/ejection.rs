//! Ejection: a backend that connects well but serves badly is left out for a while.
//!
//! Users say when a use failed. A backend that fails so many uses in a row is ejected, longer each time: nothing of it is lent or
//! connected to. When more backends are ejected or unhealthy than `max_ejected` allows, there is a *panic*: their states stay as
//! judged, and every backend that is not dead is used.
//!
//! ```
//! use carom_core::ejection::Ejection;
//! use std::time::Duration;
//!
//! let ejection = Ejection::default().consecutive(3).time(Duration::from_secs(10));
//! assert!(ejection.validate().is_ok());
//! ```

use std::time::Duration;

/// The longest ejection, unless the first one is longer.
const LONGEST: Duration = Duration::from_secs(60);

/// When a backend is ejected, for how long, and how many may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Ejection {
    consecutive: u32,
    time: Duration,
    max_ejected: f64,
}

/// 5 failures in a row, 10 s times the number of ejections in a row and at most 60 s, at most half of the backends.
impl Default for Ejection {
    fn default() -> Ejection {
        Ejection { consecutive: 5, time: Duration::from_secs(10), max_ejected: 0.5 }
    }
}

impl Ejection {
    /// How many failed uses in a row eject a backend; at least 1. Default 5.
    #[must_use]
    pub fn consecutive(mut self, consecutive: u32) -> Ejection {
        self.consecutive = consecutive;
        self
    }

    /// For how long the first time; each further time as much longer, up to 60 s, or `time` if that is more. One time is forgiven
    /// for each such period that the backend has served since it came back. Default 10 s.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Ejection {
        self.time = time;
        self
    }

    /// The share of backends that may be left out at a time; 0 to 1. Default 0.5.
    ///
    /// It is rounded down: 0.5 of 5 are 2, and 0.1 of 5 are none, so that an ejected backend is never left out; 0.1 needs at least
    /// 10 backends. Dead backends count too: when fewer than the remaining share are healthy (neither dead, unhealthy nor ejected),
    /// there is a panic, and the ejected ones are used as well. One backend is always used, even with 1.
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
        if self.time < Duration::from_millis(1) {
            return Err("time must be at least 1ms");
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
        self.time.saturating_mul(times).min(LONGEST.max(self.time))
    }

    /// How many ejections are forgiven after having served for this long.
    pub(crate) fn forgives(&self, served: Duration) -> u32 {
        u32::try_from(served.as_nanos() / self.time.as_nanos()).unwrap_or(u32::MAX)
    }

    /// Whether so few are healthy, neither dead, unhealthy nor ejected, that all must be used.
    pub(crate) fn is_panic(&self, known: usize, healthy: usize) -> bool {
        healthy == 0 || healthy < known - self.most(known)
    }

    /// How many of so many may be out.
    fn most(&self, known: usize) -> usize {
        // A share that means a whole number may come out a hair below it.
        ((known as f64 * self.max_ejected + 1e-9) as usize).min(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_begins_below_half_healthy() {
        let ejection = Ejection::default();
        assert!(ejection.is_panic(5, 2) && !ejection.is_panic(5, 3));
        assert!(ejection.is_panic(1, 0), "the only one is used");
        assert!(ejection.is_panic(2, 0) && !ejection.is_panic(2, 1));
    }

    #[test]
    fn share_that_may_be_out_is_rounded_down_and_never_all() {
        let out = |share, known| {
            let ejection = Ejection::default().max_ejected(share);
            (0..known).rev().take_while(|&healthy| !ejection.is_panic(known, healthy)).count()
        };
        let shares = [0.0, 0.1, 0.3, 0.5, 0.75, 1.0];
        assert_eq!(shares.map(|share| out(share, 5)), [0, 0, 1, 2, 3, 4]);
        assert_eq!(shares.map(|share| out(share, 10)), [0, 1, 3, 5, 7, 9]);
        assert_eq!(out(0.29, 100), 29, "not 28.999999999999996");
    }

    #[test]
    fn what_has_been_served_is_forgiven() {
        let ejection = Ejection::default();
        assert_eq!([0, 9, 10, 35].map(|seconds| ejection.forgives(Duration::from_secs(seconds))), [0, 0, 1, 3]);
        assert_eq!(ejection.time(Duration::from_nanos(1)).forgives(Duration::MAX), u32::MAX);
    }

    #[test]
    fn ejections_in_a_row_get_longer_up_to_60_s_or_the_first_time() {
        let seconds = |ejection: &Ejection| [1, 2, 6, 7, u32::MAX].map(|times| ejection.lasts(times).as_secs());
        assert_eq!(seconds(&Ejection::default()), [10, 20, 60, 60, 60]);
        assert_eq!(seconds(&Ejection::default().time(Duration::from_secs(300))), [300; 5]);
    }

    #[test]
    fn nonsense_is_named() {
        assert_eq!(Ejection::default().consecutive(0).validate(), Err("consecutive must be at least 1"));
        assert_eq!(Ejection::default().max_ejected(1.5).validate(), Err("max_ejected must be between 0 and 1"));
        assert_eq!(Ejection::default().time(Duration::ZERO).validate(), Err("time must be at least 1ms"));
        assert_eq!(Ejection::default().time(Duration::from_nanos(1)).validate(), Err("time must be at least 1ms"));
    }
}
