//! Who serves a service: addresses that are written down, or a name that is looked up.

use crate::config::values::{FLAG, name};
use crate::failure::with_causes;
use carom::Policy;
use carom::dns::{AnyResolver, Dns, DnsOptions};
use carom::resolver::{Fixed, Input, InputError, ServiceName};
use carom_gateway::tables::{Table, TableError, Value};
use std::net::SocketAddr;

const RESOLVE: &str = "a name, such as \"_http._tcp.api.example.com\", an address, or a list of addresses";
const PORT: &str = "a port from 1 to 65535";
const NAMESERVERS: &str = "a list of IP addresses, or the name that nameservers are found under";
const NAMESERVER_PORT: u16 = 53;

/// The backends of a service, as they are configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Backends {
    Addresses(Vec<SocketAddr>),
    Name(Name),
}

/// A name, and how it is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// As it is written.
    input: String,
    /// Without service and port.
    pub(crate) domain: String,
    /// The port that is written with it.
    pub(crate) port: Option<u16>,
    /// The SRV service that is asked for, if any.
    pub(crate) srv: Option<String>,
    default_port: u16,
    nameservers: Nameservers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Nameservers {
    System,
    Addresses(Vec<SocketAddr>),
    At(String),
}

/// What names are taken for that do not say: their SRV service, and their port.
pub(super) struct Unsaid {
    pub(super) srv: Option<&'static str>,
    pub(super) port: Option<u16>,
}

/// What `resolve` may be.
enum Written {
    Addresses(Vec<String>),
    Name(String, ServiceName),
}

impl Backends {
    pub(super) fn take(table: &mut Table, unsaid: &Unsaid) -> Result<Backends, TableError> {
        let written = table.require("resolve", RESOLVE, written)?;
        let default_port = table.read("default_port", PORT, port)?;
        let srv = table.read("srv", FLAG, Value::flag)?;
        let nameservers = table.read("nameservers", NAMESERVERS, nameservers)?;
        let backends = match written {
            Written::Addresses(addresses) => {
                for (key, given) in [("srv", srv.is_some()), ("nameservers", nameservers.is_some())] {
                    if given {
                        return Err(table.wrong(key, "is for names, and addresses are not looked up"));
                    }
                }
                Backends::Addresses(fixed(table, &addresses, default_port.or(unsaid.port))?)
            }
            Written::Name(input, ServiceName { service, domain, port, .. }) => {
                if service.is_some() && srv == Some(false) {
                    return Err(table.wrong("srv", "resolve begins with a service; accepted: true, or a name alone"));
                }
                let unsaid_service = unsaid.srv.filter(|_| srv != Some(false)).map(str::to_owned);
                let srv = service.or(unsaid_service);
                // What has SRV records has its ports there; 0 is never used then.
                let known = default_port.or(port).or(unsaid.port).or(srv.is_some().then_some(80));
                let default_port = known.ok_or_else(|| no_port(table))?;
                let nameservers = nameservers.unwrap_or(Nameservers::System);
                Backends::Name(Name { input, domain, port, srv, default_port, nameservers })
            }
        };
        match backends.resolver(Policy::default()) {
            Ok(_) => Ok(backends),
            Err(error) => Err(table.wrong("resolve", format_args!("{error}; accepted: {RESOLVE}"))),
        }
    }

    /// Whoever finds them; questions get these attempts.
    pub(crate) fn resolver(&self, policy: Policy) -> Result<AnyResolver, InputError> {
        match self {
            Backends::Addresses(addresses) => Ok(AnyResolver::Fixed(Fixed::new(addresses.iter().copied()))),
            Backends::Name(name) => {
                let mut options = DnsOptions::default().recovery(policy).default_port(name.default_port);
                if let Some(srv) = &name.srv {
                    options = options.srv(srv);
                }
                options = match &name.nameservers {
                    Nameservers::System => options,
                    Nameservers::Addresses(addresses) => options.nameservers(addresses.iter().copied()),
                    Nameservers::At(name) => options.nameservers_at(name),
                };
                Ok(AnyResolver::Dns(Box::new(Dns::new(&name.input, options)?)))
            }
        }
    }

    /// Whether both are known by the same name, or neither by any.
    pub(super) fn have_the_name_of(&self, other: &Backends) -> bool {
        match (self, other) {
            (Backends::Addresses(_), Backends::Addresses(_)) => true,
            (Backends::Name(own), Backends::Name(other)) => own.domain == other.domain && own.port == other.port,
            (Backends::Addresses(_), Backends::Name(_)) | (Backends::Name(_), Backends::Addresses(_)) => false,
        }
    }

    /// For people.
    pub(crate) fn summary(&self) -> String {
        match self {
            Backends::Addresses(addresses) => {
                addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
            }
            Backends::Name(Name { input, .. }) => input.clone(),
        }
    }
}

fn written(value: Value) -> Result<Written, String> {
    let text = match value {
        Value::List(_) => {
            let addresses = value.texts()?;
            return if addresses.is_empty() {
                Err("nobody is named".to_owned())
            } else {
                Ok(Written::Addresses(addresses))
            };
        }
        value => name(value)?,
    };
    match text.parse::<Input>().map_err(|error| with_causes(&error))? {
        Input::Address(..) => Ok(Written::Addresses(vec![text])),
        Input::Name(name) => Ok(Written::Name(text, name)),
    }
}

fn fixed(table: &Table, addresses: &[String], port: Option<u16>) -> Result<Vec<SocketAddr>, TableError> {
    let wrong = |error: InputError| table.wrong("resolve", format_args!("{error}; accepted: {RESOLVE}"));
    let mut parsed = Vec::new();
    for text in addresses {
        let own = match text.parse::<Input>().map_err(wrong)? {
            Input::Address(address, own) => Some((address, own)),
            Input::Name(_) => None,
        };
        let Some((address, own)) = own else {
            let problem =
                format_args!("`{}` is no address, and a name stands alone; accepted: {RESOLVE}", text.escape_debug());
            return Err(table.wrong("resolve", problem));
        };
        let port = own.or(port).ok_or_else(|| no_port(table))?;
        if !parsed.contains(&SocketAddr::new(address, port)) {
            parsed.push(SocketAddr::new(address, port));
        }
    }
    Ok(parsed)
}

fn no_port(table: &Table) -> TableError {
    table.wrong("resolve", "nobody says which port; accepted: with a port, as in \"10.0.0.1:5432\", or default_port")
}

fn port(value: Value) -> Result<u16, String> {
    let port = value.whole()?;
    u16::try_from(port).ok().filter(|port| *port > 0).ok_or_else(|| format!("{port} is no port"))
}

fn nameservers(value: Value) -> Result<Nameservers, String> {
    let address = |text: &str| match text.parse::<Input>().map_err(|error| with_causes(&error))? {
        Input::Address(address, port) => Ok(Some(SocketAddr::new(address, port.unwrap_or(NAMESERVER_PORT)))),
        Input::Name(_) => Ok::<_, String>(None),
    };
    let texts = match value {
        Value::List(_) => value.texts()?,
        value => {
            let text = name(value)?;
            match address(&text)? {
                None => return Ok(Nameservers::At(text)),
                Some(_) => vec![text],
            }
        }
    };
    let no_address = |text: &str| format!("`{}` is no address, and a name stands alone", text.escape_debug());
    let addresses: Result<Vec<_>, _> =
        texts.iter().map(|text| address(text)?.ok_or_else(|| no_address(text))).collect();
    match addresses? {
        addresses if addresses.is_empty() => Err("nobody is named".to_owned()),
        addresses => Ok(Nameservers::Addresses(addresses)),
    }
}
