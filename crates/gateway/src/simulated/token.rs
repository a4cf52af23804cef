//! A token: what connections present, compared in constant time and shown to nobody.

use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// What connections present.
#[derive(Clone)]
pub(super) struct Token(Zeroizing<Vec<u8>>);

impl Token {
    pub(super) fn new(token: impl Into<Vec<u8>>) -> Token {
        Token(Zeroizing::new(token.into()))
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}
