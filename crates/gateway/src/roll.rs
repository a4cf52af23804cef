//! The roll of clients: who is connected, from where, and whether one more may come.

use crate::mailbox::{Ending, Mailbox};
use crate::options::Limits;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
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
    /// There are as many from that address as there may be.
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
