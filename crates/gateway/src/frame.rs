//! WebSocket frames as a server sends them: not masked, not compressed, each message in one.

use bytes::{BufMut, Bytes, BytesMut};

/// A ping without content.
pub(crate) const PING: &[u8] = &[0x89, 0];

/// Ends a message that is all in this frame, of text.
const TEXT: u8 = 0x81;

/// A text message, as it goes over the wire: written once, sent to many.
pub(crate) fn text(text: &str) -> Bytes {
    let mut frame = BytesMut::with_capacity(text.len() + 10);
    frame.put_u8(TEXT);
    match text.len() {
        short @ 0..126 => frame.put_u8(short as u8),
        medium @ 126..0x1_0000 => {
            frame.put_u8(126);
            frame.put_u16(medium as u16);
        }
        long => {
            frame.put_u8(127);
            frame.put_u64(long as u64);
        }
    }
    frame.put_slice(text.as_bytes());
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_fewest_bytes_that_hold_them() {
        for (length, header) in [
            (0, &[TEXT, 0][..]),
            (125, &[TEXT, 125]),
            (126, &[TEXT, 126, 0, 126]),
            (0xffff, &[TEXT, 126, 0xff, 0xff]),
            (0x1_0000, &[TEXT, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let message = "x".repeat(length);
            let frame = text(&message);
            assert_eq!(&frame[..header.len()], header);
            assert_eq!(&frame[header.len()..], message.as_bytes());
        }
    }
}
