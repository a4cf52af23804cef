//! Whether a socket has ended, asked without reading from it.

use socket2::SockRef;
use std::fmt;
use std::future::Future;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How often the end is looked for behind bytes that wait unread: the system reports nothing new until they are read.
const END_INTERVAL: Duration = Duration::from_secs(1);

/// What [`Tcp`](super::Tcp) knows of a socket, apart from its stream: for connectors that give the stream to somebody else,
/// who reads and writes, and still want to say whether it has ended. Made by [`Tcp::watch`](super::Tcp::watch).
///
/// Cheap to clone. The socket is closed when the stream and all who watch it are gone.
#[derive(Clone)]
pub struct Watch {
    pub(super) socket: Arc<TcpStream>,
    pub(super) server_first: bool,
}

impl Watch {
    /// As [`is_open`](crate::Connect::is_open) of [`Tcp`](super::Tcp), except that it does not know whether the sending side
    /// was shut down.
    pub fn is_open(&self) -> bool {
        is_open(&self.socket, self.server_first)
    }

    /// As [`closed`](crate::Connect::closed) of [`Tcp`](super::Tcp).
    ///
    /// Cancel safety: the future consumes no bytes; dropping it leaves the stream as it was.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        closed(Arc::clone(&self.socket), self.server_first)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("peer_addr", &self.socket.peer_addr().ok()).finish_non_exhaustive()
    }
}

/// Whether the socket may be used again, as [`Tcp`] has it.
pub(super) fn is_open(socket: &TcpStream, server_first: bool) -> bool {
    match SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]) {
        Ok(0) => false,
        Ok(_) => server_first && !end_was_seen(socket),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// Whether bytes wait that nobody has read.
pub(super) fn has_unread(socket: &TcpStream) -> bool {
    SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]).is_ok_and(|waiting| waiting > 0)
}

/// Whether tokio has been told of the end. Also true when the runtime that would be told is gone.
fn end_was_seen(socket: &TcpStream) -> bool {
    match pin!(socket.ready(Interest::READABLE)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(readiness)) => readiness.is_read_closed(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}

pub(super) async fn closed(socket: Arc<TcpStream>, server_first: bool) {
    loop {
        match socket.peek(&mut [0]).await {
            Ok(waiting) if waiting > 0 && server_first => {}
            Ok(_) | Err(_) => return,
        }
        // Every further peek shows the same bytes at once: only the readiness tells of an end behind them.
        match socket.ready(Interest::READABLE).await {
            Ok(readiness) if !readiness.is_read_closed() => sleep(END_INTERVAL).await,
            Ok(_) | Err(_) => return,
        }
    }
}
