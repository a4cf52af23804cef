//! Frames: a byte of flags, a length in one byte or in eight, and that many bytes.

use crate::error::ZmtpError;
use bytes::{Buf, BufMut, Bytes, BytesMut};

const MORE: u8 = 0b001;
const LONG: u8 = 0b010;
const COMMAND: u8 = 0b100;
const RESERVED: u8 = 0b1111_1000;
/// Room that is made for a frame that has only been announced.
const AT_LEAST: usize = 64 * 1024;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// It is a command, and a whole one: not a message, nor a part of anything.
    pub(crate) command: bool,
    pub(crate) body: Bytes,
}

/// What stands before the body of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    flags: u8,
    /// How long it is itself.
    pub(crate) length: usize,
    /// How long the body is.
    pub(crate) size: u64,
}

impl Head {
    /// Whether it is a command, and a whole one.
    pub(crate) fn is_command(self) -> bool {
        self.flags & (COMMAND | MORE) == COMMAND
    }

    /// Whether it is a message or a part of one.
    pub(crate) fn is_message(self) -> bool {
        self.flags & COMMAND == 0
    }

    /// Whether more parts of its message follow.
    pub(crate) fn has_more(self) -> bool {
        self.flags & MORE != 0
    }

    /// The size, if it is not above the limit.
    pub(crate) fn within(self, limit: usize) -> Result<usize, ZmtpError> {
        let size = usize::try_from(self.size).ok().filter(|size| *size <= limit);
        size.ok_or(ZmtpError::TooLarge { size: self.size, limit })
    }
}

/// Appends a frame whose body is made of these pieces.
pub(crate) fn encode(command: bool, pieces: &[&[u8]], bytes: &mut BytesMut) {
    encode_flagged(if command { COMMAND } else { 0 }, pieces, bytes);
}

/// Appends a message of these parts, a frame for each.
pub(crate) fn encode_parts(parts: &[&[u8]], bytes: &mut BytesMut) {
    for (index, part) in parts.iter().enumerate() {
        let flags = if index + 1 < parts.len() { MORE } else { 0 };
        encode_flagged(flags, &[part], bytes);
    }
}

fn encode_flagged(flags: u8, pieces: &[&[u8]], bytes: &mut BytesMut) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    bytes.reserve(9 + size);
    match u8::try_from(size) {
        Ok(size) => bytes.put_slice(&[flags, size]),
        Err(_) => {
            bytes.put_u8(flags | LONG);
            bytes.put_u64(size as u64);
        }
    }
    for piece in pieces {
        bytes.put_slice(piece);
    }
}

/// Reads the head of the first frame in `bytes`; `None` while it is not there as a whole.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>, ZmtpError> {
    let Some(&flags) = bytes.first() else { return Ok(None) };
    if flags & RESERVED != 0 {
        return Err(ZmtpError::Flags { flags });
    }
    let (length, size) = if flags & LONG == 0 {
        let Some(&size) = bytes.get(1) else { return Ok(None) };
        (2, u64::from(size))
    } else {
        let Some(size) = bytes.get(1..9).and_then(|size| size.first_chunk()) else { return Ok(None) };
        (9, u64::from_be_bytes(*size))
    };
    Ok(Some(Head { flags, length, size }))
}

/// Takes the first frame out of `bytes`; `None` while it is not there as a whole. One above `limit` is refused as soon as it
/// is announced.
pub(crate) fn decode(bytes: &mut BytesMut, limit: usize) -> Result<Option<Frame>, ZmtpError> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    let size = head.within(limit)?;
    Ok(body(bytes, head, size).map(|body| Frame { command: head.is_command(), body }))
}

/// Takes the first frame, of which this is the head and the size, out of `bytes`; `None` while it is not there as a whole.
pub(crate) fn body(bytes: &mut BytesMut, head: Head, size: usize) -> Option<Bytes> {
    let whole = head.length + size;
    if bytes.len() < whole {
        // As much again as has come: a peer that announces a long frame and sends nothing takes little memory.
        bytes.reserve((whole - bytes.len()).min(bytes.len().max(AT_LEAST)));
        return None;
    }
    bytes.advance(head.length);
    Some(bytes.split_to(size).freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_however_long() {
        for size in [0, 1, 255, 256, 70_000] {
            for command in [false, true] {
                let body = vec![7; size];
                let mut bytes = BytesMut::new();
                encode(command, &[&body[..size / 2], &body[size / 2..]], &mut bytes);
                let last = bytes.split_off(bytes.len() - 1);
                assert_eq!(decode(&mut bytes, 70_000), Ok(None));
                bytes.unsplit(last);
                assert_eq!(decode(&mut bytes, 70_000), Ok(Some(Frame { command, body: body.into() })));
                assert!(bytes.is_empty());
            }
        }
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_before_it_is_there() {
        let mut bytes = BytesMut::from(&[LONG, 0xff, 0, 0, 0, 0, 0, 0, 1][..]);
        assert_eq!(decode(&mut bytes, 100), Err(ZmtpError::TooLarge { size: 0xff00_0000_0000_0001, limit: 100 }));
        assert_eq!(decode(&mut BytesMut::from(&[0, 101][..]), 100), Err(ZmtpError::TooLarge { size: 101, limit: 100 }));
        assert_eq!(decode(&mut BytesMut::from(&[0x40, 1][..]), 100), Err(ZmtpError::Flags { flags: 0x40 }));
    }
}
