//! From what objects know to what is shown: times as milliseconds, backends as everybody shows them.

use super::object::Backend;
use crate::resolver::BackendKey;
use std::time::{Duration, Instant};

/// As data has it; what is too long for that is shown as the longest.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago that was.
pub(crate) fn ms_since(then: Instant, now: Instant) -> u64 {
    ms(now.saturating_duration_since(then))
}

/// In how long that will be; at once, if it is over.
pub(crate) fn ms_until(then: Instant, now: Instant) -> u64 {
    ms(then.saturating_duration_since(now))
}

impl From<&crate::Backend> for Backend {
    fn from(backend: &crate::Backend) -> Backend {
        Backend {
            key: BackendKey::of(backend).to_string(),
            name: backend.name().to_owned(),
            address: backend.address().to_string(),
            port: backend.port(),
            priority: backend.priority(),
            weight: backend.weight(),
        }
    }
}
