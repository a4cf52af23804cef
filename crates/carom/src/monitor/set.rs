//! A set, as it is seen.

use super::object::{Backend, BackendFlags, BackendState, Idle, State};
use super::registry::Id;
use std::collections::BTreeMap;

/// A set at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Set {
    /// Where it is in its life.
    pub state: State,
    /// What it was told.
    pub options: SetOptions,
    /// Who says who serves; one of the same snapshot, unless it has stopped.
    pub resolver: Option<Id>,
    /// Who waits for a lease.
    pub waiting: usize,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// Leases that are out.
    pub leases: usize,
    /// How many known backends are dead.
    pub dead: usize,
    /// So few backends are healthy that those that are ejected or unhealthy are used as well.
    #[cfg_attr(feature = "serde", serde(default))]
    pub panic: bool,
    /// Each known backend, most preferred first, then others that there is a connection or a dial to.
    pub backends: Vec<SetBackend>,
    /// When it last planned, how long ago; `None` before the first time, and for a lazy one.
    pub last_plan_ms: Option<u64>,
    /// The last real error that still matters, in words.
    pub cause: Option<String>,
    /// Since it was built.
    pub counters: SetCounters,
}

/// What a set was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetOptions {
    /// Connections to each backend at most.
    pub per_backend: usize,
    /// Backends that an eager set keeps connections to, all that are known unless it was told; `None` of a lazy one.
    pub target: Option<usize>,
    /// Most connections of an eager set.
    pub maximum: Option<usize>,
    /// After how long a connection nobody uses is released.
    pub max_idle_ms: Option<u64>,
}

/// A backend of a set.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetBackend {
    /// Who it is.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub backend: Backend,
    /// Its health.
    pub state: BackendState,
    /// What else is known of its health.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub flags: BackendFlags,
    /// Its connections.
    pub connections: Vec<SetConnection>,
    /// Dials under way or waiting for their turn.
    pub dialling: usize,
    /// Why it is in its state: the last failed use of an ejected backend, the last failed health check of an unhealthy one. Otherwise
    /// why it failed last, if it has not worked since.
    pub reason: Option<String>,
    /// In how long it may be tried again, if it may not now.
    pub next_attempt_ms: Option<u64>,
    /// For how long it is still ejected, if it is.
    pub ejected_ms: Option<u64>,
}

/// A connection of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetConnection {
    /// Which of the backend's connections it is.
    pub place: usize,
    /// How far it is on its way out for want of use.
    pub idle: Idle,
    /// Whether it takes no more leases.
    pub draining: bool,
    /// Whether an eager set keeps it, used or not.
    pub kept: bool,
    /// Leases that are out.
    pub leases: usize,
    /// Of these, those with a role, by role.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    pub roles: BTreeMap<String, usize>,
    /// How long ago it was connected.
    pub age_ms: u64,
    /// For how long nobody has held it; `None` while somebody does.
    pub idle_ms: Option<u64>,
}

/// What has happened to a set since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct SetCounters {
    /// Leases that were given.
    pub leases: u64,
    /// Of these, those that had to wait.
    pub waited: u64,
    /// How long these waited in all.
    pub waited_ms: f64,
    /// Leases that timed out.
    pub timeouts: u64,
    /// Leases that were refused for another reason.
    pub refused: u64,
    /// Leases whose callers stopped waiting of their own accord: by a timeout around the lease, say.
    pub given_up: u64,
    /// Dials that have begun.
    pub connects: u64,
    /// Of these, those that failed.
    pub connect_failures: u64,
    /// Connections that were released because nobody used them.
    pub released: u64,
}
