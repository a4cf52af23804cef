//! How long nothing has happened, found out by looking now and then: what happens is only counted, and no timer is moved for it.

use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// After how much silence on a connection to a backend the system asks whether anybody is still there.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(60);

/// So often is looked within the time that is allowed; silence is noticed that much too late at most.
const LOOKS: u32 = 4;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Silence<T> {
    interval: Duration,
    /// What was found when last looked.
    seen: Option<T>,
    /// How many looks have found it again.
    unchanged: u32,
}

impl<T: PartialEq> Silence<T> {
    pub(super) fn new(timeout: Duration) -> Silence<T> {
        Silence { interval: (timeout / LOOKS).max(Duration::from_millis(1)), seen: None, unchanged: 0 }
    }

    /// Until the next look.
    pub(super) fn wait(&self) -> Sleep {
        sleep_until(self.next())
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> Instant {
        Instant::now() + self.interval
    }

    /// Whether it has lasted, now that this is found. Nothing found is no silence.
    pub(super) fn lasts(&mut self, found: Option<T>) -> bool {
        if found.is_some() && found == self.seen {
            self.unchanged += 1;
        } else {
            (self.seen, self.unchanged) = (found, 0);
        }
        // What is found for the first time happened at some time before that.
        self.unchanged >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_between_looks_is_heard() {
        let mut silence = Silence::new(Duration::from_secs(4));
        let found = [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), Some(1), Some(1)];
        let lasts: Vec<bool> = found.into_iter().map(|found| silence.lasts(found)).collect();
        assert_eq!(lasts, [false, false, false, false, false, false, false, false, true]);
    }

    #[test]
    fn nobody_is_silent_whose_turn_it_is_not() {
        let mut silence = Silence::<u64>::new(Duration::from_secs(4));
        assert!((0..100).all(|_| !silence.lasts(None)));
    }
}
