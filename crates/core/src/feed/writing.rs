//! Writing: what a connection carries is brought to what it should, in batches.

use super::entries::{EntryId, Home, Refused};
use super::lines::{ConnectionId, LineState, Stream, Write};
use super::told::{Action, Change, Milestone, Refusal};
use super::topic::Level;
use super::{Due, Machine};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time after which something refused is tried again, whatever the policy says.
const SHORTEST_RETRY: Duration = Duration::from_millis(1);

/// Where the delay stops growing after which something refused is tried again, unless the policy's own is longer. Most of it is
/// refused for good, and there may be thousands of it.
const LONGEST_RETRY: Duration = Duration::from_secs(5 * 60);

/// What the upstream was asked for: so much, instead of what it carried.
#[derive(Clone, Copy)]
struct Asked {
    from: Option<Level>,
    level: Level,
}

impl Machine {
    /// The changes under way were written. Those whose position is named were refused, with what the upstream said; the others
    /// were accepted. Something that was to be dropped is gone either way.
    pub fn handle_written(&mut self, now: Instant, connection: ConnectionId, refused: &[(usize, Arc<str>)]) {
        let by_connection = |line: &super::Line| line.up().is_some_and(|up| up.connection == connection);
        let Some(line) = self.lines.iter().position(by_connection) else { return };
        let Some(up) = self.lines[line].up_mut() else { return };
        let Write::Busy { batch, since } = &mut up.write else { return };
        let (batch, since) = (std::mem::take(batch), *since);
        up.write = Write::Ready { from: now.max(since + self.options.pace) };
        let refused: BTreeMap<usize, &Arc<str>> = refused.iter().map(|(at, reason)| (*at, reason)).collect();
        for (at, id) in batch.iter().enumerate() {
            self.written(now, line, *id, refused.get(&at).copied());
        }
        self.lines[line].used(now);
        self.finish(now);
    }

    /// Compares what a line carries of an instrument with what it should.
    pub(super) fn compare(&mut self, line: usize, id: EntryId) {
        let Some(entry) = self.entries.get(&id) else { return };
        let Some(up) = self.lines[line].up_mut() else { return };
        up.outgoing.remove(&id);
        up.incoming.remove(&id);
        let held = match up.streams.get(&id) {
            // It is compared again when the write is over.
            Some(Stream::Writing { .. }) => return,
            Some(Stream::Held(level)) => Some(*level),
            None => None,
        };
        let wanted = match entry.home {
            Home::Nowhere => None,
            Home::At(at) | Home::Moving { to: at, .. } if at == line => entry.target(held),
            Home::Moving { from, .. } if from == line => held,
            Home::At(_) | Home::Moving { .. } => None,
        };
        match (held, wanted) {
            (Some(_), None) => up.outgoing.insert(id),
            (held, wanted) if held != wanted => up.incoming.insert(id),
            (_, _) => false,
        };
    }

    /// Writes the next batch, if the line may be written to. Drops go first, since they make room.
    pub(super) fn pump(&mut self, now: Instant, line: usize) {
        let Machine { lines, entries, options, actions, .. } = self;
        let LineState::Up(up) = &mut lines[line].state else { return };
        match &up.write {
            Write::Ready { from } if *from <= now => {}
            Write::Ready { .. } | Write::Busy { .. } => return,
        }
        let (mut batch, mut changes) = (Vec::new(), Vec::new());
        let mut room = options.max_topics_per_connection.saturating_sub(up.streams.len());
        for id in up.outgoing.iter().chain(&up.incoming) {
            if batch.len() == options.batch {
                break;
            }
            let Some(entry) = entries.get(id) else { continue };
            let from = up.streams.get(id).and_then(|stream| stream.sure());
            let to = if up.outgoing.contains(id) { None } else { entry.target(from) };
            if from.is_none() {
                // What is being dropped has its room until it is gone.
                let Some(left) = room.checked_sub(1) else { continue };
                room = left;
            }
            batch.push(*id);
            changes.push(Change { instrument: entry.instrument.clone(), from, to });
        }
        if batch.is_empty() {
            return;
        }
        for (id, change) in batch.iter().zip(&changes) {
            up.outgoing.remove(id);
            up.incoming.remove(id);
            up.streams.insert(*id, Stream::Writing { from: change.from, to: change.to });
        }
        up.write = Write::Busy { batch, since: now };
        actions.push_back(Action::Write { connection: up.connection, changes });
    }

    /// One change of a batch is through, or refused.
    fn written(&mut self, now: Instant, line: usize, id: EntryId, refused: Option<&Arc<str>>) {
        let Some(up) = self.lines[line].up_mut() else { return };
        let Some(Stream::Writing { from, to }) = up.streams.get(&id).copied() else { return };
        let outcome = match (refused, to) {
            (None, to) => to,
            (Some(_), None) => None,
            (Some(_), Some(_)) => from,
        };
        match outcome {
            Some(level) => up.streams.insert(id, Stream::Held(level)),
            None => up.streams.remove(&id),
        };
        match (refused, to) {
            (Some(reason), Some(level)) => self.refuse(now, line, id, Asked { from, level }, reason),
            (None, Some(to)) => {
                if self.entries.get(&id).is_some_and(|entry| entry.refused.as_ref().is_some_and(|r| r.level <= to)) {
                    self.forget_refusal(id);
                }
                if let (Some(from), Some(entry)) = (from, self.entries.get(&id)) {
                    let instrument = entry.instrument.clone();
                    self.tell(Milestone::Changed { instrument, from, to, connection: line + 1 });
                }
            }
            (Some(_) | None, None) => {}
        }
        self.settle(now, id);
    }

    /// The upstream does not want so much of an instrument. Whoever waits for it is told; for those who had been told that it
    /// is pending it is tried again, later and later.
    fn refuse(&mut self, now: Instant, line: usize, id: EntryId, asked: Asked, reason: &Arc<str>) {
        let Asked { from, level } = asked;
        let Some(entry) = self.entries.get(&id) else { return };
        match entry.home {
            Home::At(at) if at == line => {}
            // It stays where it is carried.
            Home::Moving { to, from, .. } if to == line => return self.rehome(now, id, Home::At(from)),
            Home::Nowhere | Home::At(_) | Home::Moving { .. } => return,
        }
        let instrument = entry.instrument.clone();
        // Counted for the instrument, whatever the level: one that is refused at two of them is asked for each in turn.
        let known = entry.refused.as_ref();
        let before = known.map_or(0, |refused| refused.times);
        let again = known.is_some_and(|refused| refused.level == level || refused.times > 1);
        self.tell(Milestone::TopicRefused { instrument, level, reason: Arc::clone(reason), again });
        let refusal = Refusal::Upstream { reason: Arc::clone(reason) };
        for _ in 0..self.turn_away(id, level, &refusal) {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.wants.remove(level, None);
            }
        }
        let times = before.saturating_add(1);
        self.forget_refusal(id);
        let policy = self.policy(line).clone();
        let (first, longest) = (policy.first_delay().max(SHORTEST_RETRY), policy.longest_delay().max(LONGEST_RETRY));
        let delay = policy.delay(first).max_delay(longest).delay_after(times, &mut self.random).max(SHORTEST_RETRY);
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.wants.contains(level)) {
            let (until, downgrade) = (Some(now + delay), from > Some(level));
            entry.refused = Some(Refused { level, downgrade, reason: Arc::clone(reason), times, until });
            self.agenda.insert((now + delay, Due::Retry(id)));
        }
    }
}
