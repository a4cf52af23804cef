//! TLS for clients: a certificate and its key, from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why clients cannot be served over TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has nothing of the kind in it.
    #[error("no {what} in {}", path.display())]
    #[non_exhaustive]
    File {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it was not found.
        source: PemError,
    },
    /// The key is not that of the certificate, or of a kind that is not known.
    #[error("certificate and key are refused")]
    Refused(#[from] rustls::Error),
}

/// Whether clients could be served with this certificate chain and its key, in PEM files.
///
/// # Errors
/// [`TlsError`] says why not.
pub fn check_certificate(chain: &Path, key: &Path) -> Result<(), TlsError> {
    from_files(chain, key).map(drop)
}

/// The configuration for a certificate chain and its key, unencrypted, in PEM files.
pub(crate) fn from_files(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let certificate = |source| TlsError::File { what: "certificate", path: chain.to_owned(), source };
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(chain).map_err(certificate)?.collect::<Result<_, _>>().map_err(certificate)?;
    if certificates.is_empty() {
        return Err(certificate(PemError::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::File {
        what: "private key",
        path: key.to_owned(),
        source,
    })?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    Ok(Arc::new(config))
}
