//! What `carom up -c FILE` means: everything that the file lists, checked as far as that goes without running it.

use crate::config::{Admin, Bus, Config, Environment, Layered, Service};
use crate::failure::{Failure, with_causes};
use crate::gateway;
use std::net::SocketAddr;
use std::path::Path;

/// What is to be run.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) admin: Option<Admin>,
    /// Each with where it is said where it listens.
    pub(crate) services: Vec<Layered<Service>>,
    pub(crate) gateway: Option<gateway::Request>,
}

impl Request {
    pub(crate) fn read(file: &Path) -> Result<Request, Failure> {
        let environment = Environment::read()?;
        let Config { admin, services, gateway, has_gateway, feeds } = Config::read(Some(file), &environment)?;
        if services.is_empty() && !has_gateway {
            let problem = "lists nothing to run; accepted: at least one [[service]], or a [gateway]";
            return Err(Failure::Input(format!("{}: {problem}", file.display())));
        }
        let gateway = if has_gateway {
            environment.tell_unused(&gateway.bus.value);
            Some(gateway::Request::of(gateway, feeds)?)
        } else {
            None
        };
        let request = Request { admin, services, gateway };
        request.check_addresses()?;
        if let Some((chain, key)) = request.gateway.as_ref().and_then(|gateway| gateway.gateway.tls.as_ref()) {
            let of_no_use = |error| format!("{}: gateway.tls_certificate: {}", file.display(), with_causes(&error));
            carom_gateway::check_certificate(chain, key).map_err(|error| Failure::Input(of_no_use(error)))?;
        }
        Ok(request)
    }

    /// How much it is, for people.
    pub(crate) fn amount(&self) -> String {
        amount(self.services.len(), self.gateway.is_some().then_some("the gateway"))
    }

    /// Everybody listens somewhere else, as far as addresses are chosen here.
    fn check_addresses(&self) -> Result<(), Failure> {
        let mut taken: Vec<(SocketAddr, &str)> = Vec::new();
        let admin = self.admin.iter().map(|admin| (admin.listen.value, &*admin.listen.origin));
        let services = self.services.iter().map(|service| (service.value.listen, &*service.origin));
        let gateway =
            self.gateway.iter().map(|gateway| (gateway.gateway.listen.value, &*gateway.gateway.listen.origin));
        let bus = self.gateway.iter().filter_map(|gateway| match &gateway.gateway.bus.value {
            Bus::ZeroMq(zeromq) => Some((zeromq.listen.value, &*zeromq.listen.origin)),
            Bus::Memory | Bus::Nats(_) => None,
        });
        for (listen, origin) in admin.chain(services).chain(gateway).chain(bus) {
            if let Some((_, other)) = taken.iter().find(|(taken, _)| overlap(*taken, listen)) {
                let problem = format!("{listen} is taken, at {other}; accepted: an address that nobody else has");
                return Err(Failure::Input(format!("{origin}: {problem}")));
            }
            taken.push((listen, origin));
        }
        Ok(())
    }
}

/// So many services, perhaps with a gateway, for people.
pub(super) fn amount(services: usize, gateway: Option<&str>) -> String {
    let services = match services {
        0 => None,
        1 => Some("1 service".to_owned()),
        many => Some(format!("{many} services")),
    };
    let gateway = gateway.map(str::to_owned);
    [services, gateway].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Whether nobody could listen on both.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && same_ip
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_machine_are_each_of_them() {
        let overlap = |one: &str, other: &str| overlap(one.parse().unwrap(), other.parse().unwrap());
        assert!(overlap("127.0.0.1:80", "127.0.0.1:80"));
        assert!(overlap("127.0.0.1:80", "0.0.0.0:80") && overlap("0.0.0.0:80", "127.0.0.1:80"));
        assert!(!overlap("127.0.0.1:80", "127.0.0.2:80") && !overlap("127.0.0.1:80", "127.0.0.1:81"));
        assert!(!overlap("127.0.0.1:0", "127.0.0.1:0"), "the system chooses");
        assert!(!overlap("0.0.0.0:80", "[::1]:80"));
    }
}
