//! The pools that run side by side, each behind the same trait.

mod bb8;
mod carom;
mod deadpool;
mod floor;
mod mobc;
mod qorb;
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

/// The full pools among the entries; the floor and the queue lack too much to compete.
pub const PEERS: [&str; 4] = ["bb8", "deadpool", "qorb", "mobc"];
