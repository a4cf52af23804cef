//! A register: one entry, written over only for who knows its revision.

use super::Moment;
use carom_core::feed::lease::{Entry, Mark, Written};

pub(crate) struct Register {
    pub(crate) entry: Entry,
    /// The latest revision.
    revision: u64,
    /// When the hold that is written began to be.
    pub(crate) claimed: Moment,
    /// The latest entry of each hold before the one that is written.
    earlier: Vec<Entry>,
    compares: bool,
}

impl Register {
    pub(crate) fn new(compares: bool) -> Register {
        Register { entry: Entry::absent(), revision: 0, claimed: Moment::ZERO, earlier: Vec::new(), compares }
    }

    pub(crate) fn write(&mut self, clock: Moment, over: u64, mark: Mark) -> Written {
        if self.compares && over != self.entry.revision {
            return Written::Conflict;
        }
        if mark.epoch != self.entry.mark.epoch {
            self.claimed = clock;
            self.earlier.push(self.entry.clone());
        }
        self.revision += 1;
        self.entry = Entry { revision: self.revision, mark };
        Written::Done(self.revision)
    }

    /// Somebody removes the entry; revisions go on.
    pub(crate) fn lose_entry(&mut self) {
        self.revision += 1;
        self.entry = Entry::unreadable(self.revision);
    }

    /// It is again as it was when the hold before was written for the last time, with its revisions.
    pub(crate) fn go_back(&mut self) {
        self.entry = self.earlier.pop().expect("there was a hold before");
        self.revision = self.entry.revision;
    }

    /// There is another register from now on, in which revisions begin anew.
    pub(crate) fn lose_everything(&mut self) {
        *self = Register::new(self.compares);
    }
}
