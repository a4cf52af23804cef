//! A backend: one address that serves a service.
//!
//! Two backends are the same when name, address and port are; so a known name that moves to a new address is a new
//! backend, and the old one goes. Priority and weight (from SRV records) say how much it is used, not who it is: how
//! many connections it gets, which under light load is not how many claims.
//!
//! ```
//! use carom_core::backend::Backend;
//!
//! let one = Backend::fixed("10.0.0.1:80".parse().unwrap());
//! assert_eq!(one.name(), "10.0.0.1:80");
//! let moved = Backend::new("db-1.example.com", "10.0.0.2:80".parse().unwrap());
//! assert_ne!(one, moved);
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// One address that serves a service. Cheap to clone.
#[derive(Clone)]
pub struct Backend {
    name: Arc<str>,
    socket: SocketAddr,
    priority: u16,
    weight: u16,
}

impl Backend {
    /// A backend known by `name` (an SRV target or a domain) at an address.
    pub fn new(name: impl Into<Arc<str>>, address: SocketAddr) -> Backend {
        Backend { name: name.into(), socket: address, priority: 0, weight: 0 }
    }

    /// A backend known by its address alone; its name is `address:port`, without brackets even for IPv6.
    pub fn fixed(address: SocketAddr) -> Backend {
        Backend::new(plain(address), address)
    }

    /// The same backend with a priority and weight as SRV records have them: lower priority numbers are used first, and inside
    /// a priority weights are shares. [`plan`](crate::plan) says what exactly they do.
    ///
    /// What weights share is connections. With [`Pick::LeastLoaded`](crate::pick::Pick::LeastLoaded) a claim goes where the
    /// load is lower, so that under light load, when few of the connections are in use, traffic does not follow the weights.
    #[must_use]
    pub fn with_priority(mut self, priority: u16, weight: u16) -> Backend {
        self.priority = priority;
        self.weight = weight;
        self
    }

    /// The name it is known by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, if it is more than the address: `None` for a [`fixed`](Backend::fixed) one.
    pub fn own_name(&self) -> Option<&str> {
        let by_address = *self.name == *plain(self.socket) || *self.name == *self.socket.to_string();
        (!by_address).then_some(&self.name)
    }

    /// Its IP address.
    pub fn address(&self) -> IpAddr {
        self.socket.ip()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.socket.port()
    }

    /// Address and port together, as connecting wants them.
    pub fn socket_addr(&self) -> SocketAddr {
        self.socket
    }

    /// SRV priority; 0 when there is none.
    pub fn priority(&self) -> u16 {
        self.priority
    }

    /// SRV weight; 0 when there is none.
    pub fn weight(&self) -> u16 {
        self.weight
    }

    fn identity(&self) -> (&str, SocketAddr) {
        (&self.name, self.socket)
    }

    /// Its identity as a key of large maps: addresses lie in the map itself, and names are compared only where they are equal.
    pub(crate) fn key(&self) -> (SocketAddr, Arc<str>) {
        (self.socket, Arc::clone(&self.name))
    }
}

/// `10.0.0.1:80` or `::1:80`.
fn plain(address: SocketAddr) -> String {
    address.to_string().replace(['[', ']'], "")
}

/// Whether two lists are the same, in priority and weight too, which are no part of who a backend is.
pub fn are_the_same(some: &[Backend], others: &[Backend]) -> bool {
    let figures = |backend: &Backend| (backend.priority(), backend.weight());
    some == others && some.iter().map(figures).eq(others.iter().map(figures))
}

/// Known by its address alone, as [`Backend::fixed`].
impl From<SocketAddr> for Backend {
    fn from(address: SocketAddr) -> Backend {
        Backend::fixed(address)
    }
}

impl PartialEq for Backend {
    fn eq(&self, other: &Backend) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Backend {}

impl PartialOrd for Backend {
    fn partial_cmp(&self, other: &Backend) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Backend {
    fn cmp(&self, other: &Backend) -> std::cmp::Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl Hash for Backend {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.identity().hash(hasher);
    }
}

/// `10.0.0.1:80`, or `name (10.0.0.1:80)` when it has a name of its own.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.own_name() {
            None => write!(f, "{}", self.socket),
            Some(name) => write!(f, "{name} ({})", self.socket),
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backend({self})")
    }
}

/// The health of a backend, as it is shown and as it is used: one state for pools, sets, metrics and logs.
///
/// # States
///
/// ```text
///   unknown           first success                               --> healthy
///   healthy, unknown  attempts exhausted, no working connection   --> dead       success                           --> healthy
///   healthy           `consecutive` failed uses                   --> ejected    time over                         --> healthy
///   healthy, unknown  `unhealthy_threshold` failed active checks  --> unhealthy  `healthy_threshold` passed checks --> healthy
///   any               the resolver removes it                     --> removed
/// ```
///
/// If several apply, the order is dead, unhealthy, ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// No connection to it has been attempted, or none has succeeded yet.
    Unknown,
    /// The last evidence was good.
    Healthy,
    /// Its attempts to connect are exhausted. It is probed.
    Dead,
    /// Its active checks fail.
    Unhealthy,
    /// Its uses failed. It gets no traffic for a while.
    Ejected,
    /// The resolver does not name it any more. Its connections drain.
    Removed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_address_under_an_old_name_is_another_backend() {
        let old = Backend::new("db", "10.0.0.1:5432".parse().unwrap());
        let new = Backend::new("db", "10.0.0.2:5432".parse().unwrap());
        assert_ne!(old, new);
        assert_eq!(old, old.clone().with_priority(3, 4));
    }

    #[test]
    fn display_shows_the_name_only_when_it_adds_something() {
        let fixed = Backend::fixed("[::1]:80".parse().unwrap());
        assert_eq!((fixed.name(), fixed.own_name(), &*fixed.to_string()), ("::1:80", None, "[::1]:80"));
        assert_eq!(Backend::new("db", "10.0.0.1:5432".parse().unwrap()).to_string(), "db (10.0.0.1:5432)");
    }
}
