//! Reading a credential: from a file or from a command's output, neither of which is trusted to be short, or to end.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use zeroize::Zeroizing;

/// Cleared from memory when nobody holds it any more.
pub(super) type Secret = Zeroizing<String>;

/// Longest credential; those of brokers have some hundred bytes.
const LONGEST: usize = 16 * 1024;

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

pub(super) async fn from_file(path: &Path) -> Result<Secret, CredentialError> {
    let failed = |source| CredentialError::File { path: path.to_owned(), source };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    clean(&bounded(file).await.map_err(failed)?)
}

pub(super) async fn from_command(argv: &[OsString], timeout: Duration) -> Result<Secret, CredentialError> {
    let Some((program, arguments)) = argv.split_first() else { return Err(CredentialError::NoProgram) };
    match tokio::time::timeout(timeout, run(program, arguments)).await {
        Ok(printed) => clean(&printed?),
        Err(_) => Err(CredentialError::TimedOut { program: program.clone(), timeout }),
    }
}

/// What the command prints. It is killed when this is dropped, and when it prints too much.
async fn run(program: &OsString, arguments: &[OsString]) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    let failed = |source| CredentialError::Command { program: program.clone(), source };
    // Its complaints may contain the credential.
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let printed = match child.stdout.take() {
        Some(stdout) => bounded(stdout).await.map_err(failed)?,
        None => Zeroizing::default(),
    };
    if printed.len() > LONGEST {
        return Ok(printed);
    }
    let status = child.wait().await.map_err(failed)?;
    if status.success() { Ok(printed) } else { Err(CredentialError::Failed { program: program.clone(), status }) }
}

/// Everything, or as much as shows that it is too much.
async fn bounded(from: impl AsyncRead + Unpin) -> io::Result<Zeroizing<Vec<u8>>> {
    // Never grown, since that would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 64));
    from.take(LONGEST as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn clean(bytes: &[u8]) -> Result<Secret, CredentialError> {
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
