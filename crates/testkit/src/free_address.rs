//! Addresses for programs under test to listen on.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// The port of the first address.
const FIRST_PORT: u16 = 20_000;

/// Returns a free loopback address that no other test process and no other call returns.
///
/// On Linux, which has all of 127.0.0.0/8 on the loopback interface, each process has an IP address of its own. Elsewhere the address is
/// a free port of 127.0.0.1, which another program may take before it is used.
///
/// # Panics
/// When there is no free port.
pub fn free_address() -> SocketAddr {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    if cfg!(target_os = "linux") {
        let [_, high, middle, low] = process::id().to_be_bytes();
        let port = FIRST_PORT + CALLS.fetch_add(1, Ordering::Relaxed);
        return (Ipv4Addr::new(127, 64 | high, middle, low), port).into();
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calls_return_two_addresses_that_can_be_bound() {
        let listeners = [free_address(), free_address()].map(|address| TcpListener::bind(address).unwrap());
        let [one, two] = listeners.map(|listener| listener.local_addr().unwrap());
        assert_ne!(one, two);
    }
}
