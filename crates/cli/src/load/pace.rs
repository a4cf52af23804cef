//! When requests are made: as soon as somebody is free to make one, or at a rate; so many, or for so long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// What hands out turns. All times are since the beginning.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<u32>,
    requests: Option<u64>,
    duration: Option<Duration>,
    handed_out: AtomicU64,
}

/// A turn to make a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Not before; `None` is at once.
    pub(super) due: Option<Duration>,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>, requests: Option<u64>, duration: Option<Duration>) -> Pace {
        Pace { rate, requests, duration, handed_out: AtomicU64::new(0) }
    }

    /// The next turn for whoever is free now; `None` when there are no more.
    pub(super) fn next(&self, now: Duration) -> Option<Turn> {
        let is_over = |at: Duration| self.duration.is_some_and(|duration| at >= duration);
        if is_over(now) {
            return None;
        }
        let number = self.handed_out.fetch_add(1, Ordering::Relaxed);
        if self.requests.is_some_and(|requests| number >= requests) {
            return None;
        }
        let due = self.rate.map(|rate| due(number, rate));
        if due.is_some_and(is_over) { None } else { Some(Turn { due }) }
    }

    /// How many are due by then; `None` without a rate.
    pub(super) fn due_by(&self, now: Duration) -> Option<u64> {
        let until = self.duration.map_or(now, |duration| duration.min(now));
        // The first is due at the very beginning.
        let due = (until.as_nanos() * u128::from(self.rate?)).div_ceil(SECOND);
        Some(u64::try_from(due).unwrap_or(u64::MAX).min(self.requests.unwrap_or(u64::MAX)))
    }
}

fn due(number: u64, rate: u32) -> Duration {
    let nanoseconds = u128::from(number) * SECOND / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn turns_are_evenly_spaced_and_end_with_time() {
        let pace = Pace::new(Some(4), None, Some(ms(1000)));
        let turns: Vec<_> = std::iter::from_fn(|| pace.next(ms(0))).map(|turn| turn.due).collect();
        assert_eq!(turns, [0, 250, 500, 750].map(|due| Some(ms(due))));
        assert_eq!([0, 1, 250, 251, 999, 5000].map(|now| pace.due_by(ms(now))), [0, 1, 1, 2, 4, 4].map(Some));
    }

    #[test]
    fn who_is_late_gets_a_turn_that_was_due() {
        let pace = Pace::new(Some(1000), None, Some(ms(1000)));
        assert_eq!(pace.next(ms(900)), Some(Turn { due: Some(ms(0)) }));
        assert_eq!(pace.next(ms(999)), Some(Turn { due: Some(ms(1)) }));
        assert_eq!((pace.next(ms(1000)), pace.due_by(ms(2000))), (None, Some(1000)));
    }

    #[test]
    fn without_a_rate_there_are_turns_until_there_were_enough() {
        let pace = Pace::new(None, Some(3), None);
        let turns = std::iter::from_fn(|| pace.next(ms(1_000_000))).collect::<Vec<_>>();
        assert_eq!((turns, pace.due_by(ms(5))), (vec![Turn { due: None }; 3], None));
        let pace = Pace::new(None, None, Some(ms(10)));
        assert_eq!((pace.next(ms(9)), pace.next(ms(10))), (Some(Turn { due: None }), None));
    }

    #[test]
    fn with_a_rate_and_a_number_no_more_are_due() {
        let pace = Pace::new(Some(1_000_000), Some(5), None);
        assert_eq!((pace.due_by(ms(1)), pace.due_by(ms(0))), (Some(5), Some(0)));
        assert_eq!(std::iter::from_fn(|| pace.next(ms(0))).count(), 5);
    }
}
