//! The greeting: 64 bytes with which each side says what it speaks, before anything else.
//!
//! ```text
//! ff 00*8 7f | 3 1 | mechanism, filled up to 20 with zeros | 1 of a server, else 0 | 00*31
//! ```

use crate::error::ZmtpError;

/// How long a greeting is.
pub(crate) const GREETING: usize = 64;

/// How both sides see to it that nobody else listens, or that they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mechanism(pub(crate) &'static str);

impl Mechanism {
    fn filled(self) -> [u8; 20] {
        let mut name = [0; 20];
        name[..self.0.len()].copy_from_slice(self.0.as_bytes());
        name
    }
}

/// What we say first.
pub(crate) fn greeting(mechanism: Mechanism, server: bool) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    (bytes[0], bytes[9]) = (0xff, 0x7f);
    (bytes[10], bytes[11]) = (3, 1);
    bytes[12..32].copy_from_slice(&mechanism.filled());
    bytes[32] = server.into();
    bytes
}

/// Whether we can go on with who says this: ZMTP 3 or later, and the same mechanism. Who is the server is not looked at: libzmq
/// says it never is, and the handshake tells. Whether the peer knows what came with ZMTP 3.1.
pub(crate) fn check(greeting: &[u8; GREETING], mechanism: Mechanism) -> Result<bool, ZmtpError> {
    if greeting[0] != 0xff || greeting[9] & 1 == 0 {
        return Err(ZmtpError::NotZmtp);
    }
    let version = (greeting[10], greeting[11]);
    if version < (3, 0) {
        return Err(ZmtpError::Version { major: version.0 });
    }
    if greeting[12..32] != mechanism.filled() {
        let name = greeting[12..32].split(|byte| *byte == 0).next().unwrap_or_default();
        return Err(ZmtpError::Mechanism { name: name.escape_ascii().to_string(), wanted: mechanism.0 });
    }
    Ok(version >= (3, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_something_else_is_told_apart() {
        let curve = Mechanism("CURVE");
        for mechanism in [curve, Mechanism("NULL")] {
            assert_eq!(check(&greeting(mechanism, true), mechanism), Ok(true));
            assert_eq!(check(&greeting(mechanism, false), mechanism), Ok(true));
        }
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = greeting(curve, true);
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            check(&changed, curve)
        };
        let mechanism = |name: &str| Err(ZmtpError::Mechanism { name: name.into(), wanted: "CURVE" });
        assert_eq!(with(0, b"HTTP/1.1 400"), Err(ZmtpError::NotZmtp));
        assert_eq!(with(10, &[1]), Err(ZmtpError::Version { major: 1 }));
        assert_eq!((with(10, &[3, 0]), with(10, &[4, 0])), (Ok(false), Ok(true)));
        assert_eq!(with(12, b"NULL\0"), mechanism("NULL"));
        assert_eq!(with(12, b"\x07\"\0"), mechanism("\\x07\\\""));
    }
}
