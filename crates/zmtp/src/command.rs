//! Commands: a name with its length before it, and what belongs to it.

use crate::error::ZmtpError;
use bytes::{Buf, BufMut, Bytes};

pub(crate) const SOCKET_TYPE: &str = "Socket-Type";
pub(crate) const IDENTITY: &str = "Identity";

pub(crate) const READY: &[u8] = b"\x05READY";
const ERROR: &[u8] = b"\x05ERROR";
pub(crate) const PING: &[u8] = b"\x04PING";
pub(crate) const PONG: &[u8] = b"\x04PONG";

/// What stands behind the name of the command that is due, which is `size` bytes at least.
pub(crate) fn expect(mut body: Bytes, name: &'static [u8], due: &'static str, size: usize) -> Result<Bytes, ZmtpError> {
    refused(&body)?;
    if !body.starts_with(name) {
        return Err(ZmtpError::Unexpected { due });
    }
    body.advance(name.len());
    if body.len() < size {
        return Err(ZmtpError::Malformed { command: due });
    }
    Ok(body)
}

/// An error, if the peer says that it does not want to talk.
pub(crate) fn refused(command: &[u8]) -> Result<(), ZmtpError> {
    let Some(reason) = command.strip_prefix(ERROR) else { return Ok(()) };
    // Behind its length, which is that of all that is left.
    let reason = reason.get(1..).unwrap_or_default().escape_ascii().to_string();
    Err(ZmtpError::Refused { reason })
}

/// What a ping wants to be sent back; none if this is no ping.
pub(crate) fn pinged(command: &[u8]) -> Result<Option<&[u8]>, ZmtpError> {
    let Some(ping) = command.strip_prefix(PING) else { return Ok(None) };
    // Two bytes say for how long it has patience; 16 at most are to be sent back.
    let context = ping.get(2..).filter(|context| context.len() <= 16);
    context.map(Some).ok_or(ZmtpError::Malformed { command: "PING" })
}

/// The properties that a socket says it has.
pub(crate) fn metadata(properties: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in properties {
        bytes.put_u8(name.len() as u8);
        bytes.put_slice(name.as_bytes());
        bytes.put_u32(value.len() as u32);
        bytes.put_slice(value);
    }
    bytes
}

/// Reads properties, and returns the identity, empty if there is none. The socket is to be of one of these types.
pub(crate) fn peer(mut bytes: Bytes, command: &'static str, types: &[&str]) -> Result<Bytes, ZmtpError> {
    let (mut socket_type, mut identity) = (Bytes::new(), Bytes::new());
    while !bytes.is_empty() {
        let name = take(&mut bytes, 1, command)?.get_u8().into();
        let name = take(&mut bytes, name, command)?;
        let size = take(&mut bytes, 4, command)?.get_u32() as usize;
        let value = take(&mut bytes, size, command)?;
        if name.eq_ignore_ascii_case(SOCKET_TYPE.as_bytes()) {
            socket_type = value;
        } else if name.eq_ignore_ascii_case(IDENTITY.as_bytes()) {
            identity = value;
        }
    }
    if identity.len() > 255 {
        return Err(ZmtpError::Malformed { command });
    }
    if !types.iter().any(|wanted| socket_type == wanted.as_bytes()) {
        return Err(ZmtpError::SocketType { found: socket_type.escape_ascii().to_string() });
    }
    Ok(identity)
}

fn take(bytes: &mut Bytes, size: usize, command: &'static str) -> Result<Bytes, ZmtpError> {
    if bytes.len() < size {
        return Err(ZmtpError::Malformed { command });
    }
    Ok(bytes.split_to(size))
}
