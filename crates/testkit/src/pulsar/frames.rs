//! Frames as bytes. A broker passes on what it does not understand, so a message stays as it came, byte for byte; the client's
//! own codec would leave out what it does not know, and would be tested against itself.

use carom_pulsar::wire::{BaseCommand, MessageMetadata};
use prost::Message as _;

/// Magic number, then the CRC32C of all that follows.
const CHECKSUM: [u8; 2] = [0x0e, 0x01];

/// The first frame, its length aside, and how many bytes it took; `None` while there is more to come.
pub(super) fn first(bytes: &[u8], limit: usize) -> Result<Option<(&[u8], usize)>, Broken> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Broken)?;
    if length > limit {
        return Err(Broken);
    }
    Ok(rest.get(..length).map(|frame| (frame, 4 + length)))
}

/// These bytes are not what they should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The bytes of the command, and those behind it.
pub(super) fn split(frame: &[u8]) -> Result<(&[u8], &[u8]), Broken> {
    let (length, rest) = frame.split_first_chunk::<4>().ok_or(Broken)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Broken)?;
    rest.split_at_checked(length).ok_or(Broken)
}

pub(super) fn command(command: impl Into<BaseCommand>) -> Vec<u8> {
    with_message(command, &[])
}

pub(super) fn with_message(command: impl Into<BaseCommand>, message: &[u8]) -> Vec<u8> {
    encoded(&command.into().encode_to_vec(), message)
}

/// A frame of a command that is bytes already.
pub(super) fn encoded(command: &[u8], message: &[u8]) -> Vec<u8> {
    let length = |size: usize| u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes();
    let total = 4 + command.len() + message.len();
    [&length(total)[..], &length(command.len()), command, message].concat()
}

/// What stands behind a SEND: whether its checksum is right, its metadata, and its payload.
pub(super) fn message(raw: &[u8]) -> Result<(bool, MessageMetadata, &[u8]), Broken> {
    let (sound, rest) = match raw.strip_prefix(&CHECKSUM) {
        Some(rest) => {
            let (sum, rest) = rest.split_first_chunk::<4>().ok_or(Broken)?;
            (u32::from_be_bytes(*sum) == crc32c::crc32c(rest), rest)
        }
        None => (true, raw),
    };
    let (metadata, payload) = split(rest)?;
    let metadata = MessageMetadata::decode(metadata).map_err(|_| Broken)?;
    Ok((sound, metadata, payload))
}

/// The same frame with a checksum that is wrong, if it has one.
pub(super) fn spoil(mut frame: Vec<u8>) -> Vec<u8> {
    let behind = split(frame.get(4..).unwrap_or_default()).map_or(0, |(_, behind)| behind.len());
    let at = frame.len() - behind;
    if frame[at..].starts_with(&CHECKSUM) && behind > 6 {
        frame[at + 2] ^= 0xff;
    }
    frame
}
