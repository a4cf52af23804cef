//! An upstream of market data without sockets: it behaves as its script says, and everything it carries is accounted for.
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

use bytes::Bytes;
use carom::feed::{Adapter, Change, Instrument, Level, Mode, Pacing, Refused, Tick};
use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

/// How opening a connection goes. At first: it succeeds.
#[derive(Clone, Copy, Debug)]
pub enum OnOpen {
    /// At once.
    Succeed,
    /// Fails at once.
    Fail,
    /// Succeeds after this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// The credential is refused.
    Refuse,
    /// Panics.
    Panic,
}

/// How a write goes. At first: it is accepted.
#[derive(Clone, Copy, Debug)]
pub enum OnWrite {
    /// At once.
    Accept,
    /// After this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Fails, and with it the connection.
    Fail,
    /// Panics.
    Panic,
}

/// A write as it arrived.
#[derive(Clone, Debug)]
pub struct Written {
    /// On which connection, counted from 1 in order of opening.
    pub connection: usize,
    /// When.
    pub at: Instant,
    /// What.
    pub changes: Vec<Change>,
}

/// What an [`Upstream`] says when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// The credential was refused.
    Credential,
    /// Opening or writing failed.
    Failed,
    /// The connection was killed.
    Killed,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpstreamError::Credential => "scripted: token expired",
            UpstreamError::Failed => "scripted: failed",
            UpstreamError::Killed => "scripted: killed",
        })
    }
}

impl std::error::Error for UpstreamError {}

/// The adapter, and the handle to its script: clones share everything, so keep one and give one to the feed.
#[derive(Clone, Debug)]
pub struct Upstream {
    shared: Arc<Shared>,
    pacing: Pacing,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    open: OnOpen,
    write: OnWrite,
    refused: BTreeMap<Instrument, Arc<str>>,
    attempts: usize,
    opened: usize,
    peak: usize,
    goodbyes: usize,
    heartbeats: usize,
    links: BTreeMap<usize, Link>,
    written: Vec<Written>,
}

#[derive(Debug)]
struct Link {
    said: mpsc::UnboundedSender<Said>,
    carries: BTreeMap<Instrument, Level>,
}

#[derive(Debug)]
enum Said {
    Ticks(Vec<Tick>),
    End,
}

impl Upstream {
    /// An upstream that does as it should, takes 100 changes at a time, and is in no hurry.
    #[expect(clippy::new_without_default, reason = "tests say `new`")]
    pub fn new() -> Upstream {
        let state = State {
            open: OnOpen::Succeed,
            write: OnWrite::Accept,
            refused: BTreeMap::new(),
            attempts: 0,
            opened: 0,
            peak: 0,
            goodbyes: 0,
            heartbeats: 0,
            links: BTreeMap::new(),
            written: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changes: watch::Sender::new(()) });
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
        let state = self.shared.lock();
        let carried = |(id, link): (&usize, &Link)| link.carries.get(instrument).map(|level| (*id, *level));
        state.links.iter().filter_map(carried).collect()
    }

    /// How many instruments each open connection carries, by connection.
    pub fn carried_by_each(&self) -> BTreeMap<usize, usize> {
        self.shared.lock().links.iter().map(|(id, link)| (*id, link.carries.len())).collect()
    }

    /// How many connections are open now.
    pub fn open_now(&self) -> usize {
        self.shared.lock().links.len()
    }

    /// How many connections were ever opened.
    pub fn opened(&self) -> usize {
        self.shared.lock().opened
    }

    /// How many attempts to open one were ever made.
    pub fn attempts(&self) -> usize {
        self.shared.lock().attempts
    }

    /// The most connections that were open at one time.
    pub fn peak(&self) -> usize {
        self.shared.lock().peak
    }

    /// How many connections ended with a goodbye.
    pub fn goodbyes(&self) -> usize {
        self.shared.lock().goodbyes
    }

    /// How many heartbeats came.
    pub fn heartbeats(&self) -> usize {
        self.shared.lock().heartbeats
    }

    /// Every write that was begun so far.
    pub fn written(&self) -> Vec<Written> {
        self.shared.lock().written.clone()
    }

    /// Waits until the condition holds, asking again after every attempt, write, goodbye or end.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn until(&self, condition: impl Fn(&Upstream) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        while !condition(self) {
            changes.changed().await.expect("the sender lives as long as this handle");
        }
    }
}

impl Adapter for Upstream {
    type Writer = Writer;
    type Reader = Reader;
    type Error = UpstreamError;

    async fn open(&self) -> Result<(Writer, Reader), UpstreamError> {
        let open = self.shared.change(|state| {
            state.attempts += 1;
            state.open
        });
        match open {
            OnOpen::Succeed => {}
            OnOpen::Fail => return Err(UpstreamError::Failed),
            OnOpen::Slow(delay) => sleep(delay).await,
            OnOpen::Never => pending().await,
            OnOpen::Refuse => return Err(UpstreamError::Credential),
            OnOpen::Panic => panic!("scripted: opening panics"),
        }
        let (said, hears) = mpsc::unbounded_channel();
        let id = self.shared.change(|state| {
            state.opened += 1;
            state.links.insert(state.opened, Link { said, carries: BTreeMap::new() });
            state.peak = state.peak.max(state.links.len());
            state.opened
        });
        Ok((Writer { id, shared: Arc::clone(&self.shared) }, Reader { hears }))
    }

    async fn write(&self, writer: &mut Writer, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        let write = self.shared.change(|state| {
            let written = Written { connection: writer.id, at: Instant::now(), changes: changes.to_vec() };
            state.written.push(written);
            state.write
        });
        match write {
            OnWrite::Accept => {}
            OnWrite::Slow(delay) => sleep(delay).await,
            OnWrite::Never => pending().await,
            OnWrite::Fail => return Err(UpstreamError::Failed),
            OnWrite::Panic => panic!("scripted: writing panics"),
        }
        Ok(self.shared.change(|state| state.apply(writer.id, changes)))
    }

    async fn read(&self, reader: &mut Reader, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        match reader.hears.recv().await {
            Some(Said::Ticks(said)) => {
                ticks.extend(said);
                Ok(())
            }
            Some(Said::End) | None => Err(UpstreamError::Killed),
        }
    }

    async fn heartbeat(&self, _writer: &mut Writer) -> Result<(), UpstreamError> {
        self.shared.change(|state| state.heartbeats += 1);
        Ok(())
    }

    async fn close(&self, writer: Writer, _reader: Reader) {
        self.shared.change(|state| state.goodbyes += 1);
        drop(writer);
    }

    fn pacing(&self) -> Pacing {
        self.pacing
    }

    fn refuses_credential(&self, error: &UpstreamError) -> bool {
        *error == UpstreamError::Credential
    }
}

impl State {
    fn apply(&mut self, id: usize, changes: &[Change]) -> Vec<Refused> {
        let Some(link) = self.links.get_mut(&id) else { return Vec::new() };
        let mut refused = Vec::new();
        for (position, Change { instrument, from, to }) in changes.iter().enumerate() {
            assert_eq!(link.carries.get(instrument), from.as_ref(), "the feed knows what is carried of {instrument}");
            match (to, self.refused.get(instrument)) {
                (Some(_), Some(reason)) => refused.push(Refused { position, reason: Arc::clone(reason) }),
                (Some(level), None) => {
                    link.carries.insert(instrument.clone(), *level);
                }
                (None, _) => {
                    link.carries.remove(instrument);
                }
            }
        }
        refused
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.changes.send_replace(());
        result
    }
}

/// The half of a connection that is written to. Its drop ends the connection.
#[derive(Debug)]
pub struct Writer {
    id: usize,
    shared: Arc<Shared>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.change(|state| state.links.remove(&self.id));
    }
}

/// The half of a connection that is read from.
#[derive(Debug)]
pub struct Reader {
    hears: mpsc::UnboundedReceiver<Said>,
}
