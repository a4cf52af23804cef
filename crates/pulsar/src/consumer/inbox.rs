//! The inbox: what has arrived and is not handed out yet, and how much more may come.
//!
//! The broker sends as many messages as it was given permits for. Each message that leaves the inbox frees one; they are
//! returned by halves of the queue. When the consumer begins anew, the broker sends everything again that is not
//! acknowledged: where messages come in order, those that were handed out before are left out.

use super::message::Message;
use crate::error::Error;
use crate::message_id::MessageId;
use crate::wire::{self, Compression, MessageMetadata, Payload, SingleMessageMetadata, unbatch};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// What has arrived. With the last message of each frame lies its place (`R`) among those that may arrive ahead.
pub(super) struct Inbox<R> {
    topic: Arc<str>,
    partition: i32,
    part: usize,
    queue: u32,
    /// Messages come in order, and only to this consumer.
    ordered: bool,
    waiting: VecDeque<Waiting<R>>,
    /// Permits that can be returned.
    freed: u32,
    handed_out: Option<MessageId>,
    /// The last that came from this broker.
    arrived: Option<MessageId>,
    /// How many more may come before it is clear that none of them was on its way when everything was asked for again.
    stale: u32,
}

struct Waiting<R> {
    id: MessageId,
    message: Result<Message, Error>,
    _room: Option<R>,
}

/// A batch that arrived: how many messages it has, and which of them are acknowledged.
pub(super) struct Arrived {
    pub(super) id: MessageId,
    pub(super) batch: Option<Vec<bool>>,
}

impl<R> Inbox<R> {
    pub(super) fn new(topic: Arc<str>, partition: i32, part: usize, queue: u32, ordered: bool) -> Inbox<R> {
        let (waiting, freed, handed_out, arrived, stale) = (VecDeque::new(), 0, None, None, 0);
        Inbox { topic, partition, part, queue, ordered, waiting, freed, handed_out, arrived, stale }
    }

    /// Takes a message in, or a batch of them.
    pub(super) fn arrive(&mut self, command: &wire::Message, payload: Payload, room: R) -> Arrived {
        let before = self.waiting.len();
        let arrived = self.take_apart(command, payload);
        if self.waiting.len() > before
            && let Some(last) = self.waiting.back_mut()
        {
            last._room = Some(room);
        }
        arrived
    }

    fn take_apart(&mut self, command: &wire::Message, payload: Payload) -> Arrived {
        let Payload { metadata, payload } = payload;
        let whole = MessageId::of(&command.message_id, self.partition, -1);
        let redeliveries = command.redelivery_count.unwrap_or(0);
        let plain = matches!(metadata.compression, None | Some(0)) && metadata.encryption_algo.is_none();
        debug_assert_eq!(Compression::None as i32, 0);
        let Some(count) = metadata.num_messages_in_batch else {
            let message = match plain {
                true => Ok(self.message(whole, &metadata, None, payload, redeliveries)),
                false => Err(Error::Unreadable { id: whole, source: None }),
            };
            self.put(whole, message);
            return Arrived { id: whole, batch: None };
        };
        let singles = match plain {
            true => unbatch(count, payload).map_err(Some),
            false => Err(None),
        };
        let singles = match singles {
            Ok(singles) => singles,
            Err(source) => {
                self.freed += u32::try_from(count - 1).unwrap_or(0);
                self.put(whole, Err(Error::Unreadable { id: whole, source }));
                return Arrived { id: whole, batch: None };
            }
        };
        let mut done = Vec::with_capacity(singles.len());
        for (index, (single, payload)) in singles.into_iter().enumerate() {
            let id = MessageId { batch_index: index as i32, ..whole };
            let acknowledged = !command.ack_set.is_empty() && !bit(&command.ack_set, index);
            let skip = acknowledged || single.compacted_out == Some(true);
            done.push(skip);
            match skip {
                true => self.freed += 1,
                false => {
                    let message = self.message(id, &metadata, Some(&single), payload, redeliveries);
                    self.put(id, Ok(message));
                }
            }
        }
        Arrived { id: whole, batch: Some(done) }
    }

    /// The next message for the user.
    pub(super) fn hand_out(&mut self) -> Option<Result<Message, Error>> {
        let Waiting { id, message, .. } = self.waiting.pop_front()?;
        self.freed += 1;
        if self.stale == 0 {
            self.handed_out = self.handed_out.max(Some(id));
        }
        Some(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Permits to return, once they are worth a command.
    pub(super) fn permits(&mut self) -> Option<u32> {
        (self.freed >= (self.queue / 2).max(1)).then(|| std::mem::take(&mut self.freed))
    }

    /// The consumer begins anew: what was not handed out comes again. The permits to begin with.
    pub(super) fn begin_anew(&mut self) -> u32 {
        self.waiting.clear();
        (self.freed, self.arrived, self.stale) = (0, None, 0);
        self.queue
    }

    /// Everything that is not acknowledged comes again, and is handed out again.
    pub(super) fn forget(&mut self) {
        self.clear();
        self.handed_out = None;
        self.stale = self.queue.saturating_sub(self.freed) + 1;
    }

    fn clear(&mut self) {
        self.freed += self.waiting.len() as u32;
        self.waiting.clear();
    }

    fn put(&mut self, id: MessageId, message: Result<Message, Error>) {
        let back = self.arrived.replace(id) >= Some(id);
        if self.stale > 0 {
            self.stale -= 1;
            if back {
                // What was on its way before comes again behind this one.
                self.clear();
                self.stale = 0;
            }
        }
        let newest = self.waiting.back().map(|waiting| waiting.id).max(self.handed_out);
        if self.ordered && newest >= Some(id) {
            self.freed += 1;
            return;
        }
        self.waiting.push_back(Waiting { id, message, _room: None });
    }

    fn message(
        &self,
        id: MessageId,
        metadata: &MessageMetadata,
        single: Option<&SingleMessageMetadata>,
        payload: Bytes,
        redeliveries: u32,
    ) -> Message {
        let (key, properties, event_time, sequence) = match single {
            Some(single) => (&single.partition_key, &single.properties, single.event_time, single.sequence_id),
            None => (&metadata.partition_key, &metadata.properties, metadata.event_time, None),
        };
        Message {
            topic: Arc::clone(&self.topic),
            id,
            payload,
            key: key.clone(),
            properties: properties.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect(),
            publish_time: metadata.publish_time,
            event_time,
            producer: metadata.producer_name.as_str().into(),
            sequence: sequence.unwrap_or(metadata.sequence_id),
            redeliveries,
            part: self.part,
        }
    }
}

fn bit(set: &[i64], index: usize) -> bool {
    set.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{MessageIdData, batch};

    fn inbox(ordered: bool) -> Inbox<()> {
        Inbox::new("t".into(), -1, 0, 4, ordered)
    }

    fn at(entry: u64) -> wire::Message {
        let message_id = MessageIdData { ledger_id: 1, entry_id: entry, ..MessageIdData::default() };
        wire::Message { message_id, ..wire::Message::default() }
    }

    fn handed_out(inbox: &mut Inbox<()>) -> Vec<(u64, i32)> {
        std::iter::from_fn(|| inbox.hand_out())
            .map(|message| message.unwrap().id)
            .map(|id| (id.entry, id.batch_index))
            .collect()
    }

    fn a_batch(of: i32) -> Payload {
        let singles = (0..of).map(|_| (SingleMessageMetadata::default(), Bytes::from_static(b"x")));
        let metadata = MessageMetadata { num_messages_in_batch: Some(of), ..MessageMetadata::default() };
        Payload { metadata, payload: batch(singles) }
    }

    #[test]
    fn permits_are_returned_by_halves() {
        let mut inbox = inbox(true);
        assert_eq!(inbox.begin_anew(), 4);
        (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
        inbox.hand_out();
        assert_eq!(inbox.permits(), None);
        inbox.hand_out();
        assert_eq!(inbox.permits(), Some(2));
        inbox.hand_out();
        assert_eq!(inbox.permits(), None);
    }

    #[test]
    fn what_was_handed_out_does_not_come_again_where_there_is_order() {
        for (ordered, second) in [(true, vec![(2, -1)]), (false, vec![(0, -1), (1, -1), (2, -1)])] {
            let mut inbox = inbox(ordered);
            (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
            inbox.hand_out();
            inbox.hand_out();
            inbox.begin_anew();
            (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
            assert_eq!(handed_out(&mut inbox), second);
            assert_eq!(inbox.permits(), Some(3), "what is left out frees its permit too");
        }
    }

    #[test]
    fn what_is_asked_for_again_is_not_left_out_because_of_what_was_on_its_way() {
        for handed_out_meanwhile in [0, 1, 2] {
            let mut inbox = inbox(true);
            inbox.begin_anew();
            (0..2).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
            inbox.hand_out();
            inbox.forget();
            (2..4).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
            (0..handed_out_meanwhile).for_each(|_| drop(inbox.hand_out()));
            (0..4).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
            assert_eq!(handed_out(&mut inbox), [(0, -1), (1, -1), (2, -1), (3, -1)]);
            inbox.begin_anew();
            (0..5).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), ())));
            assert_eq!(handed_out(&mut inbox), [(4, -1)], "and from then on as ever");
        }
    }

    #[test]
    fn a_batch_is_handed_out_one_by_one_without_what_is_acknowledged() {
        let mut inbox = inbox(true);
        let command = wire::Message { ack_set: vec![0b101], ..at(7) };
        assert_eq!(inbox.arrive(&command, a_batch(3), ()).batch, Some(vec![false, true, false]));
        assert_eq!(handed_out(&mut inbox), [(7, 0), (7, 2)]);
        assert_eq!(inbox.permits(), Some(3));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_of_its_own() {
        let mut inbox = inbox(true);
        let metadata = MessageMetadata { compression: Some(Compression::Lz4 as i32), ..MessageMetadata::default() };
        inbox.arrive(&at(1), Payload { metadata, payload: Bytes::new() }, ());
        let torn = Payload { payload: Bytes::from_static(b"torn"), ..a_batch(2) };
        inbox.arrive(&at(2), torn, ());
        assert!(matches!(inbox.hand_out(), Some(Err(Error::Unreadable { source: None, .. }))));
        assert!(matches!(inbox.hand_out(), Some(Err(Error::Unreadable { source: Some(_), .. }))));
        assert_eq!(inbox.permits(), Some(3));
    }
}
