//! The recorder: values by name and labels, each an atomic or a few.

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What nobody holds and nobody has asked for is forgotten after this long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// The upper bounds of a histogram's buckets, in seconds: 10 µs to a minute.
pub(crate) const BOUNDS: [f64; 21] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Keeps whatever is measured.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) counters: Families<Count>,
    pub(crate) gauges: Families<Level>,
    pub(crate) histograms: Families<Buckets>,
    descriptions: Mutex<BTreeMap<String, Description>>,
}

#[derive(Clone)]
pub(crate) struct Description {
    pub(crate) unit: Option<Unit>,
    pub(crate) help: SharedString,
}

impl Recorder {
    pub(crate) fn description(&self, name: &str) -> Option<Description> {
        lock(&self.descriptions).get(name).cloned()
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, help: SharedString) {
        let mut descriptions = lock(&self.descriptions);
        // It is said again each time that metrics are read.
        if !descriptions.contains_key(name.as_str()) {
            descriptions.insert(name.as_str().to_owned(), Description { unit, help });
        }
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.counters.get(key, Instant::now()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.gauges.get(key, Instant::now()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.histograms.get(key, Instant::now()))
    }
}

/// Values of one type, by name and labels.
pub(crate) struct Families<T> {
    known: Mutex<BTreeMap<String, Family<T>>>,
}

pub(crate) type Labels = Vec<(String, String)>;

/// Values with their labels, by name.
pub(crate) type ByName<T> = Vec<(String, Vec<(Labels, Arc<T>)>)>;
type Family<T> = BTreeMap<Labels, Series<T>>;

struct Series<T> {
    value: Arc<T>,
    asked: Instant,
}

impl<T: Default> Families<T> {
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Arc<T> {
        let mut known = lock(&self.known);
        if !known.contains_key(key.name()) {
            known.insert(key.name().to_owned(), BTreeMap::new());
        }
        let family = known.get_mut(key.name()).expect("it was put there");
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        let series = family.entry(labels).or_insert_with(|| Series { value: Arc::default(), asked: now });
        series.asked = now;
        Arc::clone(&series.value)
    }

    /// Everything there is, by name. What has not been used for long is forgotten first.
    pub(crate) fn all(&self, now: Instant) -> ByName<T> {
        let mut known = lock(&self.known);
        known.retain(|_, family| {
            family.retain(|_, series| {
                let held = Arc::strong_count(&series.value) > 1;
                held || now.saturating_duration_since(series.asked) < FORGOTTEN_AFTER
            });
            !family.is_empty()
        });
        let values = |family: &Family<T>| {
            family.iter().map(|(labels, series)| (labels.clone(), Arc::clone(&series.value))).collect()
        };
        known.iter().map(|(name, family)| (name.clone(), values(family))).collect()
    }
}

impl<T> Default for Families<T> {
    fn default() -> Families<T> {
        Families { known: Mutex::default() }
    }
}

/// What only grows.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

/// What goes up and down.
#[derive(Default)]
pub(crate) struct Level(Float);

impl Level {
    pub(crate) fn value(&self) -> f64 {
        self.0.get()
    }
}

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        self.0.add(value);
    }

    fn decrement(&self, value: f64) {
        self.0.add(-value);
    }

    fn set(&self, value: f64) {
        self.0.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// How many values were how great.
#[derive(Default)]
pub(crate) struct Buckets {
    /// One for each bound, and one for what is above all of them.
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum: Float,
}

impl Buckets {
    /// How many are in each, above the last bound included, and the sum of all. Read one after the other, while others may record.
    pub(crate) fn values(&self) -> ([u64; BOUNDS.len() + 1], f64) {
        (std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)), self.sum.get())
    }
}

impl HistogramFn for Buckets {
    #[inline]
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "nobody records so many at once")]
    fn record_many(&self, value: f64, count: usize) {
        let bucket = BOUNDS.iter().position(|bound| value <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket].fetch_add(count as u64, Ordering::Relaxed);
        // Most claims wait for nothing.
        if value != 0.0 {
            self.sum.add(value * count as f64);
        }
    }
}

/// A number that many add to.
#[derive(Default)]
struct Float(AtomicU64);

impl Float {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    #[inline]
    fn add(&self, value: f64) {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let after = (f64::from_bits(before) + value).to_bits();
            match self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => before = other,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked with it had done what it does in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
