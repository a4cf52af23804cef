//! Running a credential's command: until it has ended, and with everything that it has started when it takes too long.

use super::Secret;
use super::group;
use super::reading::{CredentialError, LONGEST, bounded, clean, room};
use std::env::{self, consts::EXE_SUFFIX};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use zeroize::Zeroizing;

/// For how long the output of one that has ended is read on. What it has printed is there already; what it has left running may
/// hold the output open for ever.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// Whether there is such a program: where its name says, or in `PATH` if it says no place.
pub(super) fn is_there(program: &OsStr) -> bool {
    let named = Path::new(program);
    let is_file = |path: PathBuf| {
        let mut whole = path.clone().into_os_string();
        whole.push(EXE_SUFFIX);
        path.is_file() || Path::new(&whole).is_file()
    };
    if named.components().count() > 1 {
        return is_file(named.to_owned());
    }
    env::var_os("PATH").is_some_and(|paths| env::split_paths(&paths).any(|folder| is_file(folder.join(named))))
}

pub(super) async fn printed(argv: &[OsString], allowed: Duration) -> Result<Secret, CredentialError> {
    let Some((program, arguments)) = argv.split_first() else { return Err(CredentialError::NoProgram) };
    match timeout(allowed, run(program, arguments)).await {
        Ok(printed) => clean(&printed?),
        Err(_) => Err(CredentialError::TimedOut { program: program.clone(), timeout: allowed }),
    }
}

/// What the command prints. It is killed when this is dropped, and when it prints too much.
async fn run(program: &OsString, arguments: &[OsString]) -> Result<Zeroizing<Vec<u8>>, CredentialError> {
    let failed = |source| CredentialError::Command { program: program.clone(), source };
    let mut command = Command::new(program);
    // Its complaints may contain the credential.
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    group::lead(&mut command);
    let mut running = Running(command.spawn().map_err(failed)?);
    let (mut printed, mut ended) = (room(), None);
    if let Some(stdout) = running.0.stdout.take() {
        let mut reading = pin!(bounded(stdout, &mut printed));
        tokio::select! {
            biased;
            read = &mut reading => read.map_err(failed)?,
            status = running.0.wait() => {
                ended = Some(status.map_err(failed)?);
                if let Ok(read) = timeout(AFTERWARDS, reading).await {
                    read.map_err(failed)?;
                }
            }
        }
    }
    if printed.len() > LONGEST {
        return Ok(printed);
    }
    let status = match ended {
        Some(status) => status,
        None => running.0.wait().await.map_err(failed)?,
    };
    if status.success() { Ok(printed) } else { Err(CredentialError::Failed { program: program.clone(), status }) }
}

/// A command that has not ended. Dropped, it is killed, and what it has started with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended has no number any more: that may be somebody else's by now.
        if let Some(number) = self.0.id() {
            group::kill(number);
        }
    }
}
