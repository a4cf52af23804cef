//! A connection: one task that opens it, reads and writes at the same time, and says how it ended.

use super::adapter::{Adapter, Refused};
use super::error::UpstreamError;
use super::shared::{Failure, Shared};
use super::withholding::Withholding;
use crate::clock;
use carom_core::feed::{Change, ConnectionId, End};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};

/// What the driver keeps of a connection. Dropping it cuts the connection.
pub(super) struct Lead {
    /// Batches to be written.
    pub(super) batches: mpsc::UnboundedSender<Vec<Change>>,
    parting: oneshot::Sender<Goodbye>,
}

/// The connection is to say goodbye.
struct Goodbye;

/// A connection before it is open.
pub(super) struct Connection<A: Adapter> {
    shared: Arc<Shared<A>>,
    id: ConnectionId,
    batches: mpsc::UnboundedReceiver<Vec<Change>>,
    parted: oneshot::Receiver<Goodbye>,
}

/// How a connection has ended.
pub(super) struct Ended {
    pub(super) end: End,
    /// Why, unless it was told to.
    pub(super) cause: Option<Failure>,
}

impl Lead {
    /// Tells the connection to end: with a goodbye, or at once.
    pub(super) fn part(self, goodbye: bool) {
        if goodbye {
            // One that has ended meanwhile says so by itself.
            let _ = self.parting.send(Goodbye);
        }
    }
}

impl<A: Adapter> Connection<A> {
    pub(super) fn new(shared: &Arc<Shared<A>>, id: ConnectionId) -> (Lead, Connection<A>) {
        let ((send, batches), (parting, parted)) = (mpsc::unbounded_channel(), oneshot::channel());
        (Lead { batches: send, parting }, Connection { shared: Arc::clone(shared), id, batches, parted })
    }

    pub(super) async fn run(self, open_timeout: Duration) -> Ended {
        let Connection { shared, id, mut batches, mut parted } = self;
        let adapter = &shared.adapter;
        tokio::select! {
            biased;
            _ = &mut parted => return Ended::as_told(),
            () = adapter.ready() => {}
        }
        let opened = tokio::select! {
            biased;
            _ = &mut parted => return Ended::as_told(),
            opened = adapter.open() => opened,
            () = sleep(open_timeout) => return Ended::because(UpstreamError::OpenTimedOut(open_timeout)),
        };
        let (mut writer, mut reader) = match opened {
            Ok(halves) => halves,
            Err(error) => return Ended::failed(adapter, error),
        };
        shared.step(|table| table.machine.handle_opened(clock::now(), id));
        tracing::debug!(feed = &*shared.name, "a connection is up");
        let withholding = adapter.withholding(&reader);
        let goodbye = tokio::select! {
            biased;
            parted = &mut parted => parted,
            ended = write_all(&shared, id, &mut writer, &mut batches, withholding.as_ref()) => return ended,
            error = read_all(&shared, id, &mut reader, withholding.as_ref()) => return Ended::failed(adapter, error),
        };
        if let Ok(Goodbye) = goodbye {
            // One that hangs while it says goodbye has had its time.
            let _ = timeout(shared.write_timeout, adapter.close(writer, reader)).await;
        }
        Ended::as_told()
    }
}

/// Reads until it fails.
async fn read_all<A: Adapter>(
    shared: &Shared<A>,
    id: ConnectionId,
    reader: &mut A::Reader,
    withholding: Option<&Withholding>,
) -> A::Error {
    let mut ticks = Vec::new();
    loop {
        if let Err(error) = shared.adapter.read(reader, &mut ticks).await {
            return error;
        }
        shared.withheld(id, withholding);
        shared.heard(clock::now(), id, &mut ticks);
        ticks.clear();
        // A reader that always has something must leave room for writes, and for the end.
        tokio::task::consume_budget().await;
    }
}

/// Writes batches as they come, and heartbeats between them, until that fails.
async fn write_all<A: Adapter>(
    shared: &Shared<A>,
    id: ConnectionId,
    writer: &mut A::Writer,
    batches: &mut mpsc::UnboundedReceiver<Vec<Change>>,
    withholding: Option<&Withholding>,
) -> Ended {
    let mut wrote: Option<Instant> = None;
    let mut heartbeat = shared.heartbeat.map(|every| {
        let mut beats = interval_at(Instant::now() + every, every);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats
    });
    loop {
        let beat = async {
            match &mut heartbeat {
                Some(beats) => beats.tick().await,
                None => pending().await,
            }
        };
        let written = tokio::select! {
            batch = batches.recv() => match batch {
                Some(changes) => {
                    // The machine counts from when it asked for a write, and a heartbeat may have held that one up.
                    if let Some(wrote) = wrote {
                        sleep_until(wrote + shared.pace).await;
                    }
                    wrote = Some(Instant::now());
                    shared.adapter.write(writer, &changes).await.map(Some)
                }
                // The driver lets go of both channels at once: the end is on its way.
                None => pending().await,
            },
            _ = beat => match timeout(shared.write_timeout, shared.adapter.heartbeat(writer)).await {
                Ok(beaten) => beaten.map(|()| None),
                Err(_) => return Ended::because(UpstreamError::HeartbeatTimedOut(shared.write_timeout)),
            },
        };
        match written {
            Ok(Some(refused)) => {
                let refused: Vec<_> =
                    refused.into_iter().map(|Refused { position, reason }| (position, reason)).collect();
                // First, so that nobody is told that something is carried which is not.
                shared.withheld(id, withholding);
                shared.step(|table| table.machine.handle_written(clock::now(), id, &refused));
                tracing::debug!(feed = &*shared.name, refused = refused.len(), "a batch was written");
            }
            Ok(None) => {}
            Err(error) => return Ended::failed(&shared.adapter, error),
        }
    }
}

impl Ended {
    fn as_told() -> Ended {
        Ended { end: End::Lost, cause: None }
    }

    pub(super) fn because(error: UpstreamError) -> Ended {
        Ended { end: End::Lost, cause: Some(Arc::new(error)) }
    }

    fn failed<A: Adapter>(adapter: &A, error: A::Error) -> Ended {
        let end = if adapter.refuses_credential(&error) {
            End::Credential
        } else if adapter.lacks_credential(&error) {
            End::NoCredential
        } else {
            End::Lost
        };
        Ended { end, cause: Some(Arc::new(error)) }
    }
}
