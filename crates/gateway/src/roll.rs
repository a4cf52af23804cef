//! The roll of clients: who is connected, from where and with which key, and whether one more may come.
//!
//! Those who have not said who they are, strangers, are fewer than clients may be: whoever has no key cannot take all the room.

use crate::keys::{Identity, Keys, Known};
use crate::mailbox::{Ending, Mailbox};
use crate::options::Limits;
use carom_core::feed::interest::ClientId;
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
    clients: BTreeMap<u64, Present>,
    /// How many clients there are from each address, and how many of them are strangers.
    by_address: HashMap<IpAddr, (usize, usize)>,
    strangers: usize,
    next: u64,
    /// Why nobody may come any more.
    over: Option<Ending>,
}

/// A client that is here.
#[derive(Debug)]
struct Present {
    mailbox: Arc<Mailbox>,
    address: IpAddr,
    /// Its seat in the hub, once it has said who it is.
    seat: Option<ClientId>,
    /// With which key it says who it is; `None` of a stranger.
    known: Option<Known>,
}

/// What is known of a client, but nothing of its key.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Where it comes from.
    pub(crate) address: IpAddr,
    /// Who it is, if it has said so.
    pub(crate) identity: Option<Identity>,
    pub(crate) seat: Option<ClientId>,
}

/// Why somebody may not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many clients as there may be.
    Clients { limit: usize },
    /// There are as many from that address, or its network of 64 bits, as there may be.
    Address { limit: usize },
    /// There are as many strangers as there may be.
    Strangers { limit: usize },
    /// There are as many strangers from that address as there may be.
    StrangersOfAddress { limit: usize },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Clients { limit } => write!(f, "there are {limit} clients, and clients = {limit}"),
            Full::Address { limit } => {
                write!(f, "there are {limit} clients from this address, and clients_per_address = {limit}")
            }
            Full::Strangers { limit } => {
                write!(f, "{limit} clients have not authenticated, and strangers = {limit}")
            }
            Full::StrangersOfAddress { limit } => {
                let per_address = format_args!("strangers_per_address = {limit}");
                write!(f, "{limit} clients from this address have not authenticated, and {per_address}")
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
        let &Limits { clients, clients_per_address, strangers, strangers_per_address, .. } = limits;
        let mut state = self.lock();
        if state.clients.len() >= clients {
            return Err(Full::Clients { limit: clients });
        }
        if state.strangers >= strangers {
            return Err(Full::Strangers { limit: strangers });
        }
        let (from, address) = (address, one_of(address));
        let (here, strange) = state.by_address.get(&address).copied().unwrap_or_default();
        if here >= clients_per_address {
            return Err(Full::Address { limit: clients_per_address });
        }
        if strange >= strangers_per_address {
            return Err(Full::StrangersOfAddress { limit: strangers_per_address });
        }
        state.by_address.insert(address, (here + 1, strange + 1));
        state.strangers += 1;
        let id = state.next;
        state.next += 1;
        let present = Present { mailbox: Arc::clone(mailbox), address: from, seat: None, known: None };
        state.clients.insert(id, present);
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

    /// Everybody's mailbox, by number.
    pub(crate) fn mailboxes(&self) -> Vec<(u64, Arc<Mailbox>)> {
        self.lock().clients.iter().map(|(id, client)| (*id, Arc::clone(&client.mailbox))).collect()
    }

    /// What is known of a client that is here.
    pub(crate) fn standing(&self, id: u64) -> Option<Standing> {
        let state = self.lock();
        let Present { address, seat, known, .. } = state.clients.get(&id)?;
        let identity = known.as_ref().map(|known| known.identity.clone());
        Some(Standing { address: *address, identity, seat: *seat })
    }

    /// Everybody is to go, and nobody may come.
    pub(crate) fn end(&self, ending: Ending) {
        let wakers: Vec<Waker> = {
            let mut state = self.lock();
            state.over.get_or_insert(ending.clone());
            state.clients.values().filter_map(|client| client.mailbox.end(ending.clone())).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Those whose key is not one of these any more are to go.
    pub(crate) fn revoke(&self, keys: &Keys, ending: &Ending) {
        let wakers: Vec<Waker> = {
            let state = self.lock();
            let gone = state.clients.values().filter(|client| client.known.as_ref().is_some_and(|key| !keys.have(key)));
            gone.filter_map(|client| client.mailbox.end(ending.clone())).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Which client it is; no other ever has this number.
    pub(crate) fn number(&self) -> u64 {
        self.id
    }

    /// The address it comes from, as far as it tells people apart.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// It has said who it is, with this key.
    pub(crate) fn is(&self, key: Known) {
        let mut state = self.roll.lock();
        let before = state.clients.get_mut(&self.id).map(|client| client.known.replace(key));
        if let Some(None) = before {
            state.one_stranger_less(self.address);
        }
    }

    /// It has this seat in the hub from now on.
    pub(crate) fn takes(&self, seat: ClientId) {
        if let Some(client) = self.roll.lock().clients.get_mut(&self.id) {
            client.seat = Some(seat);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.roll.lock();
        if let Some(Present { known: None, .. }) = state.clients.remove(&self.id) {
            state.one_stranger_less(self.address);
        }
        if let Some((here, _)) = state.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                state.by_address.remove(&self.address);
            }
        }
    }
}

impl State {
    fn one_stranger_less(&mut self, address: IpAddr) {
        self.strangers -= 1;
        if let Some((_, strange)) = self.by_address.get_mut(&address) {
            *strange -= 1;
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
    use crate::keys::Identity;
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

    #[test]
    fn strangers_have_less_room_than_clients() {
        let limits = Limits { strangers: 3, strangers_per_address: 2, ..Limits::default() };
        let roll = Arc::new(Roll::default());
        let enter = |address: &str| roll.enter(&limits, address.parse().unwrap(), &mailbox());
        let key = || Known { digest: [1; 32], identity: Identity::new("b", "u") };
        let (first, second) = (enter("192.0.2.1").unwrap(), enter("192.0.2.1").unwrap());
        assert_eq!(enter("192.0.2.1").unwrap_err(), Full::StrangersOfAddress { limit: 2 });
        first.is(key());
        first.is(key());
        let third = enter("192.0.2.1").unwrap();
        let fourth = enter("192.0.2.2").unwrap();
        assert_eq!(enter("192.0.2.3").unwrap_err(), Full::Strangers { limit: 3 });
        second.is(key());
        assert!(enter("192.0.2.3").is_ok());
        drop((first, second, third, fourth));
        let state = roll.lock();
        assert_eq!((state.strangers, state.clients.len(), state.by_address.len()), (0, 0, 0));
    }

    #[test]
    fn whose_key_is_gone_is_to_go() {
        let roll = Arc::new(Roll::default());
        let [stays, goes, stranger] = [mailbox(), mailbox(), mailbox()];
        let enter = |mailbox| roll.enter(&Limits::default(), "192.0.2.1".parse().unwrap(), mailbox).unwrap();
        let entries = [&stays, &goes, &stranger].map(enter);
        let key = |user| Known { digest: [1; 32], identity: Identity::new("b", user) };
        entries[0].is(key("u"));
        entries[1].is(key("another"));
        let revoked = Ending::new(4401, "gone");
        roll.revoke(&Keys::in_memory([(Identity::new("b", "u"), [1; 32])]), &revoked);
        assert_eq!((stays.ending(), goes.ending(), stranger.ending()), (None, Some(revoked), None));
    }
}
