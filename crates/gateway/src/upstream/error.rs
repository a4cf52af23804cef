//! Why a connection to an upstream failed. What came over the wire is shown shortened, and without control characters.

use crate::credential::CredentialError;
use carom::tls::ConnectError;
use std::io;
use tokio_tungstenite::tungstenite::http::{Response, StatusCode};
use tokio_tungstenite::tungstenite::{self, protocol::CloseFrame};

/// Longest text of an upstream that is passed on, in characters.
const SHOWN: usize = 200;

/// Stands where the rest is left out.
const CUT: char = '…';

/// Why a connection to an upstream failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// There is no credential to present.
    #[error("there is no credential to present")]
    Credential(#[from] CredentialError),
    /// The credential cannot be put into a request.
    #[error("the credential contains what no header can")]
    Unpresentable,
    /// The upstream cannot be reached.
    #[error("the upstream cannot be reached")]
    Unreachable(#[source] io::Error),
    /// TLS failed.
    #[error("tls with the upstream failed")]
    Tls(#[source] ConnectError),
    /// The upstream refuses the credential, or does not accept it any longer.
    #[error("the upstream refuses the credential: {reason}")]
    #[non_exhaustive]
    CredentialRefused {
        /// What it said.
        reason: String,
    },
    /// The upstream has as many connections as it allows.
    #[error("the upstream allows no more connections: {reason}")]
    #[non_exhaustive]
    TooManyConnections {
        /// What it said.
        reason: String,
    },
    /// The upstream does not let us in.
    #[error("the upstream turns us away with {status}: {reason}")]
    #[non_exhaustive]
    TurnedAway {
        /// How.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// The connection has failed.
    #[error("the connection to the upstream failed")]
    Socket(#[source] Box<tungstenite::Error>),
    /// The upstream has closed the connection.
    #[error("the upstream closed the connection ({code}): {reason}")]
    #[non_exhaustive]
    Closed {
        /// With which code; 1005 is none.
        code: u16,
        /// What it said.
        reason: String,
    },
    /// The upstream refuses something that it seemed to have accepted.
    #[error("the upstream refuses `{symbol}` too late: {reason}")]
    #[non_exhaustive]
    RefusedLate {
        /// What it refuses, or the first of it.
        symbol: String,
        /// What it said.
        reason: String,
    },
    /// Every key that there is was used on this connection.
    #[error("there are no keys left on this connection")]
    OutOfKeys,
    /// The upstream said something that makes no sense.
    #[error("the upstream said something that makes no sense: {0}")]
    Garbled(&'static str),
}

impl UpstreamError {
    /// A request was answered with something else than a connection; by this status a credential is refused.
    pub(super) fn turned_away(response: &Response<Option<Vec<u8>>>, refused_with: StatusCode) -> UpstreamError {
        let body = response.body().as_deref().unwrap_or_default();
        // A character has at most four bytes, and one more is to be left out.
        let reason = shown(&String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN + 4)]));
        match response.status() {
            status if status == refused_with => UpstreamError::CredentialRefused { reason },
            StatusCode::TOO_MANY_REQUESTS => UpstreamError::TooManyConnections { reason },
            status => UpstreamError::TurnedAway { status: status.as_u16(), reason },
        }
    }

    /// The upstream has said goodbye, or hung up without.
    pub fn closed(frame: Option<&CloseFrame>) -> UpstreamError {
        let (code, reason) = frame.map_or((1005, String::new()), |frame| (frame.code.into(), shown(&frame.reason)));
        UpstreamError::Closed { code, reason }
    }

    /// The same, without this secret in what the upstream said: some repeat what they were told.
    #[must_use]
    pub fn hiding(mut self, secret: &str) -> UpstreamError {
        match &mut self {
            UpstreamError::CredentialRefused { reason }
            | UpstreamError::TooManyConnections { reason }
            | UpstreamError::TurnedAway { reason, .. }
            | UpstreamError::RefusedLate { reason, .. }
            | UpstreamError::Closed { reason, .. } => *reason = hide(std::mem::take(reason), secret),
            UpstreamError::Credential(_)
            | UpstreamError::Unpresentable
            | UpstreamError::Unreachable(_)
            | UpstreamError::Tls(_)
            | UpstreamError::Socket(_)
            | UpstreamError::OutOfKeys
            | UpstreamError::Garbled(_) => {}
        }
        self
    }
}

impl From<tungstenite::Error> for UpstreamError {
    fn from(error: tungstenite::Error) -> UpstreamError {
        UpstreamError::Socket(Box::new(error))
    }
}

/// Fit to be shown to people.
pub(crate) fn shown(text: &str) -> String {
    let mut letters = text.chars().map(|shown| if shown.is_control() { ' ' } else { shown });
    let mut shown: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() {
        shown.push(CUT);
    }
    shown
}

/// The text without the secret, also where the text was cut in the middle of it.
pub(crate) fn hide(mut text: String, secret: &str) -> String {
    if secret.is_empty() {
        return text;
    }
    if text.contains(secret) {
        text = text.replace(secret, "..");
    }
    if let Some(cut) = text.strip_suffix(CUT) {
        let beginnings =
            secret.char_indices().rev().map(|(at, _)| &secret[..at]).filter(|beginning| !beginning.is_empty());
        if let Some(kept) = beginnings.into_iter().find_map(|beginning| cut.strip_suffix(beginning)) {
            text = format!("{kept}..{CUT}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_is_repeated_is_hidden() {
        let refused = || UpstreamError::CredentialRefused { reason: "no `sesame` here".to_owned() };
        assert!(refused().hiding("sesame").to_string().ends_with("no `..` here"));
        assert!(refused().hiding("").to_string().ends_with("no `sesame` here"));
        for cut in 0..7 {
            let body = format!("{}sesame", "x".repeat(SHOWN - cut)).into_bytes();
            let mut response = Response::new(Some(body));
            *response.status_mut() = StatusCode::FORBIDDEN;
            let error = UpstreamError::turned_away(&response, StatusCode::FORBIDDEN).hiding("sesame").to_string();
            let said = error.rsplit(' ').next().unwrap();
            assert!(said.chars().all(|letter| "x.…".contains(letter)), "nothing of it is left: {said}");
        }
    }

    #[test]
    fn what_the_upstream_says_is_shortened_and_keeps_to_its_line() {
        assert_eq!(shown("no\r\n\x1b[2J"), "no   [2J");
        let body = "\u{20ac}".repeat(100_000).into_bytes();
        let error = UpstreamError::turned_away(&Response::new(Some(body)), StatusCode::UNAUTHORIZED);
        assert!(error.to_string().len() < 1_000);
    }
}
