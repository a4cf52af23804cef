//! A client's connection as bytes: what was read of it beforehand comes first, and its pulse is felt.

use super::pulse::Pulse;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// How a client begins that knows that HTTP/2 is spoken here. No method of HTTP/1 begins like that.
const PREFACE: &[u8; 3] = b"PRI";

/// Pieces that are no more than this together are written as one: that costs less than telling the system of each.
const SMALL: usize = 2 << 10;

/// How long a client is heard that is not answered any more.
const LINGER: Duration = Duration::from_secs(1);

/// See the [module](self).
pub(super) struct Wire {
    stream: TcpStream,
    /// What was read of it already, and is to be read again.
    ahead: Bytes,
    pulse: Arc<Pulse>,
    /// How long the client is still heard, when this side has ended.
    lingering: Option<Pin<Box<Sleep>>>,
    half_close_timeout: Duration,
    /// The client has ended its side before it had its response.
    half_closed: Option<HalfClosed>,
}

/// A client that has ended its side and waits for a response.
struct HalfClosed {
    /// What was written when the timer began; see [`Pulse::written`].
    written: Option<u64>,
    timer: Pin<Box<Sleep>>,
}

impl Wire {
    /// A client that ends its side is taken for one that has left when nothing is written to it for `half_close_timeout`.
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>, half_close_timeout: Duration) -> Wire {
        Wire { stream, ahead: Bytes::new(), pulse, lingering: None, half_close_timeout, half_closed: None }
    }

    /// Reads as much as it takes to know whether HTTP/2 is spoken.
    pub(super) async fn is_http2(&mut self) -> io::Result<bool> {
        let (mut first, mut held) = ([0; PREFACE.len()], 0);
        let is_http2 = loop {
            let count = self.stream.read(&mut first[held..]).await?;
            held += count;
            if count == 0 || first[..held] != PREFACE[..held] {
                break false;
            }
            if held == PREFACE.len() {
                break true;
            }
        };
        self.ahead = Bytes::copy_from_slice(&first[..held]);
        Ok(is_http2)
    }

    /// What was read is to be read again, all of it.
    pub(super) fn put_back(&mut self, read: Bytes) {
        self.ahead = read;
    }

    /// Waits until nothing was written for the timeout to a client that has ended its side. While the client does not read what
    /// there is, it is the client that keeps the response waiting, which has a timeout of its own.
    fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Wire { pulse, half_close_timeout: timeout, half_closed, .. } = self;
        let HalfClosed { written, timer } = half_closed
            .get_or_insert_with(|| HalfClosed { written: pulse.written(), timer: Box::pin(sleep(*timeout)) });
        loop {
            ready!(timer.as_mut().poll(cx));
            let now = pulse.written();
            if now.is_some() && now == *written {
                return Poll::Ready(());
            }
            *written = now;
            timer.as_mut().reset(Instant::now() + *timeout);
        }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(count)) => self.pulse.wrote(*count),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.pulse.cannot_write(),
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let count = buf.remaining().min(self.ahead.len());
            buf.put_slice(&self.ahead.split_to(count));
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let count = buf.filled().len() - before;
        if count > 0 {
            self.pulse.read(count);
        } else if matches!(read, Poll::Ready(Ok(()))) && buf.remaining() > 0 && self.pulse.waits_for_answer(cx.waker())
        {
            // It has said all it wanted to say, and may listen. One that has left is noticed when it is written to, or when
            // nothing is written for a while.
            return self.poll_given_up(cx).map(Ok);
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [one] = bufs {
            return self.poll_write(cx, one);
        }
        let length: usize = bufs.iter().map(|piece| piece.len()).sum();
        if length <= SMALL {
            let mut joined = [0; SMALL];
            let mut room = &mut joined[..];
            for piece in bufs {
                let (taken, rest) = room.split_at_mut(piece.len());
                taken.copy_from_slice(piece);
                room = rest;
            }
            return self.poll_write(cx, &joined[..length]);
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Whoever may still be speaking is heard for a moment: closed with something unread, the connection would be reset, and what
    /// the client was told might be lost.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.pulse.lingers() {
                return Poll::Ready(Ok(()));
            }
        }
        let Wire { stream, lingering, .. } = &mut *self;
        let lingering = lingering.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        let mut heard = [0; SMALL];
        while lingering.as_mut().poll(cx).is_pending() {
            let mut heard = ReadBuf::new(&mut heard);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut heard)) {
                Ok(()) if !heard.filled().is_empty() => {}
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
