//! What a recovery policy allows: worlds reckon bounds with it.

pub(crate) use crate::time::ms;
use carom_core::random::Random;
use carom_core::recovery::{Policy, Recovery};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) attempts: u32,
    pub(crate) timeout: Duration,
    pub(crate) max_timeout: Duration,
    pub(crate) delay: Duration,
    pub(crate) max_delay: Duration,
    pub(crate) spread: f64,
}

impl Limits {
    /// Anything goes, with one of these delays.
    pub(crate) fn any(random: &mut Random, delays: &[Duration]) -> Limits {
        let timeout = one_of(random, &[ms(50), ms(300), ms(1_000)]);
        let delay = one_of(random, delays);
        Limits {
            attempts: 1 + random.below(3) as u32,
            timeout,
            max_timeout: timeout * (1 + random.below(3) as u32),
            delay,
            max_delay: delay.max(ms(10)) * (1 + random.below(5) as u32),
            spread: one_of(random, &[0.0, 0.2, 1.0]),
        }
    }

    /// The policy with these limits, for everything.
    pub(crate) fn recovery(&self) -> Recovery {
        Recovery::from(
            Policy::default()
                .attempts(self.attempts)
                .timeout(self.timeout)
                .max_timeout(self.max_timeout)
                .delay(self.delay)
                .max_delay(self.max_delay)
                .spread(self.spread),
        )
    }

    /// The longest delay, with what is left to chance.
    pub(crate) fn longest_delay(&self) -> Duration {
        self.max_delay.mul_f64(1.0 + self.spread / 2.0)
    }
}

pub(crate) fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}
