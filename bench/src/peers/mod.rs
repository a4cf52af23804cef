//! The pools that run side by side, each behind the same trait.

pub mod bb8;
pub mod carom;
pub mod deadpool;
mod floor;
pub mod mobc;
pub mod qorb;
mod queue;

use crate::measure::{self, Contended, Cut, Effort, Subject};

/// One pool's measurements, with its type erased.
pub struct Entry {
    pub name: &'static str,
    pub alone: fn(&Effort) -> Result<f64, Cut>,
    pub spread: fn(&Effort) -> Result<f64, Cut>,
    pub contended: fn(&Effort) -> Result<Contended, Cut>,
}

impl Entry {
    const fn of<S: Subject>() -> Self {
        Self {
            name: S::NAME,
            alone: measure::alone::<S>,
            spread: measure::spread::<S>,
            contended: measure::contended::<S>,
        }
    }
}

/// In the order of the table.
pub const ENTRIES: &[Entry] = &[
    Entry::of::<carom::Carom>(),
    Entry::of::<bb8::Bb8>(),
    Entry::of::<deadpool::Deadpool>(),
    Entry::of::<qorb::Qorb>(),
    Entry::of::<mobc::Mobc>(),
    Entry::of::<floor::Floor>(),
    Entry::of::<queue::Queue>(),
];

/// carom's optional parts, after carom without them.
pub const OPTIONS: &[Entry] = &[
    Entry::of::<carom::Carom>(),
    Entry::of::<carom::Carom<carom::WithEjection>>(),
    Entry::of::<carom::Carom<carom::WithLeakAfter>>(),
    Entry::of::<carom::Carom<carom::WithTargetDelay>>(),
];

/// The full pools among the entries; the floor and the queue lack too much to compete.
pub const PEERS: [&str; 4] = ["bb8", "deadpool", "qorb", "mobc"];
