//! Frames: a byte of flags, a length in one byte or in eight, and that many bytes.

use super::error::ZmtpError;
use bytes::{Buf, BufMut, Bytes, BytesMut};

const MORE: u8 = 0b001;
const LONG: u8 = 0b010;
const COMMAND: u8 = 0b100;
const RESERVED: u8 = 0b1111_1000;

/// A frame. In the channel the flags that matter are inside, encrypted; outside they matter in the handshake alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// It is a command, and a whole one: not a message, nor a part of anything.
    pub(crate) command: bool,
    pub(crate) body: Bytes,
}

/// Appends a frame whose body is made of these pieces.
pub(crate) fn encode(command: bool, pieces: &[&[u8]], bytes: &mut BytesMut) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    let flags = if command { COMMAND } else { 0 };
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

/// Takes the first frame out of `bytes`; `None` while it is not there as a whole. One above `limit` is refused as soon as it
/// is announced.
pub(crate) fn decode(bytes: &mut BytesMut, limit: usize) -> Result<Option<Frame>, ZmtpError> {
    let Some(&flags) = bytes.first() else { return Ok(None) };
    if flags & RESERVED != 0 {
        return Err(ZmtpError::Flags { flags });
    }
    let (head, size) = if flags & LONG == 0 {
        let Some(&size) = bytes.get(1) else { return Ok(None) };
        (2, u64::from(size))
    } else {
        let Some(size) = bytes.get(1..9).and_then(|size| size.first_chunk()) else { return Ok(None) };
        (9, u64::from_be_bytes(*size))
    };
    let size = usize::try_from(size).ok().filter(|size| *size <= limit).ok_or(ZmtpError::TooLarge { size, limit })?;
    if bytes.len() < head + size {
        bytes.reserve(head + size - bytes.len());
        return Ok(None);
    }
    bytes.advance(head);
    Ok(Some(Frame { command: flags & (COMMAND | MORE) == COMMAND, body: bytes.split_to(size).freeze() }))
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
