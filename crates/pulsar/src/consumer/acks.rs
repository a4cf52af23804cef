//! Acknowledgements: those that the broker has not confirmed, and batches that are acknowledged in part.

use crate::message_id::MessageId;
use std::collections::BTreeMap;
use std::time::Instant;

/// What is to be told to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) id: MessageId,
    pub(super) cumulative: bool,
}

/// Acknowledgements, each with who waits for it.
pub(super) struct Acks<R> {
    /// By the number of the request.
    unconfirmed: BTreeMap<u64, Waiting<R>>,
    /// Entries that are batches, until all of them is acknowledged: which of their messages are.
    batches: BTreeMap<(u64, u64), Vec<bool>>,
}

#[derive(Debug)]
pub(super) struct Waiting<R> {
    pub(super) ack: Ack,
    pub(super) deadline: Instant,
    pub(super) reply: R,
}

impl<R> Acks<R> {
    pub(super) fn new() -> Acks<R> {
        Acks { unconfirmed: BTreeMap::new(), batches: BTreeMap::new() }
    }

    /// A batch has arrived; one that arrives again keeps what is known of it.
    pub(super) fn batch(&mut self, id: MessageId, done: Vec<bool>) {
        self.batches.entry((id.ledger, id.entry)).or_insert(done);
    }

    /// What the broker is to be told when this message is acknowledged: of a batch, nothing until all of it is.
    pub(super) fn settle(&mut self, ack: Ack) -> Option<Ack> {
        let key = (ack.id.ledger, ack.id.entry);
        let whole = MessageId { batch_index: -1, ..ack.id };
        let rest = match (usize::try_from(ack.id.batch_index), self.batches.get_mut(&key)) {
            (Ok(index), Some(done)) => {
                let first = if ack.cumulative { 0 } else { index };
                done.iter_mut().take(index + 1).skip(first).for_each(|done| *done = true);
                done.iter().any(|done| !done)
            }
            _ => false,
        };
        if ack.cumulative {
            self.batches = self.batches.split_off(&key);
        }
        match (rest, ack.cumulative) {
            (false, _) => {
                self.batches.remove(&key);
                Some(Ack { id: whole, cumulative: ack.cumulative })
            }
            (true, false) => None,
            // All before the batch.
            (true, true) => {
                let entry = whole.entry.checked_sub(1)?;
                Some(Ack { id: MessageId { entry, ..whole }, cumulative: true })
            }
        }
    }

    pub(super) fn asked(&mut self, number: u64, waiting: Waiting<R>) {
        self.unconfirmed.insert(number, waiting);
    }

    pub(super) fn answered(&mut self, number: u64) -> Option<Waiting<R>> {
        self.unconfirmed.remove(&number)
    }

    /// Those that have to be told again, in order.
    pub(super) fn take_all(&mut self) -> Vec<Waiting<R>> {
        std::mem::take(&mut self.unconfirmed).into_values().collect()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        // Numbers and deadlines grow together, but what is told again keeps its deadline under a new number.
        self.unconfirmed.values().map(|waiting| waiting.deadline).min()
    }

    pub(super) fn expired(&mut self, now: Instant) -> Vec<Waiting<R>> {
        let late: Vec<u64> =
            self.unconfirmed.iter().filter(|(_, waiting)| waiting.deadline <= now).map(|(number, _)| *number).collect();
        late.into_iter().filter_map(|number| self.unconfirmed.remove(&number)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(entry: u64, batch_index: i32, cumulative: bool) -> Ack {
        Ack { id: MessageId { partition: -1, ledger: 1, entry, batch_index }, cumulative }
    }

    #[test]
    fn a_batch_is_acknowledged_when_all_of_it_is() {
        let mut acks = Acks::<()>::new();
        acks.batch(ack(5, -1, false).id, vec![false; 3]);
        assert_eq!(acks.settle(ack(5, 2, false)), None);
        assert_eq!(acks.settle(ack(5, 0, false)), None);
        acks.batch(ack(5, -1, false).id, vec![false; 3]);
        assert_eq!(acks.settle(ack(5, 1, false)), Some(ack(5, -1, false)));
        assert!(acks.batches.is_empty());
        assert_eq!(acks.settle(ack(6, -1, false)), Some(ack(6, -1, false)));
    }

    #[test]
    fn up_to_the_middle_of_a_batch_is_up_to_the_entry_before_it() {
        let mut acks = Acks::<()>::new();
        acks.batch(ack(4, -1, false).id, vec![false; 2]);
        acks.batch(ack(5, -1, false).id, vec![false; 3]);
        assert_eq!(acks.settle(ack(5, 1, true)), Some(ack(4, -1, true)));
        assert_eq!(acks.batches.len(), 1);
        assert_eq!(acks.settle(ack(5, 2, false)), Some(ack(5, -1, false)));
    }
}
