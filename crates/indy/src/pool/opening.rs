//! Opening a pool: what is known of it, and every option.

use super::error::PoolError;
use super::{Known, Pool, Progress};
use crate::genesis::Genesis;
use crate::ledger::{Cache, CacheError, Ledger};
use crate::node::{Node, Place, Skipped, Validators, check};
use crate::transport::Wire;
use carom::Monitor;
use carom::window::{Builder, Requester};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Opens a [`Pool`] when it is awaited; made by [`Pool::open`].
#[must_use = "a pool is opened by awaiting this"]
pub struct Opening {
    genesis: String,
    cache: Option<PathBuf>,
    single_reads: bool,
    progress: Option<Progress>,
    windows: Builder<Wire>,
}

impl Opening {
    pub(super) fn new(genesis: String) -> Opening {
        let windows = Requester::builder(Wire).name("indy");
        Opening { genesis, cache: None, single_reads: false, progress: None, windows }
    }

    /// Keeps the ledger in this folder, which is made if it is not there, and begins with what it finds there. One folder can
    /// serve many pools and processes. Default: nothing is kept, and all beyond the genesis is asked for again.
    ///
    /// Who can write there can say who the nodes are. What is there and goes further than the nodes say stays.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Opening {
        self.cache = Some(folder.into());
        self
    }

    /// Whether the answer of one node is enough for a read; it may lie then. Default: no, one more must say the same than may
    /// lie.
    pub fn single_reads(mut self, single: bool) -> Opening {
        self.single_reads = single;
        self
    }

    /// Is told how many transactions of how many there are, at every step of catching up.
    pub fn progress(mut self, progress: impl Fn(u64, u64) + Send + Sync + 'static) -> Opening {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// How long a window takes new requests; see [`Builder::active_for`]. Default 5 s.
    pub fn active_for(self, active_for: Duration) -> Opening {
        self.windows(|windows| windows.active_for(active_for))
    }

    /// How many requests are started on a window; see [`Builder::request_limit`]. Default 5.
    pub fn request_limit(self, request_limit: usize) -> Opening {
        self.windows(|windows| windows.request_limit(request_limit))
    }

    /// How long a node may take to say anything; see [`Builder::ack_timeout`]. Default 10 s.
    pub fn ack_timeout(self, ack_timeout: Duration) -> Opening {
        self.windows(|windows| windows.ack_timeout(ack_timeout))
    }

    /// How long a node that has acknowledged a request may take to answer; see [`Builder::reply_timeout`]. Default 100 s.
    pub fn reply_timeout(self, reply_timeout: Duration) -> Opening {
        self.windows(|windows| windows.reply_timeout(reply_timeout))
    }

    /// How long after a node was asked a read asks one more, if the first has not acknowledged it; see [`Builder::hedge_after`].
    /// Default 1 s; `None` turns it off. Writes ask all nodes at once.
    pub fn hedge_after(self, hedge_after: impl Into<Option<Duration>>) -> Opening {
        self.windows(|windows| windows.hedge_after(hedge_after))
    }

    /// How many nodes are asked at once for a [single read](Self::single_reads); see [`Builder::read_nodes`]. Default 1.
    pub fn read_nodes(self, read_nodes: usize) -> Opening {
        self.windows(|windows| windows.read_nodes(read_nodes))
    }

    /// The aliases of nodes to ask first; see [`Builder::preferred`]. Default: none.
    pub fn preferred(self, preferred: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Opening {
        self.windows(|windows| windows.preferred(preferred))
    }

    /// How many windows there may be at a time; see [`Builder::max_windows`]. Default: no limit.
    pub fn max_windows(self, max_windows: impl Into<Option<usize>>) -> Opening {
        self.windows(|windows| windows.max_windows(max_windows))
    }

    /// What its windows are called in logs and by the monitor. Default `indy`.
    pub fn name(self, name: impl Into<Arc<str>>) -> Opening {
        self.windows(|windows| windows.name(name))
    }

    /// Which monitor sees its windows. Default: [`Monitor::global`].
    pub fn monitor(self, monitor: &Monitor) -> Opening {
        self.windows(|windows| windows.monitor(monitor))
    }

    fn windows(mut self, change: impl FnOnce(Builder<Wire>) -> Builder<Wire>) -> Opening {
        self.windows = change(self.windows);
        self
    }

    async fn opened(self) -> Result<Pool, PoolError> {
        let genesis = Genesis::parse(&self.genesis)?;
        let beginning = genesis.ledger();
        let cache = self.cache.map(|folder| genesis.cache(folder));
        let cached = match &cache {
            Some(cache) => read(cache.clone(), beginning.head().size).await,
            None => None,
        };
        let nodes: Vec<Node> = genesis.nodes().to_vec();
        let known = cached.as_ref().map(|(_, validators)| (validators.nodes.clone(), validators.count));
        let (judges, validators) = known.clone().unwrap_or_else(|| (nodes.clone(), genesis.validators()));
        let from_cache = cached.is_some();
        let ledger = cached.map_or_else(|| beginning.clone(), |(ledger, _)| ledger);
        let windows = self.windows.nodes(judges).build()?;
        let start = Known { ledger: Arc::new(ledger), validators };
        let pool = Pool::new(windows, start, cache, self.single_reads, self.progress);
        match pool.refresh().await {
            Ok(_) => Ok(pool),
            Err(PoolError::Conflict(error)) if from_cache => {
                tracing::warn!(%error, "the cached ledger is not that of the pool; beginning with the genesis again");
                pool.turn_to(Arc::new(beginning), nodes, genesis.validators())?;
                pool.refresh().await?;
                Ok(pool)
            }
            // A ledger that was not fetched to its end may name nodes where they were for a while.
            Err(error @ (PoolError::TimedOut(_) | PoolError::Disconnected(_) | PoolError::NoAgreement(_)))
                if known.as_ref().is_some_and(|(known, _)| *known != nodes) =>
            {
                tracing::warn!(%error, "the nodes of the cached ledger do not answer; asking those of the genesis");
                pool.turn_to(pool.ledger(), nodes, genesis.validators())?;
                pool.refresh().await?;
                Ok(pool)
            }
            Err(error) => Err(error),
        }
    }
}

/// The cached ledger and its validators. `None` without a cache, or, with a warning, when it cannot be used.
async fn read(cache: Cache, genesis: u64) -> Option<(Ledger, Validators)> {
    let path = cache.path().display().to_string();
    let read = tokio::task::spawn_blocking(move || {
        let ledger = cache.read()?;
        Ok(ledger.map(|ledger| checked(&ledger, genesis).map(|validators| (ledger, validators))))
    });
    match read.await {
        Ok(Ok(None)) => None,
        Ok(Ok(Some(Ok(known)))) => Some(known),
        Ok(Ok(Some(Err(problem)))) => {
            tracing::warn!(path, %problem, "cached ledger is damaged; using the genesis");
            None
        }
        Ok(Err(error)) => {
            let error: CacheError = error;
            let source = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, source, "the cached ledger cannot be used");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the cached ledger cannot be used: who was to read it ended early");
            None
        }
    }
}

/// The validators of a cached ledger. It is held to what a genesis is held to.
fn checked(ledger: &Ledger, genesis: u64) -> Result<Validators, String> {
    for (transaction, number) in ledger.transactions().iter().zip(1..).skip(genesis as usize) {
        let place = Place::Transaction(number);
        check(&transaction.value(), number).map_err(|problem| Skipped { place, problem }.to_string())?;
    }
    let validators = super::validators_of(ledger, genesis);
    if validators.nodes.is_empty() { Err("no validator can be used".to_owned()) } else { Ok(validators) }
}

impl IntoFuture for Opening {
    type Output = Result<Pool, PoolError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.opened())
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Opening").field("cache", &self.cache).finish_non_exhaustive()
    }
}
