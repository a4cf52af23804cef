//! The plain way: a request that is nothing but a head, and an answer whose end is known by its head, as most are.
//!
//! They are written to the stream and read from it right here, and nothing moves between state machines. An answer that is not
//! plain, or that never comes, is not judged here: whoever knows all of HTTP/1 [hears it anew](super::replay), and everything
//! behind it.

mod answer;
mod request;

use crate::agent::body::Body;
use crate::agent::dial::Stream;
use answer::Head;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::task::unconstrained;

/// Room for what is read, to begin with.
const ROOM: usize = 8 << 10;
/// Room for what is read of a long body.
const LARGE_ROOM: usize = 64 << 10;
/// Less than this is not worth reading into.
const LEAST_ROOM: usize = 1 << 10;
/// A head that comes in more pieces than this is for others.
const MOST_PIECES: u8 = 4;

/// A stream on which requests are asked plainly.
pub(super) struct Plain {
    stream: Stream,
    /// What has come and nobody has taken.
    came: BytesMut,
    stage: Stage,
}

/// ```text
///          ask             answered           all of it came
///   Rest --------> Asking ---------> Telling -----------------> Rest
///    |               |                  |
///    |               |                  +--- ended, or more came than was promised ---> Over
///    |               +--- hands over: see `Handing`
///    +--- ended, or something came ---> Over
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It could take a request.
    Rest,
    /// So much of a request is written, and its answer came in so many pieces.
    Asking { written: usize, pieces: u8 },
    /// The body of an answer comes, for which much room was made or not.
    Telling { large: bool },
    /// It is of no use any more.
    Over,
}

/// The body of a plain answer.
#[derive(Debug)]
pub(crate) struct Told {
    /// What has come of it.
    ready: Bytes,
    /// So much of it has not.
    left: u64,
}

/// Why an answer is for others to hear.
#[derive(Debug)]
pub(super) enum Handing {
    /// Nothing was said yet, and something came, or it ended.
    Unasked(Option<io::Error>),
    /// The request could not be written.
    Unsaid(io::Error),
    /// What came is not plain, or it ended.
    Other(Option<io::Error>),
}

impl Told {
    pub(super) fn length(&self) -> u64 {
        self.ready.len() as u64 + self.left
    }

    /// What has come, if there is any.
    pub(super) fn take_ready(&mut self) -> Option<Bytes> {
        (!self.ready.is_empty()).then(|| mem::take(&mut self.ready))
    }
}

impl Plain {
    /// A stream on which nothing has come that nobody asked for.
    pub(super) fn new(stream: Stream) -> Plain {
        Plain { stream, came: BytesMut::new(), stage: Stage::Rest }
    }

    /// Whether it could take a request, as far as anybody here knows.
    pub(super) fn is_at_rest(&self) -> bool {
        self.stage == Stage::Rest
    }

    /// Puts a request into words, if it is plain.
    pub(super) fn put(request: &Request<Body>, line: &mut Vec<u8>) -> bool {
        request::write(request, line)
    }

    /// A request is asked from now on, by [waiting for its answer](Plain::poll_answer).
    pub(super) fn ask(&mut self) {
        // All of it, so that what is not long comes in one piece. If nobody has anything of the last answer any more this is free.
        self.came.reserve(ROOM);
        self.stage = Stage::Asking { written: 0, pieces: 0 };
    }

    /// Says `line` and waits for the answer to it: that to a request for no more than a head, or for all of it.
    pub(super) fn poll_answer(
        &mut self,
        line: &[u8],
        is_head: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Response<Told>, Handing>> {
        let Stage::Asking { mut written, mut pieces } = self.stage else {
            return Poll::Ready(Err(Handing::Other(None)));
        };
        if written == 0
            && let Poll::Ready(read) = self.poll_unasked(cx)
        {
            return Poll::Ready(Err(Handing::Unasked(read.err())));
        }
        while written < line.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &line[written..])) {
                Ok(0) => return Poll::Ready(Err(Handing::Unsaid(io::ErrorKind::WriteZero.into()))),
                Ok(count) => written += count,
                Err(error) => return Poll::Ready(Err(Handing::Unsaid(error))),
            }
            self.stage = Stage::Asking { written, pieces };
        }
        if let Err(error) = ready!(Pin::new(&mut self.stream).poll_flush(cx)) {
            return Poll::Ready(Err(Handing::Unsaid(error)));
        }
        loop {
            match ready!(self.poll_read(ROOM, cx)) {
                Ok(0) => return Poll::Ready(Err(Handing::Other(None))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Handing::Other(Some(error)))),
            }
            match answer::read(&mut self.came, is_head) {
                Head::Plain(response, length, rest) => {
                    return Poll::Ready(Ok(response.map(|()| self.begin(length, rest))));
                }
                Head::Partial if pieces + 1 < MOST_PIECES => {
                    pieces += 1;
                    self.stage = Stage::Asking { written, pieces };
                }
                Head::Partial | Head::Other => return Poll::Ready(Err(Handing::Other(None))),
            }
        }
    }

    /// The body begins: so long, and this came behind the head.
    fn begin(&mut self, length: u64, mut rest: Bytes) -> Told {
        let left = length.saturating_sub(rest.len() as u64);
        self.stage = Stage::Telling { large: false };
        // More than was promised is nothing that anybody asked for.
        let is_more = (rest.len() as u64) > length;
        if is_more {
            rest.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        if left == 0 {
            self.end(is_more);
        }
        Told { ready: rest, left }
    }

    /// All of a body has come, and nothing else, or more.
    fn end(&mut self, is_more: bool) {
        // What a long body needed is not kept for the next. Its pieces are parts of it: the capacity tells of what is left alone.
        if self.stage == (Stage::Telling { large: true }) {
            self.came = BytesMut::new();
        }
        self.stage = if is_more { Stage::Over } else { Stage::Rest };
    }

    /// The next piece of a body.
    pub(super) fn poll_piece(&mut self, told: &mut Told, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(piece) = told.take_ready() {
            return Poll::Ready(Some(Ok(piece)));
        }
        if told.left == 0 {
            return Poll::Ready(None);
        }
        let room = usize::try_from(told.left).unwrap_or(LARGE_ROOM).clamp(ROOM, LARGE_ROOM);
        if room > ROOM {
            self.stage = Stage::Telling { large: true };
        }
        let failed = match ready!(self.poll_read(room, cx)) {
            Ok(0) => {
                io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} bytes of the body are missing", told.left))
            }
            Ok(_) => {
                let length = usize::try_from(told.left).map_or(self.came.len(), |left| left.min(self.came.len()));
                told.left -= length as u64;
                let piece = self.came.split_to(length).freeze();
                if told.left == 0 {
                    let is_more = !self.came.is_empty();
                    self.end(is_more);
                }
                return Poll::Ready(Some(Ok(piece)));
            }
            Err(error) => error,
        };
        self.stage = Stage::Over;
        told.left = 0;
        Poll::Ready(Some(Err(failed)))
    }

    /// Looks what came of one at rest. Ready when it is of no use any more: nobody has asked for anything.
    pub(super) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = ready!(self.poll_unasked(cx));
        self.stage = Stage::Over;
        Poll::Ready(())
    }

    /// The stream, and what has come.
    pub(super) fn into_parts(self) -> (Stream, Bytes) {
        (self.stream, self.came.freeze())
    }

    /// Looks whether something came that nobody has asked for. A task that has used up its share of time would be told that there is
    /// nothing, and TLS would take the request nevertheless: what came before would be its answer.
    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        pin!(unconstrained(poll_fn(|cx| self.poll_read(ROOM, cx)))).poll(cx)
    }

    /// Reads what has come, behind what came before.
    fn poll_read(&mut self, room: usize, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.came.capacity() - self.came.len() < LEAST_ROOM {
            self.came.reserve(room);
        }
        pin!(self.stream.read_buf(&mut self.came)).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::agent::dial::Dialer;
    use crate::tcp::Tcp;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn what_a_long_answer_needed_is_not_kept() {
        const ASKED: &[u8] = b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend::fixed(listener.local_addr().unwrap());
        // Some of them end shortly before what was made room for.
        for length in (60_000..75_000).step_by(500) {
            let dialled = Dialer::plain(Tcp::default()).dial(&backend).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            let said = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "b".repeat(length));
            let server = tokio::spawn(async move {
                let mut heard = vec![0; ASKED.len()];
                server.read_exact(&mut heard).await.unwrap();
                server.write_all(said.as_bytes()).await.unwrap();
                server
            });
            let mut plain = Plain::new(dialled.stream);
            plain.ask();
            let mut told = poll_fn(|cx| plain.poll_answer(ASKED, false, cx)).await.unwrap().into_body();
            let mut heard = 0;
            while let Some(piece) = poll_fn(|cx| plain.poll_piece(&mut told, cx)).await {
                heard += piece.unwrap().len();
            }
            assert!(heard == length && plain.is_at_rest());
            assert!(!plain.came.try_reclaim(2 * ROOM), "{length}: more than that is kept");
            drop(server.await);
        }
    }
}
