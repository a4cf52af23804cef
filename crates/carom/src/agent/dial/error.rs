//! Why a dial failed.

use super::{Offer, Spoken};
use crate::tls::ConnectError;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use tokio_rustls::rustls;

/// Why a dial failed. Each text says it in full.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The TCP connection could not be made: refused, unreachable.
    #[error(transparent)]
    Connect(io::Error),
    /// TLS could not be agreed on, or the certificate is not to be believed.
    #[error(transparent)]
    Tls(ConnectError),
    /// The far side does not speak what was offered.
    #[error("the server does not speak {offered}{}", instead(.chosen))]
    Protocol {
        /// What it was offered.
        offered: Offer,
        /// What it chose instead, if it said so.
        chosen: Option<String>,
    },
    /// What it speaks is not HTTP/2.
    #[error("HTTP/2 could not be begun")]
    Http2(#[source] hyper::Error),
    /// It closed the connection before it had said how many requests it takes.
    #[error("the server closed the connection before HTTP/2 was begun")]
    Ended,
}

impl DialError {
    /// Why HTTP/2 could not be begun, over TLS or not.
    pub(crate) fn of_greeting(error: hyper::Error, tls: bool) -> DialError {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
        match cause.and_then(h2::Error::get_io) {
            // All that is left of what TLS said: see `broke_tls`.
            Some(cause) if tls && cause.kind() == ErrorKind::InvalidData => {
                DialError::Tls(ConnectError::Handshake(io::Error::new(ErrorKind::InvalidData, cause.to_string())))
            }
            Some(_) | None => DialError::Http2(error),
        }
    }

    pub(super) fn of_tls(error: ConnectError, offered: Offer) -> DialError {
        match error {
            ConnectError::Connect(error) => DialError::Connect(error),
            ConnectError::Refused { alert } if alert == "NoApplicationProtocol" => {
                DialError::Protocol { offered, chosen: None }
            }
            error => DialError::Tls(error),
        }
    }
}

/// Whether a connection broke because of TLS: one of version 1.3 is there before the server has looked at the client's
/// certificate, so that whoever uses it first may be told what it thinks of that.
pub(crate) fn broke_tls(error: &hyper::Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return error.get_ref().is_some_and(|below| below.is::<rustls::Error>());
        }
        next = cause.source();
    }
    false
}

fn instead(chosen: &Option<String>) -> String {
    chosen.as_ref().map(|name| format!(": it chose `{name}`")).unwrap_or_default()
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offer::Only(Spoken::Http1) => "HTTP/1.1",
            Offer::Only(Spoken::Http2) => "HTTP/2",
            Offer::Both => "HTTP/2 or HTTP/1.1",
        })
    }
}
