//! A connection that speaks something else from now on.

use super::body::Body;
use super::dial::Stream;
use super::http1::Connector;
use crate::{Backend, Claim};
use bytes::{Buf, Bytes};
use http::Response;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The connection under a `101 Switching Protocols`, or under a `CONNECT` that succeeded: a stream of bytes.
///
/// It has left the pool for good, but counts towards `maximum` until it is dropped.
///
/// ```
/// # use carom::agent::{Body, Upgraded};
/// # fn example(mut response: http::Response<Body>) {
/// if let Some(stream) = Upgraded::take(&mut response) {
///     // reads and writes as tokio's streams do
/// #   drop(stream);
/// }
/// # }
/// ```
pub struct Upgraded {
    stream: Stream,
    /// What came right behind the head.
    rest: Bytes,
    /// Holds the place.
    claim: Claim<Connector>,
}

/// Where it waits in a response's extensions, for the first who comes.
#[derive(Clone)]
struct Left(Arc<Mutex<Option<Upgraded>>>);

impl Upgraded {
    /// The stream of a response that was upgraded; `None` if it was not, or somebody has taken it.
    pub fn take(response: &mut Response<Body>) -> Option<Upgraded> {
        let Left(left) = response.extensions_mut().remove()?;
        left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where it leads.
    pub fn backend(&self) -> &Backend {
        self.claim.backend()
    }

    pub(super) fn new(stream: Stream, rest: Bytes, claim: Claim<Connector>) -> Upgraded {
        Upgraded { stream, rest, claim }
    }

    pub(super) fn leave_in(self, response: &mut Response<Body>) {
        response.extensions_mut().insert(Left(Arc::new(Mutex::new(Some(self)))));
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.rest.is_empty() {
            let count = self.rest.len().min(buf.remaining());
            buf.put_slice(&self.rest[..count]);
            self.rest.advance(count);
            return Poll::Ready(Ok(()));
        }
        AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buf)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(Pin::new(&mut self.stream), cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        AsyncWrite::is_write_vectored(&self.stream)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    /// Ends the sending side; what the far side still sends can be read.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").field("backend", self.backend()).finish_non_exhaustive()
    }
}
