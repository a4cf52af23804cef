//! What brokers that speak TLS show: a certificate for 127.0.0.1 and `localhost`, and the root that vouches for it.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::io;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// The root in PEM, and what takes connections.
pub(super) fn made() -> io::Result<(String, TlsAcceptor)> {
    let mut root = CertificateParams::default();
    root.distinguished_name.push(DnType::CommonName, "carom testkit");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().map_err(io::Error::other)?);
    let root = root.map_err(io::Error::other)?;

    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let mut broker = CertificateParams::new(names).map_err(io::Error::other)?;
    broker.distinguished_name.push(DnType::CommonName, "a broker of carom testkit");
    broker.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let broker = broker.signed_by(&key, &root).map_err(io::Error::other)?;

    // Named, so that it does not matter which others the program has.
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![broker.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .map_err(io::Error::other)?;
    Ok((root.pem(), TlsAcceptor::from(Arc::new(config))))
}
