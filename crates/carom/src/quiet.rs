//! Users' code in places where a panic would take the pool, or the process, with it.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a user's value. Its panic is reported and goes no further.
pub(crate) fn drop_quietly<T>(pool: &str, value: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
        tracing::warn!(pool, "something panicked when it was dropped");
    }
}

/// Runs what may call a user's code: a recorder of metrics, say. Its panic is reported and goes no further.
#[inline]
pub(crate) fn quietly(pool: &str, run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::warn!(pool, "what records the times of a pool panicked");
    }
}

/// The text of a user's error, or that it has none.
pub(crate) fn text_of(error: &(impl std::fmt::Display + ?Sized)) -> String {
    catch_unwind(AssertUnwindSafe(|| error.to_string()))
        .unwrap_or_else(|_| "an error that panics when displayed".into())
}
