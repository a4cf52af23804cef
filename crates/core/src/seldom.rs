//! What goes wrong over and over is told the first time, and then now and then with how often it did.

use std::time::{Duration, Instant};

/// How long nothing is told after something was.
const QUIET: Duration = Duration::from_secs(60);

/// See the [module](self).
///
/// ```
/// use carom_core::seldom::Seldom;
/// use std::time::{Duration, Instant};
///
/// # #[allow(clippy::disallowed_methods)]
/// let start = Instant::now();
/// let mut failures = Seldom::default();
/// assert_eq!(failures.happened(start), Some(1));
/// assert_eq!(failures.happened(start), None);
/// assert_eq!(failures.happened(start + Duration::from_secs(60)), Some(2));
/// ```
#[derive(Debug, Default)]
pub struct Seldom {
    /// When it was told last.
    told: Option<Instant>,
    /// How often it happened since.
    untold: u64,
}

impl Seldom {
    /// It happened: how often since it was told last, this time included, if it is to be told.
    pub fn happened(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < QUIET) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_then_how_many_once_a_minute() {
        let start = Instant::now();
        let mut seldom = Seldom::default();
        // Ten each second, for two minutes and a bit.
        let told: Vec<_> =
            (0..1250).filter_map(|n| Some((n, seldom.happened(start + n * Duration::from_millis(100))?))).collect();
        assert_eq!(told, [(0, 1), (600, 600), (1200, 600)]);
        assert_eq!(seldom.happened(start + Duration::from_secs(3600)), Some(50), "however long ago the last one was");
    }
}
