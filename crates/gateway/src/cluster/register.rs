//! The seam to whatever keeps leases: reading, writing what nobody else has written over, and hearing of changes.

use super::{Entry, Mark};
use tokio::sync::Notify;

/// Where members agree on who is the owner: a few entries with revisions.
///
/// Everything may fail or hang at any time, and a write that failed may have been done, or be done later: who asks sees to
/// that. What must hold is that a write over a revision is done only if the entry has that very revision, and that every write
/// gives it one that it has not had.
pub trait Register: Send + Sync + 'static {
    /// Why something could not be done.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The entry as it is; [`Entry::absent`] if there is none.
    fn read(&self, key: &str) -> impl Future<Output = Result<Entry, Self::Error>> + Send;

    /// Writes over the entry of this revision: 0 if there is to be none. The new revision, or `None` if the entry has another.
    fn write(&self, key: &str, over: u64, mark: Mark) -> impl Future<Output = Result<Option<u64>, Self::Error>> + Send;

    /// Notifies whenever the entry may have changed, and ends when it cannot, with why. To notify too often or not at all only
    /// costs time, as entries are also read at intervals.
    fn watch(&self, key: &str, changed: &Notify) -> impl Future<Output = Self::Error> + Send;
}
