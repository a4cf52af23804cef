//! Backends that are known beforehand and never change.

use super::{Input, InputError, Publisher, Resolve};
use crate::Backend;
use std::net::SocketAddr;

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
    /// assert_eq!(error.to_string(), "`10.0.0.2:70000`: the port 70000 is above 65535");
    /// ```
    pub fn parse<T: AsRef<str>>(
        addresses: impl IntoIterator<Item = T>,
        default_port: u16,
    ) -> Result<Fixed, InputError> {
        let parse = |text: T| match text.as_ref().parse()? {
            Input::Address(address, port) => Ok(Backend::fixed(SocketAddr::new(address, port.unwrap_or(default_port)))),
            Input::Name(_) => Err(InputError::new(text.as_ref(), "is not an IP address")),
        };
        Ok(Fixed { backends: addresses.into_iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// What to call the list.
    pub(super) fn title(&self) -> Option<String> {
        let title = |backend: &Backend| backend.own_name().map_or_else(|| backend.to_string(), str::to_owned);
        match self.backends.as_slice() {
            [] => None,
            [one] => Some(title(one)),
            [first, others @ ..] => Some(format!("{} and {} more", title(first), others.len())),
        }
    }

    /// The list.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }
}

impl Resolve for Fixed {
    async fn run(self, publisher: Publisher) {
        if let Some(title) = self.title() {
            publisher.name(&title);
        }
        publisher.publish(self.backends);
    }
}
