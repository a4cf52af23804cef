//! A keys file that gets one more table: replaced as a whole, and for its owner alone.

use crate::failure::{Failure, with_causes};
use carom_gateway::keys::Keys;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Adds a table to a file of keys.
pub(super) fn add(file: &Path, table: &str) -> Result<(), Failure> {
    // What is behind a link is replaced, not the link.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let before = match fs::read_to_string(&target) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::Unavailable(format!("`{}` cannot be read: {error}", file.display()))),
    };
    if !before.is_empty() {
        Keys::from_file(&target).map_err(|error| Failure::Input(with_causes(&error)))?;
    }
    let gap = match &*before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let beside = beside(&target);
    replace(&target, &beside, &format!("{before}{gap}{table}")).map_err(|error| {
        let advice = if error.kind() == io::ErrorKind::AlreadyExists {
            format!(": somebody else is at it; if not, remove `{}`", beside.display())
        } else {
            String::new()
        };
        Failure::Unavailable(format!("`{}` cannot be written: {error}{advice}", file.display()))
    })
}

/// Where the new text is written first. That it is not there yet says that nobody else is doing the same.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn replace(file: &Path, beside: &Path, text: &str) -> io::Result<()> {
    let mut written = create(beside)?;
    let moved =
        written.write_all(text.as_bytes()).and_then(|()| written.sync_all()).and_then(|()| fs::rename(beside, file));
    if moved.is_err() {
        let _ = fs::remove_file(beside);
    }
    moved
}

#[cfg(unix)]
fn create(file: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)
}

#[cfg(not(unix))]
fn create(file: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(file)
}
