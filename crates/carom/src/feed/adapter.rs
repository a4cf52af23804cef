//! Adapters: how one upstream is spoken to. Packing, reconnecting, resubscribing and back-off are the feed's.

use super::withholding::Withholding;
use bytes::Bytes;
use carom_core::feed::{Change, Instrument, Mode};
use std::error::Error;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

/// Speaks one upstream's protocol: opens connections, writes subscriptions, reads ticks. Nothing else.
///
/// A connection has two halves that are used at the same time, so that ticks are read while something is written. None of
/// these is called while a lock of the feed is held. Each may panic: that ends the connection.
///
/// Cancel safety: the futures are dropped when they take too long, or when the connection has ended or is to end; none of them
/// is called again on that connection then, except [`close`](Adapter::close).
pub trait Adapter: Send + Sync + 'static {
    /// The half that is written to.
    type Writer: Send + 'static;
    /// The half that is read from.
    type Reader: Send + 'static;
    /// Why something failed; shown in logs and snapshots.
    type Error: Error + Send + Sync + 'static;

    /// Waits until there is any sense in opening a connection, for as long as it takes: nothing is cut short, and no failure is
    /// counted. What is subscribed to meanwhile waits as it does while a connection is opened. Default: at once.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Opens one connection that is ready to be subscribed on: handshake and login done.
    fn open(&self) -> impl Future<Output = Result<(Self::Writer, Self::Reader), Self::Error>> + Send;

    /// Tells the upstream what the connection is to carry: at most [`Pacing::batch`] changes, each of another instrument. It
    /// resolves when the upstream has accepted them, as far as its protocol says so, or when they are written; those that the
    /// upstream does not want are returned, the others count as accepted. Something to be dropped counts as dropped either
    /// way. An error ends the connection.
    fn write(
        &self,
        writer: &mut Self::Writer,
        changes: &[Change],
    ) -> impl Future<Output = Result<Vec<Refused>, Self::Error>> + Send;

    /// Waits until the upstream says something, and appends the ticks in it to `ticks`. Nothing appended is a sign of life all
    /// the same. An error ends the connection; so must the end of the stream.
    fn read(
        &self,
        reader: &mut Self::Reader,
        ticks: &mut Vec<Tick>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Shows the upstream that this side lives, every [`Pacing::heartbeat`]. One that takes longer than `write_timeout` ends the
    /// connection, as an error does. Default: nothing.
    fn heartbeat(&self, writer: &mut Self::Writer) -> impl Future<Output = Result<(), Self::Error>> + Send {
        let _ = writer;
        ready(Ok(()))
    }

    /// An orderly goodbye, within `write_timeout`; not called for connections that have failed or stalled, or when a deadline has
    /// passed. A heartbeat may have been cut short before. Default: drops it.
    fn close(&self, writer: Self::Writer, reader: Self::Reader) -> impl Future<Output = ()> + Send {
        drop((writer, reader));
        ready(())
    }

    /// What the upstream says on this connection of the instruments that it has accepted: whether it carries them. Asked once, when
    /// the connection is open. Default: `None`, for upstreams that carry what they have accepted.
    fn withholding(&self, reader: &Self::Reader) -> Option<Withholding> {
        let _ = reader;
        None
    }

    /// How the upstream wants to be written to. Asked once, when the feed is built.
    fn pacing(&self) -> Pacing {
        Pacing::default()
    }

    /// What the upstream said that became no tick, by what it was, such as `malformed`, and how often since the adapter was made.
    /// For snapshots and metrics, asked whenever somebody looks. Default: nothing.
    fn passed_over(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Whether there is an upstream at all. Where ticks come another way, the limits of the feed and what its connections do are
    /// nothing that people should be shown. Default: there is.
    fn has_upstream(&self) -> bool {
        true
    }

    /// Whether this error says that the upstream refuses the credential. Then no connection is opened until
    /// [`Feed::resume`](super::Feed::resume). Default: no.
    fn refuses_credential(&self, error: &Self::Error) -> bool {
        let _ = error;
        false
    }

    /// Whether this error says that there was no credential to present. It is tried again as after any other, and whoever waits is
    /// told that this is the reason. Default: no.
    fn lacks_credential(&self, error: &Self::Error) -> bool {
        let _ = error;
        false
    }
}

/// How an upstream wants to be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Most changes in one write; at least 1.
    pub batch: usize,
    /// Least time from one write on a connection to the next.
    pub pace: Duration,
    /// How often it wants to see that this side lives; `None` does not show it.
    pub heartbeat: Option<Duration>,
}

/// 100 changes every 100 ms, no heartbeat.
impl Default for Pacing {
    fn default() -> Pacing {
        Pacing { batch: 100, pace: Duration::from_millis(100), heartbeat: None }
    }
}

/// A change that the upstream does not want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which of the changes that were written, counted from 0.
    pub position: usize,
    /// What the upstream said.
    pub reason: Arc<str>,
}

/// What an upstream says of an instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Of what.
    pub instrument: Instrument,
    /// How much it contains: whoever wants this mode or a lower one is served by it.
    pub mode: Mode,
    /// What it says; the feed does not look into it.
    pub payload: Bytes,
}

impl Tick {
    /// Its name on a [bus](super::bus), as OpenAlgo spells it: `NSE_SBIN_LTP`.
    pub fn bus_topic(&self) -> String {
        let Tick { instrument, mode, .. } = self;
        format!("{}_{}_{mode}", instrument.exchange(), instrument.symbol())
    }
}
