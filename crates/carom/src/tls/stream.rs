//! A TLS connection as a claim lends it, and what can be learned of it without waiting.

use crate::tcp;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

/// How often the socket is asked for more, each time for up to 4 KiB: a server cannot keep us busy with tickets.
const MOST_READS: usize = 16;

/// A TLS connection over TCP.
///
/// Written bytes may be held back when the socket has no room for them: flush before waiting for a reply, and before
/// giving the connection back. [`shutdown`](AsyncWrite::poll_shutdown) says goodbye (`close_notify`), so a connection
/// that was shut down is not lent again.
pub struct Stream {
    tls: TlsStream<tcp::Stream>,
    said_goodbye: bool,
    /// Bytes were written, and none were read since. The socket's own flag knows of handshakes and tickets, too.
    unanswered: bool,
}

/// What waits on a connection that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Nothing for the application; it may go on.
    Nothing,
    /// Application bytes.
    Bytes,
    /// The end: a goodbye, or end-of-file.
    End,
}

impl Stream {
    pub(super) fn new(tls: TlsStream<tcp::Stream>) -> Stream {
        Stream { tls, said_goodbye: false, unanswered: false }
    }

    /// The address of the far side.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.get_ref().peer_addr()
    }

    /// The protocol that both sides agreed on, out of those given to [`Builder::alpn`](super::Builder::alpn). `None` when
    /// none were given, or the server does not know of such agreements.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.tls.get_ref().1.alpn_protocol()
    }

    /// The TCP connection, for everything that can be asked of it. What is read from it, or written to it, is missing from
    /// the encrypted stream and breaks it.
    pub fn get_ref(&self) -> &tcp::Stream {
        self.tls.get_ref().0
    }

    /// Whether this side has said goodbye, or is about to.
    pub(super) fn said_goodbye(&self) -> bool {
        self.said_goodbye
    }

    /// Whether application bytes were written, and none were read since.
    pub(super) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    pub(super) fn socket(&mut self) -> &mut tcp::Stream {
        self.tls.get_mut().0
    }

    /// Takes in what has arrived, until application bytes turn up: they wait in the session for whoever reads next.
    ///
    /// The socket is read only when tokio has been told that something has arrived.
    pub(super) fn take_in(&mut self) -> io::Result<Waiting> {
        let (stream, session) = self.tls.get_mut();
        for _ in 0..MOST_READS {
            // Before any reading, too: what the last user has left of a reply is no longer on the socket.
            let state = session.process_new_packets().map_err(io::Error::other)?;
            if state.peer_has_closed() {
                return Ok(Waiting::End);
            }
            if state.plaintext_bytes_to_read() > 0 {
                return Ok(Waiting::Bytes);
            }
            match stream.read_arrived(|mut socket| session.read_tls(&mut socket)) {
                Ok(0) if stream.has_failed() => return Err(ErrorKind::ConnectionReset.into()),
                Ok(0) => return Ok(Waiting::End),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Waiting::Nothing),
                Err(error) => return Err(error),
            }
        }
        Ok(Waiting::Nothing)
    }

    /// What the session has taken counts as written, be it still held back for want of room.
    fn note_written(&mut self, polled: &Poll<io::Result<usize>>) {
        self.unanswered |= matches!(polled, Poll::Ready(Ok(1..)));
    }

    /// Whether application bytes wait, be it in front of the end.
    pub(super) fn has_unread(&mut self) -> bool {
        let _ = self.take_in();
        self.tls.get_mut().1.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("peer_addr", &self.peer_addr().ok())
            .field("alpn_protocol", &self.alpn_protocol().map(String::from_utf8_lossy))
            .finish_non_exhaustive()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.tls).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.unanswered = false;
        }
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tls).poll_write(cx, buf);
        self.note_written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tls).poll_write_vectored(cx, bufs);
        self.note_written(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.tls.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    /// Says goodbye and ends the sending side; what the far side still sends can be read.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.said_goodbye = true;
        Pin::new(&mut self.tls).poll_shutdown(cx)
    }
}
