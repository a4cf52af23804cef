//! Active health checks over HTTP and gRPC, with the dialer of an origin: its TLS and its protocol.

use super::dial::{DialError, Dialer, Spoken};
use crate::Backend;
use crate::health_check::{HealthCheck, Schedule};
use bytes::{Buf, Bytes};
use carom_core::options::OptionsError;
use http::header::{CONTENT_TYPE, HOST, TE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// A gRPC response that is longer than this is no answer of `grpc.health.v1`.
const MOST: usize = 4 * 1024;

/// `SERVING` of `grpc.health.v1.HealthCheckResponse.ServingStatus`.
const SERVING: u64 = 1;

/// An active [health check](crate::health_check) over HTTP or gRPC, for the backends of an origin; see
/// [`Builder::health_check`](super::Builder::health_check). It uses the TLS settings and the protocol of the origin, on a connection of
/// its own.
///
/// ```
/// use carom::agent::{Agent, HttpCheck};
///
/// let agent = Agent::builder().health_check(HttpCheck::get("/healthz").status(200..=204));
/// # let _ = agent;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HttpCheck {
    call: Call,
    host: Option<String>,
    schedule: Schedule,
}

#[derive(Clone, Debug, PartialEq)]
enum Call {
    Get { path: String, statuses: RangeInclusive<u16> },
    Grpc { service: String },
}

/// Why a health check failed.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("request failed")]
    Request(#[from] hyper::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("gRPC status {0}")]
    GrpcStatus(String),
    #[error("serving status {0} of grpc.health.v1, not SERVING")]
    NotServing(u64),
    #[error("not a response of grpc.health.v1")]
    Malformed,
}

impl HttpCheck {
    /// Sends a GET request for this path, such as `/healthz`. Statuses 200 to 399 pass.
    pub fn get(path: impl Into<String>) -> HttpCheck {
        HttpCheck::new(Call::Get { path: path.into(), statuses: 200..=399 })
    }

    /// Calls `grpc.health.v1.Health/Check` for this service; an empty name is the server as a whole. `SERVING` passes. The origin has to
    /// be spoken to over HTTP/2.
    pub fn grpc(service: impl Into<String>) -> HttpCheck {
        HttpCheck::new(Call::Grpc { service: service.into() })
    }

    fn new(call: Call) -> HttpCheck {
        HttpCheck { call, host: None, schedule: Schedule::default() }
    }

    /// The statuses that pass, of a GET request. Default 200 to 399.
    #[must_use]
    pub fn status(mut self, status: RangeInclusive<u16>) -> HttpCheck {
        if let Call::Get { statuses, .. } = &mut self.call {
            *statuses = status;
        }
        self
    }

    /// The `Host` of the request. Default: the origin's.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> HttpCheck {
        self.host = Some(host.into());
        self
    }

    /// When the check runs, and how many results in a row decide. Default: every 5 s with a timeout of 2 s; 2 results in a row.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> HttpCheck {
        self.schedule = schedule;
        self
    }

    /// Refuses what cannot be sent.
    pub(super) fn validate(&self) -> Result<(), OptionsError> {
        let refuse = |problem: String| Err(OptionsError::new("health_check", problem));
        if let Call::Get { path, statuses } = &self.call {
            if !(path.starts_with('/') && path.parse::<PathAndQuery>().is_ok()) {
                return refuse(format!("must have a path such as `/healthz`, not `{path}`"));
            }
            if statuses.is_empty() || *statuses.start() < 100 || *statuses.end() > 599 {
                return refuse(format!("must have statuses between 100 and 599, not {statuses:?}"));
            }
        }
        if let Some(host) = self.host.as_ref().filter(|host| host.parse::<Authority>().is_err()) {
            return refuse(format!("must have a host such as `api.example.com`, not `{host}`"));
        }
        self.schedule.validate().map_err(|problem| OptionsError::new("health_check", problem.to_string()))
    }

    /// The check of a pool or a set whose connections this dialer opens.
    pub(super) fn over(&self, dialer: &Dialer, spoken: Spoken, host: &Authority) -> HealthCheck {
        let host = self.host.as_ref().and_then(|host| host.parse().ok()).unwrap_or_else(|| host.clone());
        let (call, dialer, stalls) = (Arc::new(self.call.clone()), dialer.clone(), Arc::downgrade(dialer.stalls()));
        let check = move |backend| run(Arc::clone(&call), dialer.clone(), spoken, host.clone(), backend);
        let observer = move |backend: &Backend, passed, unhealthy| {
            if let Some(stalls) = stalls.upgrade() {
                stalls.health_checked(backend, passed, unhealthy);
            }
        };
        HealthCheck::custom(check).schedule(self.schedule.clone()).observed_by(observer)
    }
}

async fn run(
    call: Arc<Call>,
    dialer: Dialer,
    spoken: Spoken,
    host: Authority,
    backend: Backend,
) -> Result<(), CheckError> {
    let scheme = if dialer.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
    let request = call.request(spoken, scheme, &host);
    let stream = dialer.dial(&backend).await?.stream;
    match spoken {
        Spoken::Http1 => {
            let (mut sender, connection) = http1::handshake(stream).await?;
            let exchange = async { call.judge(sender.send_request(request).await?).await };
            drive(connection, exchange).await
        }
        Spoken::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            let (mut sender, connection) = builder.timer(TokioTimer::new()).handshake(stream).await?;
            let exchange = async { call.judge(sender.send_request(request).await?).await };
            drive(connection, exchange).await
        }
    }
}

/// Drives the connection until the exchange is over.
async fn drive(
    connection: impl Future<Output = hyper::Result<()>>,
    exchange: impl Future<Output = Result<(), CheckError>>,
) -> Result<(), CheckError> {
    let (mut connection, mut exchange) = (pin!(connection), pin!(exchange));
    let mut ended = false;
    poll_fn(|context| {
        // What the connection fails with, the exchange says.
        ended = ended || connection.as_mut().poll(context).is_ready();
        exchange.as_mut().poll(context)
    })
    .await
}

impl Call {
    fn request(&self, spoken: Spoken, scheme: Scheme, host: &Authority) -> Request<Whole> {
        let (method, path) = match self {
            Call::Get { path, .. } => (Method::GET, path.as_str()),
            Call::Grpc { .. } => (Method::POST, "/grpc.health.v1.Health/Check"),
        };
        let path: PathAndQuery = path.parse().expect("validated");
        let mut request = Request::new(Whole(self.body()));
        *request.method_mut() = method;
        match spoken {
            Spoken::Http1 => {
                *request.uri_mut() = Uri::from(path);
                let host = host.as_str().parse().expect("an authority is a header value");
                request.headers_mut().insert(HOST, host);
            }
            Spoken::Http2 => {
                let uri = Uri::builder().scheme(scheme).authority(host.clone()).path_and_query(path);
                *request.uri_mut() = uri.build().expect("all its parts are there");
                *request.version_mut() = Version::HTTP_2;
            }
        }
        if let Call::Grpc { .. } = self {
            request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
            request.headers_mut().insert(TE, http::HeaderValue::from_static("trailers"));
        }
        request
    }

    fn body(&self) -> Option<Bytes> {
        let Call::Grpc { service } = self else { return None };
        let mut message = Vec::new();
        if !service.is_empty() {
            // Field 1, a string.
            message.push(0x0a);
            put_varint(&mut message, service.len() as u64);
            message.extend_from_slice(service.as_bytes());
        }
        let mut body = vec![0];
        body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.extend_from_slice(&message);
        Some(body.into())
    }

    async fn judge(&self, response: Response<Incoming>) -> Result<(), CheckError> {
        let status = response.status();
        match self {
            Call::Get { statuses, .. } if statuses.contains(&status.as_u16()) => Ok(()),
            Call::Get { .. } => Err(CheckError::Status(status)),
            Call::Grpc { .. } if status != StatusCode::OK => Err(CheckError::Status(status)),
            Call::Grpc { .. } => judge_grpc(response).await,
        }
    }
}

async fn judge_grpc(response: Response<Incoming>) -> Result<(), CheckError> {
    grpc_status(response.headers())?;
    let (mut received, mut body) = (Vec::new(), pin!(response.into_body()));
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame?;
        if let Some(trailers) = frame.trailers_ref() {
            grpc_status(trailers)?;
        } else if let Ok(data) = frame.into_data() {
            received.extend_from_slice(&data);
        }
        if received.len() > MOST {
            return Err(CheckError::Malformed);
        }
    }
    match serving_status(&received) {
        Some(SERVING) => Ok(()),
        Some(status) => Err(CheckError::NotServing(status)),
        None => Err(CheckError::Malformed),
    }
}

/// Fails with a gRPC status that is not OK.
fn grpc_status(headers: &http::HeaderMap) -> Result<(), CheckError> {
    match headers.get("grpc-status").map(|status| status.as_bytes()) {
        None | Some(b"0") => Ok(()),
        Some(status) => Err(CheckError::GrpcStatus(String::from_utf8_lossy(status).escape_debug().to_string())),
    }
}

/// Field 1 of a `HealthCheckResponse` in a gRPC frame; 0 if the message lacks it.
fn serving_status(mut frame: &[u8]) -> Option<u64> {
    if frame.len() < 5 || frame.get_u8() != 0 || frame.get_u32() as usize != frame.len() {
        return None;
    }
    let mut status = 0;
    while !frame.is_empty() {
        let (key, value) = (take_varint(&mut frame)?, take_varint(&mut frame)?);
        match key {
            0x08 => status = value,
            // Another field whose value is a varint.
            _ if key & 7 == 0 => {}
            _ => return None,
        }
    }
    Some(status)
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A body that is there as a whole.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serving_status_is_read_from_a_grpc_frame() {
        assert_eq!(serving_status(&[0, 0, 0, 0, 2, 8, 1]), Some(1));
        assert_eq!(serving_status(&[0, 0, 0, 0, 2, 8, 2]), Some(2), "NOT_SERVING");
        assert_eq!(serving_status(&[0, 0, 0, 0, 0]), Some(0), "a message without the field is UNKNOWN");
        assert_eq!(serving_status(&[0, 0, 0, 0, 4, 16, 7, 8, 1]), Some(1), "another field is skipped");
        for malformed in
            [&[][..], &[0, 0, 0, 0, 2, 8], &[1, 0, 0, 0, 2, 8, 1], &[0, 0, 0, 0, 2, 10, 0], b"HTTP/1.1 200"]
        {
            assert_eq!(serving_status(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn request_for_a_service_names_it_in_field_1() {
        let body = Call::Grpc { service: "a.B".into() }.body().unwrap();
        assert_eq!(&body[..], b"\0\0\0\0\x05\x0a\x03a.B");
        assert_eq!(&Call::Grpc { service: String::new() }.body().unwrap()[..], b"\0\0\0\0\0");
    }

    #[test]
    fn values_that_cannot_be_sent_are_refused() {
        let refused = |check: HttpCheck| check.validate().unwrap_err().to_string();
        assert!(refused(HttpCheck::get("healthz")).starts_with("health_check must have a path"));
        assert!(refused(HttpCheck::get("/").status(200..=1000)).starts_with("health_check must have statuses"));
        assert!(refused(HttpCheck::get("/").host("a b")).starts_with("health_check must have a host"));
        assert!(HttpCheck::grpc("").validate().is_ok());
    }
}
