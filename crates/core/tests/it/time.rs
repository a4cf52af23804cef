//! Durations in tests.

use std::time::Duration;

/// Short for `Duration::from_millis`.
pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
