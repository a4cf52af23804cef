//! Credentials: what an upstream wants to see, read again when it is refused.
//!
//! Brokers let a token live for a day. So a credential is not a text but a place where one is found: a file that something
//! writes, or a command that prints it. An adapter asks for the current one whenever it opens a connection, and says so when
//! the upstream refuses it; a [`Watcher`] then looks for another, and lets the feed go on when there is one.
//!
//! ```
//! use carom_gateway::credential::Credential;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let credential = Credential::fixed("a token");
//! let presented = credential.present().await?;
//! assert_eq!(presented.secret(), "a token");
//! assert!(!format!("{credential:?} {presented:?}").contains("a token"), "it is never shown");
//! # Ok(()) }
//! ```

mod command;
#[cfg(unix)]
mod group;
#[cfg(not(unix))]
#[path = "group_elsewhere.rs"]
mod group;
mod reading;
mod watching;

pub use reading::CredentialError;
pub use watching::Watcher;

use reading::Secret;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

/// Where a credential is found. Cheap to clone; all clones remember together what was refused.
#[derive(Clone)]
pub struct Credential {
    source: Source,
    timeout: Duration,
    retry_interval: Duration,
    found: Arc<Found>,
}

#[derive(Clone)]
enum Source {
    Fixed(Arc<Secret>),
    File(PathBuf),
    Command(Vec<OsString>),
}

/// What was found so far.
#[derive(Default)]
struct Found {
    held: Mutex<Held>,
    /// Whose turn it is to run the command.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    secret: Option<Arc<Secret>>,
    /// When the file was written that it was found in. One that is written anew is another one, though the text is the same:
    /// an upstream may know a token later than we do.
    modified: Option<SystemTime>,
    /// Counts different secrets, so that none has to be kept to know one that was refused.
    generation: u64,
    /// The latest generation that was refused.
    refused: u64,
}

/// When a command is run.
#[derive(Clone, Copy, PartialEq)]
enum Run {
    /// Unless there is one that was not refused.
    Unless,
    /// In any case.
    Again,
}

/// What there is after a refusal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Look {
    /// The one that was refused, and no other.
    Refused,
    /// One that was not refused.
    Another,
    /// The one that was refused, which is to be presented once more.
    OnceMore,
}

impl Credential {
    /// This and never another: once it is refused, somebody has to say when it is to be [tried again](Watcher::resume).
    pub fn fixed(secret: impl Into<String>) -> Credential {
        Credential::new(Source::Fixed(Arc::new(Zeroizing::new(secret.into()))))
    }

    /// What the file contains, without blanks around it. It is read for every connection that is opened.
    pub fn file(path: impl Into<PathBuf>) -> Credential {
        Credential::new(Source::File(path.into()))
    }

    /// What a program prints, without blanks around it: the program first, then its arguments; no shell is involved. It is
    /// run for the first connection, and again when the upstream has refused what it printed.
    pub fn command(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Credential {
        Credential::new(Source::Command(argv.into_iter().map(Into::into).collect()))
    }

    /// How long a command may run. Default 30 s.
    #[must_use]
    pub fn command_timeout(mut self, timeout: Duration) -> Credential {
        self.timeout = timeout;
        self
    }

    /// How often one that was refused is presented once more though no other is found: upstreams err, and some know a token
    /// later than those it was given to. Not for a fixed one. From 10 ms to a year; default 5 min.
    #[must_use]
    pub fn retry_interval(mut self, retry_interval: Duration) -> Credential {
        self.retry_interval = retry_interval.clamp(Duration::from_millis(10), Duration::from_secs(365 * 86_400));
        self
    }

    /// The current credential, for a connection that is about to be opened.
    ///
    /// Cancel safe: a command that runs goes on, and whoever asks next finds what it printed. An attempt to open a connection
    /// has less time than a login may take.
    ///
    /// # Errors
    /// When there is none to be had.
    pub async fn present(&self) -> Result<Presented, CredentialError> {
        match self.source {
            Source::Fixed(_) | Source::File(_) => self.read().await,
            Source::Command(_) => self.run(Run::Unless).await,
        }
    }

    /// What is not there of where it is to be found, for people: a file, or a program. It may come later. Reads no credential and runs
    /// nothing.
    pub fn missing(&self) -> Option<String> {
        match &self.source {
            Source::Fixed(_) => None,
            Source::File(path) => {
                let trouble = path.metadata().err()?;
                Some(format!("the file {}: {trouble}", path.display()))
            }
            Source::Command(argv) => {
                let program = argv.first().filter(|program| !command::is_there(program))?;
                Some(format!("the program {}: it is not found", program.display()))
            }
        }
    }

    /// Looks again for one that the upstream has not refused; `once_more` makes do with the one that it has.
    async fn look(&self, once_more: bool) -> Result<Look, CredentialError> {
        match self.source {
            Source::Fixed(_) | Source::File(_) => self.read().await?,
            Source::Command(_) => self.run(Run::Again).await?,
        };
        let mut held = self.found.lock();
        if held.generation > held.refused {
            return Ok(Look::Another);
        }
        if !once_more {
            return Ok(Look::Refused);
        }
        // It counts as another one, so that a command is not run again by the connections that present it.
        held.generation += 1;
        Ok(Look::OnceMore)
    }

    /// Whether the upstream has refused the latest.
    fn is_refused(&self) -> bool {
        let held = self.found.lock();
        held.generation > 0 && held.generation <= held.refused
    }

    /// Runs the command in a task of its own, one at a time: it may log in, and is not run by three connections at once.
    async fn run(&self, run: Run) -> Result<Presented, CredentialError> {
        let (answer, answered) = oneshot::channel();
        let credential = self.clone();
        tokio::spawn(async move {
            let _turn = credential.found.turn.lock().await;
            let held = latest(&credential.found).filter(|_| run == Run::Unless);
            let result = match held {
                Some(held) => Ok(held),
                // Whoever has given up in the queue needs no run of its own.
                None if answer.is_closed() => return,
                None => credential.read().await,
            };
            let _ = answer.send(result);
        });
        answered.await.unwrap_or(Err(CredentialError::Interrupted))
    }

    async fn read(&self) -> Result<Presented, CredentialError> {
        let (secret, modified) = match &self.source {
            Source::Fixed(secret) => (Arc::clone(secret), None),
            Source::File(path) => {
                let (secret, modified) = reading::from_file(path).await?;
                (Arc::new(secret), modified)
            }
            Source::Command(argv) => (Arc::new(command::printed(argv, self.timeout).await?), None),
        };
        Ok(take(&self.found, secret, modified))
    }

    fn new(source: Source) -> Credential {
        let (timeout, retry_interval) = (Duration::from_secs(30), Duration::from_secs(300));
        Credential { source, timeout, retry_interval, found: Arc::default() }
    }
}

impl Found {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one that was found last, unless it was refused.
fn latest(found: &Arc<Found>) -> Option<Presented> {
    let held = found.lock();
    let secret = held.secret.clone().filter(|_| held.generation > held.refused)?;
    Some(Presented { secret, generation: held.generation, found: Arc::clone(found) })
}

fn take(found: &Arc<Found>, secret: Arc<Secret>, modified: Option<SystemTime>) -> Presented {
    let mut held = found.lock();
    if held.secret.as_ref() != Some(&secret) || held.modified != modified {
        held.generation += 1;
        (held.secret, held.modified) = (Some(Arc::clone(&secret)), modified);
    }
    Presented { secret, generation: held.generation, found: Arc::clone(found) }
}

/// A credential as one connection presents it.
#[derive(Clone)]
pub struct Presented {
    secret: Arc<Secret>,
    generation: u64,
    found: Arc<Found>,
}

impl Presented {
    /// What to show to the upstream, and to nobody else.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The upstream has refused it. Connections end in any order: one that was opened with an older credential says nothing
    /// about a newer one.
    pub fn refused(&self) {
        let mut held = self.found.lock();
        held.refused = held.refused.max(self.generation);
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Fixed(_) => f.write_str("Fixed(..)"),
            Source::File(path) => f.debug_tuple("File").field(path).finish(),
            // Arguments may be secret themselves.
            Source::Command(argv) => f.debug_tuple("Command").field(&argv.first()).finish(),
        }
    }
}
