//! The key: a name for a backend that is the same in every process and every run.

use crate::Backend;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use std::fmt;
use std::net::IpAddr;

/// A short name for a backend: base64 of the SHA-1 of its name, port and address, so that logs and dashboards of different
/// processes call it the same. It is no secret and no proof of anything.
///
/// ```
/// use carom::Backend;
/// use carom::resolver::BackendKey;
///
/// let backend = Backend::fixed("127.0.0.1:2020".parse().unwrap());
/// assert_eq!(BackendKey::of(&backend).to_string(), "xBut/f1D52k1TpDN/miW82qXw6k=");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendKey([u8; 20]);

impl BackendKey {
    /// The key of a backend. Priority and weight do not matter.
    pub fn of(backend: &Backend) -> BackendKey {
        let (name, port) = (backend.name(), backend.port());
        let text = match backend.address() {
            IpAddr::V4(address) => format!("{name}||{port}||{address}"),
            IpAddr::V6(address) => {
                let groups = address.segments().map(|group| format!("{group:x}")).join(":");
                format!("{name}||{port}||{groups}")
            }
        };
        BackendKey(Sha1::digest(text).into())
    }
}

/// 28 characters of base64.
impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, port, address and key, as recorded from cueball; those without a name are known by address alone.
    #[test]
    fn keys_are_those_that_cueball_gives() {
        let recorded = [
            ("", 2020, "127.0.0.1", "xBut/f1D52k1TpDN/miW82qXw6k="),
            ("1.moray.emy-10.joyent.us", 80, "172.27.10.218", "lLbminikNKjfy+iwDobYBuod7Hs="),
            ("1.moray.emy-10.joyent.us", 80, "172.27.10.219", "iJMaVRehJ2zKfiS55H/lUUFPb9o="),
            ("a.ok", 111, "1.2.3.4", "oTgm+LKy/rOflNkJsbMWDsgvlPc="),
            ("aaaa.ok", 111, "1234:abcd::1", "PqmR6xFFOMjrc3Y9DDz/X9vKNeI="),
            ("x.y", 1, "2001:DB8:0:0::1", "+TlWzvIiBZ7Mx1GevmKPIgTAzZ8="),
            ("", 111, "1234:abcd::1", "aKcPr4Au1v+Bd21UjRMzph7SLXs="),
            ("", 80, "127.0.0.1", "/X6QST5n5GWD9FDBmwEUQZKcT+Y="),
            ("", 81, "127.0.0.1", "5YXJkSUtN1pQ5GfRFjfNH7PyKdg="),
            ("", 5, "1.2.3.4", "0mK7Us1n3P98REq6bW0IeqocUFs="),
        ];
        for (name, port, address, key) in recorded {
            let socket = (address.parse::<IpAddr>().unwrap(), port).into();
            let backend = if name.is_empty() { Backend::fixed(socket) } else { Backend::new(name, socket) };
            assert_eq!(BackendKey::of(&backend).to_string(), key, "{backend}");
        }
    }
}
