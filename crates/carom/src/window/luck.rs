//! Whether requests succeed: that they do not any more is told once, and that they do again.

use carom_core::window::{Counters, Latest};

#[derive(Debug, Default)]
pub(super) struct Luck {
    failing: bool,
}

impl Luck {
    /// How the last request ended, and what has happened by now.
    pub(super) fn follow(&mut self, requester: &str, latest: Option<Latest>, counters: Counters) {
        let failing = match latest {
            Some(Latest::Answered) => false,
            Some(Latest::Failed) => true,
            None => return,
        };
        match (std::mem::replace(&mut self.failing, failing), failing) {
            (true, false) => tracing::info!(requester, "requests are answered again"),
            (false, true) => {
                let Counters { failed, answered, .. } = counters;
                tracing::warn!(requester, failed, answered, "a request has failed");
            }
            (true, true) | (false, false) => {}
        }
    }
}
