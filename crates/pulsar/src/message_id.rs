//! Where a message is stored.

use crate::wire::MessageIdData;
use std::fmt;

/// Where a message is stored. Those of one partition are ordered as their messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// The partition of the topic; -1 when it has none.
    pub partition: i32,
    /// The ledger.
    pub ledger: u64,
    /// The entry in the ledger.
    pub entry: u64,
    /// Which message of the entry; -1 when the entry is one message.
    pub batch_index: i32,
}

impl MessageId {
    /// Whether it says where the message is. A broker that gets a message again that it has stored before gives a receipt
    /// without a place.
    pub fn is_placed(&self) -> bool {
        self.ledger != u64::MAX
    }

    pub(crate) fn of(place: &MessageIdData, partition: i32, batch_index: i32) -> MessageId {
        MessageId { partition, ledger: place.ledger_id, entry: place.entry_id, batch_index }
    }

    /// As the wire has it, the place in a batch aside.
    pub(crate) fn entry_data(&self) -> MessageIdData {
        let partition = (self.partition >= 0).then_some(self.partition);
        MessageIdData { ledger_id: self.ledger, entry_id: self.entry, partition, ..MessageIdData::default() }
    }
}

/// `ledger:entry:partition`, and `:index` within a batch, as Pulsar's tools write it.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.ledger, self.entry, self.partition)?;
        match self.batch_index {
            ..0 => Ok(()),
            index => write!(f, ":{index}"),
        }
    }
}
