//! History: how pools and sets were lately, of what their counters had become each time somebody looked.

use super::view::History;
use carom::monitor::{Id, Object, Snapshot};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Two minutes, at a value a second.
const KEPT: usize = 120;

/// The history of everything that is there.
#[derive(Default)]
pub(super) struct Histories {
    known: BTreeMap<Id, Known>,
    /// When everything was looked at last.
    looked: Option<Instant>,
}

/// An object and what its counters were.
struct Known {
    figures: Figures,
    history: History,
}

/// What is compared.
#[derive(Clone, Copy)]
struct Figures {
    served: u64,
    /// Those who asked and have left without.
    unserved: u64,
    waited_ms: f64,
    waiting: usize,
}

impl Histories {
    /// Looks at everything once more, which was seen now. What is gone is forgotten.
    pub(super) fn note(&mut self, snapshot: &Snapshot, now: Instant) {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        let mut known = std::mem::take(&mut self.known);
        for seen in &snapshot.objects {
            let Some(figures) = Figures::of(&seen.object) else { continue };
            let now = match known.remove(&seen.id) {
                Some(before) => before.then(figures, since),
                // What it did before cannot be told from what it did just now.
                None => Known { figures, history: History::default() },
            };
            self.known.insert(seen.id, now);
        }
    }

    pub(super) fn read(&self) -> BTreeMap<Id, History> {
        self.known.iter().map(|(id, known)| (*id, known.history.clone())).collect()
    }
}

impl Figures {
    fn of(object: &Object) -> Option<Figures> {
        match object {
            Object::Pool(pool) => {
                let counters = &pool.counters;
                Some(Figures {
                    served: counters.claims,
                    unserved: counters.timeouts + counters.refused,
                    waited_ms: counters.waited_ms,
                    waiting: pool.waiting,
                })
            }
            Object::Set(set) => {
                let counters = &set.counters;
                Some(Figures {
                    served: counters.leases,
                    unserved: counters.timeouts + counters.refused,
                    waited_ms: counters.waited_ms,
                    waiting: set.waiting,
                })
            }
            _ => None,
        }
    }
}

impl Known {
    fn then(mut self, now: Figures, since: Duration) -> Known {
        let served = now.served.saturating_sub(self.figures.served) as f64;
        let waited_ms = (now.waited_ms - self.figures.waited_ms).max(0.0);
        let History { wait_ms, served: rate, waiting } = &mut self.history;
        // Of those who were not served nobody knows how long they will have waited: that is no time at all, and not a short one.
        let in_vain = now.waiting > 0 || now.unserved > self.figures.unserved;
        push(wait_ms, if served > 0.0 { Some(waited_ms / served) } else { (!in_vain).then_some(0.0) });
        push(rate, Some(served / since.as_secs_f64().max(1e-3)));
        push(waiting, Some(now.waiting as f64));
        Known { figures: now, ..self }
    }
}

/// With as many digits as anybody can see.
fn push(values: &mut Vec<Option<f32>>, value: Option<f64>) {
    if values.len() == KEPT {
        values.remove(0);
    }
    values.push(value.map(|value| ((value * 1e3).round() / 1e3) as f32));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(served: u64, waited_ms: f64, waiting: usize) -> Figures {
        Figures { served, unserved: 0, waited_ms, waiting }
    }

    fn known(figures: Figures) -> Known {
        Known { figures, history: History::default() }
    }

    #[test]
    fn values_are_of_the_time_between_two_looks() {
        let known = known(figures(10, 5.0, 0));
        let known =
            known.then(figures(14, 11.0, 3), Duration::from_secs(2)).then(figures(14, 11.0, 0), Duration::from_secs(1));
        let History { wait_ms, served, waiting } = known.history;
        assert_eq!(
            (wait_ms, served, waiting),
            ([1.5, 0.0].map(Some).into(), [2.0, 0.0].map(Some).into(), [3.0, 0.0].map(Some).into())
        );
    }

    #[test]
    fn while_nobody_is_served_there_is_no_wait_to_tell() {
        let second = Duration::from_secs(1);
        let hung = known(figures(10, 5.0, 0)).then(figures(10, 5.0, 7), second);
        // They have left, and nobody else has come yet.
        let left = hung.then(Figures { unserved: 7, ..figures(10, 5.0, 0) }, second);
        let quiet = left.then(Figures { unserved: 7, ..figures(10, 5.0, 0) }, second);
        let served = quiet.then(Figures { unserved: 8, ..figures(11, 8.0, 1) }, second);
        assert_eq!(served.history.wait_ms, [None, None, Some(0.0), Some(3.0)]);
    }

    #[test]
    fn two_minutes_are_kept() {
        let mut known = known(figures(0, 0.0, 0));
        for second in 1..=300 {
            known = known.then(figures(second * (second + 1) / 2, 0.0, 0), Duration::from_secs(1));
        }
        let expected: Vec<Option<f32>> = (181_u16..=300).map(|rate| Some(f32::from(rate))).collect();
        assert_eq!(known.history.served, expected);
    }
}
