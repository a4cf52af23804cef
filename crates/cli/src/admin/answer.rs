//! An answer: what is said, and the headers that keep browsers from doing anything else with it.

use super::events::Events;
use bytes::Bytes;
use carom::kang;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{Either, Full};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// On everything: nothing is kept, taken for something else, shown inside other pages, or told to other places. There is nothing
/// that lets pages of others read it.
const PROTECTION: [(HeaderName, HeaderValue); 5] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
];

/// What is said to a client.
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
}

pub(super) type Body = Either<Full<Bytes>, Events>;

impl Answer {
    /// Something of a type.
    pub(super) fn new(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
        Answer::of(status, content_type, Either::Left(Full::new(body.into())))
    }

    /// Good JSON.
    pub(super) fn json(text: impl Into<Bytes>) -> Answer {
        Answer::new(StatusCode::OK, JSON, text)
    }

    /// Why there is nothing better.
    pub(super) fn error(status: StatusCode, why: &str) -> Answer {
        Answer::new(status, JSON, serde_json::json!({ "error": why }).to_string())
    }

    /// One event after the other.
    pub(super) fn events(events: Events) -> Answer {
        Answer::of(StatusCode::OK, EVENTS, Either::Right(events))
    }

    /// The head of that, for who wants nothing else.
    pub(super) fn head_of_events() -> Answer {
        Answer::new(StatusCode::OK, EVENTS, Bytes::new())
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Answer {
        self.headers.insert(name, value);
        self
    }

    /// Whether it goes on for as long as anybody listens.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.body, Either::Right(_))
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }

    fn of(status: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
        let mut headers = HeaderMap::from_iter(PROTECTION);
        headers.insert(header::CONTENT_TYPE, content_type);
        Answer { status, headers, body }
    }
}

/// Kang speaks JSON alone.
impl From<Response<kang::Body>> for Answer {
    fn from(response: Response<kang::Body>) -> Answer {
        Answer::new(response.status(), JSON, response.into_body().into_bytes())
    }
}
