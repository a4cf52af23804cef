//! What a feed is told: its limits, its patience, and how its upstream wants to be written to.

use crate::idle;
use crate::options::{OptionsError, recurring, sane};
use crate::recovery::{Policy, Recovery};
use std::time::Duration;

/// What a feed is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Most distinct instruments on one connection.
    pub max_topics_per_connection: usize,
    /// Most connections.
    pub max_connections: usize,
    /// How long a topic that the last one has left stays subscribed upstream; zero is not at all.
    pub linger: Duration,
    /// How long a subscriber waits to hear of its topic; then it is told that it is pending.
    pub pending_after: Duration,
    /// A connection without topics for this long is released; `None` keeps it.
    pub max_idle: Option<Duration>,
    /// How long topics must have had room on fewer connections before they move there; `None` never moves them.
    pub compact_after: Option<Duration>,
    /// How long a topic that moves is carried on both connections: upstreams that do not say what they accepted need time to
    /// begin. Zero lets go of the old one as soon as the new one has been written to.
    pub overlap: Duration,
    /// A connection that says nothing for this long is dead; `None` waits for ever.
    pub stall_after: Option<Duration>,
    /// How long a write may take before its connection is dead.
    pub write_timeout: Duration,
    /// Most changes in one write: the upstream's limit.
    pub batch: usize,
    /// Least time from one write on a connection to the next: the upstream's limit.
    pub pace: Duration,
    /// Attempts, timeouts and delays of opening connections. When the attempts are used up, another is made after every longest
    /// delay, for as long as there are topics.
    pub recovery: Recovery,
}

/// 1000 topics on each of 3 connections; 5 s of linger, pending after 3 s, idle for 60 s, compacted after 60 s with 1 s of
/// overlap, stalled after 90 s, 10 s for a write; 100 changes every 100 ms; attempts 100 ms apart, then twice as far each time up to
/// 10 s.
impl Default for Options {
    fn default() -> Options {
        Options {
            max_topics_per_connection: 1000,
            max_connections: 3,
            linger: Duration::from_secs(5),
            pending_after: Duration::from_secs(3),
            max_idle: Some(Duration::from_secs(60)),
            compact_after: Some(Duration::from_secs(60)),
            overlap: Duration::from_secs(1),
            stall_after: Some(Duration::from_secs(90)),
            write_timeout: Duration::from_secs(10),
            batch: 100,
            pace: Duration::from_millis(100),
            // The attempts last until the delay has grown to its longest: nothing is given up early, since there is no other
            // upstream to go to.
            recovery: Recovery::from(Policy::default().attempts(8).max_delay(Duration::from_secs(10))),
        }
    }
}

impl Options {
    /// How many topics there can be in all.
    pub fn capacity(&self) -> usize {
        self.max_topics_per_connection.saturating_mul(self.max_connections)
    }

    /// How often connections without topics are looked for; `None` when they are kept.
    pub fn looks(&self) -> Option<Duration> {
        self.max_idle.map(idle::interval)
    }

    /// Refuses what makes no sense, naming the option.
    ///
    /// # Errors
    /// The first option that is out of bounds.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let counts = [
            ("max_topics_per_connection", self.max_topics_per_connection),
            ("max_connections", self.max_connections),
            ("batch", self.batch),
        ];
        for (option, count) in counts {
            if count == 0 {
                return Err(OptionsError::new(option, "must be at least 1"));
            }
        }
        let times = [
            ("pending_after", Some(self.pending_after)),
            ("max_idle", self.max_idle),
            ("compact_after", self.compact_after),
            ("stall_after", self.stall_after),
            ("write_timeout", Some(self.write_timeout)),
        ];
        for (option, time) in times {
            sane(option, time)?;
            recurring(option, time)?;
        }
        for (option, time) in [("linger", self.linger), ("overlap", self.overlap), ("pace", self.pace)] {
            sane(option, Some(time).filter(|time| !time.is_zero()))?;
        }
        self.recovery.validate().map_err(|problem| OptionsError::new("recovery", problem.to_string()))
    }
}
