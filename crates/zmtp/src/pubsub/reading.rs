//! Reading: messages of many frames and commands between them, of which none takes more room than it may.

use super::session::{Limits, Skipped};
use crate::error::ZmtpError;
use crate::frame;
use bytes::{Buf, Bytes, BytesMut};
use std::mem;

/// Where in a message the next byte is.
///
/// ```text
///         a part            too large, or too many parts
/// Parts ---------> Parts ---------------------------------> Skipping ---> Parts
///         the last part: a message                            the last byte of it: skipped
/// ```
#[derive(Debug)]
pub(super) enum Reading {
    /// At the head of a frame, with these parts of a message so far.
    Parts { parts: Vec<Bytes>, size: usize },
    /// Within a message that is skipped: so many bytes of a frame are left, and it is not the last one if there are more. This is
    /// known of all of it up to the end of that frame.
    Skipping { left: u64, more: bool, skipped: Skipped },
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// All parts of a message.
    Message(Vec<Bytes>),
    /// A message that is larger than allowed; it is behind us.
    Skipped(Skipped),
    /// A command, whole.
    Command(Bytes),
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::Parts { parts: Vec::new(), size: 0 }
    }
}

impl Reading {
    /// Takes the next message or command out of `bytes`; `None` while it is not there as a whole. A command that is longer than
    /// `longest` is an error, a message above the limits is skipped.
    pub(super) fn next(
        &mut self,
        bytes: &mut BytesMut,
        limits: Limits,
        longest: usize,
    ) -> Result<Option<Read>, ZmtpError> {
        loop {
            if let Reading::Skipping { left, more, skipped } = self {
                let gone = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                bytes.advance(gone);
                *left -= gone as u64;
                match (*left, *more) {
                    (0, false) => {
                        let skipped = mem::take(skipped);
                        *self = Reading::default();
                        return Ok(Some(Read::Skipped(skipped)));
                    }
                    (0, true) => {}
                    (1.., _) => return Ok(None),
                }
            }
            let Some(head) = frame::head(bytes)? else { return Ok(None) };
            if !head.is_message() {
                if head.has_more() {
                    return Err(ZmtpError::Malformed { command: "a command" });
                }
                let size = head.within(longest)?;
                return Ok(frame::body(bytes, head, size).map(Read::Command));
            }
            let fits = match self {
                Reading::Parts { parts, size } if parts.len() < limits.parts => {
                    head.within(limits.message.saturating_sub(*size)).ok()
                }
                Reading::Parts { .. } | Reading::Skipping { .. } => None,
            };
            let (Some(room), Reading::Parts { parts, size }) = (fits, &mut *self) else {
                bytes.advance(head.length);
                let mut skipped = mem::take(self).skipped();
                skipped.parts = skipped.parts.saturating_add(1);
                skipped.bytes = skipped.bytes.saturating_add(head.size);
                *self = Reading::Skipping { left: head.size, more: head.has_more(), skipped };
                continue;
            };
            let Some(part) = frame::body(bytes, head, room) else { return Ok(None) };
            parts.push(part);
            *size += room;
            if !head.has_more() {
                let parts = mem::take(parts);
                *size = 0;
                return Ok(Some(Read::Message(parts)));
            }
        }
    }

    /// What is known of the message so far, of which nothing but its first part is kept from now on.
    fn skipped(self) -> Skipped {
        match self {
            Reading::Parts { parts, size } => {
                let count = parts.len();
                Skipped { first: parts.into_iter().next().unwrap_or_default(), parts: count, bytes: size as u64 }
            }
            Reading::Skipping { skipped, .. } => skipped,
        }
    }
}
