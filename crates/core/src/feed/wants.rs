//! Wants: how much of one instrument is wanted, counted level by level, and what lingers.

use super::topic::Level;
use std::time::Instant;

/// Who wants an instrument, by level. A level that the last one has left stays for a while, in case somebody comes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    /// Lowest first; few.
    levels: Vec<Want>,
}

#[derive(Clone, Debug)]
struct Want {
    level: Level,
    interest: Interest,
}

#[derive(Clone, Copy, Debug)]
enum Interest {
    /// So many want it; more than none.
    Counted(usize),
    /// Nobody does; it is forgotten then.
    Lingering { until: Instant },
}

impl Wants {
    /// One more wants this; whether just this was there already.
    pub(super) fn add(&mut self, level: Level) -> bool {
        let already = self.contains(level);
        match self.levels.binary_search_by_key(&level, |want| want.level) {
            Ok(found) => {
                let interest = &mut self.levels[found].interest;
                *interest = match *interest {
                    Interest::Counted(count) => Interest::Counted(count + 1),
                    Interest::Lingering { .. } => Interest::Counted(1),
                };
            }
            Err(at) => self.levels.insert(at, Want { level, interest: Interest::Counted(1) }),
        }
        already
    }

    /// One less wants this. When it was the last, it lingers until then, or goes at once; `None` when nobody wanted it.
    pub(super) fn remove(&mut self, level: Level, linger_until: Option<Instant>) -> Option<Left> {
        let found = self.levels.binary_search_by_key(&level, |want| want.level).ok()?;
        let interest = &mut self.levels[found].interest;
        match (*interest, linger_until) {
            (Interest::Lingering { .. }, _) => None,
            (Interest::Counted(1), None) => {
                self.levels.remove(found);
                Some(Left::Gone)
            }
            (Interest::Counted(1), Some(until)) => {
                *interest = Interest::Lingering { until };
                Some(Left::Lingers)
            }
            (Interest::Counted(count), _) => {
                *interest = Interest::Counted(count - 1);
                Some(Left::Others)
            }
        }
    }

    /// Forgets what has lingered long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        self.levels.retain(|want| match want.interest {
            Interest::Counted(_) => true,
            Interest::Lingering { until } => until > now,
        });
    }

    /// When the next of what lingers has lingered long enough.
    pub(super) fn lingers_until(&self) -> Option<Instant> {
        let until = |want: &Want| match want.interest {
            Interest::Counted(_) => None,
            Interest::Lingering { until } => Some(until),
        };
        self.levels.iter().filter_map(until).min()
    }

    /// Until when something lingers, if nobody wants anything; `None` when somebody does, or nothing lingers.
    pub(super) fn only_lingers_until(&self) -> Option<Instant> {
        let mut latest = None;
        for want in &self.levels {
            match want.interest {
                Interest::Counted(_) => return None,
                Interest::Lingering { until } => latest = latest.max(Some(until)),
            }
        }
        latest
    }

    /// Forgets what only lingers.
    pub(super) fn expire_all(&mut self) {
        self.levels.retain(|want| matches!(want.interest, Interest::Counted(_)));
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.levels.clear();
    }

    /// The most that is wanted, or lingers.
    pub(super) fn highest(&self) -> Option<Level> {
        self.levels.last().map(|want| want.level)
    }

    /// The most below this.
    pub(super) fn highest_below(&self, level: Level) -> Option<Level> {
        self.levels.iter().rev().map(|want| want.level).find(|found| *found < level)
    }

    pub(super) fn contains(&self, level: Level) -> bool {
        self.levels.iter().any(|want| want.level == level)
    }

    /// Whether nothing is wanted and nothing lingers.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Whether somebody wants it.
    pub(super) fn is_counted(&self) -> bool {
        self.levels.iter().any(|want| matches!(want.interest, Interest::Counted(_)))
    }

    /// Whether somebody wants just this.
    pub(super) fn is_counted_at(&self, level: Level) -> bool {
        let counted = |want: &Want| want.level == level && matches!(want.interest, Interest::Counted(_));
        self.levels.iter().any(counted)
    }

    /// How many want it, at any level.
    pub(super) fn count(&self) -> usize {
        let count = |want: &Want| match want.interest {
            Interest::Counted(count) => count,
            Interest::Lingering { .. } => 0,
        };
        self.levels.iter().map(count).sum()
    }
}

/// What somebody who stops wanting leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Others who want the same.
    Others,
    /// Nobody; it lingers.
    Lingers,
    /// Nothing.
    Gone,
}
