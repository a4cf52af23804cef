//! The fields of each object, by type: cueball's for what cueball has, ours for the rest.

use super::date::iso_of_ms;
use crate::monitor::{
    Backend, BackendFlags, BackendState, Dns, DnsKind, DnsState, Id, Object, Phase, Pool, PoolBackend, PoolCounters,
    Resolver, Seen, Set, SetBackend, SetCounters, Snapshot, State,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A type of kang's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pool,
    Set,
    Resolver,
    Window,
    Feed,
    Gateway,
}

impl Kind {
    /// In the order in which they are listed: cueball's first.
    pub(super) const ALL: [Kind; 6] = [Kind::Pool, Kind::Set, Kind::Resolver, Kind::Window, Kind::Feed, Kind::Gateway];

    pub(super) fn of(object: &Object) -> Kind {
        match object {
            Object::Pool(_) => Kind::Pool,
            Object::Set(_) => Kind::Set,
            Object::Resolver(_) => Kind::Resolver,
            Object::Window(_) => Kind::Window,
            Object::Feed(_) => Kind::Feed,
            Object::Gateway(_) => Kind::Gateway,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Pool => "pool",
            Kind::Set => "set",
            Kind::Resolver => "dns_res",
            Kind::Window => "window",
            Kind::Feed => "feed",
            Kind::Gateway => "gateway",
        }
    }
}

/// An object's fields. Its resolver is looked up in the snapshot; if it is not there, what it would know is left out.
pub(super) fn fields(seen: &Seen, snapshot: &Snapshot) -> Value {
    let Seen { name, object, .. } = seen;
    let now = snapshot.taken_at_ms;
    let mut fields = match object {
        Object::Pool(pool) => of_pool(pool, name, dns_of(pool.resolver, snapshot), now),
        Object::Set(set) => of_set(set, name, dns_of(set.resolver, snapshot), now),
        Object::Resolver(resolver) => of_resolver(resolver, now),
        Object::Window(window) => plain(window),
        Object::Feed(feed) => plain(feed),
        Object::Gateway(gateway) => plain(gateway),
    };
    fields.insert("name".to_owned(), json!(name));
    // As in JavaScript: what is not known is not there.
    fields.retain(|_, value| !value.is_null());
    Value::Object(fields)
}

fn of_pool(pool: &Pool, name: &str, dns: Option<&Dns>, now: u64) -> Map<String, Value> {
    let backends = pool.backends.iter().map(|seen| &seen.backend);
    let dead = pool.backends.iter().filter(|seen| seen.state == BackendState::Dead).map(|seen| &seen.backend);
    let connections = together(pool.backends.iter().map(|seen| (&*seen.backend.key, slots(seen))));
    let PoolCounters { claims: served, waited, timeouts, refused, given_up, connects, connect_failures, .. } =
        pool.counters;
    let calls = Calls { served, waited, timeouts, refused, given_up, connects, connect_failures };
    object(json!({
        "backends": by_key(backends),
        "connections": connections,
        "dead_backends": dead.map(|backend| &backend.key).collect::<Vec<_>>(),
        "panic": pool.panic,
        "backend_health": health(pool.backends.iter().map(|seen| (&seen.backend, seen.state, &seen.flags, &seen.reason))),
        "last_rebalance": last_rebalance(pool.last_plan_ms, now),
        "resolvers": dns.map(|dns| &dns.nameservers),
        "state": pool.state,
        "counters": calls.counted([("rebalance", pool.counters.plans), ("overdue-claim", pool.counters.overdue)]),
        "options": options(name, dns, [("spares", pool.options.spares), ("maximum", pool.options.maximum)]),
    }))
}

fn of_set(set: &Set, name: &str, dns: Option<&Dns>, now: u64) -> Map<String, Value> {
    let backends = set.backends.iter().map(|seen| &seen.backend);
    let dead = set.backends.iter().filter(|seen| seen.state == BackendState::Dead).map(|seen| &seen.backend);
    let fsms = together(set.backends.iter().map(|seen| (&*seen.backend.key, dials(seen))));
    // As cueball names them: serial numbers from 1 for each backend.
    let mut serials = BTreeMap::<&str, usize>::new();
    let all = set.backends.iter().flat_map(|seen| seen.connections.iter().map(|_| &*seen.backend.key));
    let connections = all.map(|key| {
        let serial = serials.entry(key).or_default();
        *serial += 1;
        format!("{key}.{serial}")
    });
    let SetCounters { leases: served, waited, timeouts, refused, given_up, connects, connect_failures, .. } =
        set.counters;
    let calls = Calls { served, waited, timeouts, refused, given_up, connects, connect_failures };
    object(json!({
        "backends": by_key(backends),
        "fsms": fsms,
        "connections": connections.collect::<Vec<_>>(),
        "dead_backends": dead.map(|backend| &backend.key).collect::<Vec<_>>(),
        "panic": set.panic,
        "backend_health": health(set.backends.iter().map(|seen| (&seen.backend, seen.state, &seen.flags, &seen.reason))),
        "last_rebalance": last_rebalance(set.last_plan_ms, now),
        "resolvers": dns.map(|dns| &dns.nameservers),
        "state": set.state,
        "counters": calls.counted([("released", set.counters.released)]),
        "target": set.options.target,
        "maximum": set.options.maximum,
        "options": options(name, dns, []),
    }))
}

/// The state, the flags and the cause of each backend, which cueball does not have.
fn health<'a>(
    backends: impl Iterator<Item = (&'a Backend, BackendState, &'a BackendFlags, &'a Option<String>)>,
) -> BTreeMap<&'a str, Value> {
    let health = |(backend, state, flags, reason): (&'a Backend, _, &'a BackendFlags, &'a Option<String>)| {
        (&*backend.key, json!({ "state": state, "flags": flags, "reason": reason }))
    };
    backends.map(health).collect()
}

/// Any resolver. One that does not ask DNS has nothing to say of domain, service, nameservers and what is next.
fn of_resolver(resolver: &Resolver, now: u64) -> Map<String, Value> {
    let dns = resolver.dns.as_ref();
    object(json!({
        "domain": dns.map(|dns| &dns.domain),
        "service": dns.and_then(|dns| dns.service.as_ref()),
        "resolvers": dns.map(|dns| &dns.nameservers),
        "defaultPort": dns.map(|dns| dns.default_port),
        "state": match dns {
            Some(dns) => json!(dns_state(resolver.state, dns)),
            None => json!(resolver.state),
        },
        "next": dns.map(|dns| next(dns, now)),
        "backends": by_key(resolver.backends.iter()),
        "counters": dns.map(|dns| counted([
            ("lookup", dns.counters.asked),
            ("lookup-answered", dns.counters.answered),
            ("lookup-failed", dns.counters.failed),
            ("published", dns.counters.published),
        ])).unwrap_or_default(),
    }))
}

/// As far as its resolver is one that asks DNS.
fn dns_of(resolver: Option<Id>, snapshot: &Snapshot) -> Option<&Dns> {
    let id = resolver?;
    // They are in order.
    let at = snapshot.objects.binary_search_by_key(&id, |seen| seen.id).ok()?;
    match &snapshot.objects[at].object {
        Object::Resolver(resolver) => resolver.dns.as_ref(),
        Object::Pool(_) | Object::Set(_) | Object::Window(_) | Object::Feed(_) | Object::Gateway(_) => None,
    }
}

fn options<const N: usize>(name: &str, dns: Option<&Dns>, sizes: [(&str, usize); N]) -> Map<String, Value> {
    let mut options = Map::new();
    options.insert("domain".to_owned(), json!(dns.map_or(name, |dns| &dns.domain)));
    options.insert("service".to_owned(), json!(dns.and_then(|dns| dns.service.as_ref())));
    options.insert("defaultPort".to_owned(), json!(dns.map(|dns| dns.default_port)));
    options.extend(sizes.into_iter().map(|(name, size)| (name.to_owned(), json!(size))));
    options.retain(|_, value| !value.is_null());
    options
}

/// One that has left and come back is there twice for as long as what it had drains: first as it is, then as it was.
fn by_key<'a>(backends: impl Iterator<Item = &'a Backend>) -> Map<String, Value> {
    let mut shown = Map::new();
    for Backend { key, name, address, port, .. } in backends {
        let value = || json!({"name": name, "address": address, "port": port, "key": key});
        shown.entry(key).or_insert_with(value);
    }
    shown
}

/// How many are in each state, by key: of a backend that is there twice, both together.
fn together<'a>(backends: impl Iterator<Item = (&'a str, States)>) -> BTreeMap<&'a str, States> {
    let mut all = BTreeMap::<&str, States>::new();
    for (key, states) in backends.filter(|(_, states)| !states.is_empty()) {
        let of_key = all.entry(key).or_default();
        states.into_iter().for_each(|(state, count)| *of_key.entry(state).or_default() += count);
    }
    all
}

/// How many are in each state.
type States = BTreeMap<&'static str, usize>;

/// How many slots are in each of cueball's states.
fn slots(seen: &PoolBackend) -> States {
    let mut states = BTreeMap::new();
    for slot in &seen.slots {
        let state = match slot.phase {
            Phase::Held => "init",
            Phase::Connecting => "connecting",
            Phase::Backoff => "retrying",
            Phase::Idle => "idle",
            // Cueball's checker claims what it checks.
            Phase::Busy | Phase::Checking => "busy",
            Phase::Closing => "stopping",
        };
        *states.entry(state).or_default() += 1;
    }
    states
}

/// The same of a set, where a connection that is offered counts as busy.
fn dials(seen: &SetBackend) -> States {
    let draining = seen.connections.iter().filter(|connection| connection.draining).count();
    let waits = seen.connections.is_empty() && seen.dialling == 0 && seen.next_attempt_ms.is_some();
    let states = [
        ("busy", seen.connections.len() - draining),
        ("stopping", draining),
        ("connecting", seen.dialling),
        ("retrying", usize::from(waits)),
    ];
    states.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Where cueball's machine would be: it asks one question after the other, in this order, and sleeps.
fn dns_state(state: State, dns: &Dns) -> &'static str {
    let asks = |kind| dns.questions.iter().any(|question| question.kind == kind && question.state == DnsState::Asking);
    match state {
        State::Stopping | State::Stopped => "stopped",
        _ if asks(DnsKind::Srv) => "srv",
        _ if asks(DnsKind::Aaaa) => "aaaa",
        _ if asks(DnsKind::A) => "a",
        _ if dns.questions.is_empty() => "init",
        _ => "sleep",
    }
}

/// When each kind of question is asked next; of several, the earliest.
fn next(dns: &Dns, now: u64) -> Map<String, Value> {
    let kinds = [("srv", DnsKind::Srv), ("v6", DnsKind::Aaaa), ("v4", DnsKind::A)];
    let next = kinds.into_iter().filter_map(|(name, kind)| {
        let of_kind = dns.questions.iter().filter(|question| question.kind == kind);
        let soonest = of_kind.filter_map(|question| question.next_ms).min()?;
        Some((name.to_owned(), json!(iso_of_ms(now.saturating_add(soonest)))))
    });
    next.collect()
}

/// In seconds since 1970.
fn last_rebalance(ago_ms: Option<u64>, now: u64) -> Option<u64> {
    ago_ms.map(|ago| now.saturating_sub(ago) / 1000)
}

/// What pools and sets count alike.
struct Calls {
    served: u64,
    waited: u64,
    timeouts: u64,
    refused: u64,
    given_up: u64,
    connects: u64,
    connect_failures: u64,
}

impl Calls {
    /// With what is counted beside it. Cueball counts calls when they come, we count what becomes of them.
    fn counted<const N: usize>(&self, others: [(&str, u64); N]) -> Map<String, Value> {
        let calls = [
            ("claim", self.served + self.timeouts + self.refused + self.given_up),
            ("queued-claim", self.waited + self.timeouts + self.given_up),
            ("claim-timeout", self.timeouts),
            ("claim-refused", self.refused),
            ("claim-given-up", self.given_up),
            ("connect", self.connects),
            ("error-during-connect", self.connect_failures),
        ];
        counted(calls.into_iter().chain(others))
    }
}

/// Those that have counted anything: cueball's appear when they do.
fn counted<'a>(counters: impl IntoIterator<Item = (&'a str, u64)>) -> Map<String, Value> {
    counters.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

fn plain(data: &impl Serialize) -> Map<String, Value> {
    // The monitor's data are plain: nothing in them can fail to be written.
    serde_json::to_value(data).map(object).unwrap_or_default()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
