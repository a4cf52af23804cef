//! Withheld: what an upstream has accepted and does not carry for now, as it says itself.
//!
//! An upstream may have an upstream of its own. It takes down what is wanted of it, and says whether it has it.

use super::entries::{Entry, EntryId};
use super::lines::ConnectionId;
use super::told::{Milestone, Pending};
use super::topic::Instrument;
use super::{Machine, State};
use std::time::Instant;

impl Machine {
    /// What the upstream says, on this connection, of instruments that it has accepted or is about to: why it does not carry them
    /// for now, or `None` if it does. What it says is so until it says something else, or the connection ends.
    pub fn handle_withheld(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        said: impl IntoIterator<Item = (Instrument, Option<Pending>)>,
    ) {
        let by_connection = |line: &super::Line| line.up().is_some_and(|up| up.connection == connection);
        let Some(line) = self.lines.iter().position(by_connection) else { return };
        let before = self.withheld;
        for (instrument, why) in said {
            let Some(id) = self.ids.get(&instrument).copied() else { continue };
            // What moves is on two connections, to the same upstream.
            if self.lines[line].has_stream(id) {
                self.withhold(id, why);
                self.settle(now, id);
            }
        }
        match (self.state, before, self.withheld) {
            (State::Running | State::Refused, 0, topics @ 1..) => self.tell(Milestone::Withheld { topics }),
            (State::Running | State::Refused, 1.., 0) => self.tell(Milestone::Restored),
            (State::Running | State::Refused | State::Stopping | State::Stopped, _, _) => {}
        }
        self.finish(now);
    }

    /// The one place where it changes whether something is withheld.
    pub(super) fn withhold(&mut self, id: EntryId, why: Option<Pending>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let before = entry.is_kept_back();
        entry.withheld = why;
        match (before, entry.is_kept_back()) {
            (false, true) => self.withheld += 1,
            (true, false) => self.withheld -= 1,
            (false, false) | (true, true) => {}
        }
    }
}

impl Entry {
    /// Whether the upstream cannot carry it. One that has not been answered itself most likely can.
    pub(super) fn is_kept_back(&self) -> bool {
        match self.withheld {
            None | Some(Pending::Unanswered) => false,
            Some(Pending::Down | Pending::Credential | Pending::NoCredential) => true,
        }
    }
}
