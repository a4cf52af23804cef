//! What clients do wrong over and over: told the first time, and then now and then with how often they did.

use carom_core::seldom::Seldom;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    slow: Mutex<Seldom>,
    wrong_keys: Mutex<Seldom>,
}

impl Troubles {
    /// A client was closed because it did not read.
    pub(crate) fn slow(&self) {
        if let Some(count) = happened(&self.slow) {
            tracing::warn!(count, "clients are closed because they do not read");
        }
    }

    /// Somebody came from there with a key that is nobody's.
    pub(crate) fn wrong_key(&self, address: IpAddr) {
        tracing::debug!(%address, "a key is nobody's");
        if let Some(count) = happened(&self.wrong_keys) {
            tracing::warn!(%address, count, "keys are presented that are nobody's");
        }
    }
}

fn happened(seldom: &Mutex<Seldom>) -> Option<u64> {
    seldom.lock().unwrap_or_else(PoisonError::into_inner).happened(Instant::now())
}
