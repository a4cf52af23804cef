//! From what a person typed to the resolver that fits.

use super::{Dns, DnsOptions};
use crate::resolver::{Fixed, Input, InputError, Publisher, Resolve};
use std::net::SocketAddr;

/// The resolver for an input: one backend for a literal address, DNS for a name.
#[derive(Clone, Debug)]
pub enum AnyResolver {
    /// The input was an address.
    Fixed(Fixed),
    /// The input was a name.
    Dns(Box<Dns>),
}

impl Resolve for AnyResolver {
    async fn run(self, publisher: Publisher) {
        match self {
            AnyResolver::Fixed(fixed) => fixed.run(publisher).await,
            AnyResolver::Dns(dns) => dns.run(publisher).await,
        }
    }
}

/// The resolver for `HOST[:PORT]`, `IPv4[:PORT]`, `[IPv6]:PORT` or a bare IPv6 address.
///
/// # Errors
/// When it is none of these, quoting the input and saying what is wrong with it.
///
/// ```
/// use carom::dns::{AnyResolver, DnsOptions, resolver_for};
///
/// let options = DnsOptions::default().default_port(443);
/// let Ok(AnyResolver::Fixed(fixed)) = resolver_for("[::1]", options.clone()) else { panic!() };
/// assert_eq!(fixed.backends()[0].to_string(), "[::1]:443");
///
/// assert!(matches!(resolver_for("api.example.com:8080", options.clone()), Ok(AnyResolver::Dns(_))));
///
/// let error = resolver_for("api..example.com", options).unwrap_err();
/// assert!(error.to_string().starts_with("`api..example.com`: a label is empty"));
/// ```
pub fn resolver_for(input: &str, options: DnsOptions) -> Result<AnyResolver, InputError> {
    match input.parse()? {
        Input::Address(address, port) => {
            let port = port.unwrap_or(options.machine.default_port);
            Ok(AnyResolver::Fixed(Fixed::new([SocketAddr::new(address, port)])))
        }
        Input::Name(name) => Dns::named(input, name, options).map(|dns| AnyResolver::Dns(Box::new(dns))),
    }
}
