//! Prefixes: what a subscriber wants, asked for each message that is published.

use crate::error::ZmtpError;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;

/// The prefixes that a subscriber has subscribed to. A message goes to it if its first part begins with one of them; the empty
/// one is all.
///
/// ```
/// use carom_zmtp::pubsub::Prefixes;
///
/// let mut prefixes = Prefixes::new(10);
/// prefixes.insert("NSE_".into())?;
/// assert!(prefixes.want(b"NSE_SBIN_LTP") && !prefixes.want(b"BSE_SBIN_LTP"));
/// # Ok::<(), carom_zmtp::ZmtpError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prefixes {
    all: BTreeSet<Bytes>,
    limit: usize,
}

impl Prefixes {
    /// None yet, and never more than so many.
    pub fn new(limit: usize) -> Prefixes {
        Prefixes { all: BTreeSet::new(), limit }
    }

    /// One more. Subscribing to it again changes nothing.
    ///
    /// # Errors
    /// If there are too many. Nothing has changed then.
    pub fn insert(&mut self, prefix: Bytes) -> Result<(), ZmtpError> {
        if self.all.len() >= self.limit && !self.all.contains(&prefix) {
            return Err(ZmtpError::TooManyPrefixes { limit: self.limit });
        }
        self.all.insert(prefix);
        Ok(())
    }

    /// One less.
    pub fn remove(&mut self, prefix: &[u8]) {
        self.all.remove(prefix);
    }

    /// Whether something that begins like this is wanted.
    pub fn want(&self, topic: &[u8]) -> bool {
        let mut rest = topic;
        loop {
            let bounds = (Bound::Unbounded, Bound::Included(rest));
            let Some(nearest) = self.all.range::<[u8], _>(bounds).next_back() else { return false };
            let common = nearest.iter().zip(rest).take_while(|(one, other)| one == other).count();
            if common == nearest.len() {
                return true;
            }
            // Whatever else is a prefix stands before this one, so it parts from the topic no later than this one does.
            rest = &rest[..common];
        }
    }
}
