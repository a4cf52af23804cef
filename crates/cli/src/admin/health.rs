//! `/healthz`: whether requests should come here, and how every service is doing.
//!
//! 503 with
//!
//! - `unavailable` if a service knows backends, all of them are dead, unhealthy or ejected, and none was used successfully in the last
//!   10 s;
//! - `draining` after the program was told to stop.
//!
//! Otherwise 200 with
//!
//! - `saturated` if clients wait for a connection although a backend works;
//! - `degraded` if a backend of a service does not work or is stalled, or none is known; if requests fail and no backend has responded
//!   for 10 s; if a feed of the gateway cannot connect or is not
//!   let in; if the gateways that share a feed cannot reach NATS, or its upstream has no owner; or if the gateway waits for NATS to start;
//! - `unknown` if no backend of a service has been connected to;
//! - `ok`.

use super::view::Status;
use crate::failure::with_causes;
use crate::proxy;
use crate::up::Seen;
use carom::feed::{self, State};
use carom::monitor::BackendState;
use carom_gateway::FeedSnapshot;
use http::StatusCode;
use serde::Serialize;

#[derive(Serialize)]
struct Health {
    status: Status,
    services: Vec<Service>,
    /// Services that have changed or are gone, and have clients still.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leaving: Vec<Leaving>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<Gateway>,
}

#[derive(Serialize)]
struct Service {
    name: String,
    status: Status,
    protocol: &'static str,
    listen: String,
    backends: Backends,
    /// Which of them cannot be connected to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dead: Vec<Impaired>,
    /// Whose active health checks fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unhealthy: Vec<Impaired>,
    /// Whose uses failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ejected: Vec<Impaired>,
    /// Which of them do not respond while others do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stalled: Vec<Impaired>,
    /// Which of them closed unused connections lately, and get connections for waiting clients only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held_off: Vec<Impaired>,
    /// So few are healthy that those that are ejected or unhealthy are used as well.
    #[serde(skip_serializing_if = "is_false")]
    panic: bool,
    busy: usize,
    idle: usize,
    waiting: usize,
    clients: usize,
    served: u64,
    failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

#[derive(Serialize)]
struct Leaving {
    name: String,
    listen: String,
    busy: usize,
    idle: usize,
    waiting: usize,
    clients: usize,
}

#[derive(Serialize)]
struct Backends {
    live: usize,
    dead: usize,
    #[serde(skip_serializing_if = "is_none")]
    unknown: usize,
    #[serde(skip_serializing_if = "is_none")]
    unhealthy: usize,
    #[serde(skip_serializing_if = "is_none")]
    ejected: usize,
}

#[derive(Serialize)]
struct Impaired {
    backend: String,
    /// The last one, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How long it is still ejected or held off.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_ms: Option<u64>,
}

#[derive(Serialize)]
struct Gateway {
    clients: usize,
    subscriptions: usize,
    ticks: u64,
    feeds: usize,
    /// Which of them do not work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failing: Vec<Failing>,
    /// Why it has not started yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

#[derive(Serialize)]
struct Failing {
    broker: String,
    user: String,
    /// The last one, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The answer, of what is seen on the board; in full, or the status alone.
pub(super) fn of(seen: &Seen, in_full: bool) -> (StatusCode, String) {
    let status = overall(seen);
    let code = match status {
        Status::Ok | Status::Unknown | Status::Degraded | Status::Saturated => StatusCode::OK,
        Status::Unavailable | Status::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    if status == Status::Draining || !in_full {
        return (code, serde_json::json!({ "status": status }).to_string());
    }
    let services = seen.services.iter().map(Service::of).collect();
    let gateway = seen.gateway.as_ref().map(Gateway::of).or_else(|| seen.awaited.clone().map(Gateway::awaited));
    let leaving = seen.leaving.iter().map(Leaving::of).collect();
    let health = Health { status, services, leaving, gateway };
    // Nothing in it can fail to be written.
    (code, serde_json::to_string(&health).unwrap_or_default())
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// How all of it is doing.
pub(super) fn overall(seen: &Seen) -> Status {
    if seen.stopping {
        return Status::Draining;
    }
    let gateway = if gateway_works(seen) { Status::Ok } else { Status::Degraded };
    seen.services.iter().map(status_of).fold(gateway, Status::max)
}

/// Whether a service or a feed does not work.
pub(super) fn is_degraded(seen: &Seen) -> bool {
    let all_work = seen.services.iter().all(proxy::Snapshot::works) && gateway_works(seen);
    !seen.stopping && !all_work
}

/// How a service is doing.
pub(super) fn status_of(seen: &proxy::Snapshot) -> Status {
    let backends = &seen.upstream.backends;
    let is_any_healthy = backends.iter().any(|backend| backend.is_healthy());
    if !backends.is_empty() && !backends.iter().any(|backend| backend.is_live()) && !seen.succeeded_lately {
        Status::Unavailable
    } else if seen.upstream.waiting > 0 && is_any_healthy {
        Status::Saturated
    } else if !seen.works() {
        Status::Degraded
    } else if !is_any_healthy {
        Status::Unknown
    } else {
        Status::Ok
    }
}

fn gateway_works(seen: &Seen) -> bool {
    seen.awaited.is_none() && seen.gateway.iter().flat_map(|gateway| &gateway.feeds).all(works)
}

/// Whether a feed can have whatever is wanted of it, for all that is known.
fn works(seen: &FeedSnapshot) -> bool {
    carries(&seen.feed) && !is_cut_off(seen) && !is_ownerless(seen)
}

/// Whether it is shared with gateways of which nothing is heard.
fn is_cut_off(seen: &FeedSnapshot) -> bool {
    seen.share.as_ref().is_some_and(|share| !share.bus.connected)
}

/// Whether something is wanted of an upstream that nobody owns.
fn is_ownerless(seen: &FeedSnapshot) -> bool {
    seen.feed.total_subscriptions > 0 && seen.share.as_ref().is_some_and(|share| share.owner.is_none())
}

fn carries(feed: &feed::Snapshot) -> bool {
    match feed.state {
        State::Running => feed.withheld == 0 && !feed.connections.iter().any(|connection| connection.failing),
        State::Refused | State::Stopping | State::Stopped => false,
    }
}

impl Service {
    fn of(seen: &proxy::Snapshot) -> Service {
        let proxy::Upstream { backends, busy, idle, waiting, panic, trouble } = &seen.upstream;
        let of_state = |state| backends.iter().filter(|seen| seen.state == state).map(Impaired::of).collect::<Vec<_>>();
        let (dead, unhealthy) = (of_state(BackendState::Dead), of_state(BackendState::Unhealthy));
        let ejected = of_state(BackendState::Ejected);
        let stalled = backends.iter().filter(|seen| seen.flags.stalled).map(Impaired::stalled).collect();
        let held_off = backends.iter().filter(|seen| seen.flags.held_off_ms.is_some()).map(Impaired::of).collect();
        let unknown = backends.iter().filter(|seen| seen.state == BackendState::Unknown).count();
        let live = backends.iter().filter(|seen| seen.is_healthy()).count();
        Service {
            name: seen.name.clone(),
            status: status_of(seen),
            protocol: seen.protocol,
            listen: seen.listen.to_string(),
            backends: Backends { live, dead: dead.len(), unknown, unhealthy: unhealthy.len(), ejected: ejected.len() },
            dead,
            unhealthy,
            ejected,
            stalled,
            held_off,
            panic: *panic,
            busy: *busy,
            idle: *idle,
            waiting: *waiting,
            clients: seen.clients,
            served: seen.served,
            failed: seen.failed,
            trouble: trouble.clone(),
        }
    }
}

impl Impaired {
    fn stalled(seen: &proxy::Backend) -> Impaired {
        Impaired { reason: Some("stopped responding while others respond".to_owned()), ..Impaired::of(seen) }
    }

    fn of(seen: &proxy::Backend) -> Impaired {
        let left_ms = seen.ejected_ms.or(seen.flags.held_off_ms);
        Impaired { backend: seen.name.clone(), reason: seen.reason.clone(), left_ms }
    }
}

impl Gateway {
    fn of(seen: &carom_gateway::Snapshot) -> Gateway {
        let failing = seen.feeds.iter().filter(|feed| !works(feed));
        Gateway {
            clients: seen.clients,
            subscriptions: seen.subscriptions,
            ticks: seen.ticks,
            feeds: seen.feeds.len(),
            failing: failing.map(Failing::of).collect(),
            trouble: None,
        }
    }

    /// One that has not started.
    fn awaited(why: String) -> Gateway {
        Gateway { clients: 0, subscriptions: 0, ticks: 0, feeds: 0, failing: Vec::new(), trouble: Some(why) }
    }
}

impl Failing {
    fn of(seen: &FeedSnapshot) -> Failing {
        let FeedSnapshot { broker, user, feed, .. } = seen;
        let cause = feed.cause.as_ref().map(|cause| with_causes(&**cause));
        let reason = match cause {
            _ if is_cut_off(seen) => Some("NATS cannot be reached, and without it nobody owns the upstream".to_owned()),
            None if is_ownerless(seen) => Some("nobody owns the upstream".to_owned()),
            cause => cause,
        };
        Failing { broker: broker.to_string(), user: user.to_string(), reason }
    }
}

impl Leaving {
    fn of(seen: &proxy::Snapshot) -> Leaving {
        Leaving {
            name: seen.name.clone(),
            listen: seen.listen.to_string(),
            busy: seen.upstream.busy,
            idle: seen.upstream.idle,
            waiting: seen.upstream.waiting,
            clients: seen.clients,
        }
    }
}
