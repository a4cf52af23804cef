//! Backends that are known beforehand and never change.

use super::{Publisher, Resolve};
use crate::Backend;

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
