//! Refusals: a request that is not served, and the code a client knows that by.

use super::request::Echo;
use std::fmt;

/// What is wrong, as clients know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The message is not JSON.
    InvalidJson,
    /// The message is JSON of another shape than requests have.
    ServerError,
    /// Handling it went wrong in a way nobody thought of.
    ProcessingError,
    /// There is no such verb.
    InvalidAction,
    /// The key is missing or nobody's.
    AuthenticationError,
    /// It has not said who it is.
    NotAuthenticated,
    /// There is no feed for this user.
    BrokerError,
    /// A feed could not be set up.
    BrokerInitError,
    /// A feed could not connect.
    BrokerConnectionError,
    /// Which brokers there are is not known.
    BrokerListError,
    /// There is no such mode.
    InvalidMode,
    /// There is nothing to subscribe to or unsubscribe from, or a field is too long.
    InvalidParameters,
    /// More was asked for in a short time than may be. Not one of OpenAlgo's.
    RateLimited,
    /// The client would have more topics than it may. Not one of OpenAlgo's.
    TooManyTopics,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 14] = [
        Code::InvalidJson,
        Code::ServerError,
        Code::ProcessingError,
        Code::InvalidAction,
        Code::AuthenticationError,
        Code::NotAuthenticated,
        Code::BrokerError,
        Code::BrokerInitError,
        Code::BrokerConnectionError,
        Code::BrokerListError,
        Code::InvalidMode,
        Code::InvalidParameters,
        Code::RateLimited,
        Code::TooManyTopics,
    ];

    /// As it is spelled on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidJson => "INVALID_JSON",
            Code::ServerError => "SERVER_ERROR",
            Code::ProcessingError => "PROCESSING_ERROR",
            Code::InvalidAction => "INVALID_ACTION",
            Code::AuthenticationError => "AUTHENTICATION_ERROR",
            Code::NotAuthenticated => "NOT_AUTHENTICATED",
            Code::BrokerError => "BROKER_ERROR",
            Code::BrokerInitError => "BROKER_INIT_ERROR",
            Code::BrokerConnectionError => "BROKER_CONNECTION_ERROR",
            Code::BrokerListError => "BROKER_LIST_ERROR",
            Code::InvalidMode => "INVALID_MODE",
            Code::InvalidParameters => "INVALID_PARAMETERS",
            Code::RateLimited => "RATE_LIMITED",
            Code::TooManyTopics => "TOO_MANY_TOPICS",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
    needs_authentication: bool,
    echo: Option<Echo>,
}

impl Refusal {
    /// With this code, for this reason.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), needs_authentication: false, echo: None }
    }

    /// The client has not said who it is.
    pub fn not_authenticated() -> Refusal {
        Refusal::new(Code::NotAuthenticated, "You must authenticate first")
    }

    /// There was no key.
    pub fn key_required() -> Refusal {
        Refusal::new(Code::AuthenticationError, "API key is required")
    }

    /// The key is nobody's.
    pub fn invalid_key() -> Refusal {
        Refusal::new(Code::AuthenticationError, "Invalid API key")
    }

    /// Whether it is about a request that needs authentication: a client without is told that instead
    /// ([`Refusal::not_authenticated`]), as nothing else about its request matters yet.
    pub fn needs_authentication(&self) -> bool {
        self.needs_authentication
    }

    /// The `request_id` of the request that is refused: what it is told brings it back.
    pub fn echo(&self) -> Option<&Echo> {
        self.echo.as_ref()
    }

    /// About the request with this `request_id`.
    #[must_use]
    pub fn echoing(self, echo: Option<Echo>) -> Refusal {
        Refusal { echo, ..self }
    }

    /// About a request that needs authentication.
    pub(super) fn behind_authentication(self) -> Refusal {
        Refusal { needs_authentication: true, ..self }
    }
}
