//! A register within this process, for tests and demonstrations: members can be cut off from it, and it can forget.

use super::{Entry, Mark, Register};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// A register within this process. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Memory {
    entries: Arc<Mutex<Entries>>,
    writes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Entries {
    entries: BTreeMap<String, Entry>,
    revision: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { entries: Arc::default(), writes: watch::Sender::new(0) }
    }
}

impl Memory {
    /// A way to it for one member, which can be cut.
    pub fn link(&self) -> MemoryLink {
        MemoryLink { memory: self.clone(), passes: watch::Sender::new(true) }
    }

    /// What it has for a key.
    pub fn entry(&self, key: &str) -> Entry {
        self.lock().entries.get(key).cloned().unwrap_or_else(Entry::absent)
    }

    /// Everything is gone, and revisions begin anew.
    pub fn forget(&self) {
        *self.lock() = Entries::default();
        self.writes.send_modify(|writes| *writes += 1);
    }

    fn write(&self, key: &str, over: u64, mark: Mark) -> Option<u64> {
        let mut entries = self.lock();
        if entries.entries.get(key).map_or(0, |entry| entry.revision) != over {
            return None;
        }
        entries.revision += 1;
        let revision = entries.revision;
        entries.entries.insert(key.to_owned(), Entry { revision, mark });
        drop(entries);
        self.writes.send_modify(|writes| *writes += 1);
        Some(revision)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One member's way to a [`Memory`]. Clones are the same way.
#[derive(Clone, Debug)]
pub struct MemoryLink {
    memory: Memory,
    passes: watch::Sender<bool>,
}

impl MemoryLink {
    /// Nothing is answered from now on, nor done.
    pub fn cut(&self) {
        self.passes.send_replace(false);
    }

    /// What was asked meanwhile, by who still waits, is done now.
    pub fn mend(&self) {
        self.passes.send_replace(true);
    }

    async fn passes(&self) {
        // It cannot end before this does, which has one itself.
        let _ = self.passes.subscribe().wait_for(|passes| *passes).await;
    }
}

impl Register for MemoryLink {
    type Error = Infallible;

    async fn read(&self, key: &str) -> Result<Entry, Infallible> {
        self.passes().await;
        Ok(self.memory.entry(key))
    }

    async fn write(&self, key: &str, over: u64, mark: Mark) -> Result<Option<u64>, Infallible> {
        self.passes().await;
        Ok(self.memory.write(key, over, mark))
    }

    async fn watch(&self, _key: &str, changed: &Notify) -> Infallible {
        let mut writes = self.memory.writes.subscribe();
        loop {
            // As above.
            let _ = writes.changed().await;
            self.passes().await;
            changed.notify_one();
        }
    }
}
