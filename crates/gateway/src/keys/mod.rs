//! API keys: who a client is, known by the digest of what it sends.
//!
//! A key is 256 bits of chance, shown once when it is [made](NewKey); what is kept is its SHA-256, which is of no use to whoever
//! reads it. A slow hash would add nothing against guessing such keys, and clients send no user: it would have to be tried
//! for every key there is. [`Attempts`] slows down those who guess.
//!
//! ```
//! use carom_gateway::keys::{Identity, Keys, NewKey};
//!
//! let new = NewKey::generate()?;
//! let keys = Keys::in_memory([(Identity::new("simulated", "asha"), new.sha256())]);
//! assert_eq!(keys.check(new.reveal()), Some(Identity::new("simulated", "asha")));
//! assert_eq!(keys.check("guessed"), None);
//! # Ok::<(), carom_gateway::keys::KeysError>(())
//! ```
//!
//! In a file:
//!
//! ```toml
//! [[key]]
//! user = "asha"
//! broker = "simulated"
//! sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
//! name = "laptop"          # for people; may be left out
//! created = 2026-11-15     # for people; may be left out
//! ```

mod attempts;
mod file;
mod new;

pub use attempts::{Attempts, Failed};
pub use new::NewKey;

use crate::tables::{Table, TableError};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use subtle::{ConditionallySelectable, ConstantTimeEq};
use tokio::sync::watch;

/// The SHA-256 of a key.
pub type Digest = [u8; 32];

/// Whose feed a client is served from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The broker, as in the config.
    pub broker: Arc<str>,
    /// The user at that broker.
    pub user: Arc<str>,
}

impl Identity {
    /// A user at a broker.
    pub fn new(broker: impl Into<Arc<str>>, user: impl Into<Arc<str>>) -> Identity {
        Identity { broker: broker.into(), user: user.into() }
    }
}

/// Why keys are not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file cannot be read.
    #[error("the keys in `{}` cannot be read", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file makes no sense: its name, the line and the key are in the text.
    #[error(transparent)]
    Malformed(#[from] TableError),
    /// The system has no random numbers.
    #[error("there is no chance to make a key of")]
    Chance(#[source] getrandom::Error),
}

/// Every key that is accepted. Cheap to clone; all clones are the same keys, and can be [reloaded](Keys::reload) while they are
/// used.
#[derive(Clone)]
pub struct Keys {
    shared: Arc<Shared>,
}

struct Shared {
    origin: Origin,
    known: RwLock<Arc<[Known]>>,
    /// Told when they were read again.
    reloads: watch::Sender<()>,
}

/// Where keys are read again.
enum Origin {
    Memory,
    /// A file of keys alone.
    File(PathBuf),
    /// A file that has other tables too.
    Config(PathBuf),
}

/// A key, and whose it is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) digest: Digest,
    pub(crate) identity: Identity,
}

impl Keys {
    /// The keys in a file that has nothing else in it.
    ///
    /// # Errors
    /// When it cannot be read or makes no sense.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Keys, KeysError> {
        Keys::load(Origin::File(path.as_ref().to_owned()))
    }

    /// The `[[key]]` tables of a file that may have other tables too.
    ///
    /// # Errors
    /// When it cannot be read or these tables make no sense.
    pub fn from_config(path: impl AsRef<Path>) -> Result<Keys, KeysError> {
        Keys::load(Origin::Config(path.as_ref().to_owned()))
    }

    /// These keys, by their digests.
    pub fn in_memory(keys: impl IntoIterator<Item = (Identity, Digest)>) -> Keys {
        let known = keys.into_iter().map(|(identity, digest)| Known { digest, identity }).collect();
        Keys::new(Origin::Memory, known)
    }

    /// Whose key this is. It takes as long for a key that is nearly right as for one that is not: all digests are compared, in
    /// whole.
    pub fn check(&self, presented: &str) -> Option<Identity> {
        self.find(presented).map(|key| key.identity)
    }

    /// As [`check`](Keys::check), with which key that is.
    pub(crate) fn find(&self, presented: &str) -> Option<Known> {
        let digest = digest_of(presented);
        let known = self.known();
        let mut found = u32::MAX;
        for (at, key) in (0..).zip(known.iter()) {
            found.conditional_assign(&at, digest.ct_eq(&key.digest));
        }
        known.get(found as usize).cloned()
    }

    /// Whether this is still one of them, and the same one's. Not for what somebody presents: it takes as long as it takes.
    pub(crate) fn have(&self, key: &Known) -> bool {
        self.known().contains(key)
    }

    /// Tells when they were read again.
    pub(crate) fn reloads(&self) -> watch::Receiver<()> {
        self.shared.reloads.subscribe()
    }

    /// Reads the file again; how many keys there are now. Those in memory stay as they are. A gateway closes clients whose key is
    /// gone, or is somebody else's now.
    ///
    /// # Errors
    /// When it cannot be read or makes no sense; then the keys that were known go on being accepted.
    pub fn reload(&self) -> Result<usize, KeysError> {
        let read = match &self.shared.origin {
            Origin::Memory => return Ok(self.len()),
            origin => origin.read()?,
        };
        let count = read.len();
        *self.shared.known.write().unwrap_or_else(PoisonError::into_inner) = read;
        self.shared.reloads.send_replace(());
        Ok(count)
    }

    /// Everybody who has a key, each once, in order.
    pub fn identities(&self) -> Vec<Identity> {
        let mut identities: Vec<_> = self.known().iter().map(|key| key.identity.clone()).collect();
        identities.sort_unstable();
        identities.dedup();
        identities
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.known().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn load(origin: Origin) -> Result<Keys, KeysError> {
        let known = origin.read()?;
        Ok(Keys::new(origin, known))
    }

    fn new(origin: Origin, known: Arc<[Known]>) -> Keys {
        let (known, (reloads, _)) = (RwLock::new(known), watch::channel(()));
        Keys { shared: Arc::new(Shared { origin, known, reloads }) }
    }

    fn known(&self) -> Arc<[Known]> {
        Arc::clone(&self.shared.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Origin {
    fn read(&self) -> Result<Arc<[Known]>, KeysError> {
        let (path, alone) = match self {
            Origin::Memory => return Ok(Arc::default()),
            Origin::File(path) => (path, true),
            Origin::Config(path) => (path, false),
        };
        let unreadable = |source| KeysError::Unreadable { file: path.clone(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let mut table = Table::parse(&path.display().to_string(), &text)?;
        let known = file::known(&mut table)?;
        if alone {
            table.finish()?;
        }
        Ok(known.into())
    }
}

/// How many, of whom, and no digests.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("count", &self.len()).field("identities", &self.identities()).finish()
    }
}

/// Whose, and no digest.
impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("identity", &self.identity).finish_non_exhaustive()
    }
}

fn digest_of(key: &str) -> Digest {
    Sha256::digest(key.as_bytes()).into()
}
