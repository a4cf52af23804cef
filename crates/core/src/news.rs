//! News of backends: every turn that one takes, told once, for logs.
//!
//! Machines note them as they happen; whoever drives one takes them when it comes by. Nothing depends on it.

use crate::backend::Backend;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Of what nobody takes so much is kept, the latest.
const KEPT: usize = 1024;

/// A backend has taken a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Which backend.
    pub backend: Arc<Backend>,
    /// What became of it.
    pub turn: Turn,
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
    pub(crate) fn note(&mut self, backend: &Arc<Backend>, turn: Turn) {
        if self.queue.len() == KEPT {
            self.queue.pop_front();
        }
        self.queue.push_back(News { backend: Arc::clone(backend), turn });
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
        let backend = |port: u16| Arc::new(Backend::fixed(([10, 0, 0, 1], port).into()));
        let mut untold = Untold::default();
        (0..3000).for_each(|port| untold.note(&backend(port), Turn::Dead));
        let first = untold.take().map(|news| news.backend.port());
        assert_eq!((first, std::iter::from_fn(|| untold.take()).count()), (Some(3000 - 1024), 1023));
        assert!(untold.is_empty());
    }
}
