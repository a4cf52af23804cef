//! What is true, and how nameservers answer for it.

use super::setting::{DOMAIN, Setting, one_of};
use carom_core::backend::Backend;
use carom_core::random::Random;
use carom_core::resolver::{Answer, Kind, Options, Question, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A backend with everything that is said of it.
pub(crate) type Figures = (Arc<str>, SocketAddr, u16, u16);

pub(crate) fn figures(backend: &Backend) -> Figures {
    (backend.name().into(), backend.socket_addr(), backend.priority(), backend.weight())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Offered,
    /// There are no such records; the name is there or not.
    Missing {
        exists: bool,
    },
    NotOffered,
}

/// How nameservers treat a kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fine,
    Silent,
    Fails,
    Refuses,
    NotImplemented,
    NoSuchName,
    NoData,
    /// Any of them, each time anew.
    Mixed,
}

const BAD: [Weather; 6] =
    [Weather::Silent, Weather::Fails, Weather::Refuses, Weather::NotImplemented, Weather::NoSuchName, Weather::NoData];

/// Which addresses come along with SRV records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    None,
    All,
    /// Those of some targets, each time others.
    Some,
    /// Some of all, each time others: a section that has been cut off.
    Cut,
    /// Those of the same targets each time.
    Odd,
}

#[derive(Debug)]
pub(crate) struct Zone {
    has_service: bool,
    default_port: u16,
    names: Vec<Arc<str>>,
    service: Service,
    targets: Vec<Target>,
    addresses: BTreeMap<Arc<str>, BTreeSet<IpAddr>>,
    along: Along,
    longest_ttl: u64,
    ttls: BTreeMap<Kind, u64>,
    negative_ttl: Option<u64>,
    weather: BTreeMap<Kind, Weather>,
}

impl Zone {
    pub(crate) fn new(setting: &Setting, random: &mut Random) -> Zone {
        let numbered = (1..setting.names).map(|number| format!("h{number}").into());
        let mut zone = Zone {
            has_service: setting.options.service.is_some(),
            default_port: setting.options.default_port,
            names: std::iter::once(DOMAIN.into()).chain(numbered).collect(),
            service: Service::Offered,
            targets: Vec::new(),
            addresses: BTreeMap::new(),
            along: Along::None,
            longest_ttl: setting.longest_ttl,
            ttls: BTreeMap::new(),
            negative_ttl: None,
            weather: BTreeMap::new(),
        };
        for _ in 0..20 {
            zone.change(setting, random);
        }
        zone.turn_weather(setting, random);
        zone
    }

    /// Something becomes otherwise.
    pub(crate) fn change(&mut self, setting: &Setting, random: &mut Random) {
        match random.below(12) {
            0..=2 => self.add_target(random),
            3 if !self.targets.is_empty() => drop(self.targets.remove(random.below(self.targets.len()))),
            4 if !self.targets.is_empty() => {
                let target = random.below(self.targets.len());
                (self.targets[target].priority, self.targets[target].weight) = priority(random);
            }
            5 => {
                let services = [
                    Service::Offered,
                    Service::Offered,
                    Service::Missing { exists: true },
                    Service::Missing { exists: false },
                    Service::NotOffered,
                ];
                self.service = *one_of(random, &services);
            }
            6 => self.along = *one_of(random, &[Along::None, Along::All, Along::Some, Along::Cut, Along::Odd]),
            7 => {
                for kind in [Kind::Srv, Kind::Aaaa, Kind::A] {
                    self.ttls.insert(kind, ttl(setting, random));
                }
                self.negative_ttl = random.chance(0.5).then(|| ttl(setting, random));
            }
            8 => {
                let name = one_of(random, &self.names);
                self.addresses.remove(name);
            }
            _ => {
                let name = one_of(random, &self.names).clone();
                let addresses = self.addresses.entry(name).or_default();
                if random.chance(0.4) {
                    addresses.pop_first();
                } else {
                    let ipv6 = random.chance(0.5);
                    addresses.insert(address(random, ipv6));
                }
            }
        }
    }

    pub(crate) fn turn_weather(&mut self, setting: &Setting, random: &mut Random) {
        for kind in [Kind::Srv, Kind::Aaaa, Kind::A] {
            let bad = if random.chance(0.3) { Weather::Mixed } else { *one_of(random, &BAD) };
            let weather = if random.chance(setting.bad_weather) { bad } else { Weather::Fine };
            self.weather.insert(kind, weather);
        }
    }

    /// Nameservers work, and every name that matters has an address that is of use.
    pub(crate) fn calm_down(&mut self, options: &Options, random: &mut Random) {
        let ipv6 = options.ipv6;
        self.weather.clear();
        // Short TTLs beside long waits would only take time to simulate.
        let least = options.max_ttl.as_secs() / 50;
        self.ttls.values_mut().chain(&mut self.negative_ttl).for_each(|ttl| *ttl = (*ttl).max(least));
        if self.service == Service::NotOffered || self.targets.is_empty() {
            self.service = Service::Missing { exists: true };
        }
        if !matches!(self.along, Along::None | Along::All) {
            self.along = Along::Odd;
        }
        let names = self.targets.iter().map(|target| target.name.clone()).chain([DOMAIN.into()]);
        for name in names.collect::<BTreeSet<_>>() {
            let addresses = self.addresses.entry(name).or_default();
            if !addresses.iter().any(|address| ipv6 || address.is_ipv4()) {
                let family = ipv6 && random.chance(0.5);
                addresses.insert(address(random, family));
            }
        }
    }

    /// Who serves, if all is known.
    pub(crate) fn truth(&self, ipv6: bool) -> BTreeSet<Figures> {
        let domain = Target { priority: 0, name: DOMAIN.into(), port: self.default_port, weight: 0 };
        let offered = self.has_service && self.service == Service::Offered;
        let targets = if offered { self.targets.clone() } else { vec![domain] };
        let mut all = BTreeSet::new();
        for target in targets {
            for address in self.addresses.get(&target.name).into_iter().flatten() {
                if ipv6 || address.is_ipv4() {
                    let socket = SocketAddr::new(*address, target.port);
                    all.insert((target.name.clone(), socket, target.priority, target.weight));
                }
            }
        }
        all
    }

    pub(crate) fn is_silent(&self, kind: Kind) -> bool {
        self.weather.get(&kind) == Some(&Weather::Silent)
    }

    pub(crate) fn answer(&self, question: &Question, random: &mut Random) -> Answer {
        let mut weather = self.weather.get(&question.kind).copied().unwrap_or(Weather::Fine);
        if weather == Weather::Mixed {
            weather = if random.chance(0.4) { Weather::Fine } else { *one_of(random, &BAD) };
        }
        let negative_ttl = self.negative_ttl.map(Duration::from_secs);
        match (weather, question.kind) {
            (Weather::Fine | Weather::Mixed, Kind::Srv) => self.answer_srv(negative_ttl, random),
            (Weather::Fine | Weather::Mixed, Kind::Aaaa | Kind::A) => self.answer_addresses(question, negative_ttl),
            (Weather::Silent | Weather::Fails, _) => Answer::Trouble,
            (Weather::Refuses, _) => Answer::Refused,
            (Weather::NotImplemented, _) => Answer::NotImplemented,
            (Weather::NoSuchName, _) => Answer::Nothing { exists: false, ttl: negative_ttl },
            (Weather::NoData, _) => Answer::Nothing { exists: true, ttl: negative_ttl },
        }
    }

    fn answer_srv(&self, negative_ttl: Option<Duration>, random: &mut Random) -> Answer {
        let ttl = self.ttl(Kind::Srv);
        match self.service {
            Service::Missing { exists } => return Answer::Nothing { exists, ttl: negative_ttl },
            Service::NotOffered => return Answer::NotOffered { ttl },
            Service::Offered if self.targets.is_empty() => return Answer::Nothing { exists: true, ttl: negative_ttl },
            Service::Offered => {}
        }
        let mut additional = Vec::new();
        for (place, target) in self.targets.iter().enumerate() {
            let some = random.chance(0.5);
            for &address in self.addresses.get(&target.name).into_iter().flatten() {
                let comes = match self.along {
                    Along::None => false,
                    Along::All => true,
                    Along::Some => some,
                    Along::Cut => random.chance(0.5),
                    Along::Odd => {
                        place % 2 == 1 && self.targets.iter().position(|one| one.name == target.name) == Some(place)
                    }
                };
                if comes {
                    additional.push((target.name.clone(), address));
                }
            }
        }
        // In any order, and some of them twice.
        let mut targets = self.targets.clone();
        let first = random.below(targets.len());
        targets.rotate_left(first);
        if random.chance(0.2) {
            targets.push(targets[0].clone());
        }
        // Where some of a target's addresses are missing there was no room for them.
        let whole = self.along != Along::Cut && random.chance(0.5);
        Answer::Targets { targets, additional, whole, ttl }
    }

    fn answer_addresses(&self, question: &Question, negative_ttl: Option<Duration>) -> Answer {
        let Some(all) = self.addresses.get(&question.name) else {
            return Answer::Nothing { exists: false, ttl: negative_ttl };
        };
        let addresses: Vec<_> = all.iter().filter(|one| one.is_ipv4() == (question.kind == Kind::A)).copied().collect();
        if addresses.is_empty() {
            return Answer::Nothing { exists: true, ttl: negative_ttl };
        }
        Answer::Addresses { addresses, ttl: self.ttl(question.kind) }
    }

    fn ttl(&self, kind: Kind) -> Duration {
        Duration::from_secs(self.ttls.get(&kind).copied().unwrap_or(self.longest_ttl))
    }

    fn add_target(&mut self, random: &mut Random) {
        let (name, port) = (one_of(random, &self.names).clone(), 1 + random.below(2) as u16);
        if !self.targets.iter().any(|target| target.name == name && target.port == port) {
            let (priority, weight) = priority(random);
            self.targets.push(Target { priority, name, port, weight });
        }
    }
}

fn priority(random: &mut Random) -> (u16, u16) {
    (random.below(2) as u16, random.below(3) as u16)
}

fn ttl(setting: &Setting, random: &mut Random) -> u64 {
    if random.chance(0.2) { 0 } else { random.below(setting.longest_ttl as usize + 1) as u64 }
}

fn address(random: &mut Random, ipv6: bool) -> IpAddr {
    let number = random.below(4) as u8;
    if ipv6 { Ipv6Addr::from(u128::from(number) + 1).into() } else { Ipv4Addr::new(10, 0, 0, number).into() }
}
