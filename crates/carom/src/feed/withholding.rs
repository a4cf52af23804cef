//! Withholding: what an upstream that has an upstream of its own says of what it has accepted.

use super::shared::Failure;
use super::{Instrument, Pending};
use crate::sync::Mutex;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// What the upstream says on one connection of the instruments that it has accepted: that it cannot carry them for now, or that it
/// does again. An adapter keeps one for each connection and gives a clone to the feed, with
/// [`Adapter::withholding`](super::Adapter::withholding); clones are the same.
#[derive(Clone, Default)]
pub struct Withholding(Arc<Mutex<Unheard>>);

/// What was said and not heard yet.
#[derive(Default)]
pub(super) struct Unheard {
    /// In the order in which it was said.
    pub(super) said: Vec<(Instrument, Option<Pending>)>,
    pub(super) cause: Option<Failure>,
}

impl Withholding {
    /// The upstream says why it does not carry an instrument for now; `None` says that it does. It counts from the end of the write
    /// or of the read during which it was said, and before what was written counts as accepted.
    pub fn say(&self, instrument: Instrument, why: Option<Pending>) {
        self.lock(|unheard| unheard.said.push((instrument, why)));
    }

    /// The reason, in words: shown as the feed's last error until everything that is wanted is carried.
    pub fn because(&self, cause: impl Error + Send + Sync + 'static) {
        let cause: Failure = Arc::new(cause);
        drop(self.lock(|unheard| unheard.cause.replace(cause)));
    }

    pub(super) fn take(&self) -> Unheard {
        self.lock(std::mem::take)
    }

    fn lock<R>(&self, step: impl FnOnce(&mut Unheard) -> R) -> R {
        step(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Unheard {
    pub(super) fn is_empty(&self) -> bool {
        self.said.is_empty() && self.cause.is_none()
    }
}

impl fmt::Debug for Withholding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unheard = self.lock(|unheard| unheard.said.len());
        f.debug_struct("Withholding").field("unheard", &unheard).finish()
    }
}
