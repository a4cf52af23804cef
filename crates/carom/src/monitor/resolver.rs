//! A resolver, as it is seen.

use super::object::{Backend, State};

/// A resolver at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Resolver {
    /// Where it is in its life.
    pub state: State,
    /// Who serves.
    pub backends: Vec<Backend>,
    /// For how long this may have been out of date.
    pub stale_ms: Option<u64>,
    /// Its latest trouble, if it has not succeeded since.
    pub error: Option<String>,
    /// What it asks for, if it asks DNS.
    pub dns: Option<Dns>,
}

/// What is seen of a resolver that asks DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dns {
    /// Whose addresses.
    pub domain: String,
    /// Which service of it, if SRV records are asked for.
    pub service: Option<String>,
    /// The port of backends without one.
    pub default_port: u16,
    /// Who is asked.
    pub nameservers: Vec<String>,
    /// Every question that is asked now and then.
    pub questions: Vec<DnsQuestion>,
    /// Since it was started.
    pub counters: DnsCounters,
}

/// A question and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DnsQuestion {
    /// Of which name.
    pub name: String,
    /// What is asked.
    pub kind: DnsKind,
    /// How it stands.
    pub state: DnsState,
    /// How many records or addresses it has brought.
    pub records: usize,
    /// In how long it is asked again; what it has brought is good until then.
    pub next_ms: Option<u64>,
    /// Why it ended badly last, if it did.
    pub trouble: Option<String>,
}

/// What is asked of DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DnsKind {
    /// Where a service is offered.
    Srv,
    /// IPv6 addresses.
    Aaaa,
    /// IPv4 addresses.
    A,
}

/// How a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DnsState {
    /// It is under way, or waits for its turn.
    Asking,
    /// It was answered, and is asked again when the answer is too old.
    Answered,
    /// There is nothing of the kind; it is asked again later.
    Nothing,
    /// It failed, and is asked again later.
    Failed,
}

/// What a resolver has asked since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct DnsCounters {
    /// Questions that were asked.
    pub asked: u64,
    /// Of these, those that were answered.
    pub answered: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// How often it has published who serves, or its trouble.
    pub published: u64,
}
