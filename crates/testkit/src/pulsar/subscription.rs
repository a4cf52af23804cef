//! A subscription: what of a topic's log was acknowledged, who consumes the rest, and who gets what next.

use super::topic::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A consumer or a producer of some connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) connection: u64,
    pub(super) id: u64,
}

/// How consumers share a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// There is one consumer.
    Exclusive,
    /// The one who came first gets everything.
    Failover,
    /// They take turns. Pulsar's key-shared is that too: here keys do not matter.
    Shared,
}

/// Entries are named by their place in the log.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) sharing: Sharing,
    /// Ends with its last consumer if not.
    pub(super) durable: bool,
    /// All before this is acknowledged.
    done: usize,
    /// What else is.
    acked: BTreeSet<usize>,
    /// Batches that are acknowledged in part: a bit for each message that is not.
    partly: BTreeMap<usize, Vec<i64>>,
    /// All before this was delivered once.
    next: usize,
    /// Delivered, and to be delivered again.
    again: BTreeSet<usize>,
    redeliveries: BTreeMap<usize, u32>,
    /// In the order in which they came.
    consumers: Vec<Consumer>,
    turn: usize,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) key: Key,
    pub(super) permits: i64,
    /// Delivered and not acknowledged.
    pub(super) pending: BTreeSet<usize>,
}

/// An entry on its way to a consumer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) to: Key,
    pub(super) index: usize,
    pub(super) redeliveries: u32,
    /// Which messages of the batch are wanted; empty: all.
    pub(super) wanted: Vec<i64>,
}

impl Subscription {
    pub(super) fn new(sharing: Sharing, durable: bool, start: usize) -> Subscription {
        Subscription {
            sharing,
            durable,
            done: start,
            acked: BTreeSet::new(),
            partly: BTreeMap::new(),
            next: start,
            again: BTreeSet::new(),
            redeliveries: BTreeMap::new(),
            consumers: Vec::new(),
            turn: 0,
        }
    }

    pub(super) fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    /// The first entry that is not acknowledged.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// How much of a log of this length is not acknowledged.
    pub(super) fn backlog(&self, length: usize) -> usize {
        length.saturating_sub(self.done + self.acked.len())
    }

    pub(super) fn attach(&mut self, key: Key) {
        self.consumers.push(Consumer { key, permits: 0, pending: BTreeSet::new() });
    }

    /// What it did not acknowledge goes to others, or to whoever comes.
    pub(super) fn detach(&mut self, key: Key) {
        self.redeliver(key, None);
        self.consumers.retain(|consumer| consumer.key != key);
    }

    pub(super) fn permit(&mut self, key: Key, more: u32) {
        if let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.key == key) {
            consumer.permits += i64::from(more);
        }
    }

    /// One entry, or what `wanted` leaves of it.
    pub(super) fn acknowledge(&mut self, index: usize, wanted: &[i64]) {
        if index < self.done {
            return;
        }
        if wanted.iter().any(|bits| *bits != 0) {
            let left = match self.partly.get(&index) {
                Some(before) => before.iter().zip(wanted).map(|(before, now)| before & now).collect(),
                None => wanted.to_vec(),
            };
            if left.iter().any(|bits| *bits != 0) {
                self.partly.insert(index, left);
                return;
            }
        }
        self.forget(index);
        self.acked.insert(index);
        while self.acked.remove(&self.done) {
            self.done += 1;
        }
        self.next = self.next.max(self.done);
    }

    /// All before this entry, and the entry or what `wanted` leaves of it.
    pub(super) fn acknowledge_to(&mut self, index: usize, wanted: &[i64]) {
        for earlier in self.done..index {
            self.acknowledge(earlier, &[]);
        }
        self.acknowledge(index, wanted);
    }

    /// These, or all, of what the consumer did not acknowledge.
    pub(super) fn redeliver(&mut self, key: Key, which: Option<&BTreeSet<usize>>) {
        let Some(consumer) = self.consumers.iter_mut().find(|consumer| consumer.key == key) else { return };
        let (again, kept) = std::mem::take(&mut consumer.pending)
            .into_iter()
            .partition(|index| which.is_none_or(|which| which.contains(index)));
        consumer.pending = kept;
        for index in again {
            // Only who shares is told how often: the others' cursor goes back.
            if self.sharing == Sharing::Shared {
                *self.redeliveries.entry(index).or_default() += 1;
            }
            self.again.insert(index);
        }
    }

    /// As if all before this were acknowledged and nothing else were.
    pub(super) fn seek(&mut self, index: usize) {
        let consumers = std::mem::take(&mut self.consumers);
        *self = Subscription::new(self.sharing, self.durable, index);
        self.consumers = consumers;
        for consumer in &mut self.consumers {
            consumer.pending.clear();
        }
    }

    /// Gives what can be given to who may have it.
    pub(super) fn deliver(&mut self, log: &[Entry]) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while let (Some(index), Some(consumer)) = (self.upcoming(log.len()), self.ready()) {
            self.again.remove(&index);
            self.next = self.next.max(index + 1);
            let consumer = &mut self.consumers[consumer];
            consumer.permits -= i64::from(log[index].messages);
            consumer.pending.insert(index);
            deliveries.push(Delivery {
                to: consumer.key,
                index,
                redeliveries: self.redeliveries.get(&index).copied().unwrap_or(0),
                wanted: self.partly.get(&index).cloned().unwrap_or_default(),
            });
        }
        deliveries
    }

    fn upcoming(&mut self, length: usize) -> Option<usize> {
        while self.acked.contains(&self.next) {
            self.next += 1;
        }
        let fresh = Some(self.next).filter(|next| *next < length);
        self.again.first().copied().into_iter().chain(fresh).min()
    }

    fn ready(&mut self) -> Option<usize> {
        let count = self.consumers.len();
        let mut may = match self.sharing {
            Sharing::Exclusive | Sharing::Failover => 0..count.min(1),
            Sharing::Shared => self.turn..self.turn + count,
        };
        let found = may.find(|at| self.consumers[at % count].permits > 0)? % count;
        self.turn = (found + 1) % count;
        Some(found)
    }

    fn forget(&mut self, index: usize) {
        self.partly.remove(&index);
        self.again.remove(&index);
        self.redeliveries.remove(&index);
        for consumer in &mut self.consumers {
            consumer.pending.remove(&index);
        }
    }
}
