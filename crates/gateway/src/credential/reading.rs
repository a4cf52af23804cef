//! Reading a credential: neither a file nor what a command prints is trusted to be short, or to end.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// Cleared from memory when nobody holds it any more.
pub(super) type Secret = Zeroizing<String>;

/// Longest credential; those of brokers have some hundred bytes.
pub(super) const LONGEST: usize = 16 * 1024;

/// Room behind that, so that there is always some to read into.
const READ_MORE: usize = 64;

/// How long a file may take to be read.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no credential. What was read is in none of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The file cannot be read.
    #[error("cannot read the credential in {}", path.display())]
    #[non_exhaustive]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a folder, a pipe or a device, and cannot be read again and again.
    #[error("cannot read the credential in {}: it is not a regular file", path.display())]
    #[non_exhaustive]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// The file takes too long to be read.
    #[error("cannot read the credential in {} within {timeout:?}", path.display())]
    #[non_exhaustive]
    Stuck {
        /// Which.
        path: PathBuf,
        /// How long it had.
        timeout: Duration,
    },
    /// The command cannot be run.
    #[error("cannot run the credential's command {program:?}")]
    #[non_exhaustive]
    Command {
        /// Which.
        program: OsString,
        /// Why.
        source: io::Error,
    },
    /// The command says that it has failed.
    #[error("the credential's command {program:?} failed: {status}")]
    #[non_exhaustive]
    Failed {
        /// Which.
        program: OsString,
        /// How.
        status: ExitStatus,
    },
    /// The command took too long, and was killed.
    #[error("the credential's command {program:?} was killed after {timeout:?}")]
    #[non_exhaustive]
    TimedOut {
        /// Which.
        program: OsString,
        /// How long it had.
        timeout: Duration,
    },
    /// A command without even a program.
    #[error("the credential's command is empty")]
    NoProgram,
    /// The runtime ends, and the command with it.
    #[error("the credential's command was interrupted")]
    Interrupted,
    /// There is nothing in it.
    #[error("the credential is empty")]
    Empty,
    /// There is too much in it.
    #[error("the credential is longer than {LONGEST} bytes")]
    TooLong,
    /// It is no text of one line.
    #[error("the credential is not one line of text")]
    NotALine,
}

/// What is in the file, and when that was written.
pub(super) async fn from_file(path: &Path) -> Result<(Secret, Option<SystemTime>), CredentialError> {
    in_time(path, read(path)).await
}

/// A file on a machine that does not answer is waited for without end by the system, and not by us.
async fn in_time<T>(
    path: &Path,
    reading: impl Future<Output = Result<T, CredentialError>>,
) -> Result<T, CredentialError> {
    let stuck = |_| CredentialError::Stuck { path: path.to_owned(), timeout: FILE_TIMEOUT };
    timeout(FILE_TIMEOUT, reading).await.map_err(stuck)?
}

async fn read(path: &Path) -> Result<(Secret, Option<SystemTime>), CredentialError> {
    let failed = |source| CredentialError::File { path: path.to_owned(), source };
    let regular = |found: Metadata| {
        if found.is_file() { Ok(found) } else { Err(CredentialError::NotAFile { path: path.to_owned() }) }
    };
    // Before it is opened: opening a pipe waits for somebody who writes to it.
    regular(tokio::fs::metadata(path).await.map_err(failed)?)?;
    let file = File::open(path).await.map_err(failed)?;
    let modified = regular(file.metadata().await.map_err(failed)?)?.modified().ok();
    let mut bytes = room();
    bounded(file, &mut bytes).await.map_err(failed)?;
    Ok((clean(&bytes)?, modified))
}

/// Room for everything that [`bounded`] reads: it is never grown, since that would leave copies behind.
pub(super) fn room() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Vec::with_capacity(LONGEST + READ_MORE))
}

/// Everything, or as much as shows that it is too much. What was read before this is dropped is in `bytes`.
pub(super) async fn bounded(mut from: impl AsyncRead + Unpin, bytes: &mut Vec<u8>) -> io::Result<()> {
    while bytes.len() <= LONGEST && from.read_buf(bytes).await? > 0 {}
    Ok(())
}

pub(super) fn clean(bytes: &[u8]) -> Result<Secret, CredentialError> {
    if bytes.len() > LONGEST {
        return Err(CredentialError::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| CredentialError::NotALine)?.trim();
    match text {
        "" => Err(CredentialError::Empty),
        _ if text.contains(char::is_control) => Err(CredentialError::NotALine),
        _ => Ok(Zeroizing::new(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_does_not_answer_is_given_up() {
        let error = in_time::<()>(Path::new("far/token"), std::future::pending()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read the credential in far/token within 10s");
    }

    #[tokio::test]
    async fn nothing_is_copied_while_it_is_read_and_nothing_read_that_is_too_much() {
        let mut bytes = room();
        let begins = bytes.as_ptr();
        bounded(&*vec![b'a'; 10 * LONGEST], &mut bytes).await.unwrap();
        assert!(bytes.len() > LONGEST && bytes.len() <= LONGEST + READ_MORE && bytes.as_ptr() == begins);
    }

    #[test]
    fn blanks_around_it_are_not_part_of_it() {
        assert_eq!(*clean(b" \n token \r\n").unwrap(), "token");
    }

    #[test]
    fn what_cannot_be_one_is_refused_without_being_shown() {
        let long = vec![b'a'; LONGEST + 1];
        let cases: [(&[u8], &str); 4] =
            [(b" \n", "empty"), (b"one\ntwo", "one line"), (b"\xff\xfe", "one line"), (&long, "longer than")];
        for (bytes, says) in cases {
            let error = clean(bytes).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("aaa") && !error.contains("two"), "{error}");
        }
    }
}
