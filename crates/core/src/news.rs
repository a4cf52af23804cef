//! News of backends: every turn that one takes, and panics of all of them, told once, for logs.
//!
//! Machines note them as they happen; whoever drives one takes them when it comes by. Nothing depends on it.

use crate::backend::Backend;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Of what nobody takes so much is kept, the latest.
const KEPT: usize = 1024;

/// A backend has taken a turn, or all of them together have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Of one backend.
    Backend {
        /// Which backend.
        backend: Arc<Backend>,
        /// What became of it.
        turn: Turn,
    },
    /// A panic has begun or ended: so few backends are healthy that those that are ejected or unhealthy are used as well.
    Panic {
        /// It has begun.
        begins: bool,
        /// How many known backends are neither dead, ejected nor unhealthy.
        healthy: usize,
        /// How many backends are known.
        known: usize,
    },
}

/// What became of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It was connected to, which was not known to work.
    Alive,
    /// An attempt failed or takes long, and nothing else of it works.
    Doubted,
    /// Its attempts ran out.
    Dead,
    /// It was dead, and was connected to.
    Back,
    /// It is left out for having failed its users.
    Ejected {
        /// For how long.
        until: Instant,
    },
    /// It was left out, and takes part again.
    Returned,
    /// Active checks of it fail.
    Unhealthy,
    /// Active checks of it had failed, and pass again.
    ChecksPass,
}

/// What has not been taken yet.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    queue: VecDeque<News>,
}

impl Untold {
    pub(crate) fn note(&mut self, news: News) {
        if self.queue.len() == KEPT {
            self.queue.pop_front();
        }
        self.queue.push_back(news);
    }

    pub(crate) fn take(&mut self) -> Option<News> {
        self.queue.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_does_not_grow() {
        let panic = |known| News::Panic { begins: true, healthy: 0, known };
        let mut untold = Untold::default();
        (0..3000).for_each(|known| untold.note(panic(known)));
        assert_eq!(untold.take(), Some(panic(3000 - 1024)));
        assert_eq!(std::iter::from_fn(|| untold.take()).count(), 1023);
        assert!(untold.is_empty());
    }
}
