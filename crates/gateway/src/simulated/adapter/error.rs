//! Why a connection to a simulated exchange failed. What came over the wire is shown shortened, and without control characters.

use crate::address::AddressError;
use crate::credential::CredentialError;
use std::io;
use tokio_tungstenite::tungstenite::http::{Response, StatusCode};
use tokio_tungstenite::tungstenite::{self, protocol::CloseFrame};

use super::super::wire::EXPIRED;

/// Longest text of the exchange that is passed on, in characters.
const SHOWN: usize = 200;

/// Why a text is not the address of an exchange.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is no address of a WebSocket server.
    #[error("that is not the address of an exchange, such as ws://127.0.0.1:7001")]
    Address(#[from] AddressError),
    /// It is one that is spoken to with TLS.
    #[error("`{url}` asks for TLS, which exchanges do not speak; accepted: such as ws://127.0.0.1:7001")]
    #[non_exhaustive]
    Secure {
        /// Which.
        url: String,
    },
}

/// Why a connection to a simulated exchange failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// There is no credential to present.
    #[error("there is no credential to present")]
    Credential(#[from] CredentialError),
    /// The credential cannot be put into a request.
    #[error("the credential contains what no header can")]
    Unpresentable,
    /// The exchange cannot be reached.
    #[error("the exchange cannot be reached")]
    Unreachable(#[source] io::Error),
    /// The exchange refuses the credential, or does not accept it any longer.
    #[error("the exchange refuses the credential: {reason}")]
    #[non_exhaustive]
    CredentialRefused {
        /// What it said.
        reason: String,
    },
    /// The exchange has as many connections as it allows.
    #[error("the exchange allows no more connections: {reason}")]
    #[non_exhaustive]
    TooManyConnections {
        /// What it said.
        reason: String,
    },
    /// The exchange does not let us in.
    #[error("the exchange turns us away with {status}: {reason}")]
    #[non_exhaustive]
    TurnedAway {
        /// How.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// The connection has failed.
    #[error("the connection to the exchange failed")]
    Socket(#[source] Box<tungstenite::Error>),
    /// The exchange has closed the connection.
    #[error("the exchange closed the connection ({code}): {reason}")]
    #[non_exhaustive]
    Closed {
        /// With which code; 1005 is none.
        code: u16,
        /// What it said.
        reason: String,
    },
    /// Every key that there is was used on this connection.
    #[error("there are no keys left on this connection")]
    OutOfKeys,
    /// The exchange said something that makes no sense.
    #[error("the exchange said something that makes no sense: {0}")]
    Garbled(&'static str),
}

impl UpstreamError {
    pub(super) fn turned_away(response: &Response<Option<Vec<u8>>>) -> UpstreamError {
        let body = response.body().as_deref().unwrap_or_default();
        // A character has at most four bytes.
        let reason = shown(&String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]));
        match response.status() {
            StatusCode::UNAUTHORIZED => UpstreamError::CredentialRefused { reason },
            StatusCode::TOO_MANY_REQUESTS => UpstreamError::TooManyConnections { reason },
            status => UpstreamError::TurnedAway { status: status.as_u16(), reason },
        }
    }

    pub(super) fn closed(frame: Option<&CloseFrame>) -> UpstreamError {
        let (code, reason) = frame.map_or((1005, String::new()), |frame| (frame.code.into(), shown(&frame.reason)));
        if code == EXPIRED {
            UpstreamError::CredentialRefused { reason }
        } else {
            UpstreamError::Closed { code, reason }
        }
    }
}

impl From<tungstenite::Error> for UpstreamError {
    fn from(error: tungstenite::Error) -> UpstreamError {
        UpstreamError::Socket(Box::new(error))
    }
}

/// Fit to be shown to people.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN).map(|shown| if shown.is_control() { ' ' } else { shown }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_exchange_says_is_shortened_and_keeps_to_its_line() {
        assert_eq!(shown("no\r\n\x1b[2J"), "no   [2J");
        let body = "\u{20ac}".repeat(100_000).into_bytes();
        let error = UpstreamError::turned_away(&Response::new(Some(body)));
        assert!(error.to_string().len() < 1_000);
    }
}
