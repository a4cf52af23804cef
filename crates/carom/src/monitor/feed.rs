//! A feed, as it is seen.

use super::object::{Idle, State};
use std::collections::BTreeMap;

/// A feed at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Feed {
    /// Where it is in its life.
    pub state: State,
    /// Distinct instruments that are at home on a connection.
    pub topics: usize,
    /// Of these, those that are carried as they are wanted.
    pub live: usize,
    /// Who waits to hear of a topic.
    pub waiting: usize,
    /// Most topics on one connection.
    pub max_topics_per_connection: usize,
    /// Most connections.
    pub max_connections: usize,
    /// Most topics in all.
    pub capacity: usize,
    /// The most topics there were.
    pub peak_topics: usize,
    /// Every connection, and every attempt to open one.
    pub connections: Vec<FeedConnection>,
    /// The last real error of a connection, in words; forgotten when everything that is wanted is carried again.
    pub cause: Option<String>,
    /// Since it was built.
    pub counters: FeedCounters,
    /// What the upstream said that became no tick, by what it was, and how often.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    pub passed_over: BTreeMap<String, u64>,
    /// There is no upstream: ticks come from elsewhere, and limits and connections mean nothing.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "std::ops::Not::not"))]
    pub outside: bool,
}

/// A connection of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FeedConnection {
    /// Which one, counted from 1.
    pub index: usize,
    /// What it is doing.
    pub state: FeedConnectionState,
    /// Topics on it.
    pub topics: usize,
    /// Changes that wait to be written, or are being written.
    pub unwritten: usize,
    /// How far it is on its way out for want of topics; `None` when it is not up.
    pub idle: Option<Idle>,
    /// How long ago it last said anything; `None` when it is not up.
    pub heard_ms: Option<u64>,
    /// In how long it is opened again, if opening it failed.
    pub next_attempt_ms: Option<u64>,
}

/// What a connection of a feed is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FeedConnectionState {
    /// It is being opened.
    Opening,
    /// It is up.
    Up,
    /// Opening it failed; it is tried again later.
    Waiting,
    /// It is about to end.
    Closing,
}

/// What has happened to a feed since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct FeedCounters {
    /// Ticks that counted.
    pub ticks: u64,
    /// Attempts to open a connection.
    pub connects: u64,
    /// Of these, those that failed.
    pub connect_failures: u64,
    /// Connections that were up and died.
    pub lost: u64,
}
