//! The writer: what is owed first, then control, then messages.

use super::{ConnectionError, Lines};
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

pub(super) async fn run(
    lines: Arc<Lines>,
    mut socket: impl AsyncWrite + Unpin,
    mut control: mpsc::UnboundedReceiver<Frame>,
    mut data: mpsc::Receiver<Outbound>,
) {
    let closed = lines.closed();
    tokio::pin!(closed);
    let mut bytes = BytesMut::with_capacity(ENOUGH);
    loop {
        tokio::select! {
            biased;
            () = &mut closed => break,
            () = lines.pong_owed.notified() => lines.put(&Pong {}.into(), &mut bytes),
            Some(frame) = control.recv() => lines.put(&frame, &mut bytes),
            Some(message) = data.recv() => message.put(&mut bytes),
        }
        while bytes.len() < ENOUGH {
            if let Ok(frame) = control.try_recv() {
                lines.put(&frame, &mut bytes);
            } else if let Ok(message) = data.try_recv() {
                message.put(&mut bytes);
            } else {
                break;
            }
        }
        tokio::select! {
            biased;
            () = &mut closed => break,
            written = write(&mut socket, &bytes) => if let Err(error) = written {
                return lines.end(ConnectionError::Io(error));
            },
        }
        bytes.clear();
    }
    // What was said before it was let go, goodbyes of producers for one, is still to be heard; not behind half a frame.
    if bytes.is_empty() && matches!(lines.over.borrow().as_deref(), Some(ConnectionError::LetGo)) {
        while let Ok(frame) = control.try_recv() {
            lines.put(&frame, &mut bytes);
        }
        let last_words = async {
            write(&mut socket, &bytes).await?;
            socket.shutdown().await
        };
        let _ = tokio::time::timeout(LAST_WORDS, last_words).await;
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
