//! Whether a socket has ended, asked without reading from it.

use crate::connect::Liveness;
use socket2::SockRef;
use std::fmt;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{Interest, Ready};
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
    /// Whether the connection may be used, asked of the system and not of the readiness that tokio remembers: for a request
    /// that must not be sent twice.
    pub fn is_open(&self) -> bool {
        judge(&self.socket, peek(&self.socket), self.server_first).is_usable()
    }

    /// As [`liveness`](crate::Connect::liveness) of [`Tcp`](super::Tcp), except that it does not know whether the sending side
    /// was shut down, nor whether an answer is still to come.
    pub fn liveness(&self) -> Liveness {
        liveness(&self.socket, self.server_first)
    }

    /// As [`closed`](crate::Connect::closed) of [`Tcp`](super::Tcp).
    ///
    /// Cancel safety: the future consumes no bytes; dropping it leaves the stream as it was.
    pub fn closed(&self) -> impl Future<Output = Liveness> + Send + 'static {
        closed(Arc::clone(&self.socket), self.server_first)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("peer_addr", &self.socket.peer_addr().ok()).finish_non_exhaustive()
    }
}

/// What tokio has been told of the socket: no system call while nothing has arrived.
pub(super) fn liveness(socket: &TcpStream, server_first: bool) -> Liveness {
    let mut liveness = Liveness::Open;
    let _ = socket.try_io(Interest::READABLE, || {
        let waiting = peek(socket);
        if let Err(error) = &waiting
            && error.kind() == ErrorKind::WouldBlock
        {
            // What was ready has been read since: clears the readiness.
            return Err(ErrorKind::WouldBlock.into());
        }
        liveness = judge(socket, waiting, server_first);
        Ok(())
    });
    liveness
}

/// What follows from how many bytes wait.
fn judge(socket: &TcpStream, waiting: io::Result<usize>, server_first: bool) -> Liveness {
    match waiting {
        // The error itself is reported once, and may have been reported to the last user.
        Ok(0) if has_failed(readiness(socket)) => reset(),
        Ok(0) => Liveness::Closed,
        Ok(_) if server_first && !readiness(socket).is_read_closed() => Liveness::Open,
        Ok(_) => Liveness::Closed,
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Liveness::Open,
            _ => Liveness::broken(error),
        },
    }
}

/// How many bytes wait; one at most is looked at.
fn peek(socket: &TcpStream) -> io::Result<usize> {
    SockRef::from(socket).peek(&mut [MaybeUninit::uninit()])
}

/// Whether bytes wait that no user has read.
pub(super) fn has_unread(socket: &TcpStream) -> bool {
    peek(socket).is_ok_and(|waiting| waiting > 0)
}

/// What tokio has been told. It is told of no end any more when its runtime is gone: that counts as one.
pub(super) fn readiness(socket: &TcpStream) -> Ready {
    match pin!(socket.ready(Interest::READABLE.add(Interest::WRITABLE).add(Interest::ERROR)))
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(readiness) => readiness.unwrap_or(Ready::READ_CLOSED),
        Poll::Pending => Ready::EMPTY,
    }
}

/// Whether the connection was reset, or failed in another way. This side ends its sending only when it is done with the
/// connection, and the far side alone cannot.
pub(super) fn has_failed(readiness: Ready) -> bool {
    readiness.is_error() || readiness.is_write_closed()
}

fn reset() -> Liveness {
    Liveness::broken(io::Error::from(ErrorKind::ConnectionReset))
}

pub(super) async fn closed(socket: Arc<TcpStream>, server_first: bool) -> Liveness {
    loop {
        match socket.peek(&mut [0]).await {
            Ok(waiting) if waiting > 0 && server_first => {}
            waiting => return judge(&socket, waiting, server_first),
        }
        // Every further peek shows the same bytes at once: only the readiness tells of an end behind them.
        match socket.ready(Interest::READABLE.add(Interest::ERROR)).await {
            Ok(readiness) if has_failed(readiness) => return reset(),
            Ok(readiness) if !readiness.is_read_closed() => sleep(END_INTERVAL).await,
            Ok(_) | Err(_) => return Liveness::Closed,
        }
    }
}
