//! The one clock: tokio's, so that tests can pause it.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
