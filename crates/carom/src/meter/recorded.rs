//! What was recorded last, so that counters go on from there and nothing that is gone seems to be there still.

use super::names;
use super::readings::{Counted, Readings};
use crate::monitor::Monitor;
use metrics::{Counter, Gauge, Key, Level, Metadata, with_recorder};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What was recorded last.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    last: Arc<Mutex<Last>>,
}

#[derive(Default)]
struct Last {
    gauges: HashSet<Key>,
    /// Whatever the objects were called: that may change.
    counters: HashMap<Counted, u64>,
}

impl Monitor {
    /// Sets gauges and counters to what is there now, through the facade of the crate `metrics`: to be called before metrics are read.
    /// Histograms need no such call; they are recorded on the way, of those who are built with a monitor that
    /// [meters](Monitor::metered). With the feature `metrics`.
    ///
    /// Objects of one name are counted together. What is gone is set to zero, once. A recorder that is set later misses what has
    /// been recorded before: set it first.
    ///
    /// Counters are read off what is there: what an object counts between the last call and its end is missing, and one that comes
    /// and goes between two calls is not counted at all.
    ///
    /// Labels are bounded at a time: of 1000 names of each kind, and of 256 backends of each name, the rest is `other`. Over time
    /// there may be more, as backends and origins come and go. A recorder that keeps every series for ever grows with them; one
    /// that drops a histogram because nothing was recorded for a while loses what is recorded later, since a pool goes on with the
    /// handle that it has. A recorder should drop what has been idle and has no handle left.
    pub fn record(&self) {
        names::describe();
        // One at a time, from the look on: each goes on where the one before was.
        let mut last = self.recorded().last.lock().unwrap_or_else(PoisonError::into_inner);
        let readings = Readings::of(&self.snapshot());
        for gone in last.gauges.iter().filter(|key| !readings.gauges.contains_key(key)) {
            gauge(gone).set(0.0);
        }
        for (key, value) in &readings.gauges {
            gauge(key).set(*value);
        }
        let mut counters = HashMap::with_capacity(readings.counters.len());
        for (reading, (key, value)) in readings.counters {
            let before = last.counters.get(&reading).copied().unwrap_or(0);
            // Counted even if by nothing: then it is there.
            counter(&key).increment(value.saturating_sub(before));
            counters.insert(reading, value);
        }
        *last = Last { gauges: readings.gauges.into_keys().collect(), counters };
    }
}

static METADATA: Metadata<'_> = Metadata::new("carom", Level::INFO, Some("carom"));

fn gauge(key: &Key) -> Gauge {
    with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
}

fn counter(key: &Key) -> Counter {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA))
}
