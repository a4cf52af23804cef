//! Certificates for servers and clients, made on the spot: by an authority of the test's own, good or with one thing wrong.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// How many there have been.
static AUTHORITIES: AtomicUsize = AtomicUsize::new(0);

/// An authority that nobody trusts but who is told to.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Certificate {
    chain_pem: String,
    key_pem: String,
    certified: Arc<CertifiedKey>,
    /// The names that clients have asked for.
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

impl Authority {
    /// A new one, with a key of its own.
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Authority {
        let mut params = CertificateParams::default();
        // Authorities of the same name would be taken for each other.
        let number = AUTHORITIES.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("authority {number} of tests"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("the system has random numbers");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("it has a name and a key") }
    }

    /// What those need who trust it.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate made out to these names or addresses.
    pub fn issue<const N: usize>(&self, names: [&str; N]) -> Certificate {
        self.sign(params(names))
    }

    /// One that has been of no use for many years.
    pub fn issue_expired<const N: usize>(&self, names: [&str; N]) -> Certificate {
        let mut params = params(names);
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().expect("the system has random numbers");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority may sign");
        Certificate::new(&certificate, &key)
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("it can be a root");
        Arc::new(roots)
    }
}

impl Certificate {
    /// One that nobody but its owner has signed.
    pub fn self_signed<const N: usize>(names: [&str; N]) -> Certificate {
        let key = KeyPair::generate().expect("the system has random numbers");
        Certificate::new(&params(names).self_signed(&key).expect("it has a name and a key"), &key)
    }

    fn new(certificate: &rcgen::Certificate, key: &KeyPair) -> Certificate {
        let der: CertificateDer<'static> = certificate.der().clone();
        let key_der = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let certified = CertifiedKey::from_der(vec![der], key_der, &ring::default_provider());
        Certificate {
            chain_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certified: Arc::new(certified.expect("they belong together")),
            asked: Arc::default(),
        }
    }

    /// The certificate, for a client to show.
    pub fn pem(&self) -> &str {
        &self.chain_pem
    }

    /// Its private key, for a client to show it with.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// How a server with this certificate speaks TLS: it chooses the first of these protocols that a client offers, and does
    /// not ask for any if there are none.
    pub fn serving<const N: usize>(&self, protocols: [&str; N]) -> Arc<ServerConfig> {
        self.config(protocols, None)
    }

    /// The same of a server that wants to see a certificate of this authority from its clients.
    pub fn serving_those_of<const N: usize>(&self, clients: &Authority, protocols: [&str; N]) -> Arc<ServerConfig> {
        self.config(protocols, Some(clients))
    }

    /// The names that clients of its servers have asked for, in order (SNI).
    pub fn asked(&self) -> Vec<Option<String>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn config<const N: usize>(&self, protocols: [&str; N], clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring serves every version");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(clients.roots(), provider)
                    .build()
                    .expect("there is a root"),
            ),
        };
        let mut config = builder.with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = protocols.map(|protocol| protocol.as_bytes().to_vec()).into();
        Arc::new(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_owned);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        Some(Arc::clone(&self.certified))
    }
}

fn params<const N: usize>(names: [&str; N]) -> CertificateParams {
    CertificateParams::new(names.map(String::from)).expect("these are names or addresses")
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// Shows no key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("asked", &self.asked()).finish_non_exhaustive()
    }
}
