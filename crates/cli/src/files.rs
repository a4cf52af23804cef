//! Files that are named on the command line: their text, or why they are of no use.

use crate::failure::Failure;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The text of a file, or of stdin.
pub(crate) fn read(file: &Path, limit: u64) -> Result<String, Failure> {
    let bytes = read_bytes(file, limit)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Failure::Input(of_no_use(file, format_args!("not a text: {error}"))))?;
    // Some editors begin a file with a mark that is no JSON.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// What is in a file, or comes from stdin, text or not.
pub(crate) fn read_bytes(file: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let failed = |problem: &dyn Display| Failure::Input(of_no_use(file, problem));
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| failed(&format_args!("cannot be read: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(failed(&format_args!("longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// The secret that a text has in its first line; further ones may say whatever they like.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

/// What is wrong with a file.
pub(crate) fn of_no_use(file: &Path, problem: impl Display) -> String {
    let name = file.display().to_string();
    let name = if name == "-" { "stdin".to_owned() } else { format!("`{}`", name.escape_debug()) };
    format!("{name}: {problem}")
}
