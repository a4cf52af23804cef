//! The upstream as the feed sees it: an adapter that goes by its script.

use super::Upstream;
use super::links::{Said, Shared};
use super::script::{OnClose, OnHeartbeat, OnOpen, OnWrite, UpstreamError};
use carom::feed::{Adapter, Change, Pacing, Refused, Tick};
use std::future::pending;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::sleep;

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
            OnOpen::Lack => return Err(UpstreamError::NoCredential),
            OnOpen::Panic => panic!("scripted: opening panics"),
        }
        let (said, hears) = mpsc::unbounded_channel();
        let id = self.shared.change(|state| state.link(said));
        Ok((Writer { id, shared: Arc::clone(&self.shared) }, Reader { hears }))
    }

    async fn write(&self, writer: &mut Writer, changes: &[Change]) -> Result<Vec<Refused>, UpstreamError> {
        let write = self.shared.change(|state| {
            state.begin_write(writer.id, changes, self.pacing);
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

    async fn heartbeat(&self, writer: &mut Writer) -> Result<(), UpstreamError> {
        let heartbeat = self.shared.change(|state| {
            state.begin(writer.id);
            state.heartbeats += 1;
            state.heartbeat
        });
        match heartbeat {
            OnHeartbeat::Accept => {}
            OnHeartbeat::Slow(delay) => sleep(delay).await,
            OnHeartbeat::Never => pending().await,
            OnHeartbeat::Fail => return Err(UpstreamError::Failed),
        }
        self.shared.change(|state| state.finish(writer.id));
        Ok(())
    }

    async fn close(&self, writer: Writer, _reader: Reader) {
        let close = self.shared.change(|state| {
            state.goodbyes += 1;
            state.close
        });
        match close {
            OnClose::Accept => {}
            OnClose::Never => pending().await,
        }
        drop(writer);
    }

    fn pacing(&self) -> Pacing {
        self.pacing
    }

    fn refuses_credential(&self, error: &UpstreamError) -> bool {
        *error == UpstreamError::Credential
    }

    fn lacks_credential(&self, error: &UpstreamError) -> bool {
        *error == UpstreamError::NoCredential
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
