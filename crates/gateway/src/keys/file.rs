//! Keys as they are written in a file: tables `[[key]]`.

use super::{Digest, Identity, Known};
use crate::tables::{Table, TableError, Value};

/// The keys in a file, in their order.
pub(super) fn known(file: &mut Table) -> Result<Vec<Known>, TableError> {
    let mut known: Vec<(Known, usize)> = Vec::new();
    for mut table in file.tables("key")? {
        let user = table.require("user", "the name of a user", name)?;
        let broker = table.require("broker", "the name of a broker", name)?;
        let digest = table.require("sha256", "64 hexadecimal digits, as `carom key new` prints them", digest)?;
        table.read("name", "a text", Value::text)?;
        table.read("created", "a date or a text", created)?;
        let line = table.place("sha256").line;
        // Whose it is would depend on the order.
        if let Some((_, first)) = known.iter().find(|(other, _)| other.digest == digest) {
            return Err(table.wrong("sha256", format_args!("is in line {first} already; accepted: each key once")));
        }
        known.push((Known { digest, identity: Identity::new(broker, user) }, line));
        table.finish()?;
    }
    Ok(known.into_iter().map(|(known, _)| known).collect())
}

fn name(value: Value) -> Result<String, String> {
    let text = value.text()?;
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
}

/// What is written there may be the key itself, by mistake: it is not repeated.
fn digest(value: Value) -> Result<Digest, String> {
    let text = value.text()?;
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.ok_or("there is something else than hexadecimal digits")?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    let wrong = |_| format!("there are {} digits", digits.len());
    if digits.len() == 64 { bytes.try_into().map_err(wrong) } else { Err(wrong(bytes)) }
}

fn created(value: Value) -> Result<(), String> {
    match value {
        Value::Moment(_) | Value::Text(_) => Ok(()),
        other => other.text().map(drop),
    }
}
