//! The cache: what is known of a ledger, on disk, so that the next start asks for nothing it already has.
//!
//! ```text
//! carom ledger 1\n | key, 32 bytes | for each transaction: u32 size, its bytes, 8 bytes of their hash
//! ```
//! The key is the root of the genesis.
//! It is never changed: a longer one, or one that goes on differently, is written beside it and takes its place, so two processes
//! can share a folder. What is read is believed no further than its hashes go; whether it is the pool's ledger is for the pool to
//! say.

use super::merkle::{Hash, Head, Tree, leaf_hash};
use super::{LONGEST_TRANSACTION, Ledger, Transaction};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEADER: &[u8] = b"carom ledger 1\n";
const MARK: usize = 8;
/// No file that we wrote is longer: 100 times the ledgers of today's largest pools.
const LONGEST: u64 = 256 << 20;
/// Nobody writes for so long. What is older was left behind by a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Why a cache is of no use. None of these is more than a warning: there is still the genesis.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: io::Error,
    },
    /// Somebody else's file.
    #[error("{} is not a cache of a ledger", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A file that is too large.
    #[error("{} has {size} bytes, and {LONGEST} is the limit", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// It belongs to a pool with another genesis.
    #[error("{} is the cache of another pool: its genesis has the root {}, not {}", path.display(), b58(found), b58(wanted))]
    OtherPool {
        /// The file.
        path: PathBuf,
        /// The key that it was written for, or the root that its first transactions have.
        found: Hash,
        /// Ours.
        wanted: Hash,
    },
}

fn b58(hash: &Hash) -> String {
    bs58::encode(hash).into_string()
}

/// The file for the ledger of one pool, which is known by its genesis.
#[derive(Clone, Debug)]
pub struct Cache {
    path: PathBuf,
    genesis: Head,
}

impl Cache {
    /// The file in this folder for the pool with this genesis. Nothing is read or written yet.
    pub fn new(folder: impl AsRef<Path>, genesis: Head) -> Cache {
        Cache { path: folder.as_ref().join(format!("{}.ledger", b58(&genesis.root))), genesis }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what is there; `None` if there is nothing, or nothing beyond the genesis. Of a file with a torn or damaged end the
    /// transactions before it are taken.
    ///
    /// # Errors
    /// When there is something else.
    pub fn read(&self) -> Result<Option<Ledger>, CacheError> {
        let bytes = match self.bytes() {
            Ok(bytes) => bytes,
            Err(CacheError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(rest) = bytes.strip_prefix(HEADER) else {
            // Torn within its first bytes it is ours, and holds nothing.
            let torn = HEADER.starts_with(&bytes);
            return if torn { Ok(None) } else { Err(CacheError::Foreign { path: self.path.clone() }) };
        };
        let Some((key, rest)) = rest.split_first_chunk::<32>() else { return Ok(None) };
        self.same(*key)?;
        // Whose it is can be told without looking into the transactions, which take more time and memory.
        let mut beginning = Records(rest);
        let leaves: Tree = beginning.by_ref().take(self.genesis.size as usize).map(leaf_hash).collect();
        if leaves.head().size < self.genesis.size {
            return Ok(None);
        }
        self.same(leaves.head().root)?;
        let (mut ledger, mut records) = (Ledger::default(), Records(rest));
        let mut lost = records.0.len();
        while let Some(transaction) = records.next().and_then(|packed| Transaction::unpacked(packed).ok()) {
            ledger.append(transaction);
            lost = records.0.len();
        }
        if lost > 0 {
            let (path, kept) = (self.path.display(), ledger.head().size);
            tracing::warn!(%path, kept, lost, "the end of a cached ledger is damaged; the beginning is used");
        }
        Ok((ledger.head().size > self.genesis.size).then_some(ledger))
    }

    /// Writes a ledger in the place of what is there, unless that is the same or goes on from it: nothing is lost to who knows less.
    /// When it returns, the ledger is on the disk; whenever it is cut short, what was there still is.
    ///
    /// # Errors
    /// When that cannot be done, or when there is something of somebody else's, which is left alone.
    pub fn write(&self, ledger: &Ledger) -> Result<(), CacheError> {
        let mut bytes = [HEADER, &self.genesis.root].concat();
        for transaction in ledger.transactions() {
            let packed = transaction.packed();
            bytes.extend((packed.len() as u32).to_le_bytes());
            bytes.extend(packed);
            bytes.extend(&leaf_hash(packed)[..MARK]);
        }
        if bytes.len() as u64 > LONGEST {
            return Err(CacheError::TooLarge { path: self.path.clone(), size: bytes.len() as u64 });
        }
        match self.bytes() {
            // Another process may put a longer one there from now on, and lose it: it is fetched again then.
            Ok(there) if goes_on(&there, &bytes) => return Ok(()),
            Ok(there) if !HEADER.starts_with(&there[..there.len().min(HEADER.len())]) => {
                return Err(CacheError::Foreign { path: self.path.clone() });
            }
            Ok(_) => {}
            Err(CacheError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.replace(&bytes).map_err(|source| self.io(source))
    }

    fn bytes(&self) -> Result<Vec<u8>, CacheError> {
        // Of anything but a file one cannot tell how long reading takes.
        let known = fs::metadata(&self.path).map_err(|source| self.io(source))?;
        if !known.is_file() {
            return Err(CacheError::Foreign { path: self.path.clone() });
        }
        if known.len() > LONGEST {
            return Err(CacheError::TooLarge { path: self.path.clone(), size: known.len() });
        }
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
        read.map(|_| bytes).map_err(|source| self.io(source))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        self.clear(folder);
        // A name that nobody can have made ready for us, and a file that is new in any case: what is behind a link is not ours.
        let number = RandomState::new().hash_one(&self.path);
        let beside = self.path.with_extension(format!("{number:016x}.new"));
        let mut file = File::options().write(true).create_new(true).open(&beside)?;
        let written =
            file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            // Whatever was left of it is in nobody's way, but nobody's use either.
            let _ = fs::remove_file(&beside);
        }
        written?;
        // The name is on the disk only when the folder is. Where folders cannot be opened, the system sees to it.
        if let Ok(folder) = File::open(folder) {
            folder.sync_all()?;
        }
        Ok(())
    }

    /// Removes what processes that were killed left beside the file. It is in nobody's way: what cannot be removed stays.
    fn clear(&self, folder: &Path) {
        let Some(stem) = self.path.file_stem().and_then(|stem| stem.to_str()) else { return };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let beside = name.to_str().and_then(|name| name.strip_prefix(stem)?.strip_suffix(".new"));
            let changed = entry.metadata().and_then(|known| known.modified()).ok();
            let age = changed.and_then(|changed| changed.elapsed().ok());
            if beside.is_some() && age.is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn same(&self, found: Hash) -> Result<(), CacheError> {
        let wanted = self.genesis.root;
        if found == wanted {
            return Ok(());
        }
        Err(CacheError::OtherPool { path: self.path.clone(), found, wanted })
    }

    fn io(&self, source: io::Error) -> CacheError {
        CacheError::Io { path: self.path.clone(), source }
    }
}

/// Whether a file holds all of another, and behind it nothing, or one whole transaction at least.
fn goes_on(there: &[u8], bytes: &[u8]) -> bool {
    there.strip_prefix(bytes).is_some_and(|more| more.is_empty() || Records(more).next().is_some())
}

/// The bytes of transactions, as long as they are there, and whole. What is left are those behind.
struct Records<'b>(&'b [u8]);

impl<'b> Iterator for Records<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let (size, rest) = self.0.split_first_chunk::<4>()?;
        let size = u32::from_le_bytes(*size) as usize;
        let (packed, rest) = rest.split_at_checked(size).filter(|_| size <= LONGEST_TRANSACTION)?;
        let (mark, rest) = rest.split_at_checked(MARK)?;
        if leaf_hash(packed)[..MARK] != *mark {
            return None;
        }
        self.0 = rest;
        Some(packed)
    }
}
