//! The roll of clients: who is connected, from where, and whether one more may come.

use crate::mailbox::{Ending, Mailbox};
use crate::options::Limits;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Roll {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clients: BTreeMap<u64, Arc<Mailbox>>,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
    /// Why nobody may come any more.
    over: Option<Ending>,
}

/// Why somebody may not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many clients as there may be.
    Clients { limit: usize },
    /// There are as many from that address, or its network of 64 bits, as there may be.
    Address { limit: usize },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Clients { limit } => write!(f, "there are {limit} clients, and clients = {limit}"),
            Full::Address { limit } => {
                write!(f, "there are {limit} clients from this address, and clients_per_address = {limit}")
            }
        }
    }
}

/// A client's place on the roll; dropped with the client.
#[derive(Debug)]
pub(crate) struct Entry {
    roll: Arc<Roll>,
    id: u64,
    address: IpAddr,
}

impl Roll {
    /// A client comes from this address. When the gateway is stopping, it is told so by its mailbox.
    pub(crate) fn enter(
        self: &Arc<Roll>,
        limits: &Limits,
        address: IpAddr,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Entry, Full> {
        let &Limits { clients, clients_per_address, .. } = limits;
        let mut state = self.lock();
        if state.clients.len() >= clients {
            return Err(Full::Clients { limit: clients });
        }
        let address = one_of(address);
        let here = state.by_address.entry(address).or_default();
        if *here >= clients_per_address {
            return Err(Full::Address { limit: clients_per_address });
        }
        *here += 1;
        let id = state.next;
        state.next += 1;
        state.clients.insert(id, Arc::clone(mailbox));
        if let Some(ending) = state.over.clone() {
            // Nobody waits for it yet.
            let _ = mailbox.end(ending);
        }
        Ok(Entry { roll: Arc::clone(self), id, address })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().clients.len()
    }

    /// Everybody is to go, and nobody may come.
    pub(crate) fn end(&self, ending: Ending) {
        let wakers: Vec<Waker> = {
            let mut state = self.lock();
            state.over.get_or_insert(ending.clone());
            state.clients.values().filter_map(|mailbox| mailbox.end(ending.clone())).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.roll.lock();
        let _mailbox = state.clients.remove(&self.id);
        if let Some(here) = state.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                state.by_address.remove(&self.address);
            }
        }
    }
}

/// An address, as far as it tells people apart: of IPv6 each has a whole network of 64 bits.
fn one_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carom_core::feed::outbox::Options;

    fn mailbox() -> Arc<Mailbox> {
        Arc::new(Mailbox::new(Options::default()).unwrap())
    }

    #[test]
    fn networks_of_one_person_are_one_address() {
        let (roll, limits) = (Arc::new(Roll::default()), Limits { clients_per_address: 1, ..Limits::default() });
        let enter = |address: &str| roll.enter(&limits, address.parse().unwrap(), &mailbox());
        let first = enter("2001:db8::1").unwrap();
        assert_eq!(enter("2001:db8::ffff:1").unwrap_err(), Full::Address { limit: 1 });
        let _other = enter("2001:db8:0:1::1").unwrap();
        let _old = enter("192.0.2.1").unwrap();
        assert_eq!(enter("::ffff:192.0.2.1").unwrap_err(), Full::Address { limit: 1 });
        drop(first);
        assert!(enter("2001:db8::2").is_ok());
        assert_eq!(roll.len(), 2);
    }

    #[test]
    fn whoever_comes_when_it_is_over_is_told_so() {
        let (roll, over) = (Arc::new(Roll::default()), Ending::new(1001, "over"));
        let (early, late) = (mailbox(), mailbox());
        let address = "192.0.2.1".parse().unwrap();
        let _early = roll.enter(&Limits::default(), address, &early).unwrap();
        roll.end(over.clone());
        let _late = roll.enter(&Limits::default(), address, &late).unwrap();
        assert_eq!((early.ending(), late.ending()), (Some(over.clone()), Some(over)));
    }
}
