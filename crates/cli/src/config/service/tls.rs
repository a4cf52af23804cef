//! TLS towards the backends of a service: `tls = true`, or a table that says more.

use crate::config::File;
use crate::config::values::{FLAG, Pem, Switch, name, switch};
use crate::failure::with_causes;
use carom::tls;
use carom_gateway::tables::{Table, TableError, Value};
use http::uri::Authority;
use std::net::SocketAddr;

const TLS: &str = "true, false, or a table such as { ca = \"ca.pem\", server_name = \"api.example.com\" }";
const PEM: &str = "the name of a PEM file";

/// How backends are known, and how they know us. Without anything said: by whom the system trusts, and not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    ca: Option<Pem>,
    /// The certificate chain and its key.
    client: Option<(Pem, Pem)>,
    /// Instead of the name that was resolved; for HTTP to addresses there always is one.
    pub(crate) server_name: Option<String>,
    /// Whoever answers is believed.
    pub(crate) insecure: bool,
}

impl Tls {
    pub(super) fn take(table: &mut Table, file: &File<'_>) -> Result<Option<Tls>, TableError> {
        let tls = match table.read("tls", TLS, switch)? {
            None | Some(Switch::Off) => return Ok(None),
            Some(Switch::On) => Tls::default(),
            Some(Switch::Table(own)) => Tls::of(own, file)?,
        };
        match tls.builder().build() {
            Ok(_) => Ok(Some(tls)),
            Err(error) => Err(table.wrong("tls", format_args!("{}; accepted: {TLS}", with_causes(&error)))),
        }
    }

    fn of(mut own: Table, file: &File<'_>) -> Result<Tls, TableError> {
        let pem = |value| Pem::read(file, value);
        let ca = own.read("ca", PEM, pem)?;
        let certificate = own.read("certificate", PEM, pem)?;
        let key = own.read("key", PEM, pem)?;
        let client = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(own.wrong("certificate", "key is missing; accepted: both or none")),
            (None, Some(_)) => return Err(own.wrong("key", "certificate is missing; accepted: both or none")),
        };
        let server_name = own.read("server_name", "the name in the backends' certificates", name)?;
        let insecure = own.read("insecure", FLAG, Value::flag)?.unwrap_or(false);
        own.finish()?;
        Ok(Tls { ca, client, server_name, insecure })
    }

    /// Addresses have no name. Requests are for one, so it is known from elsewhere which one certificates are made out to.
    pub(super) fn name_addresses(
        &mut self,
        table: &Table,
        host: Option<&str>,
        addresses: &[SocketAddr],
    ) -> Result<(), TableError> {
        if self.server_name.is_some() {
            return Ok(());
        }
        let authority = host.and_then(|host| host.parse::<Authority>().ok());
        // Brackets are for what stands before a port.
        let host = authority.map(|authority| authority.host().trim_matches(['[', ']']).to_owned());
        // An address is told to nobody, so that whoever answers without a name does.
        let any = || self.insecure.then(|| addresses.first().map(|address| address.ip().to_string())).flatten();
        let Some(name) = host.or_else(any) else {
            let problem = "nobody says which name the certificates of these addresses have";
            let accepted = "a table with server_name, such as { server_name = \"api.example.com\" }, or with host";
            return Err(table.wrong("tls", format_args!("{problem}; accepted: {accepted}")));
        };
        self.server_name = Some(name);
        match self.builder().build() {
            Ok(_) => Ok(()),
            Err(error) => {
                let accepted = "a name or an address";
                Err(table.wrong("host", format_args!("{}; accepted: {accepted}", with_causes(&error))))
            }
        }
    }

    /// The connector's settings, but for the name that servers have and what is spoken.
    pub(crate) fn builder(&self) -> tls::Builder {
        let mut builder = tls::Tls::builder();
        if let Some(ca) = &self.ca {
            builder = builder.roots_pem(&*ca.text);
        }
        if let Some((certificate, key)) = &self.client {
            builder = builder.client_certificate_pem(&*certificate.text, &*key.text);
        }
        if let Some(name) = &self.server_name {
            builder = builder.server_name(name);
        }
        if self.insecure { builder.dangerous_accept_any_certificate() } else { builder }
    }
}
