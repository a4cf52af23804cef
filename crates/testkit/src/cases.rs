//! Random cases that can be run again: `CAROM_SEED=n` runs one of them alone, `CAROM_SCHEDULES=n` so many.
//!
//! ```
//! use testkit::cases::{bytes, cases};
//!
//! for (_case, mut random) in cases(100) {
//!     assert!(bytes(&mut random, 20).len() < 20);
//! }
//! ```

use carom_core::random::Random;
use std::env;

/// So many cases, or the one that `CAROM_SEED` names, or as many as `CAROM_SCHEDULES` says; each with chance of its own.
pub fn cases(count: u64) -> impl Iterator<Item = (Case, Random)> {
    let seeds = match number("CAROM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CAROM_SCHEDULES").unwrap_or(count),
    };
    seeds.map(|seed| (Case(seed), Random::new(seed)))
}

/// Whether as many cases run as usual, so that something can be said of all of them.
pub fn usual() -> bool {
    number("CAROM_SEED").is_none() && number("CAROM_SCHEDULES").is_none()
}

/// Fewer than so many bytes.
pub fn bytes(random: &mut Random, most: usize) -> Vec<u8> {
    (0..random.below(most)).map(|_| random.bits() as u8).collect()
}

/// Says how to run the case again, if it fails while this is held.
#[derive(Debug)]
pub struct Case(u64);

impl Case {
    /// What the case follows from.
    pub fn seed(&self) -> u64 {
        self.0
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("rerun with CAROM_SEED={}", self.0);
        }
    }
}

/// A mistyped number is no reason to run what nobody asked for.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
