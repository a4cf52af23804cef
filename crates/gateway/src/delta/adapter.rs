//! The adapter: how a feed speaks to Delta Exchange.

use super::halves::{self, Reader, Shared, Writer};
use super::instruments::Instruments;
use super::late::Late;
use super::{ANSWER, DEFAULT_URL, LONGEST_MESSAGE};
use crate::address::AddressError;
use crate::upstream::{AdapterBuilder, Dial, DialError, Listing, UpstreamError};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most changes in one write: as many as one request for tickers takes.
const BATCH: usize = 150;

/// How often the exchange is asked for a pong: a market at rest is no stall.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Speaks to Delta Exchange's public socket.
///
/// Subscriptions are written 150 at a time, at most one batch every 500 ms, and count when the exchange has accepted them. It is
/// pinged every 30 s.
#[derive(Debug)]
pub struct Delta {
    dial: Dial,
    shared: Shared,
    pace: Duration,
}

/// How many messages made no sense, wholly or in part. Clones count the same.
#[derive(Clone, Debug)]
pub struct Malformed(Arc<AtomicU64>);

impl Malformed {
    /// So many, so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Builds a [`Delta`]; made by [`Delta::builder`].
pub type Builder = AdapterBuilder<Contracts>;

/// What is known of Delta, and expected of it.
#[derive(Clone)]
pub struct Contracts {
    instruments: Arc<Instruments>,
    answer_timeout: Duration,
}

/// Why the exchange cannot be spoken to in this way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// That is no address.
    #[error("that is not the address of an exchange, such as {DEFAULT_URL}")]
    Address(#[from] AddressError),
    /// There is no way to speak to that address.
    #[error("the exchange cannot be spoken to")]
    Dial(#[from] DialError),
}

impl Delta {
    /// Starts building one that knows these contracts.
    pub fn builder(instruments: Arc<Instruments>) -> Builder {
        Builder::new(Contracts { instruments, answer_timeout: ANSWER }, DEFAULT_URL)
    }

    /// What symbols are looked up in. Kept aside, it can be replaced while a feed has the adapter: options are listed anew every
    /// day.
    pub fn listing(&self) -> Listing<Instruments> {
        self.shared.listing.clone()
    }

    /// How many messages made no sense so far; kept aside, it goes on counting while a feed has the adapter.
    pub fn malformed(&self) -> Malformed {
        Malformed(Arc::clone(&self.shared.garbled))
    }
}

impl AdapterBuilder<Contracts> {
    /// How long answers to subscriptions are waited for: less than the `write_timeout` of the feed, which ends connections. Some
    /// that should come do not: what was asked for counts as accepted then, and should it be refused after all the connection ends,
    /// and it is refused on the next one. Default 3 s.
    pub fn answer_timeout(mut self, timeout: Duration) -> Builder {
        self.own.answer_timeout = timeout;
        self
    }

    /// Builds it. Nothing is connected to yet; with `wss://` the system's root certificates are read.
    ///
    /// # Errors
    /// [`BuildError`] says what makes no sense.
    pub fn build(self) -> Result<Delta, BuildError> {
        let dial = self.dial()?.longest_message(LONGEST_MESSAGE).build()?;
        let AdapterBuilder { own: Contracts { instruments, answer_timeout: answer }, pace, .. } = self;
        let (listing, garbled, late) = (Listing::new(instruments), Arc::default(), Late::default());
        Ok(Delta { dial, shared: Shared { listing, garbled, late, answer }, pace })
    }
}

impl Adapter for Delta {
    type Writer = Writer;
    type Reader = Reader;
    type Error = UpstreamError;

    async fn open(&self) -> Result<(Writer, Reader), UpstreamError> {
        let socket = self.dial.open(self.dial.request()?).await?;
        Ok(halves::of(socket, self.shared.clone()))
    }

    async fn write(&self, writer: &mut Writer, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        writer.change(changes).await
    }

    async fn read(&self, reader: &mut Reader, ticks: &mut Vec<Tick>) -> Result<(), UpstreamError> {
        reader.read(ticks).await
    }

    async fn heartbeat(&self, writer: &mut Writer) -> Result<(), UpstreamError> {
        writer.beat().await
    }

    async fn close(&self, writer: Writer, reader: Reader) {
        writer.close(reader).await;
    }

    fn pacing(&self) -> Pacing {
        Pacing { batch: BATCH, pace: self.pace, heartbeat: Some(HEARTBEAT) }
    }

    fn passed_over(&self) -> Vec<(&'static str, u64)> {
        vec![("malformed", self.shared.garbled.load(Ordering::Relaxed))]
    }
}
