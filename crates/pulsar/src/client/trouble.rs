//! Trouble: what keeps a producer or consumer from its broker at the moment, for those who wait or look meanwhile.

use crate::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What went wrong last with an attempt to find a broker; nothing while there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<Error>>>);

impl Trouble {
    pub(crate) fn set(&self, error: Error) {
        *self.lock() = Some(error);
    }

    pub(crate) fn get(&self) -> Option<Error> {
        self.lock().clone()
    }

    /// It is over.
    pub(crate) fn take(&self) -> Option<Error> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
