//! Chance for the machines: the one place where it comes from.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Different in every machine and every process.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
