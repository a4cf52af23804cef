//! The lock that shared state stands behind, as one whose schedules a test explores.

pub(crate) use shuttle::sync::{Mutex, MutexGuard};
