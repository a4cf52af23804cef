//! Resolving by DNS: [`Dns`] follows the SRV and address records of a service for as long as somebody wants to know.
//!
//! ```no_run
//! use carom::Pool;
//! use carom::dns::{Dns, DnsOptions};
//! use carom::tcp::Tcp;
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // The short way: a pool for a service, by its name.
//! let pool = Pool::builder(Tcp::default()).service("_http._tcp.api.example.com").build()?;
//!
//! // With options of its own.
//! let options = DnsOptions::default().nameservers(["10.0.0.53:53".parse()?]).default_port(5432);
//! let pool = Pool::builder(Tcp::default()).resolver(Dns::new("db.example.com", options)?).build()?;
//! # Ok(()) }
//! ```
//!
//! A name is `[_service._proto.]name[:port]`. With a service, SRV records say where it is offered, with priorities and
//! weights; without one, or where there are none, the addresses of the name are the backends. Each set of records is asked for
//! again when its TTL is over, and a set of backends is never emptied by trouble: the last good one stays, as stale. The rules in
//! full, with what every answer code leads to, are those of [`carom_core::resolver`].
//!
//! Questions go over UDP with EDNS0, and over TCP when the answer does not fit. The first configured nameserver that
//! works is asked first, the next one when it fails or after 300 ms, sooner when time is short. One that failed, or did not know a
//! name that another knows, is asked after the others for 30 s. A nameserver that says NXDOMAIN or NODATA does not decide alone:
//! the others are asked too, and records win. NXDOMAIN is believed when a majority of the nameservers that respond within a second
//! agree. `/etc/hosts` is looked at before addresses are asked for.

mod bootstrap;
mod driver;
mod error;
mod exchange;
mod input;
mod interpret;
mod lookup;
mod message;
mod nameservers;
mod options;
mod service;
mod sight;
mod system;

pub use carom_core::resolver::{Kind, Question};
pub use error::{BootstrapError, DnsError, LookupError, Reason};
pub use input::{AnyResolver, resolver_for};
pub use options::{DnsOptions, Ipv6};

use crate::resolver::{Input, InputError, Publisher, Resolve, ServiceName};
use carom_core::resolver::Options;
use options::Nameservers;
use std::sync::Arc;
use system::{Files, LONGEST_NAME};

/// A resolver that asks DNS.
#[derive(Clone, Debug)]
pub struct Dns {
    options: Options,
    nameservers: Nameservers,
    /// It finds nameservers, and asks those it found.
    own: bool,
    files: Arc<Files>,
    port: u16,
    absolute: bool,
    ipv6: Ipv6,
    /// As it is called in errors.
    service: Arc<str>,
}

impl Dns {
    /// A resolver for a service, given as `[_service._proto.]name[:port]`. A dot at the end of the name rules out the system's
    /// search list.
    ///
    /// # Errors
    /// When it is no such name, or an option makes no sense.
    pub fn new(service: &str, options: DnsOptions) -> Result<Dns, InputError> {
        match service.parse()? {
            Input::Name(name) => Dns::named(service, name, options),
            Input::Address(..) => Err(InputError::new(service, "is an address, and not looked up: `Fixed` takes it")),
        }
    }

    fn named(input: &str, name: ServiceName, options: DnsOptions) -> Result<Dns, InputError> {
        let srv = options.srv.as_deref().map(ServiceName::parse_service).transpose()?;
        let service = name.service.or(srv);
        let port = name.port.unwrap_or_else(|| options.port_of(service.as_deref()));
        let DnsOptions { mut machine, nameservers, nameserver_port, ipv6, files, .. } = options;
        machine.service = service.map(Into::into);
        machine.domain = name.domain.into();
        machine.default_port = port;
        machine.validate().map_err(|problem| InputError::new(input, problem.to_string()))?;
        let service = match &machine.service {
            Some(service) => format!("{service}.{}", machine.domain).into(),
            None => Arc::clone(&machine.domain),
        };
        if service.len() > LONGEST_NAME {
            let problem =
                format!("with its service it has {} characters, a name at most {LONGEST_NAME}", service.len());
            return Err(InputError::new(input, problem));
        }
        let (files, absolute) = (Arc::new(files), name.absolute);
        let nameservers = nameservers.map_err(|problem| InputError::new(input, problem.to_string()))?;
        Ok(Dns { options: machine, nameservers, own: false, files, port: nameserver_port, absolute, ipv6, service })
    }

    /// What it looks up: the service and the domain.
    pub fn service(&self) -> &str {
        &self.service
    }
}

impl Resolve for Dns {
    async fn run(self, publisher: Publisher) {
        driver::Driver::run(self, publisher).await;
    }
}
