//! The one clock: tokio's, so that tests can pause it.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Whether something is due earlier than before.
pub(crate) fn is_sooner(after: Option<Instant>, before: Option<Instant>) -> bool {
    match (after, before) {
        (Some(after), Some(before)) => after < before,
        (Some(_), None) => true,
        (None, _) => false,
    }
}
