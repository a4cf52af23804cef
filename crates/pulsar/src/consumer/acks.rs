//! Acknowledgements: those that the broker has not confirmed, and batches that are acknowledged in part.

use crate::message_id::MessageId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What is to be told to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) id: MessageId,
    pub(super) cumulative: bool,
}

impl Ack {
    /// Whether this message is done with by it.
    pub(super) fn covers(&self, id: MessageId) -> bool {
        match self.cumulative {
            true => (id.ledger, id.entry) < (self.id.ledger, self.id.entry.wrapping_add(1)),
            false => (id.ledger, id.entry) == (self.id.ledger, self.id.entry),
        }
    }
}

/// Acknowledgements, each with who waits for it.
pub(super) struct Acks<R> {
    /// By the number of the request.
    unconfirmed: BTreeMap<u64, Waiting<R>>,
    /// When each of them is late. What is told again keeps its deadline under a new number.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Entries that are batches, until all of them is acknowledged: which of their messages are.
    batches: BTreeMap<(u64, u64), Vec<bool>>,
    /// All entries of messages that arrived in chunks, by the last one, until they are acknowledged.
    chunked: BTreeMap<(u64, u64), Vec<MessageId>>,
}

#[derive(Debug)]
pub(super) struct Waiting<R> {
    pub(super) ack: Ack,
    pub(super) deadline: Instant,
    pub(super) reply: R,
}

impl<R> Acks<R> {
    pub(super) fn new() -> Acks<R> {
        Acks {
            unconfirmed: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            batches: BTreeMap::new(),
            chunked: BTreeMap::new(),
        }
    }

    /// A batch has arrived; one that arrives again keeps what is known of it, and adds what others acknowledged meanwhile.
    pub(super) fn batch(&mut self, id: MessageId, done: Vec<bool>) {
        let known = self.batches.entry((id.ledger, id.entry)).or_insert_with(|| done.clone());
        known.iter_mut().zip(done).for_each(|(known, done)| *known |= done);
    }

    /// A message has arrived in these chunks.
    pub(super) fn chunked(&mut self, id: MessageId, chunks: Vec<MessageId>) {
        self.chunked.insert((id.ledger, id.entry), chunks);
    }

    /// The entries that an acknowledgement names: all chunks of a message.
    pub(super) fn entries(&self, ack: Ack) -> Vec<MessageId> {
        match self.chunked.get(&(ack.id.ledger, ack.id.entry)) {
            Some(chunks) if !ack.cumulative => chunks.clone(),
            Some(_) | None => vec![ack.id],
        }
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
            // One that has not arrived here, or not since it was acknowledged: the rest of it is not to be lost.
            (Ok(_), None) => true,
            (Err(_), _) => false,
        };
        match (rest, ack.cumulative) {
            (false, _) => Some(Ack { id: whole, cumulative: ack.cumulative }),
            (true, false) => None,
            // All before the batch. Before the first entry of a ledger is -1, which stands for all the ledgers before.
            (true, true) => {
                let entry = whole.entry.wrapping_sub(1);
                Some(Ack { id: MessageId { entry, ..whole }, cumulative: true })
            }
        }
    }

    /// The broker has it: nothing of this is asked for again.
    pub(super) fn confirmed(&mut self, ack: Ack) {
        let key = (ack.id.ledger, ack.id.entry);
        if ack.cumulative {
            // Entry -1 is before the first of its ledger.
            self.batches = self.batches.split_off(&(key.0, key.1.wrapping_add(1)));
            self.chunked = self.chunked.split_off(&(key.0, key.1.wrapping_add(1)));
        } else {
            self.batches.remove(&key);
            self.chunked.remove(&key);
        }
    }

    pub(super) fn asked(&mut self, number: u64, waiting: Waiting<R>) {
        self.deadlines.insert((waiting.deadline, number));
        self.unconfirmed.insert(number, waiting);
    }

    pub(super) fn answered(&mut self, number: u64) -> Option<Waiting<R>> {
        let waiting = self.unconfirmed.remove(&number)?;
        self.deadlines.remove(&(waiting.deadline, number));
        Some(waiting)
    }

    /// Those that have to be told again, in order.
    pub(super) fn take_all(&mut self) -> Vec<Waiting<R>> {
        self.deadlines.clear();
        std::mem::take(&mut self.unconfirmed).into_values().collect()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// One that is late.
    pub(super) fn expired(&mut self, now: Instant) -> Option<Waiting<R>> {
        let (_, number) = *self.deadlines.first().filter(|(deadline, _)| *deadline <= now)?;
        self.answered(number)
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
        assert_eq!(acks.settle(ack(5, 1, false)), Some(ack(5, -1, false)), "again, until it is confirmed");
        acks.confirmed(ack(5, -1, false));
        assert!(acks.batches.is_empty());
        assert_eq!(acks.settle(ack(6, -1, false)), Some(ack(6, -1, false)));
    }

    #[test]
    fn up_to_the_middle_of_a_batch_is_up_to_the_entry_before_it() {
        let mut acks = Acks::<()>::new();
        acks.batch(ack(4, -1, false).id, vec![false; 2]);
        acks.batch(ack(5, -1, false).id, vec![false; 3]);
        assert_eq!(acks.settle(ack(5, 1, true)), Some(ack(4, -1, true)));
        acks.confirmed(ack(4, -1, true));
        assert_eq!(acks.batches.len(), 1);
        assert_eq!(acks.settle(ack(5, 2, false)), Some(ack(5, -1, false)));
    }

    #[test]
    fn of_a_batch_that_is_not_here_nothing_but_the_message_is_acknowledged() {
        let mut acks = Acks::<()>::new();
        assert_eq!(acks.settle(ack(5, 1, false)), None);
        assert_eq!(acks.settle(ack(5, 1, true)), Some(ack(4, -1, true)));
    }

    #[test]
    fn what_others_acknowledged_of_a_batch_is_not_waited_for_when_it_comes_again() {
        let mut acks = Acks::<()>::new();
        acks.batch(ack(5, -1, false).id, vec![false; 3]);
        acks.batch(ack(5, -1, false).id, vec![false, true, false]);
        assert_eq!(acks.settle(ack(5, 0, false)), None);
        assert_eq!(acks.settle(ack(5, 2, false)), Some(ack(5, -1, false)));
    }

    #[test]
    fn up_to_the_middle_of_the_first_batch_of_a_ledger_is_all_of_the_ledgers_before() {
        let mut acks = Acks::<()>::new();
        acks.batch(ack(0, -1, false).id, vec![false; 2]);
        let told = acks.settle(ack(0, 0, true)).unwrap();
        assert_eq!(told.id.entry_data().entry_id as i64, -1);
        let before = MessageId { ledger: 0, entry: 9, ..told.id };
        assert!(told.covers(before) && !told.covers(ack(0, 0, true).id));
        acks.confirmed(told);
        assert_eq!(acks.settle(ack(0, 1, false)), Some(ack(0, -1, false)));
    }

    #[test]
    fn the_first_deadline_is_known_whatever_the_numbers() {
        let begun = Instant::now();
        let second = |second| begun + std::time::Duration::from_secs(second);
        let mut acks = Acks::new();
        for (number, deadline) in [(1, 7), (2, 3), (3, 5)] {
            acks.asked(number, Waiting { ack: ack(number, -1, false), deadline: second(deadline), reply: number });
        }
        assert_eq!(acks.deadline(), Some(second(3)));
        assert_eq!(acks.answered(2).map(|waiting| waiting.reply), Some(2));
        assert_eq!(acks.deadline(), Some(second(5)));
        assert_eq!(std::iter::from_fn(|| acks.expired(second(6))).map(|late| late.reply).collect::<Vec<_>>(), [3]);
        assert_eq!((acks.take_all().len(), acks.deadline(), acks.is_empty()), (1, None, true));
    }
}
