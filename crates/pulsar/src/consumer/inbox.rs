//! The inbox: what has arrived and is not handed out yet, and how much more may come.
//!
//! The broker sends as many messages as it was given permits for. Each message that leaves the inbox frees one; they are
//! returned by halves of the queue. When the consumer begins anew, the broker sends everything again that is not
//! acknowledged: where messages come in order, those that were handed out before are left out. What was acknowledged and comes
//! all the same is wanted again by somebody.

use super::acks::Ack;
use super::chunks::{Chunk, Chunks};
use super::held::Held;
use super::message::Message;
use super::outlet::Item;
use crate::error::Error;
use crate::message_id::MessageId;
use crate::wire::{self, Compression, MessageMetadata, Payload, SingleMessageMetadata, WireError, unbatch};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// What can be expected of the messages of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// They come in order, to one consumer, and again from where it was when it begins anew.
    Ordered,
    /// They come again to whoever is there, in any order.
    Shared,
    /// They are not stored: what has gone by does not come again. They may all have the same id.
    Once,
}

/// What has arrived. With the last message of each frame lies its place (`R`) among those that may arrive ahead.
pub(super) struct Inbox<R> {
    topic: Arc<str>,
    subscription: Arc<str>,
    partition: i32,
    queue: u32,
    delivery: Delivery,
    /// Messages of which not all chunks have arrived.
    chunks: Chunks,
    /// In order, if there is one.
    waiting: VecDeque<Waiting<R>>,
    /// Permits that can be returned.
    freed: u32,
    /// What was handed out and is to be left out when it comes again.
    held: Held,
    /// The last that came from this broker.
    arrived: Option<MessageId>,
    /// How many more may come before it is clear that none of them was on its way when everything was asked for again.
    stale: u32,
    /// A message that the broker may have counted for more than can be made up for.
    overcharged: Option<MessageId>,
    /// It is done with, and how many permits the broker has left is not known.
    adrift: bool,
    /// It is in the list of those with something to take.
    listed: bool,
    /// The task was told that permits are due.
    asked: bool,
    /// A message was handed out since the consumer began at this broker.
    used: bool,
    end: Option<End>,
}

/// The end of an inbox: nothing arrives any more.
enum End {
    /// With what the user is to be told.
    Untold(Option<Error>),
    Told,
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
    /// The entries of a message that was assembled from chunks; empty for others.
    pub(super) chunks: Vec<MessageId>,
}

impl<R> Inbox<R> {
    pub(super) fn new(
        topic: Arc<str>,
        subscription: Arc<str>,
        partition: i32,
        queue: u32,
        delivery: Delivery,
    ) -> Inbox<R> {
        Inbox {
            topic,
            subscription,
            partition,
            queue,
            delivery,
            chunks: Chunks::default(),
            waiting: VecDeque::new(),
            freed: 0,
            held: Held::default(),
            arrived: None,
            stale: 0,
            overcharged: None,
            adrift: false,
            listed: false,
            asked: false,
            used: false,
            end: None,
        }
    }

    /// Takes a message in, or a batch of them. Incomplete messages of which chunks have been missing for too long are discarded.
    pub(super) fn arrive(&mut self, command: &wire::Message, payload: Payload, room: R, now: Instant) -> Arrived {
        let before = self.waiting.len();
        let arrived = self.take_apart(command, payload);
        self.chunks.expire(now);
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
            if let Some(chunk) = Chunk::of(&metadata).filter(|chunk| plain && self.chunks.fits(chunk)) {
                let assembled = self.chunks.push(whole, &chunk, &payload);
                let Some((payload, chunks)) = assembled else {
                    // The broker counts each chunk as a message.
                    self.freed += 1;
                    return Arrived { id: whole, batch: None, chunks: Vec::new() };
                };
                let message = self.message(whole, &metadata, None, payload, redeliveries);
                self.put(whole, Ok(message));
                return Arrived { id: whole, batch: None, chunks };
            }
            let plain = plain && Chunk::of(&metadata).is_none();
            let message = match plain {
                true => Ok(self.message(whole, &metadata, None, payload, redeliveries)),
                false => Err(self.unreadable(whole, None)),
            };
            self.put(whole, message);
            return Arrived { id: whole, batch: None, chunks: Vec::new() };
        };
        let size = payload.len();
        let singles = match plain {
            true => unbatch(count, payload).map_err(Some),
            false => Err(None),
        };
        let singles = match singles {
            Ok(singles) => singles,
            Err(source) => {
                // The broker has counted as many as the batch says it holds, which is believed as far as there was room for them.
                let (said, most) = (u32::try_from(count).unwrap_or(0), most_in(&metadata, size));
                self.freed += said.min(most).saturating_sub(1);
                self.overcharged = self.overcharged.or(Some(whole).filter(|_| said > most));
                self.put(whole, Err(self.unreadable(whole, source)));
                return Arrived { id: whole, batch: None, chunks: Vec::new() };
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
        Arrived { id: whole, batch: Some(done), chunks: Vec::new() }
    }

    /// The next message for the user.
    pub(super) fn hand_out(&mut self) -> Option<Result<Message, Error>> {
        let Waiting { id, message, .. } = self.waiting.pop_front()?;
        self.freed += 1;
        if self.delivery == Delivery::Ordered {
            self.held.insert(id);
        }
        Some(message)
    }

    /// Takes what is to be taken next: a message, or the end.
    pub(super) fn take(&mut self) -> Item {
        if let Some(message) = self.hand_out() {
            self.used = true;
            let due = self.are_permits_due() && !std::mem::replace(&mut self.asked, true);
            return Item::Message(Box::new(message), due);
        }
        match self.end.replace(End::Told) {
            Some(End::Untold(reason)) => Item::Ended(reason),
            end @ (Some(End::Told) | None) => {
                self.end = end;
                Item::Nothing
            }
        }
    }

    /// Whether it is to be listed: there is something to take, and it is not listed yet.
    pub(super) fn list(&mut self) -> bool {
        let list = self.has_something() && !self.listed;
        self.listed |= list;
        list
    }

    /// Whether it is to be listed again, after something was taken.
    pub(super) fn relist(&mut self) -> bool {
        self.listed = self.has_something();
        self.listed
    }

    fn has_something(&self) -> bool {
        !self.waiting.is_empty() || matches!(self.end, Some(End::Untold(_)))
    }

    /// Nothing arrives any more. What waits is dropped.
    pub(super) fn end(&mut self, reason: Option<Error>) {
        self.waiting.clear();
        self.end = Some(End::Untold(reason));
    }

    /// Whether a message was handed out since the consumer began at this broker.
    pub(super) fn was_used(&self) -> bool {
        self.used
    }

    /// Permits to return, once they are worth a command.
    pub(super) fn permits(&mut self) -> Option<u32> {
        self.asked = false;
        self.are_permits_due().then(|| std::mem::take(&mut self.freed))
    }

    fn are_permits_due(&self) -> bool {
        self.freed >= (self.queue / 2).max(1)
    }

    /// The broker has confirmed an acknowledgement: what it covers can come again only if somebody wants it to.
    pub(super) fn settled(&mut self, ack: Ack) {
        self.held.settled(ack);
        self.adrift |= self.overcharged.is_some_and(|id| ack.covers(id));
    }

    /// Whether only beginning anew makes sure that more messages come. Not before what was counted wrong is done with, which
    /// would come again, and be counted again.
    pub(super) fn is_adrift(&self) -> bool {
        self.adrift
    }

    /// The consumer begins anew: what was not handed out comes again, if it is stored. The permits to begin with.
    pub(super) fn begin_anew(&mut self) -> u32 {
        if self.delivery != Delivery::Once {
            self.waiting.clear();
        }
        self.chunks.clear();
        (self.freed, self.arrived, self.stale) = (0, None, 0);
        (self.overcharged, self.adrift, self.used) = (None, false, false);
        self.queue.saturating_sub(self.waiting.len() as u32)
    }

    /// Everything that is not acknowledged comes again, and is handed out again.
    pub(super) fn forget(&mut self) {
        self.chunks.clear();
        match self.delivery {
            Delivery::Ordered => {
                self.free_from(0);
                self.held.clear();
                self.stale = self.queue.saturating_sub(self.freed) + 1;
            }
            Delivery::Shared => self.free_from(0),
            Delivery::Once => {}
        }
    }

    /// Lets go of what waits from this one on.
    fn free_from(&mut self, first: usize) {
        self.freed += (self.waiting.len() - first) as u32;
        self.waiting.truncate(first);
    }

    fn put(&mut self, id: MessageId, message: Result<Message, Error>) {
        let back = self.arrived.replace(id) >= Some(id);
        if self.delivery == Delivery::Ordered {
            if back {
                // The broker has gone back: all from here on comes again, also what is here.
                self.free_from(self.waiting.partition_point(|waiting| waiting.id < id));
                if std::mem::take(&mut self.stale) > 0 {
                    // So does what was on its way when everything was asked for again, and was handed out since.
                    self.held.clear();
                }
            }
            self.stale = self.stale.saturating_sub(1);
            if self.held.contains(id) {
                self.freed += 1;
                return;
            }
        }
        self.waiting.push_back(Waiting { id, message, _room: None });
    }

    fn unreadable(&self, id: MessageId, source: Option<WireError>) -> Error {
        Error::Unreadable { topic: Arc::clone(&self.topic), id, source }
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
            subscription: Arc::clone(&self.subscription),
        }
    }
}

/// How many messages a batch can hold whose payload has this size.
fn most_in(metadata: &MessageMetadata, size: usize) -> u32 {
    /// The size of the metadata, and metadata that says that the message is empty.
    const SMALLEST: usize = 4 + 2;
    /// What compression makes of many small messages that are alike, near enough.
    const DENSEST: usize = 1024;
    let said = metadata.uncompressed_size.map_or(0, |said| usize::try_from(said).unwrap_or(usize::MAX));
    let size = said.clamp(size, size.saturating_mul(DENSEST));
    u32::try_from(size / SMALLEST).unwrap_or(u32::MAX).max(1)
}

fn bit(set: &[i64], index: usize) -> bool {
    set.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{MessageIdData, batch};
    use std::time::Duration;

    fn inbox(delivery: Delivery) -> Inbox<()> {
        Inbox::new("t".into(), "s".into(), -1, 4, delivery)
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
        let mut inbox = inbox(Delivery::Ordered);
        assert_eq!(inbox.begin_anew(), 4);
        (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        inbox.hand_out();
        assert_eq!(inbox.permits(), None);
        inbox.hand_out();
        assert_eq!(inbox.permits(), Some(2));
        inbox.hand_out();
        assert_eq!(inbox.permits(), None);
    }

    #[test]
    fn what_was_handed_out_does_not_come_again_where_there_is_order() {
        let all = vec![(0, -1), (1, -1), (2, -1)];
        for (delivery, second) in [(Delivery::Ordered, vec![(2, -1)]), (Delivery::Shared, all)] {
            let mut inbox = inbox(delivery);
            (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
            inbox.hand_out();
            inbox.hand_out();
            inbox.begin_anew();
            (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
            assert_eq!(handed_out(&mut inbox), second);
            assert_eq!(inbox.permits(), Some(3), "what is left out frees its permit too");
        }
    }

    #[test]
    fn what_is_asked_for_again_is_not_left_out_because_of_what_was_on_its_way() {
        for handed_out_meanwhile in [0, 1, 2] {
            let mut inbox = inbox(Delivery::Ordered);
            inbox.begin_anew();
            (0..2).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
            inbox.hand_out();
            inbox.forget();
            (2..4).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
            (0..handed_out_meanwhile).for_each(|_| drop(inbox.hand_out()));
            (0..4).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
            assert_eq!(handed_out(&mut inbox), [(0, -1), (1, -1), (2, -1), (3, -1)]);
            inbox.begin_anew();
            (0..5).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
            assert_eq!(handed_out(&mut inbox), [(4, -1)], "and from then on as ever");
        }
    }

    #[test]
    fn what_was_acknowledged_and_comes_again_is_handed_out_again() {
        let mut inbox = inbox(Delivery::Ordered);
        (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        let ids: Vec<_> = std::iter::from_fn(|| inbox.hand_out()).map(|message| message.unwrap().id).collect();
        inbox.settled(Ack { id: ids[1], cumulative: true });
        inbox.begin_anew();
        (0..4).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        assert_eq!(handed_out(&mut inbox), [(0, -1), (1, -1), (3, -1)], "the third is held, and not acknowledged");
    }

    #[test]
    fn what_is_handed_out_after_everything_was_asked_for_again_is_left_out_as_ever() {
        let mut inbox = inbox(Delivery::Ordered);
        inbox.forget();
        (0..2).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        assert_eq!(handed_out(&mut inbox), [(0, -1), (1, -1)]);
        inbox.begin_anew();
        (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        assert_eq!(handed_out(&mut inbox), [(2, -1)]);
    }

    #[test]
    fn a_broker_that_goes_back_sends_again_what_waits_and_it_is_handed_out_once() {
        let mut inbox = inbox(Delivery::Ordered);
        (0..3).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        inbox.hand_out();
        (0..4).for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        assert_eq!(handed_out(&mut inbox), [(1, -1), (2, -1), (3, -1)]);
        assert_eq!(inbox.permits(), Some(3 + 4), "each that arrived frees its permit");
    }

    #[test]
    fn where_messages_are_shared_none_is_let_go_of_because_an_earlier_one_comes() {
        let mut inbox = inbox(Delivery::Shared);
        inbox.forget();
        [7, 3].into_iter().for_each(|entry| drop(inbox.arrive(&at(entry), Payload::default(), (), Instant::now())));
        assert_eq!(handed_out(&mut inbox), [(7, -1), (3, -1)]);
    }

    #[test]
    fn what_is_not_stored_stays_until_it_is_handed_out_whatever_its_id() {
        let mut inbox = inbox(Delivery::Once);
        (0..3).for_each(|_| drop(inbox.arrive(&at(0), Payload::default(), (), Instant::now())));
        assert!(inbox.hand_out().is_some());
        assert_eq!(inbox.begin_anew(), 2, "two places are taken");
        inbox.forget();
        inbox.arrive(&at(0), Payload::default(), (), Instant::now());
        assert_eq!(handed_out(&mut inbox), [(0, -1); 3]);
        assert_eq!(inbox.permits(), Some(3));
    }

    #[test]
    fn a_batch_is_handed_out_one_by_one_without_what_is_acknowledged() {
        let mut inbox = inbox(Delivery::Ordered);
        let command = wire::Message { ack_set: vec![0b101], ..at(7) };
        assert_eq!(inbox.arrive(&command, a_batch(3), (), Instant::now()).batch, Some(vec![false, true, false]));
        assert_eq!(handed_out(&mut inbox), [(7, 0), (7, 2)]);
        assert_eq!(inbox.permits(), Some(3));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_of_its_own() {
        let mut inbox = inbox(Delivery::Ordered);
        let metadata = MessageMetadata { compression: Some(Compression::Lz4 as i32), ..MessageMetadata::default() };
        inbox.arrive(&at(1), Payload { metadata, payload: Bytes::new() }, (), Instant::now());
        let torn = Payload { payload: Bytes::from_static(b"torn"), ..a_batch(2) };
        inbox.arrive(&at(2), torn, (), Instant::now());
        assert!(matches!(inbox.hand_out(), Some(Err(Error::Unreadable { source: None, .. }))));
        assert!(matches!(inbox.hand_out(), Some(Err(Error::Unreadable { source: Some(_), .. }))));
        assert_eq!(inbox.permits(), Some(2));
    }

    /// A chunk of a message of three.
    fn a_chunk(index: i32, total: i32) -> Payload {
        let metadata = MessageMetadata {
            uuid: Some("a".into()),
            chunk_id: Some(index),
            num_chunks_from_msg: Some(3),
            total_chunk_msg_size: Some(total),
            ..MessageMetadata::default()
        };
        Payload { metadata, payload: Bytes::from_static(b"ab") }
    }

    #[test]
    fn chunk_of_a_message_that_is_compressed_encrypted_or_above_128_mib_cannot_be_read() {
        const LIMIT: i32 = 128 << 20;
        let compressed = |mut chunk: Payload| {
            chunk.metadata.compression = Some(Compression::Zlib as i32);
            chunk
        };
        let encrypted = |mut chunk: Payload| {
            chunk.metadata.encryption_algo = Some("AES".into());
            chunk
        };
        for (chunk, is_readable) in [
            (a_chunk(0, 6), true),
            (compressed(a_chunk(0, 6)), false),
            (encrypted(a_chunk(0, 6)), false),
            (a_chunk(0, LIMIT), true),
            (a_chunk(0, LIMIT + 1), false),
            (a_chunk(0, -1), false),
        ] {
            let mut inbox = inbox(Delivery::Ordered);
            let shown = format!("{:?}", chunk.metadata);
            inbox.arrive(&at(1), chunk, (), Instant::now());
            match inbox.hand_out() {
                None => assert!(is_readable, "{shown}"),
                Some(Err(Error::Unreadable { id, source: None, .. })) => {
                    assert!(!is_readable && id.entry == 1, "{shown}")
                }
                other => panic!("{other:?}: {shown}"),
            }
        }
    }

    #[test]
    fn incomplete_message_expires_when_another_message_arrives_a_minute_later() {
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        for (wait, assembled) in [(minute - Duration::from_secs(1), true), (minute, false)] {
            let mut inbox = inbox(Delivery::Shared);
            (0..2).for_each(|index| drop(inbox.arrive(&at(index as u64), a_chunk(index, 6), (), start)));
            inbox.arrive(&at(7), Payload::default(), (), start + wait);
            assert_eq!(handed_out(&mut inbox), [(7, -1)]);
            inbox.arrive(&at(2), a_chunk(2, 6), (), start + wait);
            assert_eq!(handed_out(&mut inbox), if assembled { vec![(2, -1)] } else { vec![] });
        }
    }

    /// A batch that cannot be read, which says that it holds so many messages, of so many bytes before compression.
    fn compressed(count: i32, uncompressed_size: u32) -> Payload {
        let metadata = MessageMetadata {
            compression: Some(Compression::Zstd as i32),
            num_messages_in_batch: Some(count),
            uncompressed_size: Some(uncompressed_size),
            ..MessageMetadata::default()
        };
        Payload { metadata, payload: Bytes::from_static(b"compressed") }
    }

    #[test]
    fn a_batch_that_cannot_be_read_frees_what_the_broker_counted() {
        let mut inbox = inbox(Delivery::Ordered);
        let id = inbox.arrive(&at(1), compressed(1000, 20_000), (), Instant::now()).id;
        assert!(inbox.hand_out().is_some_and(|message| message.is_err()));
        assert_eq!(inbox.permits(), Some(1000));
        inbox.settled(Ack { id, cumulative: false });
        assert!(!inbox.is_adrift());
    }

    #[test]
    fn a_batch_that_cannot_be_read_does_not_free_more_than_it_can_hold() {
        for (count, size, freed) in
            [(i32::MAX, 0, 1), (i32::MAX, u32::MAX, 10 * 1024 / 6), (7, 36, 6), (i32::MIN, 0, 1), (0, 60, 1)]
        {
            let mut inbox = inbox(Delivery::Ordered);
            let id = inbox.arrive(&at(1), compressed(count, size), (), Instant::now()).id;
            assert!(inbox.hand_out().is_some_and(|message| message.is_err()));
            assert_eq!(inbox.freed, freed, "{count} in {size}");
            assert!(!inbox.is_adrift());
            inbox.settled(Ack { id, cumulative: true });
            assert_eq!(inbox.is_adrift(), count > 1, "once it is done with, the count is set right");
            inbox.begin_anew();
            assert!(!inbox.is_adrift());
        }
    }

    #[test]
    fn a_batch_of_none_is_a_message_that_cannot_be_read() {
        for count in [0, i32::MIN] {
            let mut inbox = inbox(Delivery::Ordered);
            let metadata = MessageMetadata { num_messages_in_batch: Some(count), ..MessageMetadata::default() };
            inbox.arrive(&at(1), Payload { metadata, payload: Bytes::new() }, (), Instant::now());
            assert!(matches!(inbox.hand_out(), Some(Err(Error::Unreadable { source: Some(_), .. }))));
        }
    }
}
