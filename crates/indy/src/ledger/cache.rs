//! The cache: what is known of a ledger, on disk, so that the next start asks for nothing it already has.
//!
//! ```text
//! carom ledger 1\n | root of the genesis, 32 bytes | for each transaction: u32 size, its bytes, 8 bytes of their hash
//! ```
//! It is never changed: a longer one is written beside it and takes its place, so two processes can share a folder.
//! What is read is believed no further than its hashes go; whether it is the pool's ledger is for the pool to say.

use super::merkle::{Hash, Head, leaf_hash};
use super::{LONGEST_TRANSACTION, Ledger, Transaction};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

const HEADER: &[u8] = b"carom ledger 1\n";
const MARK: usize = 8;
/// No file that we wrote is longer: 100 times the ledgers of today's largest pools.
const LONGEST: u64 = 256 << 20;

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
        /// The root that it was written for, or that its transactions have.
        found: Hash,
        /// The root of our genesis.
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
        let Some((root, mut rest)) = rest.split_first_chunk::<32>() else { return Ok(None) };
        self.same_pool(*root)?;
        let mut ledger = Ledger::default();
        while let Some(transaction) = first(&mut rest) {
            ledger.append(transaction);
        }
        if !rest.is_empty() {
            let (path, kept) = (self.path.display(), ledger.head().size);
            tracing::warn!(%path, kept, lost = rest.len(), "the end of a cached ledger is damaged; the beginning is used");
        }
        let Some(beginning) = ledger.head_at(self.genesis.size as usize) else { return Ok(None) };
        self.same_pool(beginning.root)?;
        Ok((ledger.head().size > self.genesis.size).then_some(ledger))
    }

    /// Writes a ledger in the place of what is there. When it returns, the ledger is on the disk; whenever it is cut short, what
    /// was there still is.
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
        match self.begins_with(HEADER) {
            Ok(true) => {}
            Ok(false) => return Err(CacheError::Foreign { path: self.path.clone() }),
            Err(source) => return Err(self.io(source)),
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

    /// Whether what is there may be replaced: nothing, or what we began.
    fn begins_with(&self, header: &[u8]) -> io::Result<bool> {
        let mut begin = Vec::new();
        match fs::metadata(&self.path) {
            Ok(known) if !known.is_file() => return Ok(false),
            Ok(_) => File::open(&self.path)?.take(header.len() as u64).read_to_end(&mut begin)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        Ok(header.starts_with(&begin))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let folder = self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let beside = self.path.with_extension(format!("{}-{number}.new", process::id()));
        let written = File::create(&beside)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&beside, &self.path));
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

    fn same_pool(&self, found: Hash) -> Result<(), CacheError> {
        if found == self.genesis.root {
            return Ok(());
        }
        Err(CacheError::OtherPool { path: self.path.clone(), found, wanted: self.genesis.root })
    }

    fn io(&self, source: io::Error) -> CacheError {
        CacheError::Io { path: self.path.clone(), source }
    }
}

/// Takes the first transaction out of the bytes, if it is there and whole.
fn first(bytes: &mut &[u8]) -> Option<Transaction> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let size = u32::from_le_bytes(*size) as usize;
    let (packed, rest) = rest.split_at_checked(size).filter(|_| size <= LONGEST_TRANSACTION)?;
    let (mark, rest) = rest.split_at_checked(MARK)?;
    if leaf_hash(packed)[..MARK] != *mark {
        return None;
    }
    let transaction = Transaction::unpacked(packed).ok()?;
    *bytes = rest;
    Some(transaction)
}
