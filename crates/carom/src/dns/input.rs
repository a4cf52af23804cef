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
            let port = port.unwrap_or_else(|| options.port_of(options.srv.as_deref()));
            Ok(AnyResolver::Fixed(Fixed::new([SocketAddr::new(address, port)])))
        }
        Input::Name(name) => Dns::named(input, name, options).map(|dns| AnyResolver::Dns(Box::new(dns))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_443_for_https_unless_somebody_says_otherwise() {
        let (plain, https) = (DnsOptions::default(), DnsOptions::default().srv("_HTTPS._tcp"));
        let port = |input: &str, options: &DnsOptions| match resolver_for(input, options.clone()).unwrap() {
            AnyResolver::Fixed(fixed) => fixed.backends()[0].port(),
            AnyResolver::Dns(dns) => dns.options.default_port,
        };
        for name in ["10.0.0.1", "::1", "api.test"] {
            assert_eq!((port(name, &plain), port(name, &https)), (80, 443), "{name}");
            assert_eq!(port(name, &https.clone().default_port(80)), 80, "{name}");
        }
        assert_eq!((port("10.0.0.1:81", &https), port("api.test:81", &https)), (81, 81));
        assert_eq!((port("_https._tcp.api.test", &plain), port("_http._tcp.api.test", &https)), (443, 80));
    }
}
