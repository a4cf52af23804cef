//! Why a connection could not be made, or has ended.

use crate::wire::{ServerError, WireError};
use std::io;
use std::time::Duration;

/// Why a connection to a broker could not be made, or has ended. All who used it are told the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Reading or writing failed, or connecting did.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// TLS could not be agreed on.
    #[error(transparent)]
    Tls(#[from] carom::tls::ConnectError),
    /// The broker closed it.
    #[error("the broker closed the connection")]
    ByBroker,
    /// This side closed it: it was idle, or the client was closed.
    #[error("the connection was let go")]
    LetGo,
    /// The broker refused the handshake, or wants to know again who the client is and there is no token to say so.
    #[error("the broker refused the handshake: {error}: {message}")]
    #[non_exhaustive]
    Refused {
        /// Why.
        error: ServerError,
        /// The same for people.
        message: String,
    },
    /// There is a source of the token, and what it gave is empty.
    #[error("the token is empty")]
    EmptyToken,
    /// What arrived is no frame, or cannot be trusted.
    #[error("the broker sent what cannot be read")]
    Wire(#[from] WireError),
    /// The broker sent a command that only clients send, or at the wrong time.
    #[error("the broker broke the protocol with a command of type {kind}")]
    #[non_exhaustive]
    Violation {
        /// Which command.
        kind: i32,
    },
    /// The broker sent a consumer more messages than it had room for.
    #[error("the broker sent consumer {consumer} more messages than it asked for")]
    #[non_exhaustive]
    Flooded {
        /// Which consumer.
        consumer: u64,
    },
    /// A ping was not followed by anything.
    #[error("the broker was silent for {0:?} after a ping")]
    Silent(Duration),
    /// The client's own code panicked: the source of the token, or else a bug.
    #[error("the connection's own task panicked")]
    Panicked,
}

impl ConnectionError {
    /// Why a connection whose task is no more has ended, if nothing else was said.
    pub(super) fn gone() -> ConnectionError {
        if std::thread::panicking() { ConnectionError::Panicked } else { ConnectionError::LetGo }
    }

    pub(crate) fn no_token() -> ConnectionError {
        let message = "the broker wants a token, and there is none".to_owned();
        ConnectionError::Refused { error: ServerError::Authentication, message }
    }
}
