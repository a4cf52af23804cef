//! Kite's binary messages: packets as bytes and as types, both ways, without I/O.
//!
//! A message begins with a count (two bytes), and each packet with its length (two bytes); everything is big-endian. The length
//! says what is in a packet. One of another length is of a kind that was added later: it is skipped, not guessed at. A message of a
//! single byte is a heartbeat.
//!
//! ```
//! use carom_gateway::kite::packet::{self, Ltp, Message, Packet, Token};
//!
//! let sbin = Packet::Ltp(Ltp { token: Token(779_521), last_price: 81_205 });
//! let bytes = packet::message(&[sbin.clone()]).unwrap();
//! let Message::Packets(mut packets) = packet::read(&bytes).unwrap() else { panic!("no heartbeat") };
//! assert_eq!(packets.next().unwrap().unwrap(), sbin);
//! assert_eq!(sbin.token().decimals(), 2); // 812.05
//! ```
//!
//! # Signs
//!
//! Nothing says whether numbers have a sign. Here prices have one: that of a spread or of a commodity can fall below zero, an index
//! does fall, and half of the range is left, which is 21 million rupees, or 214 rupees for a currency. Quantities have none, as
//! more than two thousand million shares of one company are traded on some days.

mod body;
mod token;

pub use body::{Full, Index, Ltp, Order, Packet, Quote};
pub use token::{Segment, Token};

/// Most packets in one message.
pub const MOST: usize = u16::MAX as usize;

/// What a binary message is.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// The other side lives.
    Heartbeat,
    /// These.
    Packets(Packets<'a>),
}

/// The packets in a message. After one that is cut off there are no more; what follows the last is not looked at.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    left: u16,
    rest: &'a [u8],
}

/// Why something is no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The message ends before its last packet does.
    #[error("a message was cut off with {missing} packets to come")]
    CutOff {
        /// Packets that are not there, or not whole.
        missing: u16,
    },
    /// Packets of this length are not known.
    #[error("a packet of {length} bytes is of no known kind")]
    Unknown {
        /// Its length.
        length: u16,
    },
}

/// What this binary message is.
///
/// # Errors
/// When it is empty.
pub fn read(message: &[u8]) -> Result<Message<'_>, PacketError> {
    match message {
        [] => Err(PacketError::CutOff { missing: 0 }),
        [_] => Ok(Message::Heartbeat),
        [high, low, rest @ ..] => Ok(Message::Packets(Packets { left: u16::from_be_bytes([*high, *low]), rest })),
    }
}

/// The message with these packets; none if there are more than [`MOST`].
pub fn message(packets: &[Packet]) -> Option<Vec<u8>> {
    let count = u16::try_from(packets.len()).ok()?;
    let mut bytes = count.to_be_bytes().to_vec();
    for packet in packets {
        bytes.extend(packet.length().to_be_bytes());
        packet.write(&mut bytes);
    }
    Some(bytes)
}

impl<'a> Packets<'a> {
    /// How many there are still to be.
    pub fn left(&self) -> u16 {
        self.left
    }

    /// The next one as it is written.
    fn body(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let (body, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = rest;
        Some(body)
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Packet, PacketError>;

    fn next(&mut self) -> Option<Result<Packet, PacketError>> {
        if self.left == 0 {
            return None;
        }
        let Some(body) = self.body() else {
            return Some(Err(PacketError::CutOff { missing: std::mem::take(&mut self.left) }));
        };
        self.left -= 1;
        Some(Packet::read(body).ok_or(PacketError::Unknown { length: body.len() as u16 }))
    }
}
