//! The lock that shared state stands behind: short sections, never held across an await.

pub(crate) use std::sync::{Mutex, MutexGuard};
