//! Building a TLS connector: whom it trusts, who it says it is, and every option.

use super::any_certificate::AnyCertificate;
use super::{Tls, TlsError};
use crate::tcp::Tcp;
use std::fmt;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Builds a [`Tls`]; made by [`Tls::builder`]. Every option has a default; [`build`](Builder::build) refuses what makes no
/// sense.
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    roots_platform: bool,
    roots_pem: Vec<Vec<u8>>,
    root_der: Vec<Vec<u8>>,
    client_certificate_pem: Option<(Vec<u8>, Vec<u8>)>,
    alpn: Vec<Vec<u8>>,
    any_certificate: bool,
    config: Option<Arc<ClientConfig>>,
    server_name: Option<String>,
    server_first: bool,
    reuse_without_answer: bool,
    tcp: Tcp,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            roots_platform: false,
            roots_pem: Vec::new(),
            root_der: Vec::new(),
            client_certificate_pem: None,
            alpn: Vec::new(),
            any_certificate: false,
            config: None,
            server_name: None,
            server_first: false,
            reuse_without_answer: false,
            tcp: Tcp::default(),
        }
    }

    /// Trust whom the system trusts. This is the default as long as no root is given with `roots_pem` or `root_der`; to
    /// trust both, ask for both.
    ///
    /// The roots are read once, by `build`, from where the system keeps them, or from `SSL_CERT_FILE` and `SSL_CERT_DIR`
    /// if these are set. Those among them that make no sense are left out, as everywhere. Verifying is then a matter of
    /// computing alone, so it never blocks the runtime; lists of revoked certificates are not asked.
    pub fn roots_platform(mut self) -> Builder {
        self.roots_platform = true;
        self
    }

    /// Trust these roots: one or more certificates in PEM; anything else in there is skipped. Repeated calls add up.
    /// They replace the system's, unless `roots_platform` is asked for too.
    pub fn roots_pem(mut self, pem: impl Into<Vec<u8>>) -> Builder {
        self.roots_pem.push(pem.into());
        self
    }

    /// Trust this root: one certificate in DER. Otherwise as [`roots_pem`](Builder::roots_pem), and adds to it.
    pub fn root_der(mut self, der: impl Into<Vec<u8>>) -> Builder {
        self.root_der.push(der.into());
        self
    }

    /// The certificate shown to servers that ask for one, as PEM: the chain, its own certificate first, and the private
    /// key, unencrypted. Both may be in one text, given twice. The last call wins. Default: none.
    ///
    /// A TLS 1.3 server that refuses it lets the connect succeed and the first read fail.
    pub fn client_certificate_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Builder {
        self.client_certificate_pem = Some((chain.into(), key.into()));
        self
    }

    /// The application protocols to offer, the preferred one first, such as `["h2", "http/1.1"]`. Default: none.
    ///
    /// [`Stream::alpn_protocol`](super::Stream::alpn_protocol) says what was agreed on. A server that knows none of them
    /// refuses the handshake; one that knows nothing of such offers ignores them.
    pub fn alpn(mut self, protocols: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Builder {
        self.alpn = protocols.into_iter().map(Into::into).collect();
        self
    }

    /// The name that every server's certificate must be made out to: a DNS name, which is also what servers are told
    /// (SNI), or an IP address.
    ///
    /// Default: the name of the backend if it is one of these, otherwise the backend's IP address. So backends known by
    /// address alone need certificates made out to their addresses, or this option.
    pub fn server_name(mut self, name: impl Into<String>) -> Builder {
        self.server_name = Some(name.into());
        self
    }

    /// Whether the server may send application bytes without being asked: greetings, notices. Default: false, and a
    /// connection with such bytes waiting counts as ended when it is released, and when it is claimed after idling: they
    /// are the late reply to an earlier request and would be taken for the reply to the next. If true, they are left for
    /// the next user. Session tickets are not application bytes.
    pub fn server_first(mut self, server_first: bool) -> Builder {
        self.server_first = server_first;
        self
    }

    /// Whether a connection goes back into the pool if bytes were written and none were read since. Default: false, and such a
    /// connection is closed when its claim comes back, because the reply may still come. Set it for a protocol whose last message
    /// has no reply, which costs a new connection for each use otherwise; see [`Tcp::reuse_without_answer`].
    pub fn reuse_without_answer(mut self, reuse: bool) -> Builder {
        self.reuse_without_answer = reuse;
        self
    }

    /// The options of the socket. Default: those of [`Tcp::default`]. Its [`server_first`](Tcp::server_first) and
    /// [`reuse_without_answer`](Tcp::reuse_without_answer) have no effect, as the bytes on a socket say nothing here: see this
    /// builder's own.
    pub fn tcp(mut self, tcp: Tcp) -> Builder {
        self.tcp = tcp;
        self
    }

    /// A configuration of rustls 0.23 to use as it is: for another crypto provider, verifier, or key log. It rules out the
    /// options that it has itself: roots, client certificate, `alpn`.
    pub fn config(mut self, config: Arc<ClientConfig>) -> Builder {
        self.config = Some(config);
        self
    }

    /// Believe any certificate, whoever issued it, to whomever, even if it has expired. Then anyone on the way can read
    /// and change everything. For tests only. Rules out roots.
    pub fn dangerous_accept_any_certificate(mut self) -> Builder {
        self.any_certificate = true;
        self
    }

    /// Builds the connector. Reads the system's roots from its files if they are wanted, a matter of milliseconds.
    ///
    /// # Errors
    /// [`TlsError`] names the option that is wrong.
    pub fn build(mut self) -> Result<Tls, TlsError> {
        self.refuse_conflicts()?;
        let server_name = self.server_name.take().map(parse_server_name).transpose()?;
        let config = match self.config.take() {
            Some(config) => config,
            None => Arc::new(self.make_config()?),
        };
        Ok(Tls {
            connector: TlsConnector::from(config),
            server_name,
            server_first: self.server_first,
            reuse_without_answer: self.reuse_without_answer,
            tcp: self.tcp.server_first(true).reuse_without_answer(true),
        })
    }

    fn refuse_conflicts(&self) -> Result<(), TlsError> {
        let roots = [
            ("roots_platform", self.roots_platform),
            ("roots_pem", !self.roots_pem.is_empty()),
            ("root_der", !self.root_der.is_empty()),
        ];
        let others = [
            ("client_certificate_pem", self.client_certificate_pem.is_some()),
            ("alpn", !self.alpn.is_empty()),
            ("dangerous_accept_any_certificate", self.any_certificate),
        ];
        let first = |options: &[(&'static str, bool)]| options.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        if self.config.is_some()
            && let Some(option) = first(&roots).or(first(&others))
        {
            return Err(TlsError::Conflict { option, beside: "config" });
        }
        if self.any_certificate
            && let Some(option) = first(&roots)
        {
            return Err(TlsError::Conflict { option, beside: "dangerous_accept_any_certificate" });
        }
        Ok(())
    }

    fn make_config(&self) -> Result<ClientConfig, TlsError> {
        // Named, and not the process's default: that one may be missing, or be changed by anyone.
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring serves every version");
        let builder = if self.any_certificate {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match &self.client_certificate_pem {
            Some((chain, key)) => {
                let (chain, key) = (certificates("client_certificate_pem", chain)?, private_key(key)?);
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| TlsError::ClientCertificate { source: error.into() })?
            }
            None => builder.with_no_client_auth(),
        };
        if let Some(wrong) = self.alpn.iter().find(|protocol| !(1..=255).contains(&protocol.len())) {
            return Err(TlsError::Alpn { length: wrong.len() });
        }
        config.alpn_protocols.clone_from(&self.alpn);
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        let mut pem = Vec::new();
        for text in &self.roots_pem {
            pem.extend(certificates("roots_pem", text)?);
        }
        let der = self.root_der.iter().map(|der| CertificateDer::from_slice(der));
        add("roots_pem", pem, &mut roots)?;
        add("root_der", der, &mut roots)?;
        if self.roots_platform || roots.is_empty() {
            add_platform(&mut roots)?;
        }
        Ok(roots)
    }
}

/// Shows no key.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("server_name", &self.server_name)
            .field("server_first", &self.server_first)
            .field("reuse_without_answer", &self.reuse_without_answer)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}

fn parse_server_name(name: String) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.as_str()).map(|name| name.to_owned()).map_err(|_| TlsError::ServerName { name })
}

fn certificates(option: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::NoCertificate { option }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::Pem { option, source: error.into() }),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::NoClientKey,
        error => TlsError::Pem { option: "client_certificate_pem", source: error.into() },
    })
}

fn add<'a>(
    option: &'static str,
    certificates: impl IntoIterator<Item = CertificateDer<'a>>,
    roots: &mut RootCertStore,
) -> Result<(), TlsError> {
    for (certificate, position) in certificates.into_iter().zip(1..) {
        roots.add(certificate).map_err(|error| TlsError::Root { option, position, source: error.into() })?;
    }
    Ok(())
}

fn add_platform(roots: &mut RootCertStore) -> Result<(), TlsError> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "some of the system's root certificates cannot be read");
    }
    let (added, left_out) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(added, left_out, "read the system's root certificates");
    if added == 0 {
        let source = found.errors.into_iter().next().map(Into::into);
        return Err(TlsError::NoPlatformRoots { source });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
    use std::error::Error;

    fn refused(builder: Builder) -> TlsError {
        let error = builder.build().expect_err("it makes no sense");
        assert!(format!("{error}").contains('`'), "{error} names its option");
        error
    }

    fn certified() -> CertifiedKey<KeyPair> {
        generate_simple_self_signed(["localhost".into()]).unwrap()
    }

    #[test]
    fn own_roots_replace_the_systems_unless_both_are_asked_for() {
        let (one, other) = (certified(), certified());
        let both = format!("a comment\n{}{}", one.cert.pem(), other.cert.pem());
        let count = |builder: Builder| builder.roots().unwrap().len();
        assert_eq!(count(Tls::builder().roots_pem(both.clone())), 2);
        assert_eq!(count(Tls::builder().roots_pem(one.cert.pem()).root_der(other.cert.der().to_vec())), 2);

        let mut system = RootCertStore::empty();
        if let Err(error) = add_platform(&mut system) {
            return testkit::skip(&error.to_string());
        }
        assert_eq!(count(Tls::builder()), system.len());
        assert_eq!(count(Tls::builder().roots_pem(both).roots_platform()), system.len() + 2);
    }

    #[test]
    fn roots_that_are_none_are_refused() {
        let error = refused(Tls::builder().roots_pem(""));
        assert_eq!(error.to_string(), "`roots_pem` holds no certificate");
        let error = refused(Tls::builder().roots_pem(certified().signing_key.serialize_pem()));
        assert_eq!(error.to_string(), "`roots_pem` holds no certificate");

        let error = refused(Tls::builder().roots_pem("-----BEGIN CERTIFICATE-----\nMIIB"));
        assert_eq!(error.to_string(), "`roots_pem` is not well-formed PEM");
        assert!(error.source().is_some());

        let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = refused(Tls::builder().roots_pem(certified().cert.pem()).roots_pem(nonsense));
        assert_eq!(error.to_string(), "certificate 2 of `roots_pem` cannot be used as a root");
        let error = refused(Tls::builder().root_der(b"AAAA"));
        assert_eq!(error.to_string(), "certificate 1 of `root_der` cannot be used as a root");
        assert!(error.source().is_some());
    }

    #[test]
    fn a_client_certificate_and_its_key_belong_together() {
        let (own, stranger) = (certified(), certified());
        let (chain, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let tls = || Tls::builder().dangerous_accept_any_certificate();
        assert!(tls().client_certificate_pem(chain.clone(), key.clone()).build().is_ok());
        let both = format!("{key}{chain}");
        assert!(tls().client_certificate_pem(both.clone(), both).build().is_ok(), "one text can hold both");

        let error = refused(tls().client_certificate_pem(chain.clone(), stranger.signing_key.serialize_pem()));
        assert!(matches!(error, TlsError::ClientCertificate { .. }), "{error:?}");
        let error = refused(tls().client_certificate_pem(chain.clone(), chain));
        assert!(matches!(error, TlsError::NoClientKey), "{error:?}");
        let error = refused(tls().client_certificate_pem(key.clone(), key));
        assert!(matches!(error, TlsError::NoCertificate { option: "client_certificate_pem" }), "{error:?}");
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let tls = || Tls::builder().dangerous_accept_any_certificate();
        let error = refused(tls().server_name("10.0.0.1:443"));
        assert_eq!(error.to_string(), "`server_name`: `10.0.0.1:443` is neither a DNS name nor an IP address");
        assert!(tls().server_name("10.0.0.1").build().is_ok());

        let error = refused(tls().alpn(["h2", ""]));
        assert_eq!(error.to_string(), "`alpn`: the name of a protocol has 1 to 255 bytes, not 0");
        let error = refused(tls().alpn([vec![b'x'; 256]]));
        assert_eq!(error.to_string(), "`alpn`: the name of a protocol has 1 to 255 bytes, not 256");
    }

    #[test]
    fn options_without_effect_are_refused() {
        let config = || Arc::new(Tls::builder().dangerous_accept_any_certificate().make_config().unwrap());
        let tls = || Tls::builder().config(config());
        assert!(tls().server_name("localhost").server_first(true).tcp(Tcp::default()).build().is_ok());
        for (builder, named) in [
            (tls().roots_platform(), "roots_platform"),
            (tls().roots_pem(""), "roots_pem"),
            (tls().root_der(""), "root_der"),
            (tls().client_certificate_pem("", ""), "client_certificate_pem"),
            (tls().alpn(["h2"]), "alpn"),
            (tls().dangerous_accept_any_certificate(), "dangerous_accept_any_certificate"),
        ] {
            let error = refused(builder);
            assert_eq!(error.to_string(), format!("`{named}` has no effect beside `config`: leave one of them out"));
        }
        let error = refused(Tls::builder().roots_platform().dangerous_accept_any_certificate());
        assert!(matches!(error, TlsError::Conflict { option: "roots_platform", .. }), "{error:?}");
    }

    #[test]
    fn debug_shows_no_key() {
        let own = certified();
        let builder = Tls::builder().client_certificate_pem(own.cert.pem(), own.signing_key.serialize_pem());
        assert_eq!(
            format!("{builder:?}"),
            "Builder { server_name: None, server_first: false, reuse_without_answer: false, \
             tcp: Tcp { nodelay: true, keepalive: None, server_first: false, reuse_without_answer: false }, .. }"
        );
    }
}
