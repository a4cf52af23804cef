//! The writer: what is owed first, then control, then messages.

use super::{Authenticate, ConnectionError, Lines};
use crate::wire::{Frame, Pong};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Frames are joined into one write up to here.
const ENOUGH: usize = 64 * 1024;
/// How long a connection that is let go may take over its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A message that waits to be written.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(super) frame: Bytes,
    /// Whoever sent it has ended on this connection.
    pub(super) withdrawn: Arc<AtomicBool>,
}

impl Outbound {
    fn put(&self, bytes: &mut BytesMut) {
        if !self.withdrawn.load(Ordering::Acquire) {
            bytes.extend_from_slice(&self.frame);
        }
    }
}

/// Writes to a socket what everybody has to say.
pub(super) struct Writer {
    lines: Arc<Lines>,
    authenticate: Authenticate,
    control: mpsc::UnboundedReceiver<Frame>,
    messages: mpsc::Receiver<Outbound>,
    bytes: BytesMut,
}

impl Writer {
    pub(super) fn new(
        lines: Arc<Lines>,
        authenticate: Authenticate,
        control: mpsc::UnboundedReceiver<Frame>,
        messages: mpsc::Receiver<Outbound>,
    ) -> Writer {
        Writer { lines, authenticate, control, messages, bytes: BytesMut::with_capacity(ENOUGH) }
    }

    pub(super) async fn run(mut self, mut socket: impl AsyncWrite + Unpin) {
        let closed = self.lines.closed();
        tokio::pin!(closed);
        loop {
            tokio::select! {
                biased;
                () = &mut closed => break,
                () = self.lines.pong_owed.notified() => self.lines.put(&Pong {}.into(), &mut self.bytes),
                () = self.lines.proof_owed.notified() => match (self.authenticate)() {
                    Ok(frame) => self.lines.put(&frame, &mut self.bytes),
                    Err(reason) => return self.lines.end(reason),
                },
                Some(frame) = self.control.recv() => self.lines.put(&frame, &mut self.bytes),
                Some(message) = self.messages.recv() => message.put(&mut self.bytes),
            }
            self.join();
            tokio::select! {
                biased;
                () = &mut closed => break,
                written = write(&mut socket, &self.bytes) => if let Err(error) = written {
                    return self.lines.end(ConnectionError::Io(error));
                },
            }
            self.bytes.clear();
        }
        self.last_words(socket).await;
    }

    /// Joins to it what waits as well.
    fn join(&mut self) {
        while self.bytes.len() < ENOUGH {
            if let Ok(frame) = self.control.try_recv() {
                self.lines.put(&frame, &mut self.bytes);
            } else if let Ok(message) = self.messages.try_recv() {
                message.put(&mut self.bytes);
            } else {
                break;
            }
        }
    }

    /// What was said before it was let go, goodbyes of producers for one, is still to be heard; not behind half a frame.
    async fn last_words(&mut self, mut socket: impl AsyncWrite + Unpin) {
        if !self.bytes.is_empty() || !matches!(self.lines.over.borrow().as_deref(), Some(ConnectionError::LetGo)) {
            return;
        }
        while let Ok(frame) = self.control.try_recv() {
            self.lines.put(&frame, &mut self.bytes);
        }
        let last_words = async {
            write(&mut socket, &self.bytes).await?;
            socket.shutdown().await
        };
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
    }
}

/// A token's source may panic, and a runtime may end: nobody is to wait for a writer that is gone.
impl Drop for Writer {
    fn drop(&mut self) {
        self.lines.end(ConnectionError::gone());
    }
}

async fn write(socket: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    socket.write_all(bytes).await?;
    socket.flush().await
}

impl Lines {
    fn put(&self, frame: &Frame, bytes: &mut BytesMut) {
        if let Err(error) = self.codec.encode(frame, bytes) {
            // Only a name of many thousand characters makes a command so large.
            tracing::warn!(broker = self.broker, %error, "a command was not sent");
        }
    }
}
