//! The meter: how long things take, recorded on the way, through the facade of the crate `metrics`.
//!
//! Only times are recorded where they pass: handles are made beforehand, one for each backend of each pool, and lie with the connection.
//! Everything that can be read off a snapshot is, by [`Monitor::record`](crate::Monitor::record), whenever somebody wants to know.

mod bounded;
mod names;
mod readings;
mod recorded;

pub(crate) use recorded::Recorded;

use crate::clock;
use crate::monitor::Monitor;
use bounded::Bounded;
use carom_core::backend::Backend;
use metrics::{Histogram, IntoF64, SharedString, histogram};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// Most names of pools, and of anything else, in a process.
const MOST_NAMES: usize = 1000;
/// Most backends of a name.
const MOST_BACKENDS: usize = 256;

/// Pools of one name are metered as one.
static POOLS: LazyLock<Mutex<Bounded<PoolMeter>>> = LazyLock::new(|| Mutex::new(Bounded::new(MOST_NAMES)));

/// Meters a pool, or does not.
pub(crate) struct Meter {
    pool: Option<Arc<PoolMeter>>,
}

struct PoolMeter {
    label: SharedString,
    backends: Mutex<Bounded<BackendMeter>>,
}

/// Where the times of a backend's connections go.
struct BackendMeter {
    created: Histogram,
    waited: Histogram,
    used: Histogram,
}

impl Meter {
    /// For a pool of this name, if the monitor meters.
    pub(crate) fn new(monitor: &Monitor, name: &str) -> Meter {
        let pool = monitor.is_metered().then(|| {
            let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
            pools.get(name, |label| {
                let label = SharedString::from_shared(label.into());
                PoolMeter { label, backends: Mutex::new(Bounded::new(MOST_BACKENDS)) }
            })
        });
        Meter { pool }
    }

    /// For a connection to this backend, from the moment when it is dialled. It keeps no time if nobody records it.
    pub(crate) fn timer(&self, backend: &Backend) -> Timer {
        let meter = self.pool.as_ref().and_then(|pool| {
            let mut backends = pool.backends.lock().unwrap_or_else(PoisonError::into_inner);
            let of_label = |label: &str| BackendMeter::new(&pool.label, label.to_owned().into());
            let meter = backends.get(&label_of(backend.socket_addr()), of_label);
            is_recorded(&meter.used).then_some(meter)
        });
        Timer { since: meter.is_some().then(clock::now), meter }
    }
}

impl BackendMeter {
    fn new(pool: &SharedString, backend: SharedString) -> BackendMeter {
        let of = |name: &'static str| histogram!(name, names::POOL => pool.clone(), names::BACKEND => backend.clone());
        BackendMeter { created: of(names::CREATE_TIME), waited: of(names::WAIT_TIME), used: of(names::USE_TIME) }
    }
}

/// Whether there is anybody behind a handle. A value is made only for somebody; and of this one, none is recorded.
fn is_recorded(histogram: &Histogram) -> bool {
    struct Noticed<'a>(&'a Cell<bool>);
    impl IntoF64 for Noticed<'_> {
        fn into_f64(self) -> f64 {
            self.0.set(true);
            0.0
        }
    }
    let noticed = Cell::new(false);
    histogram.record_many(Noticed(&noticed), 0);
    noticed.get()
}

/// What a backend is called in metrics.
fn label_of(address: SocketAddr) -> String {
    address.to_string()
}

/// Keeps the time of one connection: how long it was made, waited for, and used.
#[derive(Default)]
pub(crate) struct Timer {
    meter: Option<Arc<BackendMeter>>,
    /// When what is under way began.
    since: Option<Instant>,
}

impl Timer {
    /// Whether anybody records it. Whoever asks first spares those whom nobody records the care for what a recorder may do.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.meter.is_some()
    }

    /// The connection is there.
    pub(crate) fn created(&mut self) {
        if let (Some(meter), Some(since)) = (&self.meter, self.since.take()) {
            meter.created.record(clock::now().saturating_duration_since(since));
        }
    }

    /// It is lent, at once.
    #[inline]
    pub(crate) fn lent(&mut self) {
        if let Some(meter) = &self.meter {
            meter.waited.record(0.0);
            self.since = Some(clock::now());
        }
    }

    /// It is lent to somebody who has waited since then.
    pub(crate) fn lent_after(&mut self, since: Instant) {
        if let Some(meter) = &self.meter {
            let now = clock::now();
            meter.waited.record(now.saturating_duration_since(since));
            self.since = Some(now);
        }
    }

    /// It is not lent any more.
    #[inline]
    pub(crate) fn back(&mut self) {
        if let (Some(meter), Some(since)) = (&self.meter, self.since.take()) {
            meter.used.record(clock::now().saturating_duration_since(since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::HistogramFn;

    struct Never;

    impl HistogramFn for Never {
        fn record(&self, value: f64) {
            panic!("{value} was recorded");
        }
    }

    #[test]
    fn it_is_known_whether_anybody_records() {
        assert!(!is_recorded(&Histogram::noop()));
        assert!(is_recorded(&Histogram::from_arc(Arc::new(Never))));
    }
}
