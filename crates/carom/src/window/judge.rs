//! Judges: what users make of answers. They run in the driver, with no lock held.

use super::transport::Kind;
use carom_core::window::{Key, Verdict};

/// Tells which answers count, and which are equal.
pub(super) type Judge<A> = Box<dyn FnMut(Kind, &A) -> Verdict + Send>;

/// One valid reply is enough.
pub(super) fn any<A>(mut is_valid: impl FnMut(&A) -> bool + Send + 'static) -> Judge<A> {
    Box::new(move |kind, answer| match kind {
        Kind::Reply if is_valid(answer) => Verdict::Counts(Key(0)),
        Kind::Reply | Kind::Nack => Verdict::Invalid,
    })
}

/// Answers with the same key count together; refusals apart from replies.
pub(super) fn quorum<A, K: Eq + Send + 'static>(mut key: impl FnMut(&A) -> Option<K> + Send + 'static) -> Judge<A> {
    let mut seen: Vec<(Kind, K)> = Vec::new();
    Box::new(move |kind, answer| {
        let Some(key) = key(answer) else { return Verdict::Invalid };
        let entry = (kind, key);
        let at = seen.iter().position(|known| *known == entry).unwrap_or_else(|| {
            seen.push(entry);
            seen.len() - 1
        });
        Verdict::Counts(Key(at as u32))
    })
}

/// Everything counts.
pub(super) fn all<A>() -> Judge<A> {
    Box::new(|_, _| Verdict::Counts(Key(0)))
}
