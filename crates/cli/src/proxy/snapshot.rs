//! A copy of a proxy's state for people, and for `/healthz`; what is behind it is as the monitor sees it.

use super::tally::{LATELY, Tally};
use crate::failure::with_causes;
use carom::monitor::{
    self, BackendFlags, BackendState, Id, Idle, Monitor, Object, Phase, Pool, PoolBackend, Set, SetBackend,
};
use carom::pool::State;
use carom::resolver::{Resolution, ResolverState};
use std::net::{IpAddr, SocketAddr};

/// A service at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Another one for each service that has been, whatever its name.
    pub(crate) serial: u64,
    pub(crate) name: String,
    /// `http` or `tcp`.
    pub(crate) protocol: &'static str,
    pub(crate) listen: SocketAddr,
    state: State,
    pub(crate) upstream: Upstream,
    /// It has been looked up who serves, and nobody does.
    pub(crate) nobody: bool,
    /// Connections of clients.
    pub(crate) clients: usize,
    /// Requests that a backend answered; of TCP, sessions that had a backend.
    pub(crate) served: u64,
    /// Requests that nobody answered; of TCP, clients that no backend was found for.
    pub(crate) failed: u64,
    /// A use of a backend succeeded in the last 10 s.
    pub(crate) succeeded_lately: bool,
    /// Requests fail, and no backend has responded to any for 10 s.
    is_unresponsive: bool,
    /// Its pools and sets, as the monitor knows them.
    pub(crate) objects: Vec<Id>,
}

/// What is behind a door.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) backends: Vec<Backend>,
    /// Connections in use.
    pub(crate) busy: usize,
    /// Connections nobody uses.
    pub(crate) idle: usize,
    /// Who waits for a connection.
    pub(crate) waiting: usize,
    /// So few backends are healthy that those that are ejected or unhealthy are used as well.
    pub(crate) panic: bool,
    /// Why something failed last, if not all of it works.
    pub(crate) trouble: Option<String>,
}

/// A backend at that moment.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    /// Its address, and its name if it has one.
    pub(crate) name: String,
    pub(crate) state: BackendState,
    /// Why it failed last, if it has not worked since.
    pub(crate) reason: Option<String>,
    /// For how long it is still ejected, in milliseconds.
    pub(crate) ejected_ms: Option<u64>,
    pub(crate) flags: BackendFlags,
}

impl Snapshot {
    pub(super) fn new(
        name: &str,
        protocol: &'static str,
        listen: SocketAddr,
        (state, objects): (State, Vec<Id>),
        resolution: &Resolution,
        tally: &Tally,
    ) -> Snapshot {
        let seen = objects.iter().filter_map(|id| Some(Monitor::global().object(*id)?.object));
        let mut upstream = Upstream::of(seen).unwrap_or_else(|| Upstream::unknown(resolution));
        if upstream.trouble.is_none() {
            upstream.trouble = resolution.last_error.as_ref().map(|error| with_causes(&**error));
        }
        let spoken = resolution.state != ResolverState::Starting || resolution.last_error.is_some();
        let nobody = spoken && resolution.backends.is_empty();
        let (clients, served, failed) = tally.read();
        let (serial, name) = (tally.serial(), name.to_owned());
        let mut seen = Snapshot {
            serial,
            name,
            protocol,
            listen,
            state,
            upstream,
            nobody,
            clients,
            served,
            failed,
            succeeded_lately: false,
            is_unresponsive: false,
            objects,
        };
        // A session of TCP succeeds as it begins, and may last; of requests their backends know.
        seen.succeeded_lately =
            seen.upstream.backends.iter().any(Backend::has_succeeded_lately) || tally.succeeded_lately();
        if seen.works() {
            // Such as a failed check of one connection: it is told of the pool.
            seen.upstream.trouble = None;
        }
        if let Some(unserved) = tally.unserved(seen.upstream.waiting) {
            // Those that do not wait for a connection wait for a backend, or have failed with one.
            seen.is_unresponsive = protocol == "http" && tally.pending() > seen.upstream.waiting;
            let what =
                if seen.is_unresponsive { "no response from any backend" } else { "no connection for any client" };
            let why = seen.upstream.trouble.take().map(|why| format!(": {why}")).unwrap_or_default();
            seen.upstream.trouble = Some(format!("{what} for {} s{why}", unserved.as_secs()));
        }
        seen
    }

    /// Whether all of it works; of one that nobody has asked for anything yet it may not be known.
    pub(crate) fn works(&self) -> bool {
        matches!(self.state, State::Running | State::Starting)
            && !self.nobody
            && !self.is_unresponsive
            && self.upstream.backends.iter().all(|backend| backend.is_live() && !backend.flags.stalled)
    }
}

impl Backend {
    /// Nobody has connected to it.
    fn unknown(backend: &monitor::Backend) -> Backend {
        let (name, flags) = (called(backend), BackendFlags::default());
        Backend { name, state: BackendState::Unknown, reason: None, ejected_ms: None, flags }
    }

    /// Whether it is thought to work.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, BackendState::Healthy | BackendState::Unknown)
    }

    /// Whether it is known to work.
    pub(crate) fn is_healthy(&self) -> bool {
        self.state == BackendState::Healthy
    }

    fn has_succeeded_lately(&self) -> bool {
        self.flags.last_success_ms.is_some_and(|ms| u128::from(ms) <= LATELY.as_millis())
    }
}

impl From<PoolBackend> for Backend {
    fn from(at: PoolBackend) -> Backend {
        let PoolBackend { state, reason, ejected_ms, flags, .. } = at;
        Backend { name: called(&at.backend), state, reason, ejected_ms, flags }
    }
}

impl From<SetBackend> for Backend {
    fn from(at: SetBackend) -> Backend {
        let SetBackend { state, reason, ejected_ms, flags, .. } = at;
        Backend { name: called(&at.backend), state, reason, ejected_ms, flags }
    }
}

impl Upstream {
    /// What requests go through comes first; a pool beside it is for upgrades alone, and says nothing of who works.
    fn of(seen: impl Iterator<Item = Object>) -> Option<Upstream> {
        let mut seen = seen.filter_map(|object| match object {
            Object::Pool(pool) => Some(Upstream::from(pool)),
            Object::Set(set) => Some(Upstream::from(set)),
            _ => None,
        });
        let mut first = seen.next()?;
        for beside in seen {
            first.busy += beside.busy;
            first.idle += beside.idle;
            first.waiting += beside.waiting;
        }
        Some(first)
    }

    /// Nobody was connected to yet, so nobody knows better.
    fn unknown(resolution: &Resolution) -> Upstream {
        let backends = resolution.backends.iter().map(|known| Backend::unknown(&known.into())).collect();
        Upstream { backends, busy: 0, idle: 0, waiting: 0, panic: false, trouble: None }
    }
}

impl From<Pool> for Upstream {
    fn from(pool: Pool) -> Upstream {
        let slots = || pool.backends.iter().flat_map(|at| &at.slots);
        let of = |phase: Phase| slots().filter(|slot| slot.phase == phase).count();
        let (busy, idle) = (of(Phase::Busy), of(Phase::Idle));
        let known = pool.backends.into_iter().filter(|at| at.state != BackendState::Removed);
        let backends: Vec<Backend> = known.map(Backend::from).collect();
        let trouble = pool.cause.or_else(|| ejection(&backends));
        Upstream { backends, busy, idle, waiting: pool.waiting, panic: pool.panic, trouble }
    }
}

impl From<Set> for Upstream {
    fn from(set: Set) -> Upstream {
        let connections = || set.backends.iter().flat_map(|at| &at.connections).filter(|at| at.idle != Idle::Released);
        let idle = connections().filter(|connection| connection.leases == 0).count();
        let busy = connections().count() - idle;
        let known = set.backends.into_iter().filter(|at| at.state != BackendState::Removed);
        let backends: Vec<Backend> = known.map(Backend::from).collect();
        let trouble = set.cause.or_else(|| ejection(&backends));
        Upstream { backends, busy, idle, waiting: set.waiting, panic: set.panic, trouble }
    }
}

/// Why one of them is ejected.
fn ejection(backends: &[Backend]) -> Option<String> {
    let ejected = backends.iter().find(|backend| backend.state == BackendState::Ejected)?;
    Some(format!("{} from {}", ejected.reason.as_deref()?, ejected.name))
}

/// The address, and the name before it if that is more.
fn called(backend: &monitor::Backend) -> String {
    let monitor::Backend { name, address, port, .. } = backend;
    let place = address
        .parse::<IpAddr>()
        .map_or_else(|_| format!("{address}:{port}"), |ip| SocketAddr::new(ip, *port).to_string());
    if name == address || *name == place { place } else { format!("{name} ({place})") }
}
