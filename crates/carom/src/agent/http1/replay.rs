//! A stream on which hyper hears an answer that somebody else has begun to read.
//!
//! The request was written before, and hyper's own words for it are swallowed. What had come, and how reading or writing had
//! failed, is heard again, in its order; from then on the stream is just that.

use crate::agent::dial::Stream;
use bytes::{Buf, Bytes, BytesMut};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Replayed {
    stream: Stream,
    /// What hyper has not heard yet. Boxed, as there rarely is any.
    replay: Option<Box<Replay>>,
    /// Hyper has begun to write, and has not flushed: there may be more that only it has.
    writes: bool,
}

/// What happened on a stream.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Whether a request was written, or tried to be, that hyper has not said yet: nothing is heard before.
    pub(super) asked: bool,
    /// How writing it failed.
    pub(super) unsaid: Option<io::Error>,
    /// What came.
    pub(super) came: Bytes,
    /// How reading failed after that.
    pub(super) unheard: Option<io::Error>,
}

/// How much of that hyper has heard.
#[derive(Debug)]
struct Replay {
    past: Past,
    /// It has said something of the request.
    says: bool,
    /// Who wants to hear.
    listens: Option<Waker>,
}

impl Replay {
    /// Hyper has said what it has to: it hears what came of that.
    fn goes_on(&mut self) {
        self.past.asked = false;
        if let Some(waker) = self.listens.take() {
            waker.wake();
        }
    }

    fn poll_say(&mut self, length: usize) -> Poll<io::Result<usize>> {
        self.says = true;
        match self.past.unsaid.take() {
            Some(error) => {
                self.goes_on();
                Poll::Ready(Err(error))
            }
            None => Poll::Ready(Ok(length)),
        }
    }
}

impl Replayed {
    pub(super) fn new(stream: Stream, past: Past) -> Replayed {
        let is_nothing = !past.asked && past.came.is_empty() && past.unheard.is_none();
        Replayed {
            stream,
            replay: (!is_nothing).then(|| Box::new(Replay { past, says: false, listens: None })),
            writes: false,
        }
    }

    /// The stream, and what was read of it: `heard` by hyper and not used, and what it did not come to.
    pub(super) fn into_parts(self, heard: Bytes) -> (Stream, Bytes) {
        let unheard = self.replay.map(|replay| replay.past.came).unwrap_or_default();
        if unheard.is_empty() {
            return (self.stream, heard);
        }
        let mut all = BytesMut::from(heard);
        all.extend_from_slice(&unheard);
        (self.stream, all.freeze())
    }

    /// Whether all that hyper had to write is written.
    pub(super) fn is_flushed(&self) -> bool {
        !self.writes
    }

    /// That of a request which hyper is still to say.
    fn asked(&mut self) -> Option<&mut Replay> {
        self.replay.as_deref_mut().filter(|replay| replay.past.asked)
    }
}

impl Read for Replayed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        if let Some(replay) = self.replay.as_deref_mut() {
            if replay.past.asked {
                replay.listens = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let came = &mut replay.past.came;
            if !came.is_empty() {
                let count = came.len().min(buf.remaining());
                buf.put_slice(&came[..count]);
                came.advance(count);
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = self.replay.take().and_then(|replay| replay.past.unheard) {
                return Poll::Ready(Err(error));
            }
        }
        Read::poll_read(Pin::new(&mut self.stream), cx, buf)
    }
}

impl Write for Replayed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.writes = true;
        match self.asked() {
            Some(replay) => replay.poll_say(buf.len()),
            None => Write::poll_write(Pin::new(&mut self.stream), cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes = true;
        match self.asked() {
            Some(replay) => replay.poll_say(bufs.iter().map(|buf| buf.len()).sum()),
            None => Write::poll_write_vectored(Pin::new(&mut self.stream), cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.stream)
    }

    /// Hyper flushes what it has written in full.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(replay) = self.asked().filter(|replay| replay.says) {
            replay.goes_on();
        }
        let flushed = Write::poll_flush(Pin::new(&mut self.stream), cx);
        self.writes &= !matches!(flushed, Poll::Ready(Ok(())));
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}
