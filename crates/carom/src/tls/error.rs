//! Why a TLS connector could not be built, and why it could not connect.

use std::error::Error;
use std::io;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, CertificateError};

/// Why a [`Tls`](super::Tls) could not be built: which option is wrong, and how.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// This system has no root certificates, or they cannot be read.
    #[error(
        "this system has no root certificates: install them (`ca-certificates`), or give `roots_pem` or `root_der`"
    )]
    NoPlatformRoots {
        /// What went wrong when they were looked for.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// What should be PEM is not.
    #[error("`{option}` is not well-formed PEM")]
    Pem {
        /// Which option.
        option: &'static str,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// There is no certificate in the PEM given.
    #[error("`{option}` holds no certificate")]
    NoCertificate {
        /// Which option.
        option: &'static str,
    },
    /// A certificate cannot be used as a root.
    #[error("certificate {position} of `{option}` cannot be used as a root")]
    Root {
        /// Which option.
        option: &'static str,
        /// Which of all certificates given to it, counted from 1.
        position: usize,
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// There is no private key in the PEM given, or only an encrypted one.
    #[error("`client_certificate_pem` holds no unencrypted private key (PKCS#8, PKCS#1 or SEC1)")]
    NoClientKey,
    /// The client's certificate and key cannot be used, or not together.
    #[error("`client_certificate_pem` holds a certificate and a key that cannot be used together")]
    ClientCertificate {
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A protocol for [`Builder::alpn`](super::Builder::alpn) has no name, or too long a one.
    #[error("`alpn`: the name of a protocol has 1 to 255 bytes, not {length}")]
    Alpn {
        /// How long it is.
        length: usize,
    },
    /// The server name is none.
    #[error("`server_name`: `{name}` is neither a DNS name nor an IP address")]
    ServerName {
        /// What was given.
        name: String,
    },
    /// Two options contradict each other, or one would have no effect beside the other.
    #[error("`{option}` has no effect beside `{beside}`: leave one of them out")]
    Conflict {
        /// The option without effect.
        option: &'static str,
        /// The option that rules it out.
        beside: &'static str,
    },
}

/// Why connecting failed. Each text says it in full.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The TCP connection could not be made: refused, unreachable.
    #[error(transparent)]
    Connect(io::Error),
    /// The certificate leads to none of the roots.
    #[error("certificate of `{name}` is not trusted: no root has issued it, or the server omits those in between")]
    #[non_exhaustive]
    Untrusted {
        /// The server name that was asked for.
        name: String,
    },
    /// The certificate is made out to someone else.
    #[error("certificate is not valid for `{name}`, only for {}", listed(.presented))]
    #[non_exhaustive]
    WrongName {
        /// The server name that was asked for.
        name: String,
        /// Whom the certificate is made out to.
        presented: Vec<String>,
    },
    /// The certificate is an issuer's, which vouches for others: what one gets who makes a certificate in one step.
    #[error("certificate of `{name}` is one that issues others (CA), and no server's")]
    #[non_exhaustive]
    Issuer {
        /// The server name that was asked for.
        name: String,
    },
    /// Something else is wrong with the certificate; it has expired, say.
    #[error("certificate of `{name}` is not valid: {reason}")]
    #[non_exhaustive]
    Certificate {
        /// The server name that was asked for.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The server refused: it wants a certificate from the client, say, or speaks none of the protocols asked for.
    #[error("the server refused the tls handshake: {alert}")]
    #[non_exhaustive]
    Refused {
        /// The alert that it sent, by its name in the TLS standard.
        alert: String,
    },
    /// The connection ended before the handshake did.
    #[error("the connection ended during the tls handshake")]
    Ended(#[source] io::Error),
    /// The handshake failed in another way: the two have no version or cipher in common, or the server speaks no TLS.
    #[error("the tls handshake failed: {0}")]
    Handshake(io::Error),
}

impl ConnectError {
    pub(super) fn of_handshake(error: io::Error, name: &ServerName<'_>) -> ConnectError {
        let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) else {
            return ConnectError::Ended(error);
        };
        let name = name.to_str().into_owned();
        match cause {
            rustls::Error::InvalidCertificate(reason) => match reason {
                CertificateError::UnknownIssuer => ConnectError::Untrusted { name },
                CertificateError::NotValidForName => ConnectError::WrongName { name, presented: Vec::new() },
                CertificateError::NotValidForNameContext { presented, .. } => {
                    let presented = presented.iter().map(|name| bare(name).to_owned()).collect();
                    ConnectError::WrongName { name, presented }
                }
                // Of webpki's own errors rustls passes on those it has no words for; this is how they are told apart.
                CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity" => {
                    ConnectError::Issuer { name }
                }
                reason => ConnectError::Certificate { name, reason: reason.to_string() },
            },
            rustls::Error::AlertReceived(alert) => ConnectError::Refused { alert: format!("{alert:?}") },
            _ => ConnectError::Handshake(error),
        }
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "other names".into(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

/// `localhost` of `DnsName("localhost")`, as rustls writes it.
fn bare(presented: &str) -> &str {
    let unwrapped = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    unwrapped.unwrap_or(presented).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_lists_the_right_ones() {
        let wrong = |presented: &[&str]| {
            let presented = presented.iter().map(|name| bare(name).to_owned()).collect();
            ConnectError::WrongName { name: "a.test".into(), presented }.to_string()
        };
        assert_eq!(
            wrong(&[r#"DnsName("b.test")"#, "IpAddress(10.0.0.1)", "*.c.test"]),
            "certificate is not valid for `a.test`, only for `b.test`, `10.0.0.1`, `*.c.test`"
        );
        assert_eq!(wrong(&[]), "certificate is not valid for `a.test`, only for other names");
    }

    #[test]
    fn a_connect_result_stays_small() {
        assert!(size_of::<ConnectError>() <= 64, "{}", size_of::<ConnectError>());
    }
}
