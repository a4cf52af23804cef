//! Hosts: the names of the targets, and the lookups of their addresses.

use super::lookup::{Found, Outcome, State};
use super::publish::News;
use super::question::{Kind, Question, Target};
use super::{LookupId, Machine, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A name that has addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) aaaa: LookupId,
    pub(super) a: LookupId,
}

/// What came along with an SRV answer.
pub(super) struct Along<'a> {
    pub(super) additional: &'a [(Arc<str>, IpAddr)],
    /// There was room for everything.
    pub(super) whole: bool,
    pub(super) ttl: Duration,
}

impl Machine {
    /// The domain's own addresses are the backends.
    pub(super) fn use_domain(&mut self) {
        self.source = Source::Domain;
        let (name, port) = (Arc::clone(&self.options.domain), self.options.default_port);
        let nothing = Along { additional: &[], whole: false, ttl: Duration::ZERO };
        self.use_targets(vec![Target { priority: 0, name, port, weight: 0 }], &nothing);
    }

    /// The addresses of these targets are the backends; some came along.
    pub(super) fn use_targets(&mut self, targets: Vec<Target>, along: &Along<'_>) {
        if self.targets != targets {
            self.targets = targets;
            self.news.raise(News::Some);
        }
        let names: BTreeSet<_> = self.targets.iter().map(|target| Arc::clone(&target.name)).collect();
        let gone: Vec<_> = self.hosts.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            self.remove_host(&name);
        }
        let mut given: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
        for (name, address) in along.additional.iter().filter(|(_, address)| self.options.ipv6 || address.is_ipv4()) {
            given.entry(name).or_default().push(*address);
        }
        for name in names {
            let host = self.host(&name);
            match given.remove(&*name) {
                Some(addresses) => self.take_given(host, addresses, along),
                None => self.ask_for(host),
            }
        }
    }

    /// Addresses that came along do so no more, for now: they are looked after like any others.
    pub(super) fn ask_for_given(&mut self) {
        for host in self.hosts.values().copied().collect::<Vec<_>>() {
            self.ask_for(host);
        }
    }

    /// "No data" for one family is an answer, not trouble, when the other family answered last time.
    pub(super) fn prune(&mut self, name: &str) {
        let Some(&Host { aaaa, a }) = self.hosts.get(name) else { return };
        for (one, other) in [(aaaa, a), (a, aaaa)] {
            let other = self.lookup(other);
            let other_answered = other.outcome == Outcome::Good && !other.addresses().is_empty();
            let lookup = self.lookup(one);
            if other_answered && lookup.outcome == (Outcome::Nothing { exists: true }) && lookup.found.is_some() {
                lookup.forget();
                self.news.raise(News::Some);
            }
        }
    }

    fn host(&mut self, name: &Arc<str>) -> Host {
        if let Some(host) = self.hosts.get(name) {
            return *host;
        }
        let aaaa = self.add_lookup(Question { name: Arc::clone(name), kind: Kind::Aaaa });
        let a = self.add_lookup(Question { name: Arc::clone(name), kind: Kind::A });
        let host = Host { aaaa, a };
        self.hosts.insert(Arc::clone(name), host);
        host
    }

    fn remove_host(&mut self, name: &str) {
        let Some(Host { aaaa, a }) = self.hosts.remove(name) else { return };
        for id in [aaaa, a] {
            self.turn_off(id);
            self.lookups.remove(&id);
        }
        self.news.raise(News::Some);
    }

    /// What came along with the SRV answer nobody asks for. What did not is not there, or there was no room for it.
    fn take_given(&mut self, host: Host, addresses: Vec<IpAddr>, along: &Along<'_>) {
        let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(IpAddr::is_ipv4);
        for (id, useful, mut addresses) in [(host.aaaa, self.options.ipv6, v6), (host.a, true, v4)] {
            if addresses.is_empty() && useful && !along.whole {
                self.ask(id);
                continue;
            }
            self.turn_off(id);
            addresses.sort_unstable();
            addresses.dedup();
            let (ttl, lookup) = (along.ttl, self.lookup(id));
            let news =
                if addresses.is_empty() { lookup.reset() } else { lookup.succeed(Found::Addresses(addresses), ttl) };
            if news {
                self.news.raise(News::Some);
            }
        }
    }

    /// Makes sure that a host's addresses are asked for, now that they did not come along.
    fn ask_for(&mut self, host: Host) {
        if self.options.ipv6 {
            self.ask(host.aaaa);
        }
        self.ask(host.a);
    }

    fn ask(&mut self, id: LookupId) {
        if self.lookup(id).state == State::Off {
            self.want(id);
        }
    }
}
