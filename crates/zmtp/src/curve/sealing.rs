//! Sealing: what only the two ends can have made or can read, with a nonce that is never used twice.

use crate::error::ZmtpError;
use bytes::Bytes;
use crypto_box::SalsaBox;
use crypto_box::aead::Aead;

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
