//! Idleness: when a connection nobody uses is let go.
//!
//! Connections are not timed one by one; a detector looks at them now and then. A look marks what is unused, and a later
//! look releases what has been unused for long enough. Whoever uses the connection before the last step wins it back.
//!
//! ```
//! use carom_core::idle::Idleness;
//! use std::time::{Duration, Instant};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let minute = Duration::from_secs(60);
//! let mut idleness = Idleness::Using;
//! idleness.look(start, Some(start), minute);
//! assert!(matches!(idleness, Idleness::IdleMarked { .. }));
//! idleness.look(start + minute, Some(start), minute);
//! assert!(idleness.release()); // still unused: it is released, for good
//! assert!(!idleness.use_again());
//! ```

use std::time::{Duration, Instant};

/// How far a connection is on its way out.
///
/// ```text
///          unused, seen by the detector        max_idle passed           still unused
///  Using -----------------------------> IdleMarked -------> BeforeRelease ----------> Released
///    ^                                       |                    |
///    +--------------- used ------------------+------- used -------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// Somebody uses it, or nobody has looked since.
    Using,
    /// The detector found it unused.
    IdleMarked {
        /// Since when it has been unused.
        since: Instant,
    },
    /// Unused for `max_idle`: the next step releases it.
    BeforeRelease {
        /// Since when it has been unused.
        since: Instant,
    },
    /// Let go; terminal.
    Released,
}

impl Idleness {
    /// The detector's look: `unused_since` is `None` while somebody uses the connection.
    pub fn look(&mut self, now: Instant, unused_since: Option<Instant>, max_idle: Duration) {
        *self = match (*self, unused_since) {
            (Idleness::Released, _) => Idleness::Released,
            (_, None) => Idleness::Using,
            (Idleness::Using, Some(since)) => Idleness::IdleMarked { since },
            (Idleness::IdleMarked { since }, Some(_)) if now.saturating_duration_since(since) >= max_idle => {
                Idleness::BeforeRelease { since }
            }
            (unchanged @ (Idleness::IdleMarked { .. } | Idleness::BeforeRelease { .. }), Some(_)) => unchanged,
        }
    }

    /// Takes the last step if it is due; true when the connection is now to be closed.
    pub fn release(&mut self) -> bool {
        match self {
            Idleness::BeforeRelease { .. } => {
                *self = Idleness::Released;
                true
            }
            Idleness::Using | Idleness::IdleMarked { .. } | Idleness::Released => false,
        }
    }

    /// Somebody wants the connection: false when it is too late.
    pub fn use_again(&mut self) -> bool {
        match self {
            Idleness::Released => false,
            Idleness::Using | Idleness::IdleMarked { .. } | Idleness::BeforeRelease { .. } => {
                *self = Idleness::Using;
                true
            }
        }
    }
}

/// How often a detector looks: a quarter of `max_idle`, at least every minute, at most every second.
pub fn interval(max_idle: Duration) -> Duration {
    (max_idle / 4).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn a_user_wins_it_back_until_it_is_released() {
        let (start, limit) = (Instant::now(), Duration::from_secs(10));
        let mut idleness = Idleness::Using;
        idleness.look(start, Some(start), limit);
        assert!(!idleness.release(), "marked is not yet due");
        idleness.look(start + limit, Some(start), limit);
        assert_eq!(idleness, Idleness::BeforeRelease { since: start });
        assert!(idleness.use_again());
        assert!(!idleness.release());
        idleness.look(start + limit, Some(start + limit), limit);
        idleness.look(start + limit * 2, Some(start + limit), limit);
        assert!(idleness.release());
        assert!(!idleness.use_again());
        idleness.look(start + limit * 3, None, limit);
        assert_eq!(idleness, Idleness::Released);
    }

    #[test]
    fn a_look_while_used_starts_over() {
        let (start, limit) = (Instant::now(), Duration::from_secs(10));
        let mut idleness = Idleness::IdleMarked { since: start };
        idleness.look(start + limit, None, limit);
        assert_eq!(idleness, Idleness::Using);
    }

    #[test]
    fn looks_are_between_a_second_and_a_minute_apart() {
        assert_eq!(interval(Duration::from_millis(10)), Duration::from_secs(1));
        assert_eq!(interval(Duration::from_secs(60)), Duration::from_secs(15));
        assert_eq!(interval(Duration::from_secs(3600)), Duration::from_secs(60));
    }
}
