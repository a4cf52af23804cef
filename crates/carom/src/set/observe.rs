//! What the monitor sees of a set. What it needs is copied under the lock; words are made after that.

use super::Share;
use super::shared::{Shared, Table};
use crate::cause::Told;
use crate::clock;
use crate::monitor::{self, Object, Observe, Observed, ms, ms_since, ms_until};
use crate::quiet::drop_quietly;
use carom_core::backend::Backend;
use carom_core::idle::Idleness;
use carom_core::set::{BackendGlance, Counters, Glance, Options, State};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// What some leases of a connection are for.
struct Role {
    /// Of which connection, as they are listed.
    position: usize,
    name: Arc<str>,
    leases: usize,
}

impl<S: Share> Observe for Shared<S> {
    fn observe(&self) -> Option<Observed> {
        let now = clock::now();
        let (set, options, roles, told) = {
            let table = self.lock();
            if table.machine.state() == State::Stopped {
                return None;
            }
            let set = table.machine.observe();
            let options = options_of(table.machine.options(), set.figures.known);
            let roles = roles_of(&table, &set.figures.connections);
            (set, options, roles, table.causes.told())
        };
        let mut roles = roles.into_iter().peekable();
        // The backend of a connection is the very one that the set's list has.
        let mut connections: HashMap<*const Backend, Vec<monitor::SetConnection>> = HashMap::new();
        for (position, glance) in set.figures.connections.iter().enumerate() {
            let own = std::iter::from_fn(|| roles.next_if(|role| role.position == position));
            let own = own.map(|role| (role.name.to_string(), role.leases)).collect();
            connections.entry(Arc::as_ptr(&glance.backend)).or_default().push(connection_of(now, glance, own));
        }
        let known: BTreeSet<&Backend> = set.backends[..set.figures.known].iter().map(|seen| &*seen.backend).collect();
        let backends = set.backends.iter().map(|seen| {
            let connections = connections.remove(&Arc::as_ptr(&seen.backend)).unwrap_or_default();
            describe(now, seen, connections, &told)
        });
        let object = monitor::Set {
            state: state_of(set.figures.state),
            options,
            resolver: self.resolver,
            waiting: set.figures.waiting,
            dialling: set.figures.dialling,
            leases: set.figures.leases,
            dead: set.figures.dead,
            panic: set.figures.is_panic,
            backends: backends.collect(),
            last_plan_ms: set.planned_at.map(|at| ms_since(at, now)),
            cause: told.latest_of(|backend| known.contains(backend)),
            counters: counters_of(set.counters),
        };
        drop_quietly(&self.name, told);
        Some(Observed { name: self.name.to_string(), object: Object::Set(object) })
    }
}

/// The roles of all connections in one list, since this is copied under the lock.
fn roles_of<S: Share>(table: &Table<S>, connections: &[Glance]) -> Vec<Role> {
    let of_one = |(position, glance): (usize, &Glance)| {
        let roles = table.roles(glance.connection).into_iter().flatten();
        roles.map(move |(name, &leases)| Role { position, name: Arc::clone(name), leases })
    };
    connections.iter().enumerate().flat_map(of_one).collect()
}

fn describe(
    now: Instant,
    seen: &BackendGlance,
    connections: Vec<monitor::SetConnection>,
    told: &Told,
) -> monitor::SetBackend {
    monitor::SetBackend {
        backend: (&*seen.backend).into(),
        state: seen.state.into(),
        flags: monitor::BackendFlags {
            out: seen.is_out,
            failing: seen.is_failing,
            stalled: seen.stalled,
            unreliable: seen.unreliable,
            slow_start: seen.starts_slowly,
            held_off_ms: None,
            last_success_ms: seen.last_success.map(|at| ms_since(at, now)),
            checks_passed: seen.checks.passed,
            checks_failed: seen.checks.failed,
            check_cause: told.failed_health_check(&seen.backend),
        },
        connections,
        dialling: seen.dialling,
        reason: told.reason_of(&seen.backend, seen.state),
        next_attempt_ms: seen.next_attempt.filter(|at| *at > now).map(|at| ms_until(at, now)),
        ejected_ms: seen.ejected_until.map(|until| ms_until(until, now)),
    }
}

fn connection_of(now: Instant, glance: &Glance, roles: BTreeMap<String, usize>) -> monitor::SetConnection {
    let idle = match glance.idleness {
        Idleness::Using => monitor::Idle::Using,
        Idleness::IdleMarked { .. } => monitor::Idle::Marked,
        Idleness::BeforeRelease { .. } => monitor::Idle::BeforeRelease,
        Idleness::Released => monitor::Idle::Released,
    };
    monitor::SetConnection {
        place: glance.place,
        idle,
        draining: glance.draining,
        kept: glance.kept,
        leases: glance.leases,
        roles,
        age_ms: ms_since(glance.created, now),
        idle_ms: (glance.leases == 0).then(|| ms_since(glance.last_used, now)),
    }
}

fn options_of(options: &Options, known: usize) -> monitor::SetOptions {
    monitor::SetOptions {
        per_backend: options.per_backend,
        target: options.eager.then(|| options.target.unwrap_or(known)),
        maximum: options.maximum.filter(|_| options.eager),
        max_idle_ms: options.max_idle.map(ms),
    }
}

fn state_of(state: State) -> monitor::State {
    match state {
        State::Starting => monitor::State::Starting,
        State::Running => monitor::State::Running,
        State::Failed => monitor::State::Failed,
        State::Stopping => monitor::State::Stopping,
        State::Stopped => monitor::State::Stopped,
    }
}

fn counters_of(counters: Counters) -> monitor::SetCounters {
    monitor::SetCounters {
        leases: counters.leases,
        waited: counters.waited,
        waited_ms: counters.waited_for.as_secs_f64() * 1000.0,
        timeouts: counters.timeouts,
        refused: counters.refused,
        given_up: counters.given_up,
        connects: counters.connects,
        connect_failures: counters.connect_failures,
        released: counters.released,
    }
}
