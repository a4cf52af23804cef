//! Certificates made for a test: an authority, and those it vouches for.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Issues certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate, its key, and the root that leads to it, all in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
    pub root: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("a root") }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Vouches for whoever has this name or address, as a server and as a client.
    pub fn identity(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem(), root: self.pem() }
    }
}
