//! A message as the frame that is sent, and sent again.

use super::outgoing::Outgoing;
use super::task::Identity;
use crate::wire::{self, Codec, Frame, KeyValue, MessageMetadata, Payload};
use bytes::{Bytes, BytesMut};
use prost::Message as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// A frame, and how large the broker thinks it is.
#[derive(Clone)]
pub(super) struct Encoded {
    pub(super) frame: Bytes,
    pub(super) size: usize,
}

pub(super) fn encode(who: &Identity, sequence_id: u64, message: &Outgoing) -> Encoded {
    let publish_time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let properties = message.properties.iter().cloned();
    let metadata = MessageMetadata {
        producer_name: who.name.clone().unwrap_or_default(),
        sequence_id,
        publish_time,
        properties: properties.map(|(key, value)| KeyValue { key, value }).collect(),
        partition_key: message.key.clone(),
        event_time: message.event_time,
        ..MessageMetadata::default()
    };
    let size = metadata.encoded_len() + message.payload.len();
    let send = wire::Send { producer_id: who.id, sequence_id, num_messages: Some(1), ..wire::Send::default() };
    let frame = Frame::with_message(send, Payload { metadata, payload: message.payload.clone() });
    let mut bytes = BytesMut::new();
    // Without a limit of its own: what a broker takes is asked before each sending.
    match Codec::new(usize::MAX).encode(&frame, &mut bytes) {
        Ok(()) => Encoded { frame: bytes.freeze(), size },
        // Over four gigabytes: too large for any broker.
        Err(_) => Encoded { frame: Bytes::from_static(&[0; 4]), size: usize::MAX },
    }
}
