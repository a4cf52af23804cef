//! A requester with its windows, as it is seen.

use super::object::State;

/// A requester at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Window {
    /// Where it is in its life: it has failed when the last request did.
    pub state: State,
    /// What it was told.
    pub options: WindowOptions,
    /// The nodes there are, by name.
    pub nodes: Vec<String>,
    /// Of these, those that did not respond lately: they are asked last.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unresponsive: Vec<String>,
    /// Of these, those whose active health checks fail: they are asked last.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unhealthy: Vec<String>,
    /// Requests under way.
    pub asking: usize,
    /// Requests that wait for a window.
    pub in_line: usize,
    /// The windows there are, the oldest first.
    pub windows: Vec<OpenWindow>,
    /// Why the last request failed, if it did.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cause: Option<String>,
    /// Since it was built.
    pub counters: WindowCounters,
}

/// What a requester was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WindowOptions {
    /// For how long a window takes requests.
    pub active_for_ms: u64,
    /// How many requests a window takes.
    pub request_limit: usize,
    /// How many windows take requests at a time at most.
    pub max_windows: Option<usize>,
}

/// A window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OpenWindow {
    /// Its number; never used again.
    pub id: u64,
    /// How long ago it began.
    pub age_ms: u64,
    /// For how long it still takes requests; `None` when it takes no more.
    pub active_ms: Option<u64>,
    /// Requests that were started on it.
    pub started: usize,
    /// Of these, those that have not ended.
    pub asking: usize,
    /// Its sockets.
    pub sockets: Vec<WindowSocket>,
}

/// A socket of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WindowSocket {
    /// Where it leads.
    pub node: String,
    /// Requests that wait for an answer on it.
    pub waiting: usize,
}

/// What has happened to a requester since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct WindowCounters {
    /// Requests that have begun.
    pub requests: u64,
    /// Of these, those that ended as was asked for.
    pub answered: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Windows that were opened.
    pub windows: u64,
    /// Sockets that were opened.
    pub sockets: u64,
}
