//! A clock for holds, which goes on while the machine is suspended.
//!
//! The system's monotonic clock, by which everything else is timed, may stand still meanwhile (a laptop that is shut, a virtual
//! machine that is paused), and whoever wakes up would have some of its hold left by it. The time of day goes on, or is set right
//! soon. So what it runs ahead by is added; it may be that somebody has set it, which ends a hold early at worst.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Clocks that differ by less have run differently, or were not read at the very same time.
const DIFFER: Duration = Duration::from_millis(100);

/// The time by which holds are judged.
pub(crate) fn now() -> Instant {
    counting(Instant::now())
}

/// A time by the system's clock, now, as one by which holds are judged.
pub(crate) fn counting(now: Instant) -> Instant {
    now + suspended()
}

/// When timers are to go off for a time by which holds are judged, if the machine is not suspended before.
pub(crate) fn timer(at: Instant) -> Instant {
    at.checked_sub(suspended()).unwrap_or(at)
}

/// For how long the machine has been suspended since this was asked for the first time.
fn suspended() -> Duration {
    static SUSPENSIONS: Mutex<Option<Suspensions>> = Mutex::new(None);
    let mut suspensions = SUSPENSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let (before, wall, running) = (std::time::Instant::now(), SystemTime::now(), std::time::Instant::now());
    let suspensions = suspensions.get_or_insert_with(|| Suspensions::new(wall, running));
    // Clocks that were not read at about the same time cannot be compared; they are read again soon.
    if running - before < DIFFER / 2 { suspensions.total(wall, running) } else { suspensions.total }
}

/// What the time of day has run ahead by.
#[derive(Debug)]
struct Suspensions {
    /// Both clocks at a time when they ran alike.
    wall: SystemTime,
    running: std::time::Instant,
    total: Duration,
}

impl Suspensions {
    fn new(wall: SystemTime, running: std::time::Instant) -> Suspensions {
        Suspensions { wall, running, total: Duration::ZERO }
    }

    fn total(&mut self, wall: SystemTime, running: std::time::Instant) -> Duration {
        let ran = running.saturating_duration_since(self.running);
        // A time of day that was set back says nothing.
        let passed = wall.duration_since(self.wall).unwrap_or(Duration::ZERO);
        if passed.abs_diff(ran) > DIFFER {
            self.total += passed.saturating_sub(ran);
            (self.wall, self.running) = (wall, running);
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_time_of_day_runs_ahead_by_counts_and_what_it_is_set_back_by_does_not() {
        let second = Duration::from_secs(1);
        let (mut wall, mut running) = (SystemTime::UNIX_EPOCH + second * 1_000_000, std::time::Instant::now());
        let mut suspensions = Suspensions::new(wall, running);
        let mut after = |passed: Duration, ran: Duration, set_back: Duration| {
            (wall, running) = (wall + passed - set_back, running + ran);
            suspensions.total(wall, running)
        };
        let none = Duration::ZERO;
        assert_eq!(after(second * 60, second * 60, none), none);
        assert_eq!(after(second, second - DIFFER, none), none, "clocks are never the same");
        assert_eq!(after(second, second, none), none);
        assert_eq!(after(second * 60, none, none), second * 60 + DIFFER);
        assert_eq!(after(second, second, none), second * 60 + DIFFER, "it counts once");
        assert_eq!(after(second, second, second * 3_600), second * 60 + DIFFER);
        assert_eq!(after(second * 5, second, none), second * 64 + DIFFER, "also after it was set back");
    }
}
