//! What is seen of any object, and what all kinds of them have in common.

use super::registry::Id;
use super::{Feed, Gateway, Pool, Resolver, Set, Window};
use carom_core::backend;
use std::time::{SystemTime, UNIX_EPOCH};

/// Something that can be seen.
pub trait Observe: Send + Sync + 'static {
    /// How it is, with figures that agree; `None` when it is over, and is not to be asked again.
    ///
    /// It must be quick, and lock nothing for longer than it takes to copy some figures. One that panics is not asked again.
    fn observe(&self) -> Option<Observed>;
}

/// What somebody says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What it is called; others may have the same name.
    pub name: String,
    /// How it is.
    pub object: Object,
}

/// Everything that was there at one moment. Times are in milliseconds; ages and waits are relative to that moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// When it was taken, since 1970.
    pub taken_at_ms: u64,
    /// In order of registration.
    pub objects: Vec<Seen>,
}

impl Snapshot {
    /// These objects, now.
    pub(crate) fn of(objects: Vec<Seen>) -> Snapshot {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Snapshot { taken_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), objects }
    }
}

/// An object at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Seen {
    /// Which one.
    pub id: Id,
    /// What it is called.
    pub name: String,
    /// How it is.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub object: Object,
}

/// An object of any kind; in JSON its `type` says which.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Object {
    /// A pool.
    Pool(Pool),
    /// A set.
    Set(Set),
    /// A resolver.
    Resolver(Resolver),
    /// A requester, which has windows.
    Window(Window),
    /// A feed.
    Feed(Feed),
    /// A gateway.
    Gateway(Gateway),
}

/// Where an object is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum State {
    /// Nothing has worked yet.
    Starting,
    /// It works.
    Running,
    /// Everything it knows of is dead, or its attempts have failed.
    Failed,
    /// A credential was refused.
    Refused,
    /// Closed; waits for what is still under way.
    Stopping,
    /// Nothing is left.
    Stopped,
}

/// A backend, as everybody shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Backend {
    /// As cueball makes it of name, address and port; see [`BackendKey`](crate::resolver::BackendKey).
    pub key: String,
    /// The name it is known by.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: u16,
    /// SRV priority; 0 when there is none.
    pub priority: u16,
    /// SRV weight; 0 when there is none.
    pub weight: u16,
}

/// The health of a backend; see [`pool::BackendState`](crate::pool::BackendState).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum BackendState {
    /// No connection to it has been attempted, or none has succeeded yet.
    Unknown,
    /// The last evidence was good.
    Healthy,
    /// Its attempts to connect are exhausted. It is probed.
    Dead,
    /// Its active checks fail.
    Unhealthy,
    /// Its uses failed. It gets no traffic for a while.
    Ejected,
    /// The resolver does not name it any more. Its connections drain.
    Removed,
}

/// What is known of the health of a backend beside its state, the same for pools and sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct BackendFlags {
    /// It is ejected or unhealthy, and gets no traffic: there is no panic.
    pub out: bool,
    /// The last attempt to connect failed or hangs, and no connection works.
    pub failing: bool,
    /// It stopped responding while others respond, and gets no new requests while another backend can serve. HTTP only.
    pub stalled: bool,
    /// More than one of its uses failed lately: it gets one use a second while others serve. Not for pools with `Fifo` or
    /// `Lifo`.
    pub unreliable: bool,
    /// Its share of the traffic still grows: it is new, or is back. With a slow start only.
    pub slow_start: bool,
    /// For how long it still gets connections for waiting claims only, in milliseconds: it closed an unused connection. Pools with
    /// [`replace_unused_after`](crate::pool::Builder::replace_unused_after) only.
    pub held_off_ms: Option<u64>,
    /// How long ago a use of it last succeeded, to within a few hundred milliseconds.
    pub last_success_ms: Option<u64>,
    /// Active health checks that passed.
    pub checks_passed: u64,
    /// Active health checks that failed.
    pub checks_failed: u64,
    /// Why the last health check that failed did.
    pub check_cause: Option<String>,
}

impl From<backend::BackendState> for BackendState {
    fn from(state: backend::BackendState) -> BackendState {
        match state {
            backend::BackendState::Unknown => BackendState::Unknown,
            backend::BackendState::Healthy => BackendState::Healthy,
            backend::BackendState::Dead => BackendState::Dead,
            backend::BackendState::Unhealthy => BackendState::Unhealthy,
            backend::BackendState::Ejected => BackendState::Ejected,
            backend::BackendState::Removed => BackendState::Removed,
        }
    }
}

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Phase {
    /// Planned, but it is not its turn to dial.
    Held,
    /// An attempt to connect is under way.
    Connecting,
    /// Waiting for the next attempt.
    Backoff,
    /// Connected and unused.
    Idle,
    /// Lent.
    Busy,
    /// Being checked, or cleaned after use.
    Checking,
    /// Ending.
    Closing,
}

/// How far a connection is on its way out for want of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Idle {
    /// Somebody uses it, or nobody has looked since.
    Using,
    /// The detector found it unused.
    Marked,
    /// Unused for `max_idle`: the next look releases it.
    BeforeRelease,
    /// Let go.
    Released,
}
