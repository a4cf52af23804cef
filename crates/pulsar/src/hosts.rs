//! Hosts and their addresses: those that a cluster is reached at, followed; and one broker's, when it is needed.

use crate::address::Authority;
use crate::error::Error;
use carom::dns::{DnsOptions, resolver_for};
use carom::resolver::{Publisher, Resolve, Resolver, ResolverState};
use carom::{Backend, Monitor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, watch};

/// Follows the addresses of several hosts. Each backend is called by its host and port.
pub(crate) struct Hosts {
    pub(crate) hosts: Vec<Authority>,
    pub(crate) dns: DnsOptions,
    /// Sees those that follow each of the hosts.
    pub(crate) monitor: Monitor,
    /// Notified of every change of the addresses.
    pub(crate) new_addresses: watch::Sender<()>,
}

impl Resolve for Hosts {
    async fn run(self, publisher: Publisher) {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        publisher.name(&names.join(","));
        let mut fixed = Vec::new();
        let mut followed = Vec::new();
        for host in self.hosts {
            match host.address {
                Some(address) => fixed.push(Backend::new(host.name, address)),
                None => match started(&host, &self.dns, &self.monitor) {
                    Ok(resolver) => followed.push((host, resolver)),
                    Err(error) => return publisher.fail(error),
                },
            }
        }
        let mut receivers: Vec<_> = followed.iter().map(|(_, resolver)| resolver.subscribe()).collect();
        let mut published = Vec::new();
        loop {
            let mut known = fixed.clone();
            let mut trouble = None;
            for ((host, _), receiver) in followed.iter().zip(&mut receivers) {
                let resolution = receiver.borrow_and_update();
                known.extend(resolution.backends.iter().map(|found| Backend::new(&*host.name, found.socket_addr())));
                trouble = trouble.or_else(|| resolution.last_error.clone());
            }
            // A host that cannot be found is no reason to forget the others; without any there is nothing to say yet.
            match trouble {
                _ if !known.is_empty() => {
                    publisher.publish(known.iter().cloned());
                    if published != known {
                        self.new_addresses.send_replace(());
                        published = known;
                    }
                }
                Some(error) => publisher.fail(error.to_string()),
                None => {}
            }
            if receivers.is_empty() {
                return;
            }
            any_changed(&mut receivers).await;
        }
    }
}

/// Finds the addresses of brokers that are known by name. Whoever asks for one that is being looked for waits for the same answer.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    under_way: Mutex<HashMap<String, Weak<Found>>>,
}

type Found = OnceCell<Result<Vec<Backend>, Error>>;

impl Addresses {
    /// The addresses of one broker, always in the same order. Cancel safe: whoever waits as well goes on.
    pub(crate) async fn of(
        &self,
        broker: &Authority,
        dns: &DnsOptions,
        monitor: &Monitor,
    ) -> Result<Vec<Backend>, Error> {
        if let Some(address) = broker.address {
            return Ok(vec![Backend::new(broker.name.as_str(), address)]);
        }
        let found = self.join(&broker.name);
        found.get_or_init(|| resolve(broker, dns, monitor)).await.clone()
    }

    /// What others are waiting for, if there are any. It is gone with the last of them, so that no answer gets old.
    fn join(&self, name: &str) -> Arc<Found> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = under_way.get(name).and_then(Weak::upgrade) {
            return found;
        }
        under_way.retain(|_, found| found.strong_count() > 0);
        let found = Arc::new(Found::new());
        under_way.insert(name.to_owned(), Arc::downgrade(&found));
        found
    }
}

async fn resolve(broker: &Authority, dns: &DnsOptions, monitor: &Monitor) -> Result<Vec<Backend>, Error> {
    let refuse = |source| Error::Unresolved { host: broker.name.clone(), source };
    let resolver = started(broker, dns, monitor).map_err(|error| refuse(Some(Arc::from(error))))?;
    let settled = |state| matches!(state, ResolverState::Running | ResolverState::Failed);
    let resolution = resolver.wait_until(|known| settled(known.state)).await.map_err(|_| refuse(None))?;
    let mut found: Vec<Backend> =
        resolution.backends.iter().map(|found| Backend::new(broker.name.as_str(), found.socket_addr())).collect();
    if found.is_empty() {
        return Err(refuse(resolution.last_error));
    }
    found.sort();
    Ok(found)
}

fn started(
    host: &Authority,
    dns: &DnsOptions,
    monitor: &Monitor,
) -> Result<Resolver, Box<dyn std::error::Error + Send + Sync>> {
    let resolver = resolver_for(&host.name, dns.clone())?;
    Ok(Resolver::start_in(&Handle::try_current()?, monitor, resolver))
}

async fn any_changed<T>(receivers: &mut [tokio::sync::watch::Receiver<T>]) {
    let mut changes: Vec<_> = receivers.iter_mut().map(|receiver| Box::pin(receiver.changed())).collect();
    std::future::poll_fn(|context| {
        let ready = changes.iter_mut().any(|change| change.as_mut().poll(context).is_ready());
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
