//! Whatever the bytes, the codec neither panics nor forgets; whatever the frame, it comes back as it was.
//!
//! `CAROM_SEED=n` reruns a failure, `CAROM_SCHEDULES=n` runs more.

use bytes::{Bytes, BytesMut};
use carom_core::random::Random;
use carom_pulsar::wire::{
    Ack, BaseCommand, CloseProducer, Codec, Failure, Flow, Frame, KeyValue, Lookup, LookupResponse, Message,
    MessageIdData, MessageMetadata, Payload, Ping, Send, SingleMessageMetadata, Subscribe, batch, unbatch,
};
use testkit::cases::{bytes, cases};

/// Chance that makes frames.
struct Chance(Random);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        bytes(&mut self.0, longest + 1)
    }

    fn text(&mut self) -> String {
        (0..self.below(12)).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Chance) -> T) -> Option<T> {
        (self.next() & 1 == 0).then(|| make(self))
    }

    fn id(&mut self) -> MessageIdData {
        MessageIdData {
            ledger_id: self.next(),
            entry_id: self.next(),
            partition: self.maybe(|chance| chance.next() as i32),
            batch_index: self.maybe(|chance| chance.next() as i32),
            ack_set: (0..self.below(3)).map(|_| self.next() as i64).collect(),
            batch_size: None,
            first_chunk_message_id: self
                .maybe(|chance| Box::new(MessageIdData { ledger_id: chance.next(), ..Default::default() })),
        }
    }

    fn payload(&mut self) -> Payload {
        let metadata = MessageMetadata {
            producer_name: self.text(),
            sequence_id: self.next(),
            publish_time: self.next(),
            properties: (0..self.below(3)).map(|_| KeyValue { key: self.text(), value: self.text() }).collect(),
            partition_key: self.maybe(Chance::text),
            ordering_key: self.maybe(|chance| chance.bytes(9).into()),
            ..Default::default()
        };
        Payload { metadata, payload: self.bytes(200).into() }
    }

    fn frame(&mut self) -> Frame {
        let (a, b) = (self.next(), self.next());
        match self.below(10) {
            0 => Ping {}.into(),
            1 => Lookup { topic: self.text(), request_id: a, authoritative: Some(true), ..Default::default() }.into(),
            2 => LookupResponse { broker_service_url: Some(self.text()), request_id: a, ..Default::default() }.into(),
            3 => Frame::with_message(Send { producer_id: a, sequence_id: b, ..Default::default() }, self.payload()),
            4 => Frame::with_message(
                Message { consumer_id: a, message_id: self.id(), ack_set: vec![-1, b as i64], ..Default::default() },
                self.payload(),
            ),
            5 => Ack { consumer_id: a, message_id: vec![self.id(), self.id()], ..Default::default() }.into(),
            6 => {
                Subscribe { topic: self.text(), subscription: self.text(), consumer_id: a, ..Default::default() }.into()
            }
            7 => Failure { request_id: a, error: b as i32, message: self.text() }.into(),
            8 => Flow { consumer_id: a, message_permits: b as u32 }.into(),
            _ => CloseProducer { producer_id: a, assigned_broker_service_url: Some(self.text()), ..Default::default() }
                .into(),
        }
    }
}

fn rounds(test: impl Fn(&mut Chance)) {
    for (_case, random) in cases(2_000) {
        test(&mut Chance(random));
    }
}

#[test]
fn frames_come_back_as_they_were_however_the_bytes_arrive() {
    rounds(|chance| {
        let codec = Codec::new(4096);
        let frames: Vec<Frame> = (0..1 + chance.below(5)).map(|_| chance.frame()).collect();
        let mut sent = BytesMut::new();
        for frame in &frames {
            codec.encode(frame, &mut sent).unwrap();
        }
        let (mut arrived, mut read) = (BytesMut::new(), Vec::new());
        while !sent.is_empty() {
            let piece = 1 + chance.below(sent.len());
            arrived.extend_from_slice(&sent.split_to(piece));
            while let Some(frame) = codec.decode(&mut arrived).unwrap() {
                read.push(frame);
            }
        }
        assert_eq!(read, frames);
        assert!(arrived.is_empty());
    });
}

#[test]
fn no_bytes_make_the_codec_panic_or_reserve_beyond_the_limit() {
    rounds(|chance| {
        let codec = Codec::new(4096);
        let mut bytes = BytesMut::from(&chance.bytes(300)[..]);
        if chance.next() & 1 == 0 && bytes.len() >= 8 {
            // Sizes that fit, so that more than the first check is reached.
            let total = bytes.len() as u32 - 4;
            bytes[..4].copy_from_slice(&total.to_be_bytes());
            let command = chance.below(total as usize) as u32;
            bytes[4..8].copy_from_slice(&command.to_be_bytes());
        }
        while let Ok(Some(_)) = codec.decode(&mut bytes) {}
        assert!(bytes.capacity() <= 2 * (codec.limit() + 4));
        let _ = unbatch(chance.next() as i32 % 50, Bytes::from(chance.bytes(100)));
    });
}

#[test]
fn a_frame_with_a_changed_byte_is_another_frame_or_an_error_and_never_a_panic() {
    rounds(|chance| {
        let codec = Codec::new(4096);
        let frame = chance.frame();
        let mut bytes = BytesMut::new();
        codec.encode(&frame, &mut bytes).unwrap();
        let at = chance.below(bytes.len());
        bytes[at] ^= 1 << chance.below(8);
        let _ = codec.decode(&mut bytes);
    });
}

#[test]
fn batches_come_apart_as_they_were_put_together() {
    rounds(|chance| {
        let messages: Vec<_> = (0..1 + chance.below(6))
            .map(|_| {
                let payload = Bytes::from(chance.bytes(40));
                let metadata = SingleMessageMetadata {
                    partition_key: chance.maybe(Chance::text),
                    payload_size: payload.len() as i32,
                    sequence_id: chance.maybe(Chance::next),
                    ..Default::default()
                };
                (metadata, payload)
            })
            .collect();
        assert_eq!(unbatch(messages.len() as i32, batch(messages.clone())).unwrap(), messages);
    });
}

#[test]
fn unknown_types_are_kept_as_numbers() {
    let codec = Codec::default();
    for kind in [0, 1, 25, 28, 39, 70, -1, i32::MAX] {
        let mut bytes = BytesMut::new();
        codec.encode(&BaseCommand { kind, body: None }.into(), &mut bytes).unwrap();
        let frame = codec.decode(&mut bytes).unwrap().unwrap();
        assert_eq!((frame.command.kind, frame.command.body), (kind, None));
    }
}
