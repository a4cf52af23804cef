//! How DNS is asked: every option, with its default.

use super::bootstrap::NamedServers;
use super::system::Files;
use crate::resolver::{Input, InputError};
use carom_core::recovery::Recovery;
use carom_core::resolver::Options;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where nameservers listen.
const PORT: u16 = 53;
/// The service whose port is not 80, and its port.
const HTTPS: (&str, u16) = ("_https._tcp", 443);

/// How DNS is asked. Every option has a default.
#[derive(Clone, Debug)]
#[must_use]
pub struct DnsOptions {
    pub(super) machine: Options,
    pub(super) srv: Option<String>,
    pub(super) default_port: Option<u16>,
    pub(super) nameservers: Result<Nameservers, InputError>,
    pub(super) nameserver_port: u16,
    pub(super) ipv6: Ipv6,
    pub(super) files: Files,
}

/// Who is asked.
#[derive(Clone, Debug)]
pub(super) enum Nameservers {
    System,
    Given(Vec<SocketAddr>),
    Named(NamedServers),
}

/// Whether IPv6 addresses are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6 {
    /// When this host has an address that reaches further than the link.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// Never.
    Never,
}

impl Default for DnsOptions {
    fn default() -> DnsOptions {
        DnsOptions {
            // The domain comes with the name.
            machine: Options::new("name"),
            srv: None,
            default_port: None,
            nameservers: Ok(Nameservers::System),
            nameserver_port: PORT,
            ipv6: Ipv6::Auto,
            files: Files::default(),
        }
    }
}

impl DnsOptions {
    /// The SRV service, as `_http._tcp`, of names that do not begin with one. Default none.
    pub fn srv(mut self, service: impl Into<String>) -> DnsOptions {
        self.srv = Some(service.into());
        self
    }

    /// The port of backends when neither the name nor an SRV record says. Default 80, or 443 when the service is
    /// `_https._tcp`.
    pub fn default_port(mut self, port: u16) -> DnsOptions {
        self.default_port = Some(port);
        self
    }

    /// The port of backends that none is said of, for a service.
    pub(super) fn port_of(&self, service: Option<&str>) -> u16 {
        let https = service.is_some_and(|service| service.eq_ignore_ascii_case(HTTPS.0));
        self.default_port.unwrap_or(if https { HTTPS.1 } else { self.machine.default_port })
    }

    /// The nameservers to ask, the first one first. Default: the system's, with its search list for names without a dot at
    /// their end.
    pub fn nameservers(mut self, nameservers: impl IntoIterator<Item = SocketAddr>) -> DnsOptions {
        self.nameservers = Ok(Nameservers::Given(nameservers.into_iter().collect()));
        self
    }

    /// The name, `name[:port]`, that the nameservers to ask are found under: by its `_dns._udp` SRV records or its addresses,
    /// through the system's nameservers first and then through those found. All resolvers that name it share what is found;
    /// how it is found, with which attempts, timeouts and TTLs, is governed by the options of the first of them.
    pub fn nameservers_at(mut self, name: &str) -> DnsOptions {
        self.nameservers = named(name);
        self
    }

    /// The port of the system's nameservers. Default 53.
    pub fn nameserver_port(mut self, port: u16) -> DnsOptions {
        self.nameserver_port = port;
        self
    }

    /// Most questions under way at a time. Default 5.
    pub fn concurrency(mut self, concurrency: usize) -> DnsOptions {
        self.machine.concurrency = concurrency;
        self
    }

    /// What a shorter TTL is taken for; at least 1 ms. Default 1 s.
    pub fn min_ttl(mut self, min_ttl: Duration) -> DnsOptions {
        self.machine.min_ttl = min_ttl;
        self
    }

    /// What a longer TTL is taken for. Default 1 day.
    pub fn max_ttl(mut self, max_ttl: Duration) -> DnsOptions {
        self.machine.max_ttl = max_ttl;
        self
    }

    /// Whether IPv6 addresses are asked for. Default [`Ipv6::Auto`].
    pub fn ipv6(mut self, ipv6: Ipv6) -> DnsOptions {
        self.ipv6 = ipv6;
        self
    }

    /// Attempts, timeouts and delays of questions: the policies `dns` and `dns_srv`, or `default`. Also `spread`, by which asking
    /// again is delayed at most.
    pub fn recovery(mut self, recovery: impl Into<Recovery>) -> DnsOptions {
        self.machine.recovery = recovery.into();
        self
    }

    /// Where the system's nameservers are listed. Default `/etc/resolv.conf`.
    pub fn resolv_conf(mut self, path: impl Into<PathBuf>) -> DnsOptions {
        self.files.resolv_conf = path.into();
        self
    }

    /// Where the system keeps names of its own. Default `/etc/hosts`.
    pub fn hosts(mut self, path: impl Into<PathBuf>) -> DnsOptions {
        self.files.hosts = path.into();
        self
    }
}

fn named(input: &str) -> Result<Nameservers, InputError> {
    match input.parse()? {
        Input::Address(address, port) => Ok(Nameservers::Given(vec![SocketAddr::new(address, port.unwrap_or(PORT))])),
        Input::Name(name) if name.service.is_some() => {
            Err(InputError::new(input, "the name of nameservers comes without a service"))
        }
        Input::Name(name) => {
            Ok(Nameservers::Named(NamedServers { name: name.domain.into(), port: name.port.unwrap_or(PORT) }))
        }
    }
}
