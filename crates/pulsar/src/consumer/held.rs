//! Held: what was handed out and is not known to be done with, so that it can be told from what comes for another reason.
//!
//! Kept as ranges of messages that follow each other: whoever acknowledges late, or nothing, costs little.

use super::acks::Ack;
use crate::message_id::MessageId;
use std::collections::BTreeMap;

/// Messages of one topic or partition.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// The last of each range, by its first. They do not overlap, and none spans ledgers.
    ranges: BTreeMap<MessageId, MessageId>,
}

impl Held {
    pub(super) fn contains(&self, id: MessageId) -> bool {
        self.ranges.range(..=id).next_back().is_some_and(|(_, last)| *last >= id)
    }

    pub(super) fn insert(&mut self, id: MessageId) {
        if self.contains(id) {
            return;
        }
        match self.ranges.range_mut(..id).next_back() {
            Some((_, last)) if follows(*last, id) => *last = id,
            Some(_) | None => drop(self.ranges.insert(id, id)),
        }
    }

    /// The broker has confirmed that this is done with.
    pub(super) fn settled(&mut self, ack: Ack) {
        let entry = MessageId { batch_index: i32::MIN, ..ack.id };
        // Before the first entry is -1, which on the wire is the largest there is.
        let until = MessageId { entry: entry.entry.wrapping_add(1), ..entry };
        let from = match ack.cumulative {
            true => MessageId { ledger: 0, entry: 0, ..entry },
            false => entry,
        };
        let cut = self.ranges.range(..until).rev().take_while(|(_, last)| **last >= from);
        for (first, last) in cut.map(|(first, last)| (*first, *last)).collect::<Vec<_>>() {
            self.ranges.remove(&first);
            if first < from {
                // In the same ledger, so there is an entry before.
                let before = MessageId { entry: from.entry.saturating_sub(1), batch_index: i32::MAX, ..from };
                self.ranges.insert(first, before);
            }
            if last >= until {
                self.ranges.insert(until, last);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }
}

/// Whether there can be no message between the two.
fn follows(last: MessageId, id: MessageId) -> bool {
    let next_in_batch = last.entry == id.entry && last.batch_index.checked_add(1) == Some(id.batch_index);
    // Where a batch ends is not known.
    let ended = matches!(last.batch_index, -1 | i32::MAX);
    let next_entry = ended && last.entry.checked_add(1) == Some(id.entry) && id.batch_index <= 0;
    last.ledger == id.ledger && (next_in_batch || next_entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom_core::random::Random;
    use std::collections::BTreeSet;

    fn id(ledger: u64, entry: u64, batch_index: i32) -> MessageId {
        MessageId { partition: -1, ledger, entry, batch_index }
    }

    #[test]
    fn whoever_acknowledges_nothing_costs_a_range_for_each_ledger_and_batch() {
        let mut held = Held::default();
        for (ledger, entry) in (1..4).flat_map(|ledger| (0..1000).map(move |entry| (ledger, entry))) {
            match entry {
                500 => (0..3).for_each(|index| held.insert(id(ledger, entry, index))),
                _ => held.insert(id(ledger, entry, -1)),
            }
        }
        assert_eq!(held.ranges.len(), 3 + 3);
        assert!(held.contains(id(2, 500, 1)) && held.contains(id(2, 501, -1)));
        assert!(!held.contains(id(2, 1000, -1)) && !held.contains(id(4, 0, -1)));
    }

    #[test]
    fn up_to_before_the_first_entry_is_all_of_the_ledgers_before() {
        let mut held = Held::default();
        [id(1, 8, -1), id(2, 0, 0), id(2, 0, 1)].into_iter().for_each(|id| held.insert(id));
        held.settled(Ack { id: id(2, u64::MAX, -1), cumulative: true });
        assert_eq!([id(1, 8, -1), id(2, 0, 0), id(2, 0, 1)].map(|id| held.contains(id)), [false, true, true]);
    }

    #[test]
    fn it_holds_what_a_plain_set_would() {
        let mut random = Random::new(7);
        let (mut held, mut plain) = (Held::default(), BTreeSet::new());
        for step in 0..20_000 {
            let (ledger, entry) = (1 + random.below(3) as u64, random.below(12) as u64);
            // Each third entry is a batch of four.
            let index = |random: &mut Random| if entry % 3 == 0 { random.below(4) as i32 } else { -1 };
            match random.below(8) {
                0 => {
                    let cumulative = random.below(10) == 0;
                    held.settled(Ack { id: id(ledger, entry, -1), cumulative });
                    let reached = |held: &MessageId| match cumulative {
                        true => (held.ledger, held.entry) <= (ledger, entry),
                        false => (held.ledger, held.entry) == (ledger, entry),
                    };
                    plain.retain(|held| !reached(held));
                }
                1..5 => {
                    let one = id(ledger, entry, index(&mut random));
                    held.insert(one);
                    plain.insert(one);
                }
                _ => {
                    let one = id(ledger, entry, index(&mut random));
                    assert_eq!(held.contains(one), plain.contains(&one), "step {step}: {one} in {held:?}");
                }
            }
        }
    }
}
