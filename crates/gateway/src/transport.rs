//! A connection with or without TLS: a client's, or one to an upstream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum Transport<P = TcpStream, T = TlsStream<TcpStream>> {
    Plain(P),
    Tls(Box<T>),
}

impl Transport {
    /// What is not delivered when it is dropped is not tried again: nobody reads it, and the system would keep it for minutes.
    pub(crate) fn abandon(&self) {
        let tcp = match self {
            Transport::Plain(tcp) => tcp,
            Transport::Tls(tls) => tls.get_ref().0,
        };
        if let Err(error) = socket2::SockRef::from(tcp).set_linger(Some(std::time::Duration::ZERO)) {
            tracing::debug!(%error, "a socket cannot be abandoned");
        }
    }
}

impl<P: AsyncRead + Unpin, T: AsyncRead + Unpin> AsyncRead for Transport<P, T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_read(context, into),
            Transport::Tls(tls) => Pin::new(tls).poll_read(context, into),
        }
    }
}

impl<P: AsyncWrite + Unpin, T: AsyncWrite + Unpin> AsyncWrite for Transport<P, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Transport::Tls(tls) => Pin::new(tls).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Transport::Tls(tls) => Pin::new(tls).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Transport::Tls(tls) => Pin::new(tls).poll_shutdown(context),
        }
    }
}
