//! Commands: what stands in frames of the handshake, and in the channel after it.

use super::error::ZmtpError;
use bytes::{Buf, BufMut, Bytes};
use crypto_box::SalsaBox;
use crypto_box::aead::Aead;

/// A name with its length before it.
pub(super) const HELLO: &[u8] = b"\x05HELLO";
pub(super) const WELCOME: &[u8] = b"\x07WELCOME";
pub(super) const INITIATE: &[u8] = b"\x08INITIATE";
pub(super) const READY: &[u8] = b"\x05READY";
const ERROR: &[u8] = b"\x05ERROR";
pub(super) const MESSAGE: &[u8] = b"\x07MESSAGE";
pub(super) const PING: &[u8] = b"\x04PING";
pub(super) const PONG: &[u8] = b"\x04PONG";

/// What stands behind the name of the command that is due, which is `size` bytes at least.
pub(super) fn expect(mut body: Bytes, name: &'static [u8], due: &'static str, size: usize) -> Result<Bytes, ZmtpError> {
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
pub(super) fn refused(command: &[u8]) -> Result<(), ZmtpError> {
    let Some(reason) = command.strip_prefix(ERROR) else { return Ok(()) };
    // Behind its length, which is that of all that is left.
    let reason = reason.get(1..).unwrap_or_default().escape_ascii().to_string();
    Err(ZmtpError::Refused { reason })
}

/// The nonce of a command that is counted.
pub(super) fn counted(prefix: &[u8; 16], counter: u64) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(prefix);
    nonce[16..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

/// The nonce of a command that brings its own.
pub(super) fn chosen(prefix: &[u8; 8], rest: &[u8; 16]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(prefix);
    nonce[8..].copy_from_slice(rest);
    nonce
}

/// Encrypts.
pub(super) fn seal(secret: &SalsaBox, nonce: [u8; 24], plain: &[u8]) -> Vec<u8> {
    secret.encrypt(&nonce.into(), plain).expect("XSalsa20 takes far more than any message here")
}

/// Decrypts what only the other side can have made.
pub(super) fn unseal(
    secret: &SalsaBox,
    nonce: [u8; 24],
    sealed: &[u8],
    command: &'static str,
) -> Result<Bytes, ZmtpError> {
    secret.decrypt(&nonce.into(), sealed).map(Bytes::from).map_err(|_| ZmtpError::Sealed { command })
}

/// The properties that a socket says it has.
pub(super) fn metadata(socket_type: &str, identity: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in [("Socket-Type", socket_type.as_bytes()), ("Identity", identity)] {
        bytes.put_u8(name.len() as u8);
        bytes.put_slice(name.as_bytes());
        bytes.put_u32(value.len() as u32);
        bytes.put_slice(value);
    }
    bytes
}

/// Reads properties, and returns the identity, empty if there is none. The socket is to be of one of these types.
pub(super) fn peer(mut bytes: Bytes, command: &'static str, types: &[&str]) -> Result<Bytes, ZmtpError> {
    let (mut socket_type, mut identity) = (Bytes::new(), Bytes::new());
    while !bytes.is_empty() {
        let name = take(&mut bytes, 1, command)?.get_u8().into();
        let name = take(&mut bytes, name, command)?;
        let size = take(&mut bytes, 4, command)?.get_u32() as usize;
        let value = take(&mut bytes, size, command)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket_type = value;
        } else if name.eq_ignore_ascii_case(b"Identity") {
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
