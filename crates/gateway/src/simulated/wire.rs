//! The wire: JSON messages between the simulated exchange and whoever connects, one to a WebSocket frame, ticks many to one.
//!
//! ```text
//!  client                                                                  exchange
//!    | -- GET / with `Authorization: Bearer TOKEN` -------------------------> |  101, or 401, 429, 503 with the reason as text
//!    | -- {"subscribe":{"id":1,"symbols":[{"key":1,"exchange":"NSE",           |
//!    |                  "symbol":"SBIN","mode":2,"depth":5}]}} -------------> |
//!    | <- {"ack":{"id":1,"refused":[{"at":0,"reason":".."}]}} --------------- |  once for each request, in order
//!    | <- {"ticks":[{"key":1,"mode":2,"payload":{..}},..]} ------------------ |
//!    | -- {"unsubscribe":{"id":2,"symbols":[{"exchange":..,"symbol":..}]}} -> |
//!    | -- {"beat":1800000000000} -------------------------------------------> |  each side shows that it lives
//!    | <- {"beat":1800000000000} -------------------------------------------- |
//!    | <- close 4401, 1001, 1008 -------------------------------------------- |  token expired, going away, not understood
//! ```
//!
//! The client chooses the keys that ticks are named by, and never uses one for something else on the same connection: a tick
//! that was under way when its symbol was dropped is known by its key.

use carom::feed::{Level, Mode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Close code: the token is not valid any more.
pub(super) const EXPIRED: u16 = 4401;

/// A frame of ticks is sent when it has reached this size. Whoever keeps a payload keeps the frame that it came in.
pub(super) const FRAME: usize = 8 * 1024;

/// Longest message from the exchange: a frame of ticks, the last of which is the longest there is, or the refusal of a batch.
pub(super) const LONGEST_ANSWER: usize = 256 * 1024;

/// Longest exchange or symbol that is sent, in bytes.
pub(super) const LONGEST_NAME: usize = 64;

/// What a client says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request<'a> {
    Subscribe {
        id: u64,
        #[serde(borrow)]
        symbols: Vec<Wanted<'a>>,
    },
    Unsubscribe {
        id: u64,
        #[serde(borrow)]
        symbols: Vec<Named<'a>>,
    },
    Beat(u64),
}

/// A symbol, and how much of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wanted<'a> {
    pub(super) key: u32,
    #[serde(borrow)]
    pub(super) exchange: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) symbol: Cow<'a, str>,
    pub(super) mode: u64,
    pub(super) depth: u16,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Named<'a> {
    #[serde(borrow)]
    pub(super) exchange: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) symbol: Cow<'a, str>,
}

/// What the exchange says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Answer<'a> {
    Ack {
        id: u64,
        #[serde(borrow)]
        refused: Vec<RefusedAt<'a>>,
    },
    #[serde(borrow)]
    Ticks(Vec<Ticked<'a>>),
    Beat(u64),
}

/// Which of the symbols of a request, counted from 0, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RefusedAt<'a> {
    pub(super) at: usize,
    #[serde(borrow)]
    pub(super) reason: Cow<'a, str>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ticked<'a> {
    pub(super) key: u32,
    pub(super) mode: u64,
    #[serde(borrow)]
    pub(super) payload: &'a RawValue,
}

impl Wanted<'_> {
    /// How much of it, if that makes sense.
    pub(super) fn level(&self) -> Option<Level> {
        Mode::from_number(self.mode).map(|mode| Level { mode, depth: self.depth })
    }
}
