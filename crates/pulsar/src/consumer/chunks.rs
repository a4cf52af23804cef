//! Chunked messages (PIP-37): a message larger than a broker takes arrives as several entries, and is assembled here.
//!
//! Chunks of one message arrive in order; chunks of several producers may be interleaved. Incomplete messages are bounded in
//! number, size and age. An incomplete message that is discarded stays unacknowledged, so the broker delivers it again.

use crate::message_id::MessageId;
use crate::wire::MessageMetadata;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Incomplete messages at a time, as in the Java client. The oldest is discarded for another one.
const MAX_PENDING: usize = 10;

/// Size of all incomplete messages. A single message that is larger cannot be read.
const MAX_BYTES: usize = 128 * 1024 * 1024;

/// Age of an incomplete message, as in the Java client.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Which part of a message an entry is.
pub(super) struct Chunk<'m> {
    uuid: &'m str,
    index: i32,
    count: i32,
    total: usize,
}

impl Chunk<'_> {
    /// `None` if the entry is a whole message.
    pub(super) fn of(metadata: &MessageMetadata) -> Option<Chunk<'_>> {
        let count = metadata.num_chunks_from_msg.filter(|count| *count > 1)?;
        let total = metadata.total_chunk_msg_size.and_then(|size| usize::try_from(size).ok());
        Some(Chunk {
            uuid: metadata.uuid.as_deref()?,
            index: metadata.chunk_id.unwrap_or(0),
            count,
            // An invalid size exceeds every limit.
            total: total.unwrap_or(usize::MAX),
        })
    }
}

/// Incomplete messages, the oldest first.
#[derive(Debug)]
pub(super) struct Chunks {
    pending: VecDeque<PartialMessage>,
    max_bytes: usize,
}

#[derive(Debug)]
struct PartialMessage {
    uuid: String,
    count: i32,
    total: usize,
    payload: BytesMut,
    ids: Vec<MessageId>,
    /// Set when its age is first asked for.
    since: Option<Instant>,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks { pending: VecDeque::new(), max_bytes: MAX_BYTES }
    }
}

impl Chunks {
    /// Whether a message with this chunk can be assembled.
    pub(super) fn fits(&self, chunk: &Chunk<'_>) -> bool {
        chunk.total <= self.max_bytes
    }

    /// Takes a chunk of a message that fits. Returns the payload and the entries of the message if it is the last one. A chunk out of order is discarded
    /// with all before it.
    pub(super) fn push(
        &mut self,
        id: MessageId,
        chunk: &Chunk<'_>,
        payload: &Bytes,
    ) -> Option<(Bytes, Vec<MessageId>)> {
        let known = self.pending.iter().position(|pending| pending.uuid == chunk.uuid);
        let mut message = match (chunk.index, known.and_then(|at| self.pending.remove(at))) {
            // The broker delivers from the first chunk on, again or for the first time.
            (0, _) => PartialMessage {
                uuid: chunk.uuid.to_owned(),
                count: chunk.count,
                total: chunk.total,
                payload: BytesMut::new(),
                ids: Vec::new(),
                since: None,
            },
            (index, Some(message)) if usize::try_from(index) == Ok(message.ids.len()) => message,
            (_, Some(_) | None) => return None,
        };
        if message.payload.len() + payload.len() > message.total {
            return None;
        }
        message.payload.extend_from_slice(payload);
        message.ids.push(id);
        if usize::try_from(message.count) == Ok(message.ids.len()) {
            return Some((message.payload.freeze(), message.ids));
        }
        while self.pending.len() >= MAX_PENDING || self.bytes() + message.payload.len() > self.max_bytes {
            self.pending.pop_front();
        }
        self.pending.push_back(message);
        None
    }

    /// Discards messages that are incomplete for longer than `MAX_AGE`.
    pub(super) fn expire(&mut self, now: Instant) {
        self.pending.retain_mut(|message| now.duration_since(*message.since.get_or_insert(now)) < MAX_AGE);
    }

    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    fn bytes(&self) -> usize {
        self.pending.iter().map(|message| message.payload.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(entry: u64) -> MessageId {
        MessageId { partition: -1, ledger: 1, entry, batch_index: -1 }
    }

    fn push(chunks: &mut Chunks, entry: u64, uuid: &str, index: i32) -> Option<usize> {
        let chunk = Chunk { uuid, index, count: 3, total: 6 };
        chunks.push(id(entry), &chunk, &Bytes::from_static(b"ab")).map(|(payload, ids)| payload.len() + ids.len())
    }

    #[test]
    fn interleaved_messages_are_assembled() {
        let mut chunks = Chunks::default();
        for (entry, uuid, index) in [(0, "a", 0), (1, "b", 0), (2, "a", 1), (3, "b", 1)] {
            assert_eq!(push(&mut chunks, entry, uuid, index), None);
        }
        assert_eq!(push(&mut chunks, 4, "b", 2), Some(6 + 3));
        assert_eq!(push(&mut chunks, 5, "a", 2), Some(6 + 3));
        assert!(chunks.pending.is_empty());
    }

    #[test]
    fn chunk_out_of_order_discards_the_message() {
        let mut chunks = Chunks::default();
        for (entry, index) in [(0, 0), (2, 2), (3, 1), (4, 2)] {
            assert_eq!(push(&mut chunks, entry, "a", index), None);
        }
        assert!(chunks.pending.is_empty());
    }

    #[test]
    fn message_that_is_delivered_again_starts_again() {
        let mut chunks = Chunks::default();
        for (entry, index) in [(0, 0), (1, 1), (0, 0), (1, 1)] {
            assert_eq!(push(&mut chunks, entry, "a", index), None);
        }
        assert_eq!(push(&mut chunks, 2, "a", 2), Some(6 + 3));
    }

    #[test]
    fn oldest_incomplete_message_is_discarded_for_another() {
        let mut chunks = Chunks::default();
        for entry in 0..=MAX_PENDING {
            push(&mut chunks, entry as u64, &format!("{entry}"), 0);
        }
        assert_eq!(chunks.pending.len(), MAX_PENDING);
        assert_eq!(push(&mut chunks, 20, "0", 1), None);
        assert_eq!(push(&mut chunks, 21, "0", 2), None, "it was discarded");
        assert_eq!(push(&mut chunks, 22, "1", 1), None);
        assert_eq!(push(&mut chunks, 23, "1", 2), Some(6 + 3));
    }

    #[test]
    fn oldest_incomplete_messages_are_discarded_while_all_together_are_above_the_limit() {
        let mut chunks = Chunks { max_bytes: 10, ..Chunks::default() };
        let chunk = |uuid, index| Chunk { uuid, index, count: 3, total: 9 };
        for (entry, uuid) in (0..).zip(["a", "b", "c"]) {
            assert!(chunks.push(id(entry), &chunk(uuid, 0), &Bytes::from_static(b"abc")).is_none());
        }
        assert_eq!((chunks.pending.len(), chunks.bytes()), (3, 9));
        assert!(chunks.push(id(3), &chunk("c", 1), &Bytes::from_static(b"abc")).is_none());
        assert_eq!((chunks.pending.len(), chunks.bytes()), (2, 9), "the first is discarded for it");
        assert!(chunks.push(id(4), &chunk("d", 0), &Bytes::from_static(b"abcdefghi")).is_none());
        assert_eq!((chunks.pending.len(), chunks.bytes()), (1, 9), "so are as many as it takes");
        let last = chunks.push(id(5), &chunk("c", 2), &Bytes::from_static(b"abc"));
        assert!(last.is_none() && chunks.pending.len() == 1, "what was discarded is not assembled");
        assert!(chunks.fits(&Chunk { total: 10, ..chunk("e", 0) }));
        assert!(!chunks.fits(&Chunk { total: 11, ..chunk("e", 0) }));
    }

    #[test]
    fn message_larger_than_it_says_is_discarded() {
        let mut chunks = Chunks::default();
        let chunk = |index| Chunk { uuid: "a", index, count: 2, total: 3 };
        assert!(chunks.push(id(0), &chunk(0), &Bytes::from_static(b"ab")).is_none());
        assert!(chunks.push(id(1), &chunk(1), &Bytes::from_static(b"ab")).is_none());
        assert!(chunks.pending.is_empty());
    }

    #[test]
    fn incomplete_message_expires() {
        let mut chunks = Chunks::default();
        push(&mut chunks, 0, "a", 0);
        let now = Instant::now();
        chunks.expire(now);
        chunks.expire(now + MAX_AGE - Duration::from_secs(1));
        assert_eq!(chunks.pending.len(), 1);
        chunks.expire(now + MAX_AGE);
        assert!(chunks.pending.is_empty());
    }
}
