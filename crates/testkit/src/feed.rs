//! An upstream of market data without sockets: it behaves as its script says, and everything it carries is accounted for.
//!
//! What a feed may not do to an upstream is noted (a change of something that is not carried, a batch too big or too soon, too
//! many topics, a write after one that was cut short), and whoever asks the upstream anything then gets a panic.
//!
//! ```
//! use carom::feed::{Feed, Mode, Topic};
//! use testkit::feed::Upstream;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! let upstream = Upstream::new();
//! let feed = Feed::builder(upstream.clone()).build().unwrap();
//! let mut ticks = feed.ticks();
//! let topic = Topic::new("NSE", "SBIN", Mode::Quote);
//! feed.subscribe(topic.clone()).await.unwrap();
//! assert_eq!(upstream.carried(&topic.instrument), [(1, topic.level)]);
//!
//! upstream.tick(&topic.instrument, Mode::Quote, "812.05");
//! assert_eq!(ticks.next().await.unwrap().payload, "812.05");
//! # });
//! ```

mod adapter;
mod links;
mod script;

pub use adapter::{Reader, Writer};
pub use script::{OnClose, OnHeartbeat, OnOpen, OnWrite, UpstreamError, Written};

use bytes::Bytes;
use carom::feed::{Instrument, Level, Mode, Pacing, Tick};
use links::{Link, Said, Shared, State};
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use tokio::time::timeout;

/// How long [`Upstream::until`] waits.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The adapter, and the handle to its script: clones share everything, so keep one and give one to the feed.
#[derive(Clone, Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
    pacing: Pacing,
}

impl Upstream {
    /// An upstream that does as it should, takes 100 changes at a time, and is in no hurry.
    #[expect(clippy::new_without_default, reason = "tests say `new`")]
    pub fn new() -> Upstream {
        let shared = Arc::new(Shared::new());
        Upstream { shared, pacing: Pacing::default() }
    }

    /// With this pacing.
    #[must_use]
    pub fn pacing(mut self, pacing: Pacing) -> Upstream {
        self.pacing = pacing;
        self
    }

    /// How opening goes from now on. Attempts under way keep what they started with.
    pub fn on_open(&self, open: OnOpen) {
        self.shared.lock().open = open;
    }

    /// How writes go from now on. Those under way keep what they started with.
    pub fn on_write(&self, write: OnWrite) {
        self.shared.lock().write = write;
    }

    /// How heartbeats go from now on.
    pub fn on_heartbeat(&self, heartbeat: OnHeartbeat) {
        self.shared.lock().heartbeat = heartbeat;
    }

    /// How goodbyes go from now on.
    pub fn on_close(&self, close: OnClose) {
        self.shared.lock().close = close;
    }

    /// From now on a connection may carry so many instruments, and no more. At first: any number.
    pub fn max_topics(&self, max_topics: usize) {
        self.shared.lock().max_topics = Some(max_topics);
    }

    /// From now on this instrument is not accepted; `None` accepts it.
    pub fn refuse(&self, instrument: &Instrument, reason: Option<&str>) {
        let mut state = self.shared.lock();
        match reason {
            Some(reason) => state.refused.insert(instrument.clone(), reason.into()),
            None => state.refused.remove(instrument),
        };
    }

    /// Everything that carries this instrument ticks.
    pub fn tick(&self, instrument: &Instrument, mode: Mode, payload: impl Into<Bytes>) {
        let tick = Tick { instrument: instrument.clone(), mode, payload: payload.into() };
        for link in self.shared.lock().links.values().filter(|link| link.carries.contains_key(instrument)) {
            let _ = link.said.send(Said::Ticks(vec![tick.clone()]));
        }
    }

    /// One connection ticks, whether it carries the instrument or not.
    pub fn tick_on(&self, connection: usize, instrument: &Instrument, payload: impl Into<Bytes>) {
        let tick = Tick { instrument: instrument.clone(), mode: Mode::Ltp, payload: payload.into() };
        if let Some(link) = self.shared.lock().links.get(&connection) {
            let _ = link.said.send(Said::Ticks(vec![tick]));
        }
    }

    /// Every connection shows that it lives.
    pub fn show_life(&self) {
        for link in self.shared.lock().links.values() {
            let _ = link.said.send(Said::Ticks(Vec::new()));
        }
    }

    /// Ends a connection, counted from 1 in order of opening.
    pub fn kill(&self, connection: usize) {
        if let Some(link) = self.shared.lock().links.get(&connection) {
            let _ = link.said.send(Said::End);
        }
    }

    /// Which connections carry an instrument, and how much of it.
    pub fn carried(&self, instrument: &Instrument) -> Vec<(usize, Level)> {
        let state = self.sound();
        let carried = |(id, link): (&usize, &Link)| link.carries.get(instrument).map(|level| (*id, *level));
        state.links.iter().filter_map(carried).collect()
    }

    /// How many instruments each open connection carries, by connection.
    pub fn carried_by_each(&self) -> BTreeMap<usize, usize> {
        self.sound().links.iter().map(|(id, link)| (*id, link.carries.len())).collect()
    }

    /// How many connections are open now.
    pub fn open_now(&self) -> usize {
        self.sound().links.len()
    }

    /// How many connections were ever opened.
    pub fn opened(&self) -> usize {
        self.sound().opened
    }

    /// How many attempts to open one were ever made.
    pub fn attempts(&self) -> usize {
        self.sound().attempts
    }

    /// The most connections that were open at one time.
    pub fn peak(&self) -> usize {
        self.sound().peak
    }

    /// How many connections ended with a goodbye.
    pub fn goodbyes(&self) -> usize {
        self.sound().goodbyes
    }

    /// How many heartbeats came.
    pub fn heartbeats(&self) -> usize {
        self.sound().heartbeats
    }

    /// Every write that was begun so far.
    pub fn written(&self) -> Vec<Written> {
        self.sound().written.clone()
    }

    /// Waits until the condition holds, asking again after every attempt, write, goodbye or end. When an hour has passed it
    /// panics: whoever waits in paused time would wait for ever.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&Upstream) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        let comes_true = async {
            while !condition(self) {
                drop(self.sound());
                changes.changed().await.expect("the sender lives as long as this handle");
            }
        };
        if timeout(PATIENCE, comes_true).await.is_err() {
            panic!("it did not come to that: {:#?}", *self.sound());
        }
    }

    /// What it has seen, if all of it may be.
    fn sound(&self) -> MutexGuard<'_, State> {
        let state = self.shared.lock();
        if !state.violations.is_empty() {
            let violations = state.violations.clone();
            drop(state);
            panic!("the feed did what it may not: {violations:#?}");
        }
        state
    }
}

/// A test that asked nothing after it went wrong fails all the same.
impl Drop for Upstream {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(self.sound());
        }
    }
}
