//! The script of an upstream: how each thing goes that is done with it.

use carom::feed::Change;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// How opening a connection goes. At first: it succeeds.
#[derive(Clone, Copy, Debug)]
pub enum OnOpen {
    /// At once.
    Succeed,
    /// Fails at once.
    Fail,
    /// Succeeds after this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// The credential is refused.
    Refuse,
    /// There is no credential to present.
    Lack,
    /// Panics.
    Panic,
}

/// How a write goes. At first: it is accepted.
#[derive(Clone, Copy, Debug)]
pub enum OnWrite {
    /// At once.
    Accept,
    /// After this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Fails, and with it the connection.
    Fail,
    /// Panics.
    Panic,
}

/// How a heartbeat goes. At first: it is accepted.
#[derive(Clone, Copy, Debug)]
pub enum OnHeartbeat {
    /// At once.
    Accept,
    /// After this delay.
    Slow(Duration),
    /// Hangs until dropped.
    Never,
    /// Fails, and with it the connection.
    Fail,
}

/// How a goodbye goes. At first: it is heard.
#[derive(Clone, Copy, Debug)]
pub enum OnClose {
    /// At once.
    Accept,
    /// Hangs until dropped.
    Never,
}

/// A write as it arrived.
#[derive(Clone, Debug)]
pub struct Written {
    /// On which connection, counted from 1 in order of opening.
    pub connection: usize,
    /// When.
    pub at: Instant,
    /// What.
    pub changes: Vec<Change>,
}

/// What an [`Upstream`](super::Upstream) says when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamError {
    /// The credential was refused.
    Credential,
    /// There is no credential.
    NoCredential,
    /// Opening or writing failed.
    Failed,
    /// The connection was killed.
    Killed,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpstreamError::Credential => "scripted: token expired",
            UpstreamError::NoCredential => "scripted: no token",
            UpstreamError::Failed => "scripted: failed",
            UpstreamError::Killed => "scripted: killed",
        })
    }
}

impl std::error::Error for UpstreamError {}
