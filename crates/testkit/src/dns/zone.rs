//! What a server knows: records by name and kind, and the answers given instead of them.

use super::answer::Answer;
use super::{Shared, State};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Arc, MutexGuard};

/// A handle to what a server answers. Changes hold from the next question on. Names may end in a dot or not.
///
/// Each method that gives records replaces those that the name had of the kind; given none, the name still exists. All panic
/// if given something that is no name or no address.
#[derive(Clone, Debug)]
pub struct Zone {
    pub(super) shared: Arc<Shared>,
}

impl Zone {
    /// Services as (priority, weight, port, target).
    #[track_caller]
    pub fn srv<T: AsRef<str>>(&self, name: &str, ttl: u32, services: impl IntoIterator<Item = (u16, u16, u16, T)>) {
        let data =
            |(priority, weight, port, target): (_, _, _, T)| SRV::new(priority, weight, port, parse(target.as_ref()));
        let services = services.into_iter().map(|service| RData::SRV(data(service))).collect();
        self.set(name, RecordType::SRV, ttl, services);
    }

    /// IPv4 addresses, as text or as such.
    #[track_caller]
    pub fn a(&self, name: &str, ttl: u32, addresses: impl IntoIterator<Item = impl Display>) {
        let addresses = addresses.into_iter().map(|text| RData::A(A(address::<Ipv4Addr>(text)))).collect();
        self.set(name, RecordType::A, ttl, addresses);
    }

    /// IPv6 addresses, as text or as such.
    #[track_caller]
    pub fn aaaa(&self, name: &str, ttl: u32, addresses: impl IntoIterator<Item = impl Display>) {
        let addresses = addresses.into_iter().map(|text| RData::AAAA(AAAA(address::<Ipv6Addr>(text)))).collect();
        self.set(name, RecordType::AAAA, ttl, addresses);
    }

    /// Another name to ask for instead.
    #[track_caller]
    pub fn cname(&self, name: &str, ttl: u32, target: &str) {
        self.set(name, RecordType::CNAME, ttl, vec![RData::CNAME(CNAME(parse(target)))]);
    }

    /// Texts of up to 255 bytes, a record each.
    #[track_caller]
    pub fn txt(&self, name: &str, ttl: u32, texts: impl IntoIterator<Item = impl Into<String>>) {
        let texts = texts.into_iter().map(|text| RData::TXT(TXT::new(vec![text.into()]))).collect();
        self.set(name, RecordType::TXT, ttl, texts);
    }

    /// The SOA that negative answers at and below this name carry. The TTL goes out as given, even when the minimum is lower.
    #[track_caller]
    pub fn soa(&self, name: &str, ttl: u32, minimum: u32) {
        let soa = SOA::new(parse("ns.invalid"), parse("admin.invalid"), 1, 3600, 600, 86400, minimum);
        self.set(name, RecordType::SOA, ttl, vec![RData::SOA(soa)]);
    }

    /// A name that exists, with whatever records it has.
    #[track_caller]
    pub fn name(&self, name: &str) {
        self.lock().script.records.sets.entry(parse(name)).or_default();
    }

    /// Takes away the records of this kind, or all with [`RecordType::ANY`]; the name ceases to exist with its last.
    #[track_caller]
    pub fn remove(&self, name: &str, kind: RecordType) {
        let name = parse(name);
        let sets = &mut self.lock().script.records.sets;
        if let Some(kinds) = sets.get_mut(&name) {
            kinds.retain(|held, _| kind != RecordType::ANY && *held != kind);
            if kinds.is_empty() {
                sets.remove(&name);
            }
        }
    }

    /// Whether answers to SRV questions carry the addresses of the targets. At first: no.
    pub fn additionals(&self, carried: bool) {
        self.lock().script.records.additionals = carried;
    }

    /// Answers this question so from now on; with [`RecordType::ANY`], every question about the name that has no answer of its
    /// own. With [`Answer::Records`], the records speak again.
    #[track_caller]
    pub fn answer(&self, name: &str, kind: RecordType, answer: Answer) {
        self.lock().script.answers.insert((parse(name), kind), answer);
    }

    /// Answers every question so that [`answer`](Self::answer) says nothing about. At first: [`Answer::Records`].
    pub fn answer_all(&self, answer: Answer) {
        self.lock().script.otherwise = answer;
    }

    #[track_caller]
    fn set(&self, name: &str, kind: RecordType, ttl: u32, data: Vec<RData>) {
        self.lock().script.records.sets.entry(parse(name)).or_default().insert(kind, Set { ttl, data });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

#[track_caller]
pub(super) fn parse(text: &str) -> Name {
    let mut name = Name::from_ascii(text).unwrap_or_else(|error| panic!("{text:?} is no name: {error}"));
    name.set_fqdn(true);
    name
}

#[track_caller]
fn address<T: FromStr>(text: impl Display) -> T {
    let text = text.to_string();
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no {}", std::any::type_name::<T>()))
}

/// Records, and what is answered instead.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) records: Records,
    answers: BTreeMap<(Name, RecordType), Answer>,
    otherwise: Answer,
}

impl Default for Script {
    fn default() -> Script {
        Script { records: Records::default(), answers: BTreeMap::new(), otherwise: Answer::Records }
    }
}

impl Script {
    /// How this question is answered, beside the records to answer from.
    pub(super) fn answer(&mut self, name: &Name, kind: RecordType) -> (&mut Answer, &Records) {
        let exact = (name.clone(), kind);
        let key = if self.answers.contains_key(&exact) { exact } else { (name.clone(), RecordType::ANY) };
        (self.answers.get_mut(&key).unwrap_or(&mut self.otherwise), &self.records)
    }
}

/// Names compare without case, and sort so that those below a name follow it.
#[derive(Debug, Default)]
pub(super) struct Records {
    sets: BTreeMap<Name, BTreeMap<RecordType, Set>>,
    additionals: bool,
}

#[derive(Debug)]
struct Set {
    ttl: u32,
    data: Vec<RData>,
}

/// What the records say to one question.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) code: ResponseCode,
    pub(super) answers: Vec<Record>,
    pub(super) authorities: Vec<Record>,
    pub(super) additionals: Vec<Record>,
}

impl Records {
    pub(super) fn find(&self, asked: &Name, kind: RecordType) -> Found {
        let mut found = Found::default();
        let mut name = asked.clone();
        // A loop of CNAMEs goes out once around, as real servers send it.
        let mut seen = Vec::new();
        loop {
            let hit = self.of_kind(&name, kind);
            if !hit.is_empty() {
                found.additionals = self.targets(&hit);
                found.answers.extend(hit);
                return found;
            }
            let Some((record, target)) = self.alias(&name).filter(|_| !seen.contains(&name)) else { break };
            found.answers.push(record);
            seen.push(name);
            name = target;
        }
        if seen.contains(&name) {
            return found;
        }
        if !self.exists(&name) {
            found.code = ResponseCode::NXDomain;
        }
        found.authorities = self.soa_above(&name);
        found
    }

    /// The SOA of the closest zone that holds this name, if there is one.
    pub(super) fn soa_above(&self, name: &Name) -> Vec<Record> {
        let mut above = name.clone();
        loop {
            let soa = self.of_kind(&above, RecordType::SOA);
            if !soa.is_empty() || above.is_root() {
                return soa;
            }
            above = above.base_name();
        }
    }

    fn of_kind(&self, name: &Name, kind: RecordType) -> Vec<Record> {
        let kinds = self.sets.get(name).into_iter().flatten();
        let sets = kinds.filter(|(held, _)| kind == RecordType::ANY || **held == kind);
        let records = |set: &Set| {
            let ttl = set.ttl;
            set.data.clone().into_iter().map(move |data| Record::from_rdata(name.clone(), ttl, data))
        };
        sets.flat_map(|(_, set)| records(set)).collect()
    }

    fn alias(&self, name: &Name) -> Option<(Record, Name)> {
        let record = self.of_kind(name, RecordType::CNAME).pop()?;
        match &record.data {
            RData::CNAME(target) => Some((record.clone(), target.0.clone())),
            _ => None,
        }
    }

    fn exists(&self, name: &Name) -> bool {
        self.sets.range(name..).next().is_some_and(|(next, _)| name.zone_of(next))
    }

    /// The addresses of these services, each once.
    fn targets(&self, records: &[Record]) -> Vec<Record> {
        let mut addresses = Vec::new();
        for record in records.iter().filter(|_| self.additionals) {
            if let RData::SRV(service) = &record.data {
                for kind in [RecordType::A, RecordType::AAAA] {
                    let fresh = |record: &Record| !addresses.contains(record);
                    let more: Vec<_> = self.of_kind(&service.target, kind).into_iter().filter(fresh).collect();
                    addresses.extend(more);
                }
            }
        }
        addresses
    }
}
