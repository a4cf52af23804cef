//! The bootstrap: nameservers that are themselves known by name, found once for all who use that name.

use super::options::Nameservers;
use super::system::Files;
use super::{Dns, Ipv6};
use crate::resolver::{Resolution, Resolver, ResolverState, WeakResolver};
use carom_core::backend::Backend;
use carom_core::resolver::Options;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// What nameservers are offered as.
const SERVICE: &str = "_dns._udp";

/// Those in use.
static SHARED: Mutex<BTreeMap<Key, WeakResolver>> = Mutex::new(BTreeMap::new());

/// The name, and where the system's own nameservers are found.
type Key = (NamedServers, Arc<Files>, u16);

/// The name that nameservers are found under, and the port of those that no SRV record names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedServers {
    pub(crate) name: Arc<str>,
    pub(crate) port: u16,
}

/// A hold on the resolver that finds nameservers; it stops with the last one.
#[derive(Debug)]
pub(super) struct Bootstrap {
    pub(super) name: Arc<str>,
    pub(super) resolution: watch::Receiver<Resolution>,
    known: Arc<[Backend]>,
    _resolver: Resolver,
}

impl Bootstrap {
    /// Takes hold of the resolver for this name; the first to do so starts it, with its own options.
    pub(super) fn share(named: &NamedServers, dns: &Options, files: &Arc<Files>, port: u16, ipv6: Ipv6) -> Bootstrap {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|_, weak| weak.upgrade().is_some());
        let key = (named.clone(), Arc::clone(files), port);
        // One whose runtime has ended is of no use to others.
        let running = shared.get(&key).and_then(WeakResolver::upgrade).filter(|resolver| match resolver.state() {
            ResolverState::Starting | ResolverState::Running | ResolverState::Failed => true,
            ResolverState::Stopping | ResolverState::Stopped => false,
        });
        let resolver = running.unwrap_or_else(|| {
            let resolver = Resolver::start_on(&Handle::current(), finder(named, dns, files, port, ipv6));
            shared.insert(key, resolver.downgrade());
            resolver
        });
        let name = Arc::clone(&named.name);
        Bootstrap { name, resolution: resolver.subscribe(), known: Arc::new([]), _resolver: resolver }
    }

    /// Where they are.
    pub(super) fn nameservers(&mut self) -> Vec<SocketAddr> {
        self.known = Arc::clone(&self.resolution.borrow().backends);
        self.known.iter().map(Backend::socket_addr).collect()
    }

    /// Resolves when they are elsewhere than [`nameservers`](Bootstrap::nameservers) said last.
    pub(super) async fn changed(&mut self) {
        let known = Arc::clone(&self.known);
        let differs = |resolution: &Resolution| resolution.backends != known;
        if self.resolution.wait_for(differs).await.is_err() {
            // It has ended with its runtime: what was known stays.
            std::future::pending::<()>().await;
        }
    }
}

/// Finds nameservers through the system's, and then through those it has found.
fn finder(named: &NamedServers, dns: &Options, files: &Arc<Files>, port: u16, ipv6: Ipv6) -> Dns {
    let (service, domain) = (Some(SERVICE.into()), Arc::clone(&named.name));
    Dns {
        options: Options { service, domain, default_port: named.port, ..dns.clone() },
        nameservers: Nameservers::System,
        own: true,
        files: Arc::clone(files),
        port,
        absolute: false,
        ipv6,
        service: format!("{SERVICE}.{}", named.name).into(),
    }
}
