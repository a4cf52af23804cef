//! The greeting: 64 bytes with which each side says what it speaks, before anything else.
//!
//! ```text
//! ff 00*8 7f | 3 1 | mechanism, filled up to 20 with zeros | 1 of a server, else 0 | 00*31
//! ```

use super::error::ZmtpError;

/// How long a greeting is.
pub(crate) const GREETING: usize = 64;

const MECHANISM: [u8; 20] = *b"CURVE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// What we say first.
pub(crate) fn greeting(server: bool) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    (bytes[0], bytes[9]) = (0xff, 0x7f);
    (bytes[10], bytes[11]) = (3, 1);
    bytes[12..32].copy_from_slice(&MECHANISM);
    bytes[32] = server.into();
    bytes
}

/// Whether we can go on with who says this: ZMTP 3 or later, and CURVE. Who is the server is not looked at: libzmq says it
/// never is, and the handshake tells.
pub(crate) fn check(greeting: &[u8; GREETING]) -> Result<(), ZmtpError> {
    if greeting[0] != 0xff || greeting[9] & 1 == 0 {
        return Err(ZmtpError::NotZmtp);
    }
    if greeting[10] < 3 {
        return Err(ZmtpError::Version { major: greeting[10] });
    }
    if greeting[12..32] != MECHANISM {
        let name = greeting[12..32].split(|byte| *byte == 0).next().unwrap_or_default();
        return Err(ZmtpError::Mechanism { name: name.escape_ascii().to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_something_else_is_told_apart() {
        check(&greeting(true)).unwrap();
        check(&greeting(false)).unwrap();
        let with = |at: usize, bytes: &[u8]| {
            let mut changed = greeting(true);
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            check(&changed)
        };
        assert_eq!(with(0, b"HTTP/1.1 400"), Err(ZmtpError::NotZmtp));
        assert_eq!(with(10, &[1]), Err(ZmtpError::Version { major: 1 }));
        assert_eq!(with(10, &[3, 0]), Ok(()));
        assert_eq!(with(12, b"NULL\0"), Err(ZmtpError::Mechanism { name: "NULL".into() }));
        assert_eq!(with(12, b"\x07\"\0"), Err(ZmtpError::Mechanism { name: "\\x07\\\"".into() }));
    }
}
