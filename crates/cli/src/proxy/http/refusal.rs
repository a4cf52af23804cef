//! What clients are told instead of an answer: a status, and the reason as JSON.

use crate::failure::with_causes;
use carom::agent::{Body, Error, Step};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
    message: String,
    backend: Option<String>,
}

/// As it is told.
#[derive(Serialize)]
struct Told<'a> {
    error: &'a str,
    message: &'a str,
    service: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a str>,
}

impl Refusal {
    /// The request makes no sense.
    pub(super) fn bad(message: &str) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "request", message)
    }

    /// The request asks for what this is not there for.
    pub(super) fn unimplemented(message: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_IMPLEMENTED, "request", message)
    }

    /// A backend said something that is no answer.
    pub(super) fn no_answer(message: &str) -> Refusal {
        Refusal::new(StatusCode::BAD_GATEWAY, "receive", message)
    }

    /// The rest of the request was none, or did not come.
    pub(super) fn spoilt(error: &Error) -> Refusal {
        Refusal::bad(&with_causes(error))
    }

    /// The rest of the request did not come in time.
    pub(super) fn stalled(error: &Error) -> Refusal {
        let message = format!("the rest of the request did not come: {error}");
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "request", &message)
    }

    fn new(status: StatusCode, error: impl ToString, message: &str) -> Refusal {
        Refusal { status, error: error.to_string(), message: message.to_owned(), backend: None }
    }

    /// There is no room for a client.
    pub(super) fn too_many_clients() -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "clients", "there are too many clients")
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Why, for people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// As an answer of this service.
    pub(super) fn answer(&self, service: &str) -> Response<Body> {
        let mut response = Response::new(Body::from(self.text(service)));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn text(&self, service: &str) -> String {
        let Refusal { error, message, backend, .. } = self;
        let told = Told { error, message, service, backend: backend.as_deref() };
        // Texts can always be told.
        serde_json::to_string(&told).unwrap_or_default() + "\n"
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let status = match error.step() {
            Step::Request => StatusCode::BAD_REQUEST,
            Step::Resolve | Step::Claim | Step::Closed => StatusCode::SERVICE_UNAVAILABLE,
            Step::Connect | Step::Tls | Step::Send | Step::Receive => StatusCode::BAD_GATEWAY,
            Step::Timeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let backend = error.backend().map(ToString::to_string);
        Refusal { backend, ..Refusal::new(status, error.step(), &with_causes(&error)) }
    }
}

/// Tells a client that there is no room for it, whatever it wants, and hears it out: one that is cut short while it speaks would
/// not hear the answer.
pub(super) async fn turn_away(service: Arc<str>, refusal: Refusal, mut client: TcpStream) {
    let text = refusal.text(&service);
    let answer = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        refusal.status,
        text.len()
    );
    if client.write_all(answer.as_bytes()).await.is_err() || client.shutdown().await.is_err() {
        return;
    }
    let mut heard = [0; 4096];
    while client.read(&mut heard).await.is_ok_and(|count| count > 0) {}
}
