//! A key that was just made: the one time that it can be seen.

use super::{Digest, Identity, KeysError, digest_of};
use std::fmt;
use std::fmt::Write as _;
use zeroize::Zeroizing;

/// A key of 256 bits, as 64 hexadecimal digits. Its memory is wiped when it is dropped.
pub struct NewKey {
    text: Zeroizing<String>,
}

impl NewKey {
    /// Makes one of the system's chance.
    ///
    /// # Errors
    /// When the system has none.
    pub fn generate() -> Result<NewKey, KeysError> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes).map_err(KeysError::Chance)?;
        Ok(NewKey { text: Zeroizing::new(hex(bytes.as_slice())) })
    }

    /// The key itself, for whoever is to have it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What is kept of it.
    pub fn sha256(&self) -> Digest {
        digest_of(&self.text)
    }

    /// The table that makes it known in a keys file; `name` and `created` are for people.
    pub fn table(&self, identity: &Identity, name: Option<&str>, created: Option<&str>) -> String {
        let mut table = format!(
            "[[key]]\nuser = {}\nbroker = {}\nsha256 = \"{}\"\n",
            quoted(&identity.user),
            quoted(&identity.broker),
            hex(&self.sha256())
        );
        for (key, value) in [("name", name), ("created", created)] {
            if let Some(value) = value {
                let _ = writeln!(table, "{key} = {}", quoted(value));
            }
        }
        table
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => drop(write!(quoted, "\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
