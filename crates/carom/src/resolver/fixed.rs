//! Backends that are known beforehand and never change.

use super::{Publisher, Resolve};
use crate::Backend;
use std::net::{IpAddr, SocketAddr};

/// A resolver that publishes a fixed list, once.
///
/// ```
/// use carom::resolver::Fixed;
/// use std::net::SocketAddr;
///
/// let addresses: [SocketAddr; 2] = ["10.0.0.1:80".parse().unwrap(), "10.0.0.2:80".parse().unwrap()];
/// let resolver = Fixed::new(addresses);
/// assert_eq!(resolver.backends().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Fixed {
    backends: Vec<Backend>,
}

impl Fixed {
    /// A resolver for these. Duplicates count once.
    pub fn new(backends: impl IntoIterator<Item = impl Into<Backend>>) -> Fixed {
        Fixed { backends: backends.into_iter().map(Into::into).collect() }
    }

    /// A resolver for addresses as people write them: `10.0.0.1:80`, `[::1]:80`, or without a port, which is then the
    /// default one.
    ///
    /// # Errors
    /// The first entry that is no such address.
    ///
    /// ```
    /// use carom::resolver::Fixed;
    ///
    /// let resolver = Fixed::parse(["10.0.0.1", "[::1]:8080"], 80).unwrap();
    /// assert_eq!(resolver.backends()[0].to_string(), "10.0.0.1:80");
    ///
    /// let error = Fixed::parse(["10.0.0.1:80", "10.0.0.2:70000"], 80).unwrap_err();
    /// assert_eq!(error.to_string(), "`10.0.0.2:70000` (entry 2): the port 70000 is above 65535");
    /// ```
    pub fn parse<T: AsRef<str>>(
        addresses: impl IntoIterator<Item = T>,
        default_port: u16,
    ) -> Result<Fixed, FixedError> {
        let parse = |(i, text): (usize, T)| {
            let text = text.as_ref();
            let refuse = |problem: String| FixedError { entry: text.to_owned(), position: i + 1, problem };
            address(text, default_port).map(Backend::fixed).map_err(refuse)
        };
        let backends = addresses.into_iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        Ok(Fixed { backends })
    }

    /// The list.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }
}

impl Resolve for Fixed {
    async fn run(self, publisher: Publisher) {
        publisher.publish(self.backends);
    }
}

/// An entry that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{entry}` (entry {position}): {problem}")]
pub struct FixedError {
    entry: String,
    position: usize,
    problem: String,
}

/// An address with or without a port.
fn address(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, default_port));
    }
    let (host, port) = split_port(text)?;
    let address = host.parse().map_err(|_| format!("`{host}` is not an IP address"))?;
    Ok(SocketAddr::new(address, port.unwrap_or(default_port)))
}

/// The host and the port of `host`, `host:port`, `[host]` or `[host]:port`.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(format!("`{after}` after the bracket is not a port")),
            }
        }
        None => match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address with a port is written in brackets, as [::1]:80".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    Ok((host, port.map(parse_port).transpose()?))
}

pub(crate) fn parse_port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Err("the port is missing after the colon".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the port `{text}` is not a number"));
    }
    let digits = text.trim_start_matches('0');
    match digits.parse() {
        Ok(port) => Ok(port),
        Err(_) if digits.is_empty() => Err("the port 0 cannot be connected to".to_owned()),
        Err(_) => Err(format!("the port {text} is above 65535")),
    }
}
