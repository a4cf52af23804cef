//! Batches: several messages in the place of one.

use super::error::WireError;
use super::frame::{malformed, sized};
use super::message::SingleMessageMetadata;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

/// Packs messages into one payload; its metadata is to say how many there are (`num_messages_in_batch`). The sizes in the
/// metadata are filled in.
pub fn batch(messages: impl IntoIterator<Item = (SingleMessageMetadata, Bytes)>) -> Bytes {
    let mut bytes = BytesMut::new();
    for (mut metadata, payload) in messages {
        metadata.payload_size = i32::try_from(payload.len()).unwrap_or(i32::MAX);
        bytes.put_u32(metadata.encoded_len() as u32);
        metadata.encode_raw(&mut bytes);
        bytes.put_slice(&payload);
    }
    bytes.freeze()
}

/// Takes a payload apart that holds `count` messages. They share its memory.
///
/// # Errors
/// When it does not hold that many.
pub fn unbatch(count: i32, mut payload: Bytes) -> Result<Vec<(SingleMessageMetadata, Bytes)>, WireError> {
    if count < 1 {
        return Err(WireError::EmptyBatch { count });
    }
    let mut messages = Vec::new();
    for _ in 0..count {
        let metadata = sized("batch", &mut payload)?;
        let metadata =
            SingleMessageMetadata::decode(metadata).map_err(malformed("the metadata of a message in a batch"))?;
        let size = usize::try_from(metadata.payload_size).unwrap_or(usize::MAX);
        if size > payload.len() {
            return Err(WireError::Short { part: "message of a batch", wanted: size, left: payload.len() });
        }
        messages.push((metadata, payload.split_to(size)));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_apart_as_it_was_put_together() {
        let one = |key: &str, payload: &'static [u8]| {
            let metadata = SingleMessageMetadata {
                partition_key: Some(key.into()),
                payload_size: payload.len() as i32,
                ..SingleMessageMetadata::default()
            };
            (metadata, Bytes::from_static(payload))
        };
        let messages = vec![one("a", b"first"), one("b", b""), one("c", b"third")];
        assert_eq!(unbatch(3, batch(messages.clone())).unwrap(), messages);
        assert!(matches!(unbatch(4, batch(messages)), Err(WireError::Short { part: "batch", .. })));
    }

    #[test]
    fn a_batch_of_none_is_refused() {
        for count in [0, -1, i32::MIN] {
            assert_eq!(unbatch(count, Bytes::from_static(b"xx")), Err(WireError::EmptyBatch { count }));
        }
    }

    #[test]
    fn a_size_below_nothing_is_refused() {
        let metadata = SingleMessageMetadata { payload_size: -1, ..SingleMessageMetadata::default() };
        let mut bytes = BytesMut::new();
        bytes.put_u32(metadata.encoded_len() as u32);
        metadata.encode_raw(&mut bytes);
        assert!(matches!(unbatch(1, bytes.freeze()), Err(WireError::Short { .. })));
    }
}
