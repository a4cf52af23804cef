//! A pool, as it is seen.

use super::object::{Backend, BackendFlags, BackendState, Phase, State};
use super::registry::Id;

/// A pool at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pool {
    /// Where it is in its life.
    pub state: State,
    /// What it was told.
    pub options: PoolOptions,
    /// Who says who serves; one of the same snapshot, unless it has stopped.
    pub resolver: Option<Id>,
    /// Slots the present load asks for.
    pub target: usize,
    /// Callers in line.
    pub waiting: usize,
    /// How long the one who has waited longest has.
    pub longest_wait_ms: Option<u64>,
    /// How many backends are dead.
    pub dead: usize,
    /// So few backends are healthy that those that are ejected or unhealthy are used as well.
    #[cfg_attr(feature = "serde", serde(default))]
    pub panic: bool,
    /// Each backend, most preferred first, then the removed ones that still drain.
    pub backends: Vec<PoolBackend>,
    /// When it last planned, how long ago; `None` before the first time.
    pub last_plan_ms: Option<u64>,
    /// The last real error that still matters, in words.
    pub cause: Option<String>,
    /// Why the last check or recycle that failed did, in words.
    #[cfg_attr(feature = "serde", serde(default))]
    pub check_cause: Option<String>,
    /// Since it was built.
    pub counters: PoolCounters,
}

/// What a pool was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolOptions {
    /// Spares in force.
    pub spares: usize,
    /// Maximum in force.
    pub maximum: usize,
    /// How long a claim may take.
    pub claim_timeout_ms: u64,
}

/// A backend of a pool.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolBackend {
    /// Who it is.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub backend: Backend,
    /// Its health.
    pub state: BackendState,
    /// What else is known of its health.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub flags: BackendFlags,
    /// Each of its slots.
    pub slots: Vec<Slot>,
    /// Why it is in its state: the last failed use of an ejected backend, the last failed health check of an unhealthy one. Otherwise
    /// why it failed last, if it has not worked since.
    pub reason: Option<String>,
    /// In how long it is tried again, if nothing works and nothing is under way.
    pub next_attempt_ms: Option<u64>,
    /// For how long it is still ejected, if it is.
    pub ejected_ms: Option<u64>,
    /// How long uses have taken lately.
    pub typical_use_us: Option<u64>,
}

/// A slot of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slot {
    /// What it is doing.
    pub phase: Phase,
    /// For how long, roughly; of backoff, how long it will yet take. `None` where nobody knows.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub ms: Option<u64>,
}

/// What has happened to a pool since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct PoolCounters {
    /// Claims that were served.
    pub claims: u64,
    /// Of these, those that had to wait.
    pub waited: u64,
    /// How long these waited in all.
    pub waited_ms: f64,
    /// Claims that timed out.
    pub timeouts: u64,
    /// Claims that were refused for another reason: full, shed, failed, no backends, nothing idle, closed.
    pub refused: u64,
    /// Claims whose callers stopped waiting of their own accord: by a timeout around the claim, say.
    pub given_up: u64,
    /// Attempts to connect that have begun.
    pub connects: u64,
    /// Of these, those that failed.
    pub connect_failures: u64,
    /// Plans that were made.
    pub plans: u64,
    /// Checks and recycles of connections that ended.
    pub checks: u64,
    /// Of these, those that failed.
    pub check_failures: u64,
    /// Claims held longer than `leak_after`.
    pub overdue: u64,
}
