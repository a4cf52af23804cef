//! What is measured of a pool: claims alone, spread over enough connections, and contended.

use crate::waits::Waits;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::yield_now;

const WORKER_THREADS: usize = 2;
const ALONE_CONNECTIONS: usize = 16;
const SPREAD: Crowd = Crowd { tasks: 8, connections: 16 };
const CONTENDED: Crowd = Crowd { tasks: 256, connections: 8 };

/// How long a pool may take over one measurement beyond twice the time the measurement is meant to take.
const GRACE: Duration = Duration::from_secs(8);

/// A pool under measurement.
pub trait Subject: Clone + Send + Sync + 'static {
    const NAME: &'static str;

    /// Releases the connection when dropped; the cheapest the pool offers, so it may borrow the pool.
    type Guard<'a>: Send;

    /// A pool that may hold `connections` connections, each of them a `u64` that costs nothing to open.
    fn open(connections: usize) -> impl Future<Output = Self> + Send;

    fn claim(&self) -> impl Future<Output = Self::Guard<'_>> + Send;
}

/// How much time a run spends. On few cores a crowd settles into one of two gaits, all on one worker or both passing
/// connections to and fro, and keeps it for a while: many short rounds give steadier medians than a few long ones.
pub struct Effort {
    pub rounds: usize,
    pub batches: u32,
    pub batch: Duration,
    pub period: Duration,
}

impl Effort {
    pub const FULL: Self =
        Self { rounds: 15, batches: 13, batch: Duration::from_millis(20), period: Duration::from_millis(500) };
    pub const QUICK: Self =
        Self { rounds: 1, batches: 10, batch: Duration::from_millis(5), period: Duration::from_millis(200) };

    /// For a comparison that does not need the figures as exact.
    pub fn fewer_rounds(&self) -> Self {
        Self { rounds: self.rounds.div_ceil(2), ..*self }
    }
}

/// Why a measurement has no figure.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// It did not end in time.
    Hung,
    /// It panicked, which is how a subject reports an error.
    Failed,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hung => "hung",
            Self::Failed => "failed",
        })
    }
}

pub struct Contended {
    pub ops_s: f64,
    pub wait_p50_us: f64,
    pub wait_p99_us: f64,
    pub wait_max_us: f64,
}

struct Crowd {
    tasks: usize,
    connections: usize,
}

/// One task, warm connections: the median time of claim and release, in ns.
pub fn alone<S: Subject>(effort: &Effort) -> Result<f64, Cut> {
    let Effort { batches, batch, .. } = *effort;
    on_own_runtime(batch * batches * 2 + GRACE, async move {
        let pool = open_warm::<S>(ALONE_CONNECTIONS).await;
        let operations = operations_within(batch, &pool).await;
        let mut ns = Vec::new();
        for _ in 0..batches {
            let taken = claims_in_a_row(&pool, operations).await;
            ns.push(taken.as_nanos() as f64 / f64::from(operations));
        }
        median(ns)
    })
}

/// More connections than tasks: claims per second, each held across one yield.
pub fn spread<S: Subject>(effort: &Effort) -> Result<f64, Cut> {
    let period = effort.period;
    on_own_runtime(period * 2 + GRACE, async move {
        let (operations, elapsed) = SPREAD.run(period, claim_until::<S>).await;
        operations.iter().sum::<u64>() as f64 / elapsed.as_secs_f64()
    })
}

/// Far more tasks than connections: claims per second, and how long each claim waited.
pub fn contended<S: Subject>(effort: &Effort) -> Result<Contended, Cut> {
    let period = effort.period;
    on_own_runtime(period * 2 + GRACE, async move {
        let (parts, elapsed) = CONTENDED.run(period, claim_timed_until::<S>).await;
        let waits = Waits::sum(&parts);
        Contended {
            ops_s: waits.count() as f64 / elapsed.as_secs_f64(),
            wait_p50_us: waits.quantile_us(0.50),
            wait_p99_us: waits.quantile_us(0.99),
            wait_max_us: waits.max_us(),
        }
    })
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

/// The caller waits outside the runtime, so that even blocked workers cannot hold up the run.
pub fn on_own_runtime<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Cut> {
    let runtime =
        Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build().expect("the runtime starts");
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move {
        let _ = sender.send(work.await);
    });
    let outcome = receiver.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => Cut::Hung,
        RecvTimeoutError::Disconnected => Cut::Failed,
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

pub async fn open_warm<S: Subject>(connections: usize) -> S {
    let pool = S::open(connections).await;
    let mut guards = Vec::with_capacity(connections);
    for _ in 0..connections {
        guards.push(pool.claim().await);
    }
    drop(guards);
    // Some pools take connections back in a task of their own.
    tokio::time::sleep(Duration::from_millis(20)).await;
    pool
}

async fn operations_within<S: Subject>(batch: Duration, pool: &S) -> u32 {
    let mut operations = 64;
    loop {
        let taken = claims_in_a_row(pool, operations).await;
        if taken * 4 >= batch {
            let wanted = f64::from(operations) * batch.as_secs_f64() / taken.as_secs_f64();
            return wanted.max(1.0) as u32;
        }
        operations *= 2;
    }
}

async fn claims_in_a_row<S: Subject>(pool: &S, operations: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..operations {
        drop(pool.claim().await);
    }
    start.elapsed()
}

impl Crowd {
    /// What each task returned, and the time until they were told to stop.
    async fn run<S, T, W>(&self, period: Duration, task: fn(S, Arc<AtomicBool>) -> W) -> (Vec<T>, Duration)
    where
        S: Subject,
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let pool = open_warm::<S>(self.connections).await;
        let stop = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        let handles: Vec<_> = (0..self.tasks).map(|_| tokio::spawn(task(pool.clone(), Arc::clone(&stop)))).collect();
        tokio::time::sleep(period).await;
        stop.store(true, Ordering::Relaxed);
        let elapsed = start.elapsed();
        let mut results = Vec::with_capacity(self.tasks);
        for handle in handles {
            results.push(handle.await.expect("the task ends without a panic"));
        }
        (results, elapsed)
    }
}

async fn claim_until<S: Subject>(pool: S, stop: Arc<AtomicBool>) -> u64 {
    let mut operations = 0;
    while !stop.load(Ordering::Relaxed) {
        let guard = pool.claim().await;
        yield_now().await;
        drop(guard);
        operations += 1;
    }
    operations
}

async fn claim_timed_until<S: Subject>(pool: S, stop: Arc<AtomicBool>) -> Waits {
    let mut waits = Waits::new();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let guard = pool.claim().await;
        waits.record(start.elapsed());
        yield_now().await;
        drop(guard);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_cut() {
        let limit = Duration::from_millis(20);
        let idle = on_own_runtime(limit, std::future::pending::<()>());
        assert!(matches!(idle, Err(Cut::Hung)));
        let blocked = on_own_runtime(limit, async { std::thread::sleep(Duration::from_millis(200)) });
        assert!(matches!(blocked, Err(Cut::Hung)));
    }

    #[test]
    fn what_panics_has_failed() {
        let outcome = on_own_runtime(GRACE, async { panic!("as a claim that ends with an error would") });
        assert!(matches!(outcome, Err::<(), _>(Cut::Failed)));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
    }
}
