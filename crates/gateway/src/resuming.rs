//! How often a feed's credential is tried again when the bus says that it is another one.

use std::time::{Duration, Instant};

/// How long after one try the next one waits: a broker that is shown a refused credential over and over refuses its owner.
const INTERVAL: Duration = Duration::from_secs(5);

/// See the [module](self). The first who asks is heard at once, and whoever asks too soon after when the time has come.
#[derive(Debug, Default)]
pub(crate) struct Resuming {
    asked: bool,
    /// Before that nothing is tried.
    rests: Option<Instant>,
}

impl Resuming {
    /// The credential is another one, somebody says.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// When it is to be tried; `None` if nobody asks.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.asked.then(|| self.rests.map_or(now, |rests| rests.max(now)))
    }

    /// Whether it is to be tried now, as it is then.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let is_due = self.due(now).is_some_and(|due| due <= now);
        if is_due {
            *self = Resuming { asked: false, rests: Some(now + INTERVAL) };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_heard_at_once_and_many_once_in_a_while_and_the_last_for_certain() {
        let (mut resuming, start) = (Resuming::default(), Instant::now());
        assert_eq!((resuming.due(start), resuming.take(start)), (None, false));
        let mut tried = Vec::new();
        for ms in (0..12_000).step_by(10) {
            let now = start + Duration::from_millis(ms);
            resuming.ask();
            tried.extend(resuming.take(now).then_some(ms));
        }
        assert_eq!(tried, [0, 5_000, 10_000]);
        let due = start + Duration::from_secs(15);
        assert_eq!(resuming.due(start + Duration::from_secs(12)), Some(due));
        assert!(resuming.take(due));
        assert_eq!(resuming.due(due + INTERVAL), None, "nobody asked since");
    }
}
