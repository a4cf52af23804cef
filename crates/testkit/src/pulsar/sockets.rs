//! The sockets of a broker, and what goes through them.

use super::Shared;
use super::frames;
use super::world::{Out, World};
use crate::listening::{self, Ears};
use carom_pulsar::wire::FRAME_ALLOWANCE;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::select;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

/// How many bytes are read at once at least, and written at once at most, the last frame aside.
const ENOUGH: usize = 64 * 1024;
/// How long a connection that is over may take to write what it has.
const LINGER: Duration = Duration::from_secs(1);

/// Serves whoever comes to a broker; ends when it can listen no more.
pub(super) async fn serve(
    broker: usize,
    shared: Arc<Shared>,
    tls: Option<TlsAcceptor>,
    listeners: watch::Receiver<Option<Arc<Ears>>>,
) {
    listening::serve(listeners, |stream, peer| {
        // Under the lock of the world: who is counted is there, and who is there is counted.
        let (outbox, ready) = mpsc::unbounded_channel();
        let (open, closed) = oneshot::channel();
        let connection = shared.change(|world| world.open(broker, peer, outbox, open));
        Session { connection, shared: Arc::clone(&shared), ready, closed }.welcome(stream, tls.clone())
    })
    .await;
}

struct Session {
    connection: u64,
    shared: Arc<Shared>,
    ready: mpsc::UnboundedReceiver<Out>,
    /// Ends when the world has forgotten the connection.
    closed: oneshot::Receiver<()>,
}

impl Session {
    async fn welcome(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.converse(stream).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => self.converse(stream).await,
                Err(_) => self.shared.change(|world| world.close(self.connection)),
            },
        }
    }

    /// Until either side has had enough.
    async fn converse<S: AsyncRead + AsyncWrite>(self, stream: S) {
        let Session { connection, shared, ready, closed } = self;
        let (reader, writer) = split(stream);
        let mut writing = pin!(write(writer, ready));
        let written = select! {
            () = listen(reader, connection, &shared) => false,
            () = &mut writing => true,
            _ = closed => false,
        };
        shared.change(|world| world.close(connection));
        if !written {
            // There is no more to come. Who does not read it has no claim to it.
            let _ = timeout(LINGER, writing).await;
        }
    }
}

async fn listen<R: AsyncRead + Unpin>(mut reader: R, connection: u64, shared: &Shared) {
    let mut bytes = Vec::new();
    let mut tick = Instant::now() + shared.lock().settings.keep_alive;
    loop {
        bytes.reserve(ENOUGH);
        select! {
            read = reader.read_buf(&mut bytes) => match read {
                Ok(1..) => match shared.change(|world| hear(world, connection, &bytes)) {
                    Some(heard) => drop(bytes.drain(..heard)),
                    None => return,
                },
                Ok(0) | Err(_) => return,
            },
            () = sleep_until(tick) => {
                if !shared.change(|world| world.tick(connection)) {
                    return;
                }
                tick = Instant::now() + shared.lock().settings.keep_alive;
            }
        }
    }
}

/// All that is there as a whole, and how many bytes that was; `None` when the connection is over.
fn hear(world: &mut World, connection: u64, bytes: &[u8]) -> Option<usize> {
    let mut heard = 0;
    loop {
        let limit = world.settings.max_message_size + FRAME_ALLOWANCE;
        let Some((frame, length)) = frames::first(&bytes[heard..], limit).ok()? else { return Some(heard) };
        if !world.hear(connection, frame) {
            return None;
        }
        heard += length;
    }
}

/// Writes what is due, in the order in which it was said; what is not due yet when the connection ends is dropped.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut ready: mpsc::UnboundedReceiver<Out>) {
    let mut later = BTreeMap::new();
    let mut number = 0_u64;
    loop {
        let due = later.first_key_value().map(|((due, _), _)| *due);
        let mut bytes = Vec::new();
        select! {
            biased;
            out = ready.recv() => {
                let Some(out) = out else { break };
                // Whatever else is there by now goes in the same write.
                let mut next = Some(out);
                while let Some(Out { delay, bytes: said }) = next {
                    if delay.is_zero() {
                        bytes.extend(said);
                    } else {
                        number += 1;
                        later.insert((Instant::now() + delay, number), said);
                    }
                    next = if bytes.len() < ENOUGH { ready.try_recv().ok() } else { None };
                }
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                bytes.extend(later.pop_first().into_iter().flat_map(|(_, said)| said));
            }
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
        // TLS may keep some for later.
        if ready.is_empty() && writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}
