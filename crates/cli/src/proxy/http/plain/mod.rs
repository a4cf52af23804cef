//! The plain way: requests that are nothing but a head, one after the other, as most are.
//!
//! Here one task has a request from its first byte to the last of its answer, and nothing moves between state machines. What is
//! not plain, or not understood, is left as it came: whoever knows all of HTTP/1 reads it anew, and everything behind it.

mod answer;
mod head;

use super::bodies::Answer;
use super::forward::forward;
use super::visit::{LONGEST_HEAD, Visit};
use super::wire::Wire;
use answer::Line;
use bytes::BytesMut;
use head::Head;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Response};
use http_body::Body;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Room for what is read, to begin with.
const ROOM: usize = 4 << 10;
/// Less than this is not worth reading into.
const LEAST_ROOM: usize = 1 << 10;
/// Pieces of a body that are no larger are written together with what goes before them.
const SMALL: usize = 8 << 10;

/// Why the plain way ended.
#[derive(Debug)]
pub(super) enum Left {
    /// The client has left, or is to leave.
    Over,
    /// Something came that is not plain; the connection has it in front of it.
    NotPlain,
}

/// Whether a client is to leave when it has its answer.
#[derive(Debug, Default)]
pub(super) struct Leaving(AtomicBool);

impl Leaving {
    /// From now on. Whoever serves it is to be polled next.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves a client for as long as what it asks is plain.
///
/// # Errors
/// When the connection breaks, or an answer does: the client must not take it for whole.
pub(super) async fn serve(visit: &Arc<Visit>, wire: &mut Wire, leaving: &Leaving) -> io::Result<Left> {
    let (mut came, mut line) = (BytesMut::with_capacity(ROOM), Line::default());
    loop {
        let request = match next(wire, &mut came, leaving).await? {
            Some(Head::Plain(request)) => request,
            Some(Head::Partial | Head::Other) => {
                wire.put_back(came.freeze());
                return Ok(Left::NotPlain);
            }
            None => return Ok(Left::Over),
        };
        let is_head = *request.method() == Method::HEAD;
        let mut answering = pin!(forward(Arc::clone(visit), request));
        let Ok(mut response) = meanwhile(wire, &mut came, |cx| answering.as_mut().poll(cx)).await?;
        if leaving.is_set() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let is_last = response.headers().contains_key(CONNECTION);
        give(wire, &mut came, &mut line, response, is_head).await?;
        if is_last {
            wire.shutdown().await?;
            return Ok(Left::Over);
        }
    }
}

/// The next head; what it cannot be read from stays. `None` when the client has left, or is to leave before it has said all of it.
async fn next(wire: &mut Wire, came: &mut BytesMut, leaving: &Leaving) -> io::Result<Option<Head>> {
    let mut known = 0;
    loop {
        match head::read(came, known) {
            Head::Partial if came.len() < LONGEST_HEAD => known = came.len(),
            head => return Ok(Some(head)),
        }
        let count = poll_fn(|cx| match poll_read(wire, came, cx) {
            Poll::Pending if leaving.is_set() => Poll::Ready(Ok(0)),
            read => read,
        });
        if count.await? == 0 {
            return Ok(None);
        }
    }
}

/// Gives an answer to a client, piece by piece as it comes.
async fn give(
    wire: &mut Wire,
    came: &mut BytesMut,
    line: &mut Line,
    response: Response<Answer>,
    is_head: bool,
) -> io::Result<()> {
    let (head, mut body) = response.into_parts();
    let mut framing = line.begin(&head, &body, is_head);
    while !framing.is_none() && !body.is_end_stream() {
        let mut next = |cx: &mut Context<'_>| Pin::new(&mut body).poll_frame(cx);
        let frame = match poll_fn(|cx| Poll::Ready(next(cx))).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                // What there is to say is said before anything is waited for.
                wire.write_all(line.said()).await?;
                line.clear();
                meanwhile(wire, came, next).await?
            }
        };
        match frame {
            // Nobody here has said that trailers are welcome.
            Some(Ok(frame)) => {
                let Ok(piece) = frame.into_data() else { continue };
                if piece.is_empty() {
                    // In pieces that would be the end.
                    continue;
                }
                framing.pass(piece.len())?;
                if piece.len() <= SMALL {
                    line.say(framing, &piece);
                } else {
                    line.announce(framing, piece.len());
                    write_both(wire, line.said(), &piece).await?;
                    line.clear();
                    line.conclude(framing);
                }
            }
            Some(Err(error)) => {
                // As far as it came: that it is not whole is told by its end.
                wire.write_all(line.said()).await?;
                return Err(io::Error::other(error));
            }
            None => break,
        }
        if line.said().len() > SMALL {
            wire.write_all(line.said()).await?;
            line.clear();
        }
    }
    framing.is_met()?;
    line.end(framing);
    // Its connection is another's from now on, and it is counted.
    drop(body);
    wire.write_all(line.said()).await?;
    line.clear();
    Ok(())
}

/// Waits for something that others do, and notices if the client is gone. What it sends ahead is kept for its turn.
async fn meanwhile<T>(
    wire: &mut Wire,
    came: &mut BytesMut,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> io::Result<T> {
    poll_fn(|cx| {
        if let Poll::Ready(done) = poll(cx) {
            return Poll::Ready(Ok(done));
        }
        // A little is read ahead, so that the end of a client that has sent its next request is seen.
        if came.len() < ROOM
            && let Poll::Ready(read) = poll_read(wire, came, cx)
            && read? == 0
        {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Pending
    })
    .await
}

/// Reads what has come, behind what came before.
fn poll_read(wire: &mut Wire, came: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    if came.capacity() - came.len() < LEAST_ROOM {
        came.reserve(ROOM);
    }
    pin!(wire.read_buf(came)).poll(cx)
}

/// Both, in one go where the system takes it.
async fn write_both(wire: &mut Wire, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
    while !first.is_empty() {
        let count = wire.write_vectored(&[io::IoSlice::new(first), io::IoSlice::new(second)]).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_first = count.min(first.len());
        (first, second) = (&first[of_first..], &second[count - of_first..]);
    }
    wire.write_all(second).await
}
