//! WebSocket as far as a load needs it: text frames there, whole messages back, as cheap as they can be read.

/// What comes before the frames, from a client.
pub const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A text frame from a client. Its mask is zero, which leaves the text as it is.
pub fn from_client(text: &str) -> Vec<u8> {
    framed(text, 0x80, &[0; 4])
}

/// A text frame from a server.
pub fn from_server(text: &str) -> Vec<u8> {
    framed(text, 0, &[])
}

fn framed(text: &str, masked: u8, mask: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81];
    match text.len() {
        length @ 0..126 => frame.push(masked | length as u8),
        length @ 126..=0xffff => {
            frame.push(masked | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(masked | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(text.as_bytes());
    frame
}

/// Bytes from a server, and how many of them were taken.
pub struct Frames<'a> {
    bytes: &'a [u8],
    pub taken: usize,
}

impl<'a> Frames<'a> {
    pub fn of(bytes: &'a [u8]) -> Frames<'a> {
        Frames { bytes, taken: 0 }
    }
}

/// The text of each frame that is there as a whole; control frames have none.
impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = &self.bytes[self.taken..];
            let [first, second, ..] = *rest else { return None };
            let (header, length): (usize, usize) = match second {
                126 => (4, usize::from(u16::from_be_bytes(*rest.get(2..)?.first_chunk()?))),
                127 => (10, u64::from_be_bytes(*rest.get(2..)?.first_chunk()?) as usize),
                length => (2, usize::from(length)),
            };
            let text = rest.get(header..header.checked_add(length)?)?;
            self.taken += header + length;
            if first & 0x0f < 8 {
                return Some(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_taken_as_a_whole_or_not_at_all() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let (text, next) = ("x".repeat(length), from_server("next"));
            let bytes = [from_server(&text), next.clone()].concat();
            let mut frames = Frames::of(&bytes);
            assert_eq!(frames.next(), Some(text.as_bytes()));
            assert_eq!(frames.next(), Some(&b"next"[..]));
            assert_eq!((frames.next(), frames.taken), (None, bytes.len()));
            let mut cut = Frames::of(&bytes[..bytes.len() - next.len() - 1]);
            assert_eq!((cut.next(), cut.taken), (None, 0));
        }
    }

    #[test]
    fn pings_are_passed_over() {
        let bytes = [&[0x89, 0][..], &from_server("text")].concat();
        assert_eq!(Frames::of(&bytes).next(), Some(&b"text"[..]));
    }

    #[test]
    fn a_client_says_that_it_masks() {
        assert_eq!(from_client("{}"), [0x81, 0x82, 0, 0, 0, 0, b'{', b'}']);
    }
}
