//! How long a lease holds, how often it is renewed, and how long others wait.

use crate::options::{OptionsError, recurring, sane};
use std::time::Duration;

/// How long a lease holds, how often it is renewed, and how long others wait. All members have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Time from one renewal to the next, and how long an answer of the register is waited for. At most a third of `hold`, so
    /// that a renewal can fail and there is time for another. 500 ms unless said otherwise.
    pub renew: Duration,
    /// How long a holder holds from when it sent the latest renewal that was done. 2 s unless said otherwise.
    pub hold: Duration,
    /// How long others must have seen nothing but the same entry before they claim over it; at least a quarter more than
    /// `hold`. 3 s unless said otherwise.
    pub ttl: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { renew: Duration::from_millis(500), hold: Duration::from_secs(2), ttl: Duration::from_secs(3) }
    }
}

impl Options {
    /// How much later than it should a holder may end what it does as one (it was stopped, or slow), before somebody else can
    /// be one: 950 ms unless said otherwise. That clocks run up to 1% too fast or too slow is taken off.
    pub fn grace(&self) -> Duration {
        (self.ttl * 100 / 101).saturating_sub(self.hold * 100 / 99)
    }

    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        recurring("renew", Some(self.renew))?;
        for (option, value) in [("renew", self.renew), ("hold", self.hold), ("ttl", self.ttl)] {
            sane(option, Some(value))?;
        }
        if self.renew * 3 > self.hold {
            let problem = format!("must be at most a third of hold ({:?}), not {:?}", self.hold, self.renew);
            return Err(OptionsError::new("renew", problem));
        }
        let least = self.hold + self.hold / 4;
        if self.ttl < least {
            let problem = format!("must be at least a quarter more than hold ({least:?}), not {:?}", self.ttl);
            return Err(OptionsError::new("ttl", problem));
        }
        Ok(())
    }

    /// How long nothing is asked after something failed or somebody else was faster, and the longest of the short waits that keep
    /// members from claiming all at once.
    pub(super) fn pause(&self) -> Duration {
        self.renew / 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_usual_ones_are_sound_and_leave_almost_a_second() {
        let options = Options::default();
        assert_eq!(options.validate(), Ok(()));
        assert_eq!(options.grace().as_millis(), 950);
    }

    #[test]
    fn what_leaves_no_margin_is_refused_by_name() {
        let refused = |renew, hold, ttl| {
            Options { renew: ms(renew), hold: ms(hold), ttl: ms(ttl) }.validate().map_err(|error| error.to_string())
        };
        assert_eq!(refused(500, 1_500, 1_875), Ok(()));
        assert_eq!(refused(0, 1_500, 3_000).unwrap_err(), "renew must be at least 1ms, not 0ns");
        assert_eq!(refused(500, 0, 3_000).unwrap_err(), "hold must be above zero");
        assert_eq!(refused(501, 1_500, 3_000).unwrap_err(), "renew must be at most a third of hold (1.5s), not 501ms");
        let short = refused(500, 2_000, 2_499).unwrap_err();
        assert_eq!(short, "ttl must be at least a quarter more than hold (2.5s), not 2.499s");
        assert!(refused(500, 2_000, u64::MAX).unwrap_err().starts_with("ttl must be at most a year"));
    }
}
