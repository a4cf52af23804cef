//! Nameservers as they are typed: addresses, or one name that stands for all of them.

use crate::failure::Failure;
use carom::resolver::Input;
use std::net::SocketAddr;

const PORT: u16 = 53;

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nameservers {
    At(Vec<SocketAddr>),
    Named(String),
}

impl Nameservers {
    /// What all occurrences of `--resolvers` mean together; `None` where there is none.
    pub(crate) fn parse(given: &[String]) -> Result<Option<Nameservers>, Failure> {
        if given.is_empty() {
            return Ok(None);
        }
        let (mut addresses, mut names) = (Vec::new(), Vec::new());
        for one in listed(given) {
            match one.parse()? {
                Input::Address(address, port) => addresses.push(SocketAddr::new(address, port.unwrap_or(PORT))),
                Input::Name(_) => names.push(one),
            }
        }
        match (&names[..], &addresses[..]) {
            ([], []) => Err(Failure::Usage("--resolvers names nobody".to_owned())),
            ([], _) => Ok(Some(Nameservers::At(addresses))),
            ([name], []) => Ok(Some(Nameservers::Named((*name).to_owned()))),
            ([name, ..], _) => Err(Failure::Usage(format!(
                "`{name}` in --resolvers: a name there stands for all nameservers, and stands alone"
            ))),
        }
    }
}

/// One by one, as they were typed.
pub(crate) fn listed(given: &[String]) -> impl Iterator<Item = &str> {
    given.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|one| !one.is_empty())
}
