//! A TCP connection as a claim lends it: reads and writes as tokio's own does, and can be watched meanwhile.

use socket2::SockRef;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Whether a read that leaves room in its buffer says that nothing more has arrived: so it is where the system tells of
/// arrivals and not of what is there.
const SHORT_READS_DRAIN: bool = cfg!(any(target_os = "linux", target_os = "android", target_vendor = "apple"));

/// A TCP connection: [`TcpStream`], in a form that can be watched for its end while it idles.
///
/// It is shared with the futures of [`closed`](crate::Connect::closed), and the socket is closed when the last of them and the
/// stream are gone. Reading and writing is for the stream's owner alone, as everywhere in tokio.
#[derive(Debug)]
pub struct Stream {
    pub(super) socket: Arc<TcpStream>,
    /// Its user has shut down the sending side: nobody else could use it.
    pub(super) ended_sending: bool,
    /// Bytes were written, and none were read since.
    pub(super) unanswered: bool,
}

impl Stream {
    /// The address of the far side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// The address of this side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Whether small writes are sent at once, from now on. See [`Tcp::nodelay`](super::Tcp::nodelay).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.set_nodelay(nodelay)
    }

    /// The socket, for everything else that can be asked of it.
    pub fn get_ref(&self) -> &TcpStream {
        &self.socket
    }

    /// The socket alone. Gives the stream back while it is watched: while a future of [`closed`](crate::Connect::closed) lives.
    pub fn into_inner(self) -> Result<TcpStream, Stream> {
        let Stream { socket, ended_sending, unanswered } = self;
        Arc::try_unwrap(socket).map_err(|socket| Stream { socket, ended_sending, unanswered })
    }

    /// Reads from the socket itself, if tokio has been told that something has arrived.
    #[cfg(feature = "tls")]
    pub(crate) fn read_arrived<R>(&self, read: impl FnOnce(&socket2::Socket) -> io::Result<R>) -> io::Result<R> {
        self.socket.try_io(Interest::READABLE, || read(&SockRef::from(&*self.socket)))
    }

    /// Whether the connection was reset, or failed in another way.
    #[cfg(feature = "tls")]
    pub(crate) fn has_failed(&self) -> bool {
        super::watch::has_failed(super::watch::readiness(&self.socket))
    }

    /// What `TcpStream` does at shutdown, without its `&mut`: a socket that has been reset is not an error.
    pub(super) fn end_sending(&self) -> io::Result<()> {
        match SockRef::from(&*self.socket).shutdown(Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = self.poll_read_socket(cx, buf);
        if buf.filled().len() > before {
            self.unanswered = false;
        }
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |socket| socket.try_write(buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match bufs {
            // Of one piece the system is told with less ado.
            [one] => self.poll_write(cx, one),
            _ => self.poll_try_write(cx, |socket| socket.try_write_vectored(bufs)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is held back on this side.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the sending side; what the far side still sends can be read.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ended_sending = true;
        Poll::Ready(self.end_sending())
    }
}

impl Stream {
    fn poll_read_socket(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A claimed stream is not watched, and tokio's own reading neither zeroes the buffer nor asks twice.
        if let Some(socket) = Arc::get_mut(&mut self.socket) {
            return Pin::new(socket).poll_read(cx, buf);
        }
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            match self.read_shared(buf) {
                // The readiness was stale and is now cleared: wait for the next.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// As tokio reads when it has the socket to itself: what is read fills memory that nobody has zeroed, and a read that
    /// leaves room says that there was no more, so that nobody has to ask again to hear it.
    fn read_shared(&self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        let mut read = Err(ErrorKind::WouldBlock.into());
        // To say that it would block clears the readiness there was before the read, never what has come since.
        let _ = self.socket.try_io(Interest::READABLE, || {
            read = self.socket.try_read_buf(buf);
            match &read {
                Ok(1..) if SHORT_READS_DRAIN && buf.remaining() > 0 => Err(ErrorKind::WouldBlock.into()),
                Ok(_) => Ok(()),
                Err(error) => Err(error.kind().into()),
            }
        });
        read.map(drop)
    }

    fn poll_try_write(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            match write(&self.socket) {
                // The readiness was stale and is now cleared: wait for the next.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => {
                    self.unanswered |= matches!(result, Ok(1..));
                    return Poll::Ready(result);
                }
            }
        }
    }
}
