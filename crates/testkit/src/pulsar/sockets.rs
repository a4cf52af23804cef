//! The sockets of a broker, and what goes through them.

use super::Shared;
use super::frames;
use super::world::Out;
use carom_pulsar::wire::FRAME_ALLOWANCE;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// An address of our own, whether the broker listens or not.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    /// Bound and deaf: it keeps the port from everybody else.
    _reserved: Socket,
}

impl Port {
    pub(super) fn reserve() -> io::Result<Port> {
        let reserved = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = reserved.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?;
        Ok(Port { address, _reserved: reserved })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens, until all have let go of the ears; the other end learns when that is so.
    pub(super) fn open(&self) -> io::Result<(Arc<Ears>, oneshot::Receiver<()>)> {
        let socket = bind(self.address)?;
        socket.listen(1024)?;
        let (open, closed) = oneshot::channel();
        Ok((Arc::new(Ears { listener: TcpListener::from_std(socket.into())?, _open: open }), closed))
    }
}

/// The listener goes first, then who waits for that is told.
#[derive(Debug)]
pub(super) struct Ears {
    listener: TcpListener,
    _open: oneshot::Sender<()>,
}

/// With `SO_REUSEADDR`: beside the socket that reserves the port, and whatever lingers of earlier connections.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Accepts while it is told to; ends when nobody can tell it any more.
pub(super) async fn serve(broker: usize, shared: Arc<Shared>, mut listeners: watch::Receiver<Option<Arc<Ears>>>) {
    let mut tasks = JoinSet::new();
    loop {
        let ears = listeners.borrow_and_update().clone();
        select! {
            changed = listeners.changed() => if changed.is_err() {
                break;
            },
            accepted = accept(ears.as_deref()) => match accepted {
                Ok((stream, peer)) => {
                    // Under the lock of the world: who is counted is there, and who is there is counted.
                    let (outbox, ready) = mpsc::unbounded_channel();
                    let connection = shared.change(|world| world.open(broker, peer, outbox));
                    tasks.spawn(converse(stream, connection, Arc::clone(&shared), ready));
                }
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => panic!("accepting failed: {error}"),
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}

async fn accept(ears: Option<&Ears>) -> io::Result<(TcpStream, SocketAddr)> {
    match ears {
        Some(ears) => ears.listener.accept().await,
        None => pending().await,
    }
}

/// Until either side has had enough.
async fn converse(stream: TcpStream, connection: u64, shared: Arc<Shared>, ready: mpsc::UnboundedReceiver<Out>) {
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let mut writing = std::pin::pin!(write(writer, ready));
    let client_left = select! {
        () = listen(reader, connection, &shared) => true,
        () = &mut writing => false,
    };
    shared.change(|world| world.close(connection));
    if client_left {
        // The connection is forgotten, so the writer has an end too.
        writing.await;
    }
}

async fn listen(mut reader: OwnedReadHalf, connection: u64, shared: &Shared) {
    let mut bytes = Vec::new();
    let mut used = 0;
    let mut tick = Instant::now() + shared.lock().settings.keep_alive;
    loop {
        let limit = shared.lock().settings.max_message_size + FRAME_ALLOWANCE;
        match frames::first(&bytes[used..], limit) {
            Ok(Some((frame, length))) => {
                if !shared.change(|world| world.hear(connection, frame)) {
                    return;
                }
                used += length;
                continue;
            }
            Ok(None) => {}
            Err(frames::Broken) => return,
        }
        bytes.drain(..used);
        used = 0;
        select! {
            read = reader.read_buf(&mut bytes) => if !matches!(read, Ok(1..)) {
                return;
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

/// Writes what is due, in the order in which it was said; what is not due yet when the connection ends is dropped.
async fn write(mut writer: OwnedWriteHalf, mut ready: mpsc::UnboundedReceiver<Out>) {
    let mut later = BTreeMap::new();
    let mut number = 0_u64;
    loop {
        let due = later.first_key_value().map(|((due, _), _)| *due);
        let bytes = select! {
            biased;
            out = ready.recv() => match out {
                Some(Out { delay, bytes }) if delay.is_zero() => bytes,
                Some(Out { delay, bytes }) => {
                    number += 1;
                    later.insert((Instant::now() + delay, number), bytes);
                    continue;
                }
                None => return,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                match later.pop_first() {
                    Some((_, bytes)) => bytes,
                    None => continue,
                }
            }
        };
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
