//! When a request may be tried again.
//!
//! Nobody is to be surprised by a request that was carried out twice. If nothing was sent, anything may be tried again; if it
//! was sent, and not a byte of an answer came, what the protocol calls safe may be (RFC 9110, 9.2.1): it asks for nothing but an
//! answer. Beyond that there is no second try: not even of what is merely idempotent, as others may have acted in between.

use super::body::Body;
use http::header::UPGRADE;
use http::{Method, Request};
use http_body::Body as _;

/// How often a request is tried in all.
pub(super) const ATTEMPTS: u32 = 3;

/// How often it may meet a connection that takes no more requests, beside that. Such a request was not processed, so this is no attempt. Many
/// requests that share a connection meet this often: nginx closes a connection after `keepalive_requests`, and only so many of
/// them fit on the next one.
pub(super) const UNTRIED: u32 = 32;

/// What is sent again of a request that may be tried again though it was sent.
pub(super) struct Spare(Box<Request<Body>>);

impl Spare {
    /// This one, which may be sent twice: its words were sent, and it is still here.
    pub(super) fn new(request: Box<Request<Body>>) -> Spare {
        Spare(request)
    }

    /// `None` if the request must not be sent twice, or cannot: its body can be read only once.
    pub(super) fn of(request: &Request<Body>) -> Option<Spare> {
        if !request.method().is_safe() {
            return None;
        }
        let body = request.body().try_clone()?;
        Some(Spare(Box::new(copy(request, body))))
    }

    /// Whether it may be sent to two backends at a time.
    pub(super) fn is_repeatable(&self) -> bool {
        is_repeatable(&self.0)
    }

    /// The same once more.
    pub(super) fn copy(&self) -> Option<Spare> {
        Spare::of(&self.0)
    }

    pub(super) fn into_request(self) -> Box<Request<Body>> {
        self.0
    }
}

/// The same request with this body.
pub(super) fn copy(request: &Request<Body>, body: Body) -> Request<Body> {
    let mut copy = Request::new(body);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}

/// Whether a request may be sent to two backends at a time: it is safe, has no body, and begins nothing but a response.
pub(super) fn is_repeatable(request: &Request<Body>) -> bool {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    is_safe && request.body().is_end_stream() && !request.headers().contains_key(UPGRADE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, body: Body) -> Request<Body> {
        Request::builder().method(method).uri("/orders?all").header("accept", "*/*").body(body).unwrap()
    }

    #[test]
    fn safe_methods_alone_may_be_sent_twice() {
        let may = |method: Method| Spare::of(&request(method, Body::empty())).is_some();
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
            assert!(may(method.clone()), "{method}");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::CONNECT] {
            assert!(!may(method.clone()), "{method}");
        }
        assert!(!may(Method::from_bytes(b"PURGE").unwrap()), "nobody knows what that does");
    }

    #[test]
    fn the_copy_is_the_same_and_a_body_that_can_be_read_once_has_none() {
        let copy = Spare::of(&request(Method::GET, Body::from("{}"))).unwrap().into_request();
        assert_eq!((copy.method(), copy.uri().path(), copy.uri().query()), (&Method::GET, "/orders", Some("all")));
        assert_eq!(copy.headers()["accept"], "*/*");
        assert_eq!(http_body::Body::size_hint(copy.body()).exact(), Some(2));

        let once = Body::new(http_body_util::StreamBody::new(Never));
        assert!(Spare::of(&request(Method::GET, once)).is_none());
    }

    struct Never;

    impl futures_core::Stream for Never {
        type Item = Result<http_body::Frame<bytes::Bytes>, std::io::Error>;
        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Pending
        }
    }
}
