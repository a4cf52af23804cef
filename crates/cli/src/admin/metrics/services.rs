//! What is measured of services, which the monitor does not know: set from the board whenever metrics are read.

use crate::proxy;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const SERVICE: &str = "carom.service.name";
const SERVED: &str = "carom.service.served";
const FAILED: &str = "carom.service.failed";
const CLIENTS: &str = "carom.service.clients";
const DEGRADED: &str = "carom.service.degraded";
/// Of the whole program.
const ANY_DEGRADED: &str = "carom.degraded";

/// One service.
pub(super) struct Reading {
    serial: u64,
    name: String,
    clients: usize,
    served: u64,
    failed: u64,
    degraded: bool,
}

impl Reading {
    pub(super) fn of(seen: &proxy::Snapshot) -> Reading {
        let proxy::Snapshot { serial, name, clients, served, failed, .. } = seen;
        let (serial, clients, served, failed) = (*serial, *clients, *served, *failed);
        Reading { serial, name: name.clone(), clients, served, failed, degraded: !seen.works() }
    }

    /// Of one that lets nobody in any more it does not matter whether all of it works.
    pub(super) fn leaving(seen: &proxy::Snapshot) -> Reading {
        Reading { degraded: false, ..Reading::of(seen) }
    }
}

/// What was recorded last: counters go on from there, and nothing that is gone seems to be there still.
#[derive(Default)]
pub(super) struct Services {
    names: BTreeSet<String>,
    /// What each has served, and what failed.
    counted: HashMap<u64, (u64, u64)>,
}

impl Services {
    /// Records what is there now. Services of one name are one that has changed: they are counted together.
    pub(super) fn record(&mut self, readings: impl IntoIterator<Item = Reading>, degraded: bool) {
        describe();
        let (mut levels, mut counted) = (BTreeMap::<String, (usize, bool)>::new(), HashMap::new());
        for Reading { serial, name, clients, served, failed, degraded } in readings {
            let (served_before, failed_before) = self.counted.get(&serial).copied().unwrap_or_default();
            counter!(SERVED, SERVICE => name.clone()).increment(served.saturating_sub(served_before));
            counter!(FAILED, SERVICE => name.clone()).increment(failed.saturating_sub(failed_before));
            counted.insert(serial, (served, failed));
            let level = levels.entry(name).or_default();
            *level = (level.0 + clients, level.1 | degraded);
        }
        for gone in self.names.iter().filter(|name| !levels.contains_key(*name)) {
            set(gone, 0, false);
        }
        for (name, (clients, degraded)) in &levels {
            set(name, *clients, *degraded);
        }
        gauge!(ANY_DEGRADED).set(f64::from(u8::from(degraded)));
        *self = Services { names: levels.into_keys().collect(), counted };
    }
}

#[allow(clippy::cast_precision_loss, reason = "nobody has so many")]
fn set(name: &str, clients: usize, degraded: bool) {
    gauge!(CLIENTS, SERVICE => name.to_owned()).set(clients as f64);
    gauge!(DEGRADED, SERVICE => name.to_owned()).set(f64::from(u8::from(degraded)));
}

fn describe() {
    describe_counter!(SERVED, Unit::Count, "Requests that a backend answered; of TCP, sessions that had a backend.");
    describe_counter!(
        FAILED,
        Unit::Count,
        "Requests that nobody answered; of TCP, clients that no backend was found for."
    );
    describe_gauge!(CLIENTS, Unit::Count, "Connections of a service's clients.");
    describe_gauge!(DEGRADED, Unit::Count, "Whether a backend of a service does not work, or there is none.");
    describe_gauge!(ANY_DEGRADED, Unit::Count, "Whether any service or feed does not work.");
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::recorder::Recorder;
    use super::super::text;
    use super::*;
    use metrics::with_local_recorder;
    use std::time::Instant;

    pub(in crate::admin::metrics) fn reading(serial: u64, clients: usize, served: u64, degraded: bool) -> Reading {
        Reading { serial, name: "web".to_owned(), clients, served, failed: 1, degraded }
    }

    #[test]
    fn one_that_changes_counts_on_and_one_that_is_gone_has_nobody() {
        let (recorder, mut services) = (Recorder::default(), Services::default());
        let mut recorded = |readings: Vec<Reading>| {
            with_local_recorder(&recorder, || services.record(readings, true));
            let text = text::of(&recorder, Instant::now());
            let of =
                |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            let label = "{carom_service_name=\"web\"}";
            let names = ["served_total", "failed_total", "clients", "degraded"];
            names.map(|name| of(&format!("carom_service_{name}{label}")).unwrap_or(-1))
        };
        assert_eq!(recorded(vec![reading(0, 2, 5, true)]), [5, 1, 2, 1]);
        assert_eq!(recorded(vec![reading(0, 1, 6, false), reading(1, 3, 2, false)]), [8, 2, 4, 0]);
        assert_eq!(recorded(vec![reading(1, 3, 4, true)]), [10, 2, 3, 1]);
        assert_eq!(recorded(Vec::new()), [10, 2, 0, 0]);
    }
}
