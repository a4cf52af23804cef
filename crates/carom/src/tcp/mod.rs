//! The TCP connector: [`Tcp`] opens sockets, [`Stream`] is such a socket as a claim lends it.
//!
//! A closure around `TcpStream::connect` makes connections too, but cannot tell that one has ended. This connector looks
//! at what has arrived before a connection is lent, and watches it while it idles: a socket that the far side has closed or
//! reset is not lent again. Neither is one with bytes waiting that nobody asked for, which are
//! the late reply to an earlier request and would be taken for the reply to the next.
//!
//! That holds for what the runtime has heard of when a claim comes back and when the connection is claimed again; while
//! nothing has arrived, this costs no system call.
//!
//! A reply that is still on its way would be lent with the connection. So a connection does not go back into the pool if
//! bytes were written and none were read since: its request was cancelled, cut short by a timeout, or given up. It is closed, as by
//! [`Claim::discard`](crate::Claim::discard), and the backend is not blamed. The stream counts bytes and knows no messages, so
//! this does not cover a reply that was read in part, and further replies to requests that were sent together: if such a use is cut
//! short, discard its claim. Neither does it see what is written through [`Stream::get_ref`].
//!
//! A protocol whose last message has no reply loses its connection after each use, unless
//! [`reuse_without_answer`](Tcp::reuse_without_answer) is set.
//!
//! ```
//! use carom::Backend;
//! use carom::connect::{Connect, Liveness};
//! use carom::tcp::Tcp;
//! use tokio::net::TcpListener;
//!
//! # fn main() -> std::io::Result<()> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let backend = Backend::fixed(listener.local_addr()?);
//!
//! let tcp = Tcp::default();
//! let mut stream = tcp.connect(&backend).await?;
//! assert!(tcp.liveness(&mut stream).is_usable());
//!
//! let (far_side, _) = listener.accept().await?;
//! drop(far_side);
//! let closed = tcp.closed(&stream).expect("a socket can be watched");
//! assert!(matches!(closed.await, Liveness::Closed));
//! assert!(!tcp.liveness(&mut stream).is_usable());
//! # Ok(()) }) }
//! ```
//!
//! A stream reads and writes as tokio's own does:
//!
//! ```no_run
//! use carom::Pool;
//! use carom::tcp::Tcp;
//! use std::net::SocketAddr;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::builder(Tcp::default())
//!     .backends(["10.0.0.1:7000".parse::<SocketAddr>()?, "10.0.0.2:7000".parse()?])
//!     .build()?;
//! let mut stream = pool.claim().await?;
//! stream.write_all(b"ping\n").await?;
//! let mut reply = [0; 5];
//! stream.read_exact(&mut reply).await?;
//! # Ok(()) }
//! ```

mod stream;
mod watch;

pub use stream::Stream;
pub use watch::Watch;

use crate::connect::{Connect, Liveness};
use carom_core::backend::Backend;
use socket2::{SockRef, TcpKeepalive};
use std::future::{Future, ready};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Opens TCP connections.
///
/// It bounds nothing in time: the pool's recovery policy says how long a connect may take. `check` keeps its default, as
/// TCP alone has no round trip to offer.
#[derive(Clone, Debug)]
pub struct Tcp {
    nodelay: bool,
    keepalive: Option<Duration>,
    server_first: bool,
    reuse_without_answer: bool,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp { nodelay: true, keepalive: None, server_first: false, reuse_without_answer: false }
    }
}

impl Tcp {
    /// Whether small writes are sent at once (`TCP_NODELAY`) and not held back to be joined with later ones. Default:
    /// true. [`Stream::set_nodelay`] changes it for one connection, and for good: a release does not undo it.
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Tcp {
        self.nodelay = nodelay;
        self
    }

    /// After how much silence the system probes whether the far side is still there, and how long after each probe it
    /// sends the next (where the system lets that be set). After some unanswered probes (9 on Linux) the connection ends
    /// with an error, which [`closed`](Connect::closed) and [`liveness`](Connect::liveness) then see; without probes a host
    /// that vanished is only noticed by using it, or by the pool's `check_after`.
    ///
    /// In whole seconds, rounded up. Default: off (`None`). What the system does not allow (on Linux: zero, or over
    /// 32767 s) fails each connect with [`ErrorKind::InvalidInput`].
    #[must_use]
    pub fn keepalive(mut self, keepalive: impl Into<Option<Duration>>) -> Tcp {
        self.keepalive = keepalive.into();
        self
    }

    /// Whether the far side may send without being asked: greetings, notices. Default: false, and a connection with bytes
    /// waiting counts as closed when it is released or claimed; see the [module](self).
    ///
    /// If true, waiting bytes are left for the next user. They also hide what comes after them, so an end behind them is
    /// noticed within a second or so rather than at once, and a late reply to an earlier request is not noticed at all.
    #[must_use]
    pub fn server_first(mut self, server_first: bool) -> Tcp {
        self.server_first = server_first;
        self
    }

    /// Whether a connection goes back into the pool if bytes were written and none were read since. Default: false, and such a
    /// connection is closed when its claim comes back, because the reply may still come; see the [module](self).
    ///
    /// Set it for a protocol whose last message has no reply, for example metrics, log lines, or a cursor that is closed without
    /// an acknowledgement. Without it each use costs a new connection. With it, end the claim of a request that was cut short with
    /// [`Claim::discard`](crate::Claim::discard).
    #[must_use]
    pub fn reuse_without_answer(mut self, reuse: bool) -> Tcp {
        self.reuse_without_answer = reuse;
        self
    }

    /// A watch over a stream's socket, to be kept beside a stream that belongs to somebody else.
    #[must_use]
    pub fn watch(&self, stream: &Stream) -> Watch {
        Watch { socket: Arc::clone(&stream.socket), server_first: self.server_first }
    }
}

impl Connect for Tcp {
    type Connection = Stream;
    type Error = io::Error;

    /// Cancel safety: dropping the future closes the socket.
    async fn connect(&self, backend: &Backend) -> io::Result<Stream> {
        let socket = TcpStream::connect(backend.socket_addr()).await?;
        refuse_itself(&socket, backend.socket_addr())?;
        if self.nodelay {
            socket.set_nodelay(true)?;
        }
        if let Some(silence) = self.keepalive {
            set_keepalive(&socket, silence)?;
        }
        Ok(Stream { socket: Arc::new(socket), ended_sending: false, unanswered: false })
    }

    /// Answers from the readiness that tokio remembers: the system is asked only when something has arrived.
    fn liveness(&self, stream: &mut Stream) -> Liveness {
        if stream.ended_sending {
            return Liveness::Closed;
        }
        match watch::liveness(&stream.socket, self.server_first) {
            Liveness::Open if stream.unanswered && !self.reuse_without_answer => Liveness::Unanswered,
            liveness => liveness,
        }
    }

    /// Cancel safety: the future consumes no bytes; dropping it leaves the stream as it was.
    fn closed(&self, stream: &Stream) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        Some(watch::closed(Arc::clone(&stream.socket), self.server_first))
    }

    /// Asks the system: bytes that waited when the far side closed are still there.
    fn has_unread(&self, stream: &mut Stream) -> bool {
        watch::has_unread(&stream.socket)
    }

    /// Ends the sending side, so that the far side sees the end even if a watcher still holds the socket, then drops.
    fn close(&self, stream: Stream) -> impl Future<Output = ()> + Send {
        // An error means that the connection has ended already.
        let _ = stream.end_sending();
        drop(stream);
        ready(())
    }
}

/// Fails when a socket is connected to itself: TCP allows that, and it happens to those who keep trying a local port that
/// nobody listens on, once the system picks that very port for their own side.
fn refuse_itself(socket: &TcpStream, backend: SocketAddr) -> io::Result<()> {
    if socket.local_addr()? == backend {
        return Err(io::Error::new(ErrorKind::ConnectionRefused, "nobody listens: the socket connected to itself"));
    }
    Ok(())
}

fn set_keepalive(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    let seconds = silence.as_secs().saturating_add((silence.subsec_nanos() > 0).into());
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(seconds));
    #[cfg(any(target_vendor = "apple", target_os = "android", target_os = "linux", target_os = "windows"))]
    let keepalive = keepalive.with_interval(Duration::from_secs(seconds));
    SockRef::from(socket)
        .set_tcp_keepalive(&keepalive)
        .map_err(|error| io::Error::new(error.kind(), format!("keepalive of {silence:?} is not allowed by the system")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    #[tokio::test]
    async fn a_socket_connected_to_itself_is_refused() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let socket = socket.connect(address).await.unwrap();
        assert_eq!(refuse_itself(&socket, address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn options_reach_the_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend::fixed(listener.local_addr().unwrap());

        let stream = Tcp::default().connect(&backend).await.unwrap();
        assert!(stream.get_ref().nodelay().unwrap());
        assert!(!SockRef::from(stream.get_ref()).keepalive().unwrap());

        let tcp = Tcp::default().nodelay(false).keepalive(Duration::from_millis(1500));
        let stream = tcp.connect(&backend).await.unwrap();
        assert!(!stream.get_ref().nodelay().unwrap());
        assert!(SockRef::from(stream.get_ref()).keepalive().unwrap());

        let stream = tcp.keepalive(None).connect(&backend).await.unwrap();
        assert!(!SockRef::from(stream.get_ref()).keepalive().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn keepalive_beyond_what_the_system_allows_is_an_error_with_the_value() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend::fixed(listener.local_addr().unwrap());
        for silence in [Duration::ZERO, Duration::from_secs(32768), Duration::MAX] {
            let error = Tcp::default().keepalive(silence).connect(&backend).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&format!("{silence:?}")), "{error}");
        }
    }
}
