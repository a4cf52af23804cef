//! The view: everything that the admin address shows of the program, at one moment. The dashboard and `carom top` read it.

use carom::monitor::{Id, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `/api/snapshot` answers, and what each event of `/api/events` carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct View {
    pub(crate) program: Program,
    pub(crate) status: Status,
    /// What is served, by name.
    pub(crate) services: Vec<Service>,
    /// Services that have changed or are gone, and have clients still.
    pub(crate) leaving: Vec<Service>,
    /// How each pool and set was lately, a value a second, the latest last.
    pub(crate) history: BTreeMap<Id, History>,
    pub(crate) monitor: Snapshot,
}

/// Which program that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// `carom up`, for example.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// In milliseconds since 1970; another one tells that it was started anew.
    pub(crate) started_at_ms: u64,
}

/// How a service is doing, or the whole program: then it is that of the service that does worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Ok,
    /// No backend has been connected to yet.
    Unknown,
    /// A backend does not work, or none is known.
    Degraded,
    /// Clients wait for a connection, although a backend works.
    Saturated,
    /// Backends are known, and none can be used.
    Unavailable,
    Draining,
}

/// A service that the sidecar offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// `http` or `tcp`.
    pub(crate) protocol: String,
    pub(crate) listen: String,
    pub(crate) status: Status,
    /// Connections of clients.
    pub(crate) clients: usize,
    /// Requests that a backend answered; of TCP, sessions that had a backend.
    pub(crate) served: u64,
    /// Requests that nobody answered; of TCP, clients that no backend was found for.
    pub(crate) failed: u64,
    /// Why something failed last, of one that is degraded.
    pub(crate) trouble: Option<String>,
    /// Its pools and sets; of the monitor's snapshot.
    pub(crate) objects: Vec<Id>,
}

/// How a pool or a set was lately; at most two minutes. `None`, `null` in JSON, is a second of which there is nothing to tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// How long claims waited on average, in milliseconds; nothing to tell of a second in which some waited and none was served.
    pub(crate) wait_ms: Vec<Option<f32>>,
    /// Claims or leases that were served.
    pub(crate) served: Vec<Option<f32>>,
    /// Callers in line.
    pub(crate) waiting: Vec<Option<f32>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_is_no_number_is_a_gap_and_can_be_read() {
        let values = || vec![Some(1.5), Some(f32::NAN), None];
        let history = History { wait_ms: values(), served: values(), waiting: Vec::new() };
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(text, r#"{"wait_ms":[1.5,null,null],"served":[1.5,null,null],"waiting":[]}"#);
        let read: History = serde_json::from_str(&text).unwrap();
        assert_eq!((read.wait_ms, read.served), (vec![Some(1.5), None, None], vec![Some(1.5), None, None]));
    }
}
