//! What is known of how a response came about: who served it, over what, in how many attempts, and what took how long.

use crate::Backend;
use std::fmt;
use std::time::Duration;

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/2 where a server agrees to it during the TLS handshake, HTTP/1.1 everywhere else: over TLS where it does not,
    /// and without TLS.
    #[default]
    Negotiate,
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2 alone: over TLS nothing else is offered, and without TLS it is spoken unasked, by prior knowledge.
    Http2,
}

/// `negotiate`, `HTTP/1.1` or `HTTP/2`.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Negotiate => "negotiate",
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        })
    }
}

/// How a response came about; found in its extensions, unless [`served`](crate::agent::OriginOptions::served) is off.
///
/// ```
/// # use carom::agent::{Agent, Body, Served};
/// # fn look(response: &http::Response<Body>) {
/// if let Some(served) = response.extensions().get::<Served>() {
///     println!("{} in {:?}, attempt {}", served.backend, served.timings.head, served.attempts);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Served {
    /// Which backend answered.
    pub backend: Backend,
    /// How many times the request was tried, this time included.
    pub attempts: u32,
    /// Whether the connection had served a request before.
    pub reused: bool,
    /// Which HTTP was spoken.
    pub protocol: Protocol,
    /// What took how long.
    pub timings: Timings,
}

impl Served {
    pub(super) fn new(backend: Backend, attempts: u32, reused: bool, protocol: Protocol, timings: Timings) -> Served {
        Served { backend, attempts, reused, protocol, timings }
    }
}

/// What took how long, of the attempt that was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// Until it was known who serves; `None` when that was known before.
    pub resolve: Option<Duration>,
    /// Until a connection was free, counted from the time that backends were known.
    pub claim: Duration,
    /// How long the connection took to be made, TLS aside; `None` when it had served before. A spare one was made before
    /// anybody asked: this is no part of `claim` then.
    pub connect: Option<Duration>,
    /// How long its TLS handshake took; `None` without TLS, and when the connection had served before.
    pub tls: Option<Duration>,
    /// From the moment that there was a connection to the head of the response.
    pub head: Duration,
}
