//! Bodies: what a response is read from, and what a request can be given.

use super::error::{Error, Step};
use super::{http1, http2};
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a response, or one for a request.
///
/// The body of a response holds its connection until it has been read to its end, and then gives it back. Dropped before,
/// it ends the connection (over HTTP/2 the stream), as the rest of the answer is still on it; the backend is not blamed.
///
/// ```
/// # async fn example(agent: carom::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// let response = agent.get("http://api.example.com/orders").await?;
/// let bytes = response.into_body().bytes(1 << 20).await?; // at most a mebibyte
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct Body {
    kind: Kind,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Http1(http1::Answer),
    Http2(http2::Answer),
    Foreign(Pin<Box<dyn Foreign>>),
}

impl Body {
    /// A body without anything.
    pub fn empty() -> Body {
        Body::default()
    }

    /// Any body. One of these is taken as it is, and one that is at its end already costs nothing.
    pub fn new<B>(body: B) -> Body
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        if body.is_end_stream() {
            return Body::empty();
        }
        let mut body = Some(body);
        match (&mut body as &mut dyn Any).downcast_mut::<Option<Body>>().and_then(Option::take) {
            Some(own) => own,
            None => match body {
                Some(body) => Body { kind: Kind::Foreign(Box::pin(body)) },
                None => Body::empty(),
            },
        }
    }

    pub(super) fn http2(answer: http2::Answer) -> Body {
        if answer.is_end_stream() { Body::empty() } else { Body { kind: Kind::Http2(answer) } }
    }

    pub(super) fn http1(answer: http1::Answer) -> Body {
        Body { kind: Kind::Http1(answer) }
    }

    /// Reads the body to its end, trailers aside.
    ///
    /// Cancelling it ends the connection, or over HTTP/2 the stream.
    ///
    /// # Errors
    /// When it is longer than `limit` bytes, or is cut short.
    pub async fn bytes(mut self, limit: usize) -> Result<Bytes, Error> {
        if self.size_hint().lower() > limit as u64 {
            return Err(too_long(limit));
        }
        let (mut first, mut all) = (Bytes::new(), BytesMut::new());
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {
            let Ok(bytes) = frame?.into_data() else { continue };
            if first.len() + all.len() + bytes.len() > limit {
                return Err(too_long(limit));
            }
            // Most bodies come in one piece, which needs no copy.
            if first.is_empty() && all.is_empty() {
                first = bytes;
            } else {
                all.extend_from_slice(&mem::take(&mut first));
                all.extend_from_slice(&bytes);
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }

    /// Whether all of it is here.
    pub(super) fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Empty | Kind::Full(_) => true,
            Kind::Http1(_) | Kind::Http2(_) | Kind::Foreign(_) => false,
        }
    }

    /// The same once more, if that is possible without reading it.
    pub(super) fn try_clone(&self) -> Option<Body> {
        match &self.kind {
            Kind::Empty => Some(Body::empty()),
            Kind::Full(bytes) => Some(Body::from(bytes.clone())),
            Kind::Http1(_) | Kind::Http2(_) | Kind::Foreign(_) => None,
        }
    }
}

fn too_long(limit: usize) -> Error {
    Error::new(Step::Receive, format!("the body is longer than {limit} bytes"))
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut self.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = mem::take(bytes);
                self.kind = Kind::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Kind::Http1(answer) => answer.poll_frame(cx),
            Kind::Http2(answer) => answer.poll_frame(cx),
            Kind::Foreign(body) => body.as_mut().poll_piece(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Http1(answer) => answer.is_end_stream(),
            Kind::Http2(answer) => answer.is_end_stream(),
            Kind::Foreign(body) => body.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Http1(answer) => answer.size_hint(),
            Kind::Http2(answer) => answer.size_hint(),
            Kind::Foreign(body) => body.size(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body { kind: if bytes.is_empty() { Kind::Empty } else { Kind::Full(bytes) } }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Body {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Body {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("size", &self.size_hint().exact()).finish_non_exhaustive()
    }
}

/// Somebody else's body, with our own pieces and errors.
trait Foreign: Send {
    fn poll_piece(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>>;
    fn is_over(&self) -> bool;
    fn size(&self) -> SizeHint;
}

impl<B> Foreign for B
where
    B: HttpBody + Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    fn poll_piece(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        // Of `Bytes` this is no copy.
        let whole = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        self.poll_frame(cx).map(|frame| Some(frame?.map(|frame| frame.map_data(whole)).map_err(Error::body)))
    }

    fn is_over(&self) -> bool {
        self.is_end_stream()
    }

    fn size(&self) -> SizeHint {
        self.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Empty, Full, StreamBody};
    use std::collections::VecDeque;
    use std::io;

    /// A body of these pieces.
    struct Pieces(VecDeque<Result<Frame<&'static [u8]>, io::Error>>);

    impl futures_core::Stream for Pieces {
        type Item = Result<Frame<&'static [u8]>, io::Error>;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    fn pieces(pieces: impl IntoIterator<Item = Result<Frame<&'static [u8]>, io::Error>>) -> Body {
        Body::new(StreamBody::new(Pieces(pieces.into_iter().collect())))
    }

    fn data(piece: &'static str) -> Result<Frame<&'static [u8]>, io::Error> {
        Ok(Frame::data(piece.as_bytes()))
    }

    #[test]
    fn what_is_nothing_and_what_is_our_own_is_not_wrapped() {
        assert!(matches!(Body::new(Empty::<Bytes>::new()).kind, Kind::Empty));
        assert!(matches!(Body::new(Body::from("")).kind, Kind::Empty));
        assert!(matches!(Body::new(Body::from("x")).kind, Kind::Full(_)));
        assert!(matches!(Body::new(Full::new(&b"x"[..])).kind, Kind::Foreign(_)));
        assert_eq!(Body::new(Full::new(&b"xyz"[..])).size_hint().exact(), Some(3));
    }

    #[tokio::test]
    async fn bytes_are_read_to_the_end_or_to_the_limit() {
        assert_eq!(Body::from(String::from("hello")).bytes(5).await.unwrap(), "hello");
        assert_eq!(pieces([data("he"), data("l"), data("lo")]).bytes(5).await.unwrap(), "hello");
        let trailers = Ok(Frame::trailers(http::HeaderMap::new()));
        assert_eq!(pieces([data("hello"), trailers]).bytes(5).await.unwrap(), "hello");
        for long in [Body::from(vec![0; 6]), pieces([data("hel"), data("lo!")])] {
            let error = long.bytes(5).await.unwrap_err();
            assert_eq!(error.to_string(), "the body is longer than 5 bytes");
        }
    }

    #[tokio::test]
    async fn what_fails_in_somebody_elses_body_is_the_source() {
        let error = pieces([data("he"), Err(io::ErrorKind::TimedOut.into())]).bytes(5).await.unwrap_err();
        assert_eq!(error.step(), Step::Send);
        assert!(error.source().unwrap().to_string().contains("timed out"), "{error:?}");
    }
}
