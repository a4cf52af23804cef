//! What a request that is under way will make somebody want.

use super::known::Number;
use super::{Hub, STRETCH};
use carom_core::feed::Topic;
use carom_core::feed::interest::ScopeId;
use std::time::Instant;

/// The feed is being asked for topics, and may send their first ticks before it has answered for all of them: these are kept, and
/// are there for whoever [joins](Hub::join) until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Expected<'a> {
    hub: &'a Hub,
    scope: ScopeId,
    numbers: Vec<Number>,
}

impl Hub {
    /// The feed of this scope is about to be asked for these.
    pub(crate) fn expect(&self, now: Instant, scope: ScopeId, topics: &[Topic]) -> Expected<'_> {
        let mut expected = Expected { hub: self, scope, numbers: Vec::with_capacity(topics.len()) };
        for stretch in topics.chunks(STRETCH) {
            let mut state = self.lock();
            let Some(found) = state.scopes.get_mut(&scope) else { break };
            expected.numbers.extend(stretch.iter().map(|topic| found.known.expect(now, topic)));
        }
        expected
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        let Some(found) = state.scopes.get_mut(&self.scope) else { return };
        self.numbers.drain(..).for_each(|number| found.known.settled(number));
    }
}
