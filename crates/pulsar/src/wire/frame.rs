//! Frames: a command, and for some the message behind it, as bytes.
//!
//! ```text
//! u32 total | u32 size | command                                            total counts what follows it
//! ... | 0x0e02 u32 size broker entry | 0x0e01 u32 crc32c | u32 size | metadata | payload
//!        only if asked for             may be missing      ^-------- covered by crc --------^
//! ```

use super::command::{BaseCommand, Command, CommandType, Ping, Pong};
use super::error::WireError;
use super::message::MessageMetadata;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message as _;

/// The largest message, if the broker does not say: 5 MiB.
pub const DEFAULT_MAX_MESSAGE_SIZE: usize = 5 * 1024 * 1024;
/// The largest message, whatever the broker says: 256 MiB.
pub const MOST_MESSAGE_SIZE: usize = 256 * 1024 * 1024;
/// What a frame may have beyond its message.
pub const FRAME_ALLOWANCE: usize = 10 * 1024;

/// Room for a frame is made in steps of what is there already, and at least this.
const LEAST_ROOM: usize = 64 * 1024;
const CHECKSUM: u16 = 0x0e01;
const BROKER_ENTRY: u16 = 0x0e02;

/// A command, and the message behind it if it is one that has a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The command.
    pub command: BaseCommand,
    /// The message behind it.
    pub message: Option<Payload>,
}

/// A message, or a batch of them, as it stands behind a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Payload {
    /// What its producer says of it.
    pub metadata: MessageMetadata,
    /// The message itself.
    pub payload: Bytes,
}

impl Frame {
    /// A command with a message behind it.
    pub fn with_message(command: impl Into<BaseCommand>, message: Payload) -> Frame {
        Frame { command: command.into(), message: Some(message) }
    }
}

/// A command by itself.
impl<C: Into<BaseCommand>> From<C> for Frame {
    fn from(command: C) -> Frame {
        Frame { command: command.into(), message: None }
    }
}

/// Makes bytes of frames and frames of bytes, none larger than agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    limit: usize,
}

impl Default for Codec {
    fn default() -> Codec {
        Codec::new(DEFAULT_MAX_MESSAGE_SIZE)
    }
}

impl Codec {
    /// A codec for messages of at most this many bytes; frames may have [`FRAME_ALLOWANCE`] more.
    pub fn new(max_message_size: usize) -> Codec {
        // The size of a frame is a u32.
        Codec { limit: max_message_size.saturating_add(FRAME_ALLOWANCE).min(u32::MAX as usize) }
    }

    /// The largest frame, its first four bytes aside.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Appends a frame to `bytes`.
    ///
    /// # Errors
    /// When it is too large; nothing is appended then.
    pub fn encode(&self, frame: &Frame, bytes: &mut BytesMut) -> Result<(), WireError> {
        let total = self.measure(frame)?;
        bytes.reserve(4 + total);
        bytes.put_u32(total as u32);
        bytes.put_u32(frame.command.encoded_len() as u32);
        frame.command.encode_raw(bytes);
        if let Some(message) = &frame.message {
            bytes.put_u16(CHECKSUM);
            let checksum_at = bytes.len();
            bytes.put_u32(0);
            bytes.put_u32(message.metadata.encoded_len() as u32);
            message.metadata.encode_raw(bytes);
            bytes.put_slice(&message.payload);
            let checksum = crc32c::crc32c(&bytes[checksum_at + 4..]);
            bytes[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_be_bytes());
        }
        Ok(())
    }

    /// How large a frame is, its first four bytes aside.
    ///
    /// # Errors
    /// When that is too large.
    pub fn measure(&self, frame: &Frame) -> Result<usize, WireError> {
        let behind = frame.message.as_ref().map_or(0, |message| {
            let metadata = message.metadata.encoded_len();
            2 + 4 + 4 + metadata + message.payload.len()
        });
        let size = 4 + frame.command.encoded_len() + behind;
        if size > self.limit {
            return Err(WireError::TooLarge { size, limit: self.limit });
        }
        Ok(size)
    }

    /// Takes the first frame out of `bytes`; `None` while it is not there as a whole.
    ///
    /// # Errors
    /// When these bytes are no frame. `bytes` is of no use then.
    pub fn decode(&self, bytes: &mut BytesMut) -> Result<Option<Frame>, WireError> {
        let Some(announced) = bytes.first_chunk::<4>() else { return Ok(None) };
        let total = u32::from_be_bytes(*announced) as usize;
        if total > self.limit {
            return Err(WireError::TooLarge { size: total, limit: self.limit });
        }
        if bytes.len() < 4 + total {
            // A frame that is announced may never come.
            bytes.reserve((4 + total - bytes.len()).min(bytes.len().max(LEAST_ROOM)));
            return Ok(None);
        }
        bytes.advance(4);
        let mut frame = bytes.split_to(total).freeze();
        let command = sized("command", &mut frame)?;
        let mut command = BaseCommand::decode(command).map_err(malformed("the command"))?;
        settle(&mut command)?;
        let message = match command.body {
            Some(Command::Send(_) | Command::Message(_)) if frame.is_empty() => {
                return Err(WireError::NoMessage { kind: command.kind });
            }
            Some(Command::Send(_) | Command::Message(_)) => Some(message(frame)?),
            Some(_) if !frame.is_empty() => {
                return Err(WireError::Trailing { kind: command.kind, size: frame.len() });
            }
            // Of a command that is not known here, nobody can say what stands behind it.
            Some(_) | None => None,
        };
        Ok(Some(Frame { command, message }))
    }
}

/// Type and body are to say the same. Only a ping or pong is known by its type alone.
fn settle(command: &mut BaseCommand) -> Result<(), WireError> {
    match &command.body {
        Some(body) if body.command_type() as i32 != command.kind => {
            Err(WireError::Mismatched { declared: command.kind, found: body.command_type() as i32 })
        }
        Some(_) => Ok(()),
        None => {
            match command.command_type() {
                Some(CommandType::Ping) => command.body = Some(Command::Ping(Ping {})),
                Some(CommandType::Pong) => command.body = Some(Command::Pong(Pong {})),
                _ => {}
            }
            Ok(())
        }
    }
}

fn message(mut frame: Bytes) -> Result<Payload, WireError> {
    if starts_with(&frame, BROKER_ENTRY) {
        frame.advance(2);
        sized("broker entry", &mut frame)?;
    }
    if starts_with(&frame, CHECKSUM) {
        frame.advance(2);
        if frame.len() < 4 {
            return Err(WireError::Short { part: "checksum", wanted: 4, left: frame.len() });
        }
        let announced = frame.get_u32();
        let computed = crc32c::crc32c(&frame);
        if announced != computed {
            return Err(WireError::Checksum { announced, computed });
        }
    }
    let metadata = sized("metadata", &mut frame)?;
    let metadata = MessageMetadata::decode(metadata).map_err(malformed("the metadata of a message"))?;
    Ok(Payload { metadata, payload: frame })
}

/// A size that began with one of these would be far beyond any limit, so there is no mistaking one for the other.
fn starts_with(frame: &Bytes, magic: u16) -> bool {
    frame.first_chunk::<2>().is_some_and(|first| u16::from_be_bytes(*first) == magic)
}

/// A part with its size before it.
pub(super) fn sized(part: &'static str, frame: &mut Bytes) -> Result<Bytes, WireError> {
    if frame.len() < 4 {
        return Err(WireError::Short { part, wanted: 4, left: frame.len() });
    }
    let size = frame.get_u32() as usize;
    if size > frame.len() {
        return Err(WireError::Short { part, wanted: size, left: frame.len() });
    }
    Ok(frame.split_to(size))
}

pub(super) fn malformed(part: &'static str) -> impl FnOnce(prost::DecodeError) -> WireError {
    move |source| WireError::Malformed { part, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Lookup, Send, Success};

    fn encoded(frame: &Frame) -> BytesMut {
        let mut bytes = BytesMut::new();
        Codec::default().encode(frame, &mut bytes).unwrap();
        bytes
    }

    fn a_send() -> Frame {
        let metadata = MessageMetadata { producer_name: "p".into(), sequence_id: 3, ..MessageMetadata::default() };
        let send = Send { producer_id: 1, sequence_id: 3, ..Send::default() };
        Frame::with_message(send, Payload { metadata, payload: Bytes::from_static(b"hello") })
    }

    #[test]
    fn a_ping_has_the_bytes_that_a_broker_expects() {
        assert_eq!(&encoded(&Ping {}.into())[..], [0, 0, 0, 9, 0, 0, 0, 5, 0x08, 18, 0x92, 0x01, 0]);
    }

    #[test]
    fn a_message_without_checksum_or_with_a_broker_entry_is_read() {
        let bytes = encoded(&a_send());
        let command = 4 + u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let head = &bytes[4..4 + command];
        let rebuilt = |middle: &[u8], rest: &[u8]| {
            let mut rebuilt = BytesMut::new();
            rebuilt.put_u32((head.len() + middle.len() + rest.len()) as u32);
            rebuilt.put_slice(head);
            rebuilt.put_slice(middle);
            rebuilt.put_slice(rest);
            Codec::default().decode(&mut rebuilt).unwrap().unwrap()
        };
        assert_eq!(rebuilt(&[], &bytes[4 + command + 6..]), a_send());
        assert_eq!(rebuilt(&[0x0e, 0x02, 0, 0, 0, 2, 8, 1], &bytes[4 + command..]), a_send());
    }

    #[test]
    fn a_changed_byte_behind_the_checksum_is_noticed() {
        let mut bytes = encoded(&a_send());
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(matches!(Codec::default().decode(&mut bytes), Err(WireError::Checksum { .. })));
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_before_it_is_there() {
        let mut bytes = BytesMut::from(&[0x7f, 0, 0, 0][..]);
        let limit = Codec::default().limit();
        assert_eq!(Codec::default().decode(&mut bytes), Err(WireError::TooLarge { size: 0x7f00_0000, limit }));
        let frame = Frame::with_message(
            Send::default(),
            Payload { payload: Bytes::from(vec![0; limit]), ..Payload::default() },
        );
        let mut bytes = BytesMut::new();
        assert!(matches!(Codec::default().encode(&frame, &mut bytes), Err(WireError::TooLarge { .. })));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_frame_that_is_announced_takes_no_more_room_than_has_arrived() {
        let codec = Codec::new(MOST_MESSAGE_SIZE);
        let mut bytes = BytesMut::from(&[0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 5][..]);
        assert_eq!(codec.decode(&mut bytes), Ok(None));
        assert!(bytes.capacity() <= 2 * LEAST_ROOM, "{}", bytes.capacity());
        bytes.resize(1024 * 1024, 0);
        assert_eq!(codec.decode(&mut bytes), Ok(None));
        assert!(bytes.capacity() <= 4 * 1024 * 1024, "{}", bytes.capacity());
    }

    #[test]
    fn an_unknown_command_is_no_error_and_what_stands_behind_it_is_skipped() {
        let unknown = BaseCommand { kind: 61, body: None };
        let mut bytes = encoded(&unknown.clone().into());
        bytes[3] += 3;
        bytes.put_slice(b"xyz");
        bytes.unsplit(encoded(&Success { request_id: 5 }.into()));
        let codec = Codec::default();
        assert_eq!(codec.decode(&mut bytes).unwrap().unwrap().command, unknown);
        assert_eq!(codec.decode(&mut bytes).unwrap(), Some(Success { request_id: 5 }.into()));
        assert_eq!(codec.decode(&mut bytes).unwrap(), None);
    }

    #[test]
    fn a_command_that_is_not_what_it_says_is_refused() {
        let lookup = BaseCommand { kind: 5, body: Some(Command::Lookup(Lookup::default())) };
        let refused = Codec::default().decode(&mut encoded(&lookup.into()));
        assert_eq!(refused, Err(WireError::Mismatched { declared: 5, found: 23 }));
    }

    #[test]
    fn a_send_without_a_message_and_a_lookup_with_one_are_refused() {
        let codec = Codec::default();
        let bare: Frame = Send::default().into();
        assert_eq!(codec.decode(&mut encoded(&bare)), Err(WireError::NoMessage { kind: 6 }));
        let laden = Frame::with_message(Lookup::default(), Payload::default());
        assert!(matches!(codec.decode(&mut encoded(&laden)), Err(WireError::Trailing { kind: 23, .. })));
    }
}
