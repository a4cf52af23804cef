//! Building a feed: whom it speaks to, and every option.

use super::Feed;
use super::adapter::Adapter;
use super::driver::Driver;
use super::shared::Shared;
use crate::building::{self, BuildError};
use crate::monitor::Monitor;
use crate::seed::seed;
use carom_core::feed::{Machine, Options};
use carom_core::options::{OptionsError, recurring};
use carom_core::recovery::Recovery;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Instrument;

/// Builds a [`Feed`]; made by [`Feed::builder`]. Every option has a default; [`build`](Builder::build) refuses what makes no
/// sense.
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<A> {
    adapter: A,
    name: Arc<str>,
    backlog: usize,
    monitor: Monitor,
    runtime: Option<Handle>,
    options: Options,
}

impl<A: Adapter> Builder<A> {
    pub(super) fn new(adapter: A) -> Builder<A> {
        Builder {
            adapter,
            name: "feed".into(),
            backlog: 10_000,
            monitor: Monitor::global().clone(),
            runtime: None,
            options: Options::default(),
        }
    }

    /// Shown in errors, logs and snapshots. Default `feed`.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Builder<A> {
        self.name = name.into();
        self
    }

    /// Most distinct instruments on one connection; modes of one instrument count once. Default 1000.
    pub fn max_topics_per_connection(mut self, max_topics_per_connection: usize) -> Builder<A> {
        self.options.max_topics_per_connection = max_topics_per_connection;
        self
    }

    /// Most connections. Default 3.
    pub fn max_connections(mut self, max_connections: usize) -> Builder<A> {
        self.options.max_connections = max_connections;
        self
    }

    /// How long a topic that the last one has left stays subscribed upstream, in case somebody comes back; zero is not at all.
    /// When room is short it goes at once. Default 5 s.
    pub fn linger(mut self, linger: Duration) -> Builder<A> {
        self.options.linger = linger;
        self
    }

    /// How long [`Feed::subscribe`] waits for the upstream before it says that the topic is pending; it does not wait while
    /// attempts to open a connection fail. Default 3 s.
    pub fn pending_after(mut self, pending_after: Duration) -> Builder<A> {
        self.options.pending_after = pending_after;
        self
    }

    /// A connection without topics for this long is released; `None` keeps it. Default 60 s.
    pub fn max_idle(mut self, max_idle: impl Into<Option<Duration>>) -> Builder<A> {
        self.options.max_idle = max_idle.into();
        self
    }

    /// How long topics must have had room on fewer connections before they move there; `None` never moves them. The freed
    /// connection is released after `max_idle`. Default 60 s.
    pub fn compact_after(mut self, compact_after: impl Into<Option<Duration>>) -> Builder<A> {
        self.options.compact_after = compact_after.into();
        self
    }

    /// How long a topic that moves is carried on both connections, since some upstreams take what they are told without a word
    /// and begin a moment later. Ticks are taken from the old one meanwhile. Zero lets go of it as soon as the new one has been
    /// told. Default 1 s.
    pub fn overlap(mut self, overlap: Duration) -> Builder<A> {
        self.options.overlap = overlap;
        self
    }

    /// A connection that says nothing for this long, not even a heartbeat, is dead; `None` waits for ever. Default 90 s.
    pub fn stall_after(mut self, stall_after: impl Into<Option<Duration>>) -> Builder<A> {
        self.options.stall_after = stall_after.into();
        self
    }

    /// How long a write or a heartbeat may take before its connection is dead, and how long an orderly goodbye may take. Default
    /// 10 s.
    pub fn write_timeout(mut self, write_timeout: Duration) -> Builder<A> {
        self.options.write_timeout = write_timeout;
        self
    }

    /// Attempts, timeouts and delays of opening connections. Takes a [`Recovery`], or one [`Policy`](crate::Policy) for
    /// everything. When its attempts are used up, another is made after every longest delay, for as long as there are topics.
    ///
    /// Default: 8 attempts, timeout 2 s up to 8 s, delay 100 ms up to 10 s, spread 0.2. So the delay doubles evenly, 0.1, 0.2, 0.4
    /// and so on up to 6.4 s, and is 10 s from then on: an outage that takes a time `d` is over for the feed after about 2 `d`,
    /// and at most 11 s (10 s and the spread) after the upstream is back; one timeout later if an attempt hangs just then.
    pub fn recovery(mut self, recovery: impl Into<Recovery>) -> Builder<A> {
        self.options.recovery = recovery.into();
        self
    }

    /// How many ticks wait for a reader of [`Feed::ticks`] before it misses the oldest. Default 10,000.
    pub fn backlog(mut self, backlog: usize) -> Builder<A> {
        self.backlog = backlog;
        self
    }

    /// Which monitor sees it. Default: [`Monitor::global`].
    pub fn monitor(mut self, monitor: &Monitor) -> Builder<A> {
        self.monitor = monitor.clone();
        self
    }

    /// The tokio runtime that the feed lives on, with its timers enabled. Default: the one that `build` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Builder<A> {
        self.runtime = Some(runtime);
        self
    }

    /// Builds the feed. It connects when something is subscribed to.
    ///
    /// # Errors
    /// When an option, or the adapter's pacing, makes no sense (the error names it), or when there is no runtime.
    pub fn build(mut self) -> Result<Feed<A>, BuildError> {
        let pacing = self.adapter.pacing();
        (self.options.batch, self.options.pace) = (pacing.batch, pacing.pace);
        recurring("heartbeat", pacing.heartbeat)?;
        if self.backlog == 0 {
            return Err(OptionsError::new("backlog", "must be at least 1").into());
        }
        let machine = Machine::new(self.options, seed())?;
        let runtime = building::runtime(self.runtime)?;
        let shared = Arc::new(Shared::new(self.name, self.adapter, pacing.heartbeat, machine));
        let id = self.monitor.register(&shared);
        let span = tracing::info_span!(parent: None, "feed", feed = &*shared.name);
        runtime.spawn(Driver::new(Arc::clone(&shared)).run().instrument(span));
        Ok(Feed::new(shared, id, runtime, self.backlog))
    }
}

impl<A> fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}
