//! A client's socket, with everything that is on its way out in one buffer: frames of ours, and what the WebSocket library
//! answers by itself.
//!
//! So many messages are one write, nothing gets in between the bytes of a frame, and an idle client has no buffer at all. What
//! comes in passes through, up to an end while it is not known from whom.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Capacity that an empty buffer may keep.
const KEPT: usize = 4 << 10;

/// With more than this on its way out, the library's answers wait.
const BRIM: usize = 64 << 10;

/// So much is read of somebody who has not said who it is, the upgrade included.
const STRANGER: usize = 64 << 10;

/// The error of reading more than that.
pub(crate) const TOO_MUCH_READ: io::ErrorKind = io::ErrorKind::QuotaExceeded;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Wire<S> {
    socket: S,
    /// How much more may be read.
    readable: usize,
    out: Vec<u8>,
    /// How much of `out` is written.
    written: usize,
    /// Whether the socket is still to be flushed.
    unflushed: bool,
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(socket: S) -> Wire<S> {
        Wire { socket, readable: STRANGER, out: Vec::new(), written: 0, unflushed: false }
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// From now on everything is read.
    pub(crate) fn read_on(&mut self) {
        self.readable = usize::MAX;
    }

    /// How many bytes are on their way out.
    pub(crate) fn waiting(&self) -> usize {
        self.out.len() - self.written
    }

    /// A whole frame, to be written with the next [`poll_drain`](Wire::poll_drain).
    pub(crate) fn push(&mut self, frame: &[u8]) {
        // Whoever never takes all of it would have all it was ever sent kept. No more is moved than was written.
        if self.written > KEPT.max(self.out.len() / 2) {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.out.extend_from_slice(frame);
        self.unflushed = true;
    }

    /// Whether everything was written.
    pub(crate) fn is_drained(&self) -> bool {
        !self.unflushed
    }

    /// Writes until nothing is left.
    pub(crate) fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            match ready!(Pin::new(&mut self.socket).poll_write(context, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.out.clear();
        self.written = 0;
        ready!(Pin::new(&mut self.socket).poll_flush(context))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Lets go of a buffer that is larger than an idle client needs.
    pub(crate) fn rest(&mut self) {
        if self.out.is_empty() && self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.readable == 0 {
            return Poll::Ready(Err(TOO_MUCH_READ.into()));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, into))?;
        // A little more does no harm: it is as much as is read at a time.
        self.readable = self.readable.saturating_sub(into.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

/// What the WebSocket library writes: the handshake, pongs, closes.
impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.waiting() > BRIM {
            ready!(self.poll_drain(context))?;
        }
        self.push(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_drain(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn frames_and_answers_stay_whole_and_in_order_however_little_is_taken_at_a_time() {
        let (near, mut far) = duplex(3);
        let mut wire = Wire::new(near);
        wire.push(b"first frame,");
        wire.write_all(b"an answer,").await.unwrap();
        wire.push(b"second frame");
        assert!(!wire.is_drained());
        let reading = tokio::spawn(async move {
            let mut read = String::new();
            far.read_to_string(&mut read).await.map(|_| read)
        });
        poll_fn(|context| wire.poll_drain(context)).await.unwrap();
        assert!(wire.is_drained());
        drop(wire);
        assert_eq!(reading.await.unwrap().unwrap(), "first frame,an answer,second frame");
    }

    #[tokio::test]
    async fn answers_wait_when_too_much_is_on_its_way_and_an_empty_buffer_is_let_go() {
        let (near, mut far) = duplex(BRIM);
        let mut wire = Wire::new(near);
        wire.push(&vec![0; 2 * BRIM + 1]);
        let answered = poll_fn(|context| Poll::Ready(Pin::new(&mut wire).poll_write(context, b"pong"))).await;
        assert!(answered.is_pending());
        let reading = tokio::spawn(async move { far.read_exact(&mut vec![0; 2 * BRIM + 1]).await.map(|_| far) });
        poll_fn(|context| wire.poll_drain(context)).await.unwrap();
        assert!(wire.out.capacity() > KEPT);
        wire.rest();
        assert_eq!(wire.out.capacity(), 0);
        reading.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_stranger_is_not_read_for_ever() {
        let (near, mut far) = duplex(1 << 10);
        let mut wire = Wire::new(near);
        let writing = tokio::spawn(async move { far.write_all(&[0; 2 * STRANGER]).await.map(|()| far) });
        let mut read = vec![0; STRANGER];
        wire.read_exact(&mut read).await.unwrap();
        assert_eq!(wire.read(&mut read).await.unwrap_err().kind(), TOO_MUCH_READ);
        wire.read_on();
        wire.read_exact(&mut read).await.unwrap();
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_was_written_is_not_kept_although_something_always_waits() {
        let (near, mut far) = duplex(1 << 10);
        let mut wire = Wire::new(near);
        wire.push(&[0; 2 << 10]);
        for n in 0..10_000_u32 {
            wire.push(&n.to_be_bytes().repeat(64));
            let drained = poll_fn(|context| Poll::Ready(wire.poll_drain(context))).await;
            assert!(drained.is_pending(), "the peer is always behind");
            far.read_exact(&mut [0; 256]).await.unwrap();
        }
        assert!(wire.out.capacity() <= 4 * KEPT, "{} bytes", wire.out.capacity());
    }
}
