//! How a NATS server is reached, and as whom.

use super::access::Access;
use super::subject::escape;
use crate::credential::CredentialError;
use carom::tls::{Tls, TlsError};
use carom_core::options::OptionsError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How a NATS server is reached, and as whom. Secrets are in files, and never shown.
///
/// ```
/// use carom_gateway::bus::NatsOptions;
///
/// let options = NatsOptions::new("nats://one.internal:4222,nats://two.internal:4222").name("gateway-1");
/// assert!(options.validate().is_ok());
/// assert!(NatsOptions::new("nats://me:secret@one.internal").validate().is_err());
/// ```
#[derive(Clone)]
#[must_use = "options do nothing until `Nats::connect`"]
pub struct NatsOptions {
    pub(super) urls: String,
    pub(super) access: Access,
    pub(super) extra_roots: Option<Vec<u8>>,
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) replicas: usize,
}

/// Why there is no connection to NATS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// An option makes no sense.
    #[error(transparent)]
    Option(#[from] OptionsError),
    /// The system has no randomness to give, so there is no name that nobody else has.
    #[error("the system gives no random numbers")]
    NoChance(#[source] getrandom::Error),
    /// The credentials cannot be read.
    #[error("the NATS credentials in {} cannot be used", path.display())]
    #[non_exhaustive]
    Credentials {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The token or password cannot be read.
    #[error("there is nothing to present to NATS")]
    Secret(#[from] CredentialError),
    /// TLS cannot be spoken.
    #[error("tls cannot be spoken with NATS")]
    Tls(#[from] TlsError),
    /// The server refuses who we are.
    #[error("NATS at {urls} refuses these credentials, or that there are none")]
    #[non_exhaustive]
    Refused {
        /// Where.
        urls: String,
    },
    /// This build has no NATS client.
    #[error("this build has no NATS client: enable the feature `nats`")]
    NotBuilt,
    /// No server could be reached.
    #[error("no NATS server at {urls} could be reached")]
    #[non_exhaustive]
    Unreachable {
        /// Where.
        urls: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// None answered in time.
    #[error("no NATS server at {urls} answered within {timeout:?}")]
    #[non_exhaustive]
    TimedOut {
        /// Where.
        urls: String,
        /// How long they had.
        timeout: Duration,
    },
}

impl NatsOptions {
    /// The servers of one cluster, comma-separated, such as `nats://127.0.0.1:4222`; `tls://` insists on TLS.
    pub fn new(urls: impl Into<String>) -> NatsOptions {
        NatsOptions {
            urls: urls.into(),
            access: Access::default(),
            extra_roots: None,
            name: "carom".to_owned(),
            prefix: "carom".to_owned(),
            replicas: 1,
        }
    }

    /// A user's credentials, as `nsc` writes them; read once. Default: none.
    pub fn credentials_file(mut self, path: impl Into<PathBuf>) -> NatsOptions {
        self.access.credentials_file = Some(path.into());
        self
    }

    /// A file with the server's token in one line; read whenever a connection is made, so that another one can be put there. Not
    /// with a credentials file. Default: none.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> NatsOptions {
        self.access.token_file = Some(path.into());
        self
    }

    /// The name of a user, and a file with the password in one line, which is read like a token. Not with a token or a credentials
    /// file. Default: none.
    pub fn user(mut self, name: impl Into<String>, password_file: impl Into<PathBuf>) -> NatsOptions {
        self.access.user = Some((name.into(), password_file.into()));
        self
    }

    /// Trust these roots too, beside those that the system trusts: one or more certificates in PEM. With them nothing is said to a
    /// server without TLS, whatever its address begins with. Default: none.
    pub fn extra_roots(mut self, pem: impl Into<Vec<u8>>) -> NatsOptions {
        self.extra_roots = Some(pem.into());
        self
    }

    /// What the connection is called at the server, and what members are called to each other, with something behind it that no
    /// other has. Default: `carom`.
    pub fn name(mut self, name: impl Into<String>) -> NatsOptions {
        self.name = name.into();
        self
    }

    /// What subjects begin with: gateways that are to know of each other have the same. Letters, digits, `_` and `-`, with dots
    /// between them. Default: `carom`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> NatsOptions {
        self.prefix = prefix.into();
        self
    }

    /// How many servers of a cluster keep the leases of a [share](super::Nats::share): 1 to 5, best odd. With one, nobody can own an
    /// upstream while that very server is away, however many there are; 3 outlive the loss of one, after the few seconds that they
    /// take to agree on it. It counts when the bucket is made: of one that is there it is changed with NATS' own tools. Default: 1.
    pub fn replicas(mut self, replicas: usize) -> NatsOptions {
        self.replicas = replicas;
        self
    }

    /// Refuses what makes no sense, naming the option. Nobody is connected to, and no file is read.
    ///
    /// # Errors
    /// The first option that makes no sense.
    pub fn validate(&self) -> Result<(), OptionsError> {
        super::connection::check_urls(&self.urls)?;
        self.access.validate()?;
        if let Some(pem) = &self.extra_roots
            && let Err(error) = Tls::builder().roots_pem(&**pem).build()
        {
            return Err(OptionsError::new("extra_roots", format!("must be certificates: {error}")));
        }
        let tokens = self.prefix.split('.').all(|token| !token.is_empty() && escape(token) == token);
        if !tokens || self.prefix.len() > 64 {
            return Err(OptionsError::new(
                "prefix",
                "must be at most 64 letters, digits, `_` and `-`, with single dots between them",
            ));
        }
        if !(1..=5).contains(&self.replicas) {
            return Err(OptionsError::new("replicas", format!("must be from 1 to 5, not {}", self.replicas)));
        }
        if self.name.is_empty() || self.name.len() > 64 || self.name.chars().any(char::is_control) {
            return Err(OptionsError::new("name", "must be one line of at most 64 bytes, and not empty"));
        }
        Ok(())
    }
}

/// Not the certificates.
impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NatsOptions { urls, access, extra_roots: _, name, prefix, replicas } = self;
        let mut shown = f.debug_struct("NatsOptions");
        shown.field("urls", urls).field("access", access).field("name", name);
        shown.field("prefix", prefix).field("replicas", replicas).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let plain = || NatsOptions::new("nats://127.0.0.1:4222");
        let wrong = [
            (NatsOptions::new(""), "url"),
            (NatsOptions::new("nats://a,,nats://b"), "url"),
            (NatsOptions::new("nats://me:secret@a"), "url"),
            (NatsOptions::new("nats://token@a"), "url"),
            (plain().prefix(""), "prefix"),
            (plain().prefix("a..b"), "prefix"),
            (plain().prefix("a.>"), "prefix"),
            (plain().name(""), "name"),
            (plain().replicas(0), "replicas"),
            (plain().replicas(6), "replicas"),
            (plain().token_file("a").credentials_file("b"), "token_file"),
            (plain().token_file("a").user("me", "b"), "user"),
            (plain().extra_roots("no certificate"), "extra_roots"),
        ];
        for (options, option) in wrong {
            let error = options.validate().unwrap_err().to_string();
            assert!(error.contains(option) && !error.contains("secret"), "{option}: {error}");
        }
        assert!(plain().prefix("desk.one").validate().is_ok());
        assert!(NatsOptions::new("127.0.0.1:4222, tls://b").validate().is_ok());
    }
}
