//! Addresses as Pulsar writes them: `pulsar://host:port`, several hosts, with or without TLS.

use carom::resolver::Input;
use std::net::SocketAddr;

const PORT: u16 = 6650;
const TLS_PORT: u16 = 6651;

/// An address that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{address}`: {problem}")]
#[non_exhaustive]
pub struct AddressError {
    /// What was given.
    pub address: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Where a cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) tls: bool,
    pub(crate) hosts: Vec<Authority>,
}

/// `host:port`: the name of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Authority {
    /// `host:port`, the host in lower case.
    pub(crate) name: String,
    /// The address, when the host is one.
    pub(crate) address: Option<SocketAddr>,
}

impl Service {
    pub(crate) fn parse(address: &str) -> Result<Service, AddressError> {
        let refuse = |problem: &str| AddressError { address: address.to_owned(), problem: problem.to_owned() };
        let (tls, hosts) = match address.split_once("://") {
            Some(("pulsar", hosts)) => (false, hosts),
            Some(("pulsar+ssl", hosts)) => (true, hosts),
            Some(_) | None => return Err(refuse("must begin with `pulsar://` or `pulsar+ssl://`")),
        };
        let port = if tls { TLS_PORT } else { PORT };
        let hosts = hosts.trim_end_matches('/').split(',');
        let hosts = hosts.map(|host| Authority::parse(host, port).map_err(|problem| refuse(&problem)));
        Ok(Service { tls, hosts: hosts.collect::<Result<_, _>>()? })
    }
}

impl Authority {
    /// The broker that an answer of another broker names, which is spoken to with TLS or without.
    pub(crate) fn of_url(url: &str, tls: bool) -> Result<Authority, AddressError> {
        let service = Service::parse(url)?;
        if service.tls != tls {
            let problem =
                if tls { "is without TLS, which the client asks for" } else { "is with TLS, and the client without" };
            return Err(AddressError { address: url.to_owned(), problem: problem.to_owned() });
        }
        match <[Authority; 1]>::try_from(service.hosts) {
            Ok([authority]) => Ok(authority),
            Err(_) => Err(AddressError { address: url.to_owned(), problem: "names several brokers".to_owned() }),
        }
    }

    fn parse(host: &str, default_port: u16) -> Result<Authority, String> {
        match host.parse::<Input>() {
            Ok(Input::Address(address, port)) => {
                let address = SocketAddr::new(address, port.unwrap_or(default_port));
                Ok(Authority { name: address.to_string(), address: Some(address) })
            }
            Ok(Input::Name(name)) => {
                let port = name.port.unwrap_or(default_port);
                Ok(Authority { name: format!("{}:{port}", name.domain), address: None })
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// How addresses begin.
pub(crate) fn scheme(tls: bool) -> &'static str {
    if tls { "pulsar+ssl" } else { "pulsar" }
}

/// How a broker behind a proxy is called: by its own name, and by the proxy's.
pub(crate) fn behind_proxy(broker: &str, proxy: &str) -> String {
    format!("{broker} via {proxy}")
}

/// The proxy in front of a broker that is called so, and the broker.
pub(crate) fn proxy_of(name: &str) -> Option<(&str, &str)> {
    name.split_once(" via ").map(|(broker, proxy)| (proxy, broker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_hosts_with_their_ports() {
        let service = Service::parse("pulsar://Broker-1.example.com,10.0.0.2:7000,[::1]/").unwrap();
        let names: Vec<_> = service.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!((service.tls, names), (false, vec!["broker-1.example.com:6650", "10.0.0.2:7000", "[::1]:6650"]));
        assert_eq!(Service::parse("pulsar+ssl://a").unwrap().hosts[0].name, "a:6651");
        for wrong in ["a:6650", "http://a", "pulsar://", "pulsar://a:0", "pulsar://a..b", "pulsar://a,,b"] {
            assert!(Service::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_brokers_address_names_one_broker_and_says_whether_with_tls() {
        assert!(Authority::of_url("pulsar://a,b", false).is_err());
        for (url, tls) in [("pulsar://a", false), ("pulsar+ssl://a", true)] {
            assert!(Authority::of_url(url, tls).is_ok(), "{url}");
            assert!(Authority::of_url(url, !tls).is_err(), "{url}");
        }
    }

    #[test]
    fn a_broker_behind_a_proxy_has_both_names() {
        assert_eq!(proxy_of(&behind_proxy("broker1:9999", "proxy:6650")), Some(("proxy:6650", "broker1:9999")));
        assert_eq!(proxy_of("broker1:9999"), None);
    }
}
