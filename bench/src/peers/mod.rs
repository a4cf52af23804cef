//! The pools that run side by side, each behind the same trait.

pub mod bb8;
pub mod carom;
pub mod deadpool;
mod floor;
pub mod mobc;
pub mod qorb;
mod queue;

use crate::measure::{self, Contended, Cut, Effort, Subject};

type Figure = fn(&Effort) -> Result<f64, Cut>;

/// One pool's measurements, with its type erased.
pub struct Entry {
    pub name: &'static str,
    pub alone: Figure,
    /// Alone over three backends; none for a pool that knows of one at most.
    pub alone_of_three: Option<Figure>,
    pub spread: Figure,
    pub contended: fn(&Effort) -> Result<Contended, Cut>,
}

impl Entry {
    const fn of<S: Subject>() -> Self {
        Self {
            name: S::NAME,
            alone: measure::alone::<S>,
            alone_of_three: None,
            spread: measure::spread::<S>,
            contended: measure::contended::<S>,
        }
    }

    /// The same pool over three backends.
    const fn and_of_three<S: Subject>(self) -> Self {
        Self { alone_of_three: Some(measure::alone::<S>), ..self }
    }
}

/// In the order of the table.
pub const ENTRIES: &[Entry] = &[
    Entry::of::<carom::Carom>().and_of_three::<carom::Carom<carom::Plain, 3>>(),
    Entry::of::<bb8::Bb8>(),
    Entry::of::<deadpool::Deadpool>(),
    Entry::of::<qorb::Qorb>().and_of_three::<qorb::Qorb<3>>(),
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
