//! JSON texts, read without changing a number: what cannot be held exactly is refused.
//!
//! Ledgers are hashed. An integer beyond 64 bits would become a float that only comes near it, and `-0` another zero than the one
//! that nodes hash.

use serde_json::Value;

/// Why a text is no value.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// An integer that would not be the same afterwards.
    #[error("the integer {0} cannot be held exactly")]
    Integer(String),
    /// Many small values: a map with one entry takes 80 times its bytes.
    #[error("needs about {memory} bytes of memory, and {MOST_MEMORY} is the limit")]
    Memory {
        /// The estimate.
        memory: usize,
    },
}

/// What a text may need when it is read, by [`memory`]'s estimate. A reply of 8 MiB of numbers with six digits needs 40 MiB.
const MOST_MEMORY: usize = 64 << 20;

/// Whether reading a text stays within the memory that is allowed.
///
/// # Errors
/// When it does not.
pub(crate) fn bounded(text: &[u8]) -> Result<(), JsonError> {
    let memory = memory(text);
    if memory > MOST_MEMORY { Err(JsonError::Memory { memory }) } else { Ok(()) }
}

/// How much memory the value of a text takes, without its strings: an entry of a list is a `Value`, a list is allocated with room
/// for four, a map is a tree of nodes with room for eleven entries that are at least half full.
fn memory(text: &[u8]) -> usize {
    const VALUE: usize = size_of::<Value>();
    const NODE: usize = 640;
    let (mut rest, mut memory) = (text, VALUE);
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'"' => rest = behind_text(behind),
            b',' => memory += VALUE,
            b':' => memory += NODE / 6,
            b'[' => memory += 4 * VALUE,
            b'{' => memory += NODE,
            _ => {}
        }
    }
    memory
}

/// Reads a value.
///
/// # Errors
/// When it is not JSON, or holds an integer below -2^63 or from 2^64 on, or `-0`.
pub(crate) fn read(text: &[u8]) -> Result<Value, JsonError> {
    let value = serde_json::from_slice(text)?;
    exact(text).map(|()| value)
}

/// Whether a good JSON text loses nothing when it is read.
///
/// # Errors
/// When it holds an integer below -2^63 or from 2^64 on, or `-0`.
pub(crate) fn exact(text: &[u8]) -> Result<(), JsonError> {
    match inexact(text) {
        Some(integer) => Err(JsonError::Integer(cut(&String::from_utf8_lossy(integer)))),
        None => Ok(()),
    }
}

/// As much of a text as is good to show.
pub(crate) fn cut(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// The first integer in a good JSON text that does not fit.
fn inexact(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        match first {
            b'"' => rest = behind_text(behind),
            b'-' | b'0'..=b'9' => {
                let size = rest.iter().take_while(|byte| number_has(**byte)).count();
                let (number, behind) = rest.split_at(size);
                if !fits(number) {
                    return Some(number);
                }
                rest = behind;
            }
            _ => rest = behind,
        }
    }
    None
}

fn behind_text(text: &[u8]) -> &[u8] {
    let mut rest = text;
    loop {
        match rest {
            [b'\\', _, behind @ ..] => rest = behind,
            [b'"', behind @ ..] => return behind,
            [_, behind @ ..] => rest = behind,
            [] => return rest,
        }
    }
}

fn number_has(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

fn fits(number: &[u8]) -> bool {
    let Ok(number) = std::str::from_utf8(number) else { return false };
    let float = number.contains(['.', 'e', 'E']);
    float || (number != "-0" && (number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn integers_that_fit_are_read_and_others_are_refused_by_name() {
        let text = br#"{"18446744073709551616":[18446744073709551615,-9223372036854775808,0],"\"-0":"\\","c":[1.0,1e22,-0.0]}"#;
        let value = read(text).unwrap();
        assert_eq!(value["18446744073709551616"], json!([u64::MAX, i64::MIN, 0]));
        assert_eq!(value["c"].to_string(), "[1.0,1e+22,-0.0]");
        for bad in ["18446744073709551616", "-9223372036854775809", "-0", "100000000000000000000000000"] {
            let error = read(format!(r#"{{"a":"\\","b":[1,{bad}]}}"#).as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("the integer {bad} cannot be held exactly"));
        }
        let long = read("9".repeat(300).as_bytes()).unwrap_err().to_string();
        assert_eq!(long, format!("the integer {}... (300 bytes) cannot be held exactly", "9".repeat(64)));
        assert!(matches!(read(b"{\"a\":"), Err(JsonError::Syntax(_))));
    }
}
