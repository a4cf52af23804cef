//! A stream that was dialled, with or without TLS, as hyper and as tokio want to read and write it.

use crate::agent::stalls::Pulse;
use crate::tcp::{self, Tcp, Watch};
use crate::tls::{self, Tls};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A TCP connection, encrypted or not.
#[derive(Debug)]
pub(crate) struct Stream {
    carrier: Carrier,
    watch: Watch,
    pulse: Arc<Pulse>,
}

#[derive(Debug)]
enum Carrier {
    Plain(tcp::Stream),
    /// Large, and rarely moved: plain streams need not be as large.
    Tls(Box<tls::Stream>),
}

impl Stream {
    pub(super) fn plain(stream: tcp::Stream, tcp: &Tcp, pulse: Arc<Pulse>) -> Stream {
        Stream { watch: tcp.watch(&stream), carrier: Carrier::Plain(stream), pulse }
    }

    pub(super) fn tls(stream: tls::Stream, tls: &Tls, pulse: Arc<Pulse>) -> Stream {
        Stream { watch: tls.watch(&stream), carrier: Carrier::Tls(Box::new(stream)), pulse }
    }

    /// A watch over the socket, to be kept when hyper owns the stream. Without TLS, bytes that wait unread count as an end,
    /// as nobody has asked for them; with TLS nobody outside can tell what they are, and only the end itself counts.
    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// The signs of life of the backend that it leads to.
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }
}

/// Does the same to either carrier.
macro_rules! either {
    ($stream:expr, $carrier:ident => $done:expr) => {
        match &mut $stream.get_mut().carrier {
            Carrier::Plain($carrier) => $done,
            Carrier::Tls($carrier) => $done,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (stream, before) = (self.get_mut(), buf.filled().len());
        let read = match &mut stream.carrier {
            Carrier::Plain(carrier) => Pin::new(carrier).poll_read(cx, buf),
            Carrier::Tls(carrier) => Pin::new(carrier).poll_read(cx, buf),
        };
        if buf.filled().len() > before {
            stream.pulse.beat();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, carrier => Pin::new(carrier).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, carrier => Pin::new(carrier).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.carrier {
            Carrier::Plain(stream) => stream.is_write_vectored(),
            Carrier::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, carrier => Pin::new(carrier).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, carrier => Pin::new(carrier).poll_shutdown(cx))
    }
}

/// hyper's buffer as tokio wants it: filled in place.
impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Read::poll_read(Pin::new(&mut TokioIo::new(self.get_mut())), cx, buf)
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(self, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(self, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        AsyncWrite::is_write_vectored(self)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(self, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(self, cx)
    }
}
