//! A keys file that gets one more table: replaced as a whole, and for those alone who could read it before.

use crate::failure::{Failure, say, with_causes};
use crate::files::of_no_use;
use carom_gateway::keys::Keys;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// For somebody else who is at it, and how often to look.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Adds a table to a file of keys.
pub(super) fn add(file: &Path, table: &str) -> Result<(), Failure> {
    // What is behind a link is replaced, not the link.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return Err(Failure::Input(of_no_use(file, "is no regular file, and cannot be replaced")));
    }
    // Whoever has this file has the turn, and only then looks at what is there: nobody's key gets lost in between.
    let turn = Turn::take(&target).map_err(|(beside, error)| {
        let advice = if error.kind() == io::ErrorKind::AlreadyExists {
            format!(": somebody else is at it; if not, remove `{}`", beside.display())
        } else {
            String::new()
        };
        cannot(file, "written", format_args!("{error}{advice}"))
    })?;
    let before = match fs::read_to_string(&target) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot(file, "read", error)),
    };
    if !before.is_empty() {
        Keys::from_file(&target).map_err(|error| Failure::Input(with_causes(&error)))?;
    }
    let gap = match &*before {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    turn.replace(&target, &format!("{before}{gap}{table}")).map_err(|error| cannot(file, "written", error))
}

fn cannot(file: &Path, verb: &str, problem: impl std::fmt::Display) -> Failure {
    Failure::Unavailable(format!("`{}` cannot be {verb}: {problem}", file.display()))
}

/// The file that the new text is written to first. That it was not there says that nobody else is doing the same.
struct Turn {
    path: PathBuf,
    written: File,
}

impl Turn {
    /// Waits a while for whoever has it.
    fn take(file: &Path) -> Result<Turn, (PathBuf, io::Error)> {
        let mut name = file.as_os_str().to_owned();
        name.push(".new");
        let path = PathBuf::from(name);
        let deadline = Instant::now() + PATIENCE;
        let mut told = false;
        loop {
            match create(&path) {
                Ok(written) => return Ok(Turn { path, written }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && Instant::now() < deadline => {
                    if !mem::replace(&mut told, true) {
                        say("note: waiting for somebody else who is at it");
                    }
                    sleep(PAUSE);
                }
                Err(error) => return Err((path, error)),
            }
        }
    }

    fn replace(mut self, file: &Path, text: &str) -> io::Result<()> {
        self.written.write_all(text.as_bytes())?;
        match fs::metadata(file) {
            Ok(before) => hand_over(&self.written, &before)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.written.sync_all()?;
        fs::rename(&self.path, file)?;
        // It has another name now, and the next one with this name is somebody else's.
        self.path.clear();
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
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

/// To the owner and the group of the file before, with what these two may do: a gateway may be one of them.
#[cfg(unix)]
fn hand_over(written: &File, before: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let now = written.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
        fchown(written, Some(before.uid()), Some(before.gid())).map_err(|error| {
            let (owner, group) = (before.uid(), before.gid());
            io::Error::new(error.kind(), format!("it cannot stay with owner {owner} and group {group}: {error}"))
        })?;
    }
    written.set_permissions(fs::Permissions::from_mode(before.mode() & 0o770))
}

#[cfg(not(unix))]
fn hand_over(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}
