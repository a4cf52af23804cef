//! What makes no sense, over and over: each reason is told the first time, and then now and then with how often it was the reason.

use crate::upstream::shown;
use carom_core::seldom::Seldom;
use std::collections::BTreeMap;
use std::time::Instant;

/// More bytes of a topic are not looked at; of what is shown they are more than enough.
const LOOKED_AT: usize = 1024;

/// See the [module](self). There are as many reasons as `W` has values: nothing that comes over a wire belongs in them.
#[derive(Debug)]
pub(crate) struct Nonsense<W>(BTreeMap<W, Seldom>);

impl<W> Default for Nonsense<W> {
    fn default() -> Nonsense<W> {
        Nonsense(BTreeMap::new())
    }
}

impl<W: Ord> Nonsense<W> {
    /// It was the reason: how often since it was told last, this time included, if it is to be told.
    pub(crate) fn happened(&mut self, why: W, now: Instant) -> Option<u64> {
        self.0.entry(why).or_default().happened(now)
    }
}

/// A topic, which may be anything, fit to be shown to people.
pub(crate) fn shown_topic(topic: &[u8]) -> String {
    shown(&String::from_utf8_lossy(&topic[..topic.len().min(LOOKED_AT)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_by_itself() {
        let (now, mut nonsense) = (Instant::now(), Nonsense::default());
        let told = ["json", "json", "topic", "json", "topic"].map(|why| nonsense.happened(why, now));
        assert_eq!(told, [Some(1), None, Some(1), None, None]);
    }

    #[test]
    fn topics_are_shortened_and_keep_to_their_line() {
        assert_eq!(shown_topic(b"NSE_SBIN\n\x1b[2J_\xff"), "NSE_SBIN  [2J_\u{fffd}");
        let long = shown_topic("\u{20ac}".repeat(100_000).as_bytes());
        assert!(long.ends_with('…') && long.len() < LOOKED_AT, "{long}");
    }
}
