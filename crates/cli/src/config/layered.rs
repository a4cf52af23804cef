//! A value, and which layer it comes from: whoever finds that it does not work can say where to change it.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A value that some layer has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layered<T> {
    pub(crate) value: T,
    /// `--listen`, `carom.toml:3: gateway.listen`, `.env:2: WEBSOCKET_PORT`, `the default`.
    pub(crate) origin: String,
}

impl<T> Layered<T> {
    pub(crate) fn new(value: T, origin: impl Display) -> Layered<T> {
        Layered { value, origin: origin.to_string() }
    }
}

impl<T: Display> Display for Layered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.value, self.origin)
    }
}

/// Where to listen, as people write it: an IP address or `localhost`, and a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("`{}` is no address and port", text.escape_debug());
    text.parse()
        .ok()
        .or_else(|| {
            let (name, port) = text.rsplit_once(':')?;
            Some(SocketAddr::new(host(name)?, port.parse().ok()?))
        })
        .ok_or_else(wrong)
}

/// An IP address, with or without brackets, or `localhost`.
pub(super) fn host(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text).parse().ok()
}

/// An address of a host and a port that different layers may have set, with all of them as its origin.
pub(super) fn together(
    host: Option<&Layered<IpAddr>>,
    port: Option<&Layered<u16>>,
    default: SocketAddr,
) -> Layered<SocketAddr> {
    let value =
        SocketAddr::new(host.map_or(default.ip(), |host| host.value), port.map_or(default.port(), |port| port.value));
    let origins = [host.map(|host| &*host.origin), port.map(|port| &*port.origin)];
    let origins: Vec<&str> = origins.into_iter().flatten().collect();
    Layered::new(value, if origins.is_empty() { "the default".to_owned() } else { origins.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, expected) in [
            ("127.0.0.1:8765", "127.0.0.1:8765"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:1", "0.0.0.0:1"),
        ] {
            assert_eq!(address(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["", "8765", ":8765", "127.0.0.1", "gateway:80", "127.0.0.1:70000", "::1:80:x"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
