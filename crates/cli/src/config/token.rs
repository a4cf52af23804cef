//! The token of the admin listener: known by its hash alone once it was read.

use crate::failure::Failure;
use crate::files::{self, of_no_use};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// A file with more in it is none of a token.
const LONGEST_FILE: u64 = 16 << 10;
/// What is shorter could be guessed.
const SHORTEST: usize = 16;

/// What somebody has to show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token([u8; 32]);

impl Token {
    /// The one in the first line of a file. What was read is in no error.
    pub(super) fn read(file: &Path) -> Result<Token, Failure> {
        let wrong = |problem: String| Failure::Input(of_no_use(file, problem));
        // Reading a pipe would wait for somebody who writes to it, and again with each reload.
        if file.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(wrong("it is not a regular file".to_owned()));
        }
        let text = files::read(file, LONGEST_FILE)?;
        let token = files::first_line(&text);
        if token.len() < SHORTEST {
            let problem = "its first line is too short for a token; accepted: at least";
            return Err(wrong(format!("{problem} {SHORTEST} characters, as of `openssl rand -hex 16`")));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("its first line is no token; accepted: ASCII characters without blanks".to_owned()));
        }
        Ok(Token::of(token.as_bytes()))
    }

    /// Whether somebody has shown the right one. How long that takes tells nothing of it: hashes are compared, to their end.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        self.0.ct_eq(&Token::of(shown).0).into()
    }

    fn of(text: &[u8]) -> Token {
        Token(Sha256::digest(text).into())
    }
}

/// A hash of something weak could be undone.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_it() {
        let token = Token::of(b"0123456789abcdef");
        assert!(token.is(b"0123456789abcdef"));
        for other in ["", "0", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", " 0123456789abcdef"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }
}
