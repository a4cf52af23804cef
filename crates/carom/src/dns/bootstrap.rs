//! The bootstrap: nameservers that are themselves known by name, found once for all who use that name.

use super::options::Nameservers;
use super::system::Files;
use super::{Dns, Ipv6};
use crate::monitor::Monitor;
use crate::resolver::{Resolution, Resolver, ResolverState, WeakResolver};
use carom_core::backend::Backend;
use carom_core::resolver::Options;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// What nameservers are offered as.
const SERVICE: &str = "_dns._udp";

/// How long after its end one is started anew.
const RENEWAL: Duration = Duration::from_secs(1);

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
    key: Key,
    finder: Dns,
    /// Where it is seen.
    monitor: Monitor,
    /// Held, so that it runs.
    resolver: Resolver,
    /// It has ended: when another is started.
    renew_at: Option<Instant>,
}

impl Bootstrap {
    /// Takes hold of the resolver for this name; the first to do so starts it, with its own options.
    /// This monitor sees it, as those of all others do who hold it.
    pub(super) fn share(named: &NamedServers, finder: Dns, monitor: Monitor) -> Bootstrap {
        let key = (named.clone(), Arc::clone(&finder.files), finder.port);
        let resolver = running(&key, &finder, &monitor);
        let (name, resolution) = (Arc::clone(&named.name), resolver.subscribe());
        Bootstrap { name, resolution, known: Arc::new([]), key, finder, monitor, resolver, renew_at: None }
    }

    /// Where they are, or were when that was last known.
    pub(super) fn nameservers(&mut self) -> Vec<SocketAddr> {
        self.learn();
        self.known.iter().map(Backend::socket_addr).collect()
    }

    /// Resolves when they are elsewhere than [`nameservers`](Bootstrap::nameservers) or this said last. Cancelling it loses
    /// nothing.
    pub(super) async fn changed(&mut self) {
        loop {
            let known = Arc::clone(&self.known);
            let news = |resolution: &Resolution| match resolution.state {
                ResolverState::Stopped => true,
                _ => !resolution.backends.is_empty() && resolution.backends != known,
            };
            let ended = self.resolution.wait_for(news).await.map(|known| known.state == ResolverState::Stopped);
            if ended.unwrap_or(true) {
                self.renew().await;
            } else {
                return self.learn();
            }
        }
    }

    /// Takes hold of another resolver, since this one has ended with the runtime of whoever started it. Cancelled, it goes on
    /// where it was.
    pub(super) async fn renew(&mut self) {
        sleep_until(*self.renew_at.get_or_insert_with(|| Instant::now() + RENEWAL)).await;
        self.renew_at = None;
        let resolver = running(&self.key, &self.finder, &self.monitor);
        self.resolution = resolver.subscribe();
        self.resolver = resolver;
    }

    fn learn(&mut self) {
        let resolution = self.resolution.borrow();
        // One that has just been started anew knows nothing yet.
        if !resolution.backends.is_empty() {
            self.known = Arc::clone(&resolution.backends);
        }
    }
}

/// The resolver that runs for this key; if there is none, it is started here.
fn running(key: &Key, finder: &Dns, monitor: &Monitor) -> Resolver {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|_, weak| weak.upgrade().is_some());
    // One whose runtime has ended is of no use to others.
    let running = shared.get(key).and_then(WeakResolver::upgrade).filter(|resolver| match resolver.state() {
        ResolverState::Starting | ResolverState::Running | ResolverState::Failed => true,
        ResolverState::Stopping | ResolverState::Stopped => false,
    });
    match running {
        Some(resolver) => {
            resolver.seen_by(monitor);
            resolver
        }
        None => {
            let resolver = Resolver::start_in(&Handle::current(), monitor, finder.clone());
            shared.insert(key.clone(), resolver.downgrade());
            resolver
        }
    }
}

/// Finds nameservers through the system's, and then through those it has found.
pub(super) fn finder(named: &NamedServers, dns: &Options, files: &Arc<Files>, port: u16, ipv6: Ipv6) -> Dns {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolver::{Publisher, Resolve};
    use std::time::Duration;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    struct Told(mpsc::UnboundedReceiver<SocketAddr>);

    impl Resolve for Told {
        async fn run(mut self, publisher: Publisher) {
            while let Some(address) = self.0.recv().await {
                publisher.publish([Backend::fixed(address)]);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_once_even_if_nobody_looks_at_it() {
        let (tell, told) = mpsc::unbounded_channel();
        let resolver = Resolver::start(Told(told)).unwrap();
        let (files, options) = (Arc::new(Files::default()), Options::new("ns.test"));
        let named = NamedServers { name: "ns.test".into(), port: 53 };
        let finder = finder(&named, &options, &files, 53, Ipv6::Never);
        let (resolution, known) = (resolver.subscribe(), Arc::new([]));
        let key = (named.clone(), files, 53);
        let (name, monitor) = (named.name, Monitor::new());
        let mut bootstrap = Bootstrap { name, resolution, known, key, finder, monitor, resolver, renew_at: None };
        for last in 1..3 {
            tell.send(SocketAddr::from(([10, 0, 0, last], 53))).unwrap();
            bootstrap.changed().await;
            let again = timeout(Duration::from_secs(60), bootstrap.changed()).await;
            assert!(again.is_err(), "whoever waits in a loop would never rest");
        }
        assert_eq!(bootstrap.nameservers(), ["10.0.0.2:53".parse().unwrap()]);
    }
}
