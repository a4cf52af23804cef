//! A topic: its owner, its log, and who is at it. The log stays when the owner changes.

use super::subscription::{Key, Subscription};
use super::world::partition;
use bytes::Bytes;
use carom_pulsar::wire::{self, MessageIdData};
use std::collections::BTreeMap;

/// Where an entry is in a topic's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Every owner of a topic begins a ledger.
    pub ledger: i64,
    /// From 0 in each ledger.
    pub entry: i64,
}

impl Position {
    /// Before all others.
    pub const EARLIEST: Position = Position { ledger: -1, entry: -1 };
    /// After all others.
    pub const LATEST: Position = Position { ledger: i64::MAX, entry: i64::MAX };
}

/// What a producer sent in one frame: a message or a batch of them.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is.
    pub position: Position,
    /// Who sent it.
    pub producer: String,
    /// The producer's number for it; for a batch that of its first message.
    pub sequence: u64,
    /// When the producer says it did, in milliseconds since 1970.
    pub published: u64,
    /// How many messages it holds.
    pub messages: u32,
    /// Whether it says that it is a batch.
    pub batch: bool,
    /// How it is compressed, by the protocol's number; 0 is not at all.
    pub compression: i32,
    /// Without metadata; as it was sent, be it compressed or a batch.
    pub payload: Vec<u8>,
    /// What came after the command, byte for byte: checksum, metadata, payload.
    pub(super) raw: Vec<u8>,
}

impl Entry {
    /// The payload of each message in it. What is compressed or broken stays as it is, in one piece.
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        let whole = Bytes::from(self.payload.clone());
        if self.batch && self.compression == 0 {
            let count = i32::try_from(self.messages).unwrap_or(i32::MAX);
            if let Ok(messages) = wire::unbatch(count, whole) {
                return messages.into_iter().map(|(_, payload)| payload.to_vec()).collect();
            }
        }
        vec![self.payload.clone()]
    }
}

#[derive(Debug, Default)]
pub(super) struct Topic {
    pub(super) owner: Option<usize>,
    /// The ledger that is written; none until its owner writes the first entry.
    pub(super) ledger: Option<i64>,
    pub(super) log: Vec<Entry>,
    pub(super) producers: BTreeMap<String, Key>,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    /// The last sequence id of each producer that ever wrote.
    pub(super) sequences: BTreeMap<String, u64>,
}

impl Topic {
    /// Where the next entry goes; `fresh` is a ledger that nobody has.
    pub(super) fn end(&mut self, fresh: &mut i64) -> Position {
        let ledger = *self.ledger.get_or_insert_with(|| {
            *fresh += 1;
            *fresh
        });
        match self.log.last() {
            Some(last) if last.position.ledger == ledger => Position { ledger, entry: last.position.entry + 1 },
            Some(_) | None => Position { ledger, entry: 0 },
        }
    }

    /// The place of the entry, if there is one.
    pub(super) fn find(&self, position: Position) -> Option<usize> {
        self.log.binary_search_by_key(&position, |entry| entry.position).ok()
    }

    /// The first place at or after this position.
    pub(super) fn from(&self, position: Position) -> usize {
        self.log.partition_point(|entry| entry.position < position)
    }

    /// The first place after this position.
    pub(super) fn after(&self, position: Position) -> usize {
        self.log.partition_point(|entry| entry.position <= position)
    }
}

/// `t` is `persistent://public/default/t`, and `tenant/ns/t` is `persistent://tenant/ns/t`.
pub(super) fn full_name(topic: &str) -> String {
    if topic.contains("://") {
        topic.to_owned()
    } else if topic.contains('/') {
        format!("persistent://{topic}")
    } else {
        format!("persistent://public/default/{topic}")
    }
}

/// Whether what is written to it is kept for whoever is not there, or not ready, to read it.
pub(super) fn is_stored(topic: &str) -> bool {
    !topic.starts_with("non-persistent://")
}

/// Where a message is, as commands have it. What is not stored is nowhere: brokers say 0:0 of all of it.
pub(super) fn message_id(topic: &str, position: Position) -> MessageIdData {
    let Position { ledger, entry } = if is_stored(topic) { position } else { Position { ledger: 0, entry: 0 } };
    let (ledger_id, entry_id) = (ledger as u64, entry as u64);
    MessageIdData { ledger_id, entry_id, partition: partition(topic), ..MessageIdData::default() }
}

/// `tenant/ns` of a full name.
pub(super) fn namespace(topic: &str) -> &str {
    let path = topic.split_once("://").map_or(topic, |(_, path)| path);
    path.rsplit_once('/').map_or("", |(namespace, _)| namespace)
}
