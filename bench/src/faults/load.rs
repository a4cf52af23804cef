//! The load: requests at a fixed rate, whatever becomes of those before them, so that every peer gets the same number.

use super::peers::Request;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, timeout};

pub const RATE: u64 = 200;
/// As an application would: a request that takes longer is given up, and has failed.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// One request.
#[derive(Clone, Debug)]
pub struct Record {
    pub started: Instant,
    /// The start, while it has not ended.
    pub ended: Instant,
    /// The port of the node that responded.
    pub outcome: Result<u16, String>,
}

pub struct Load {
    records: Arc<Mutex<Vec<Record>>>,
    switch: Arc<Switch>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Switch {
    paused: AtomicBool,
    stopped: AtomicBool,
}

impl Load {
    pub fn start(request: Request) -> Load {
        let (records, switch) = (Arc::<Mutex<Vec<Record>>>::default(), Arc::<Switch>::default());
        let task = tokio::spawn(run(request, Arc::clone(&records), Arc::clone(&switch)));
        Load { records, switch, task }
    }

    pub fn pause(&self, paused: bool) {
        self.switch.paused.store(paused, Ordering::Relaxed);
    }

    /// The requests that have started so far.
    pub fn so_far(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts no more requests, and waits for those that have started.
    pub async fn stop(self) -> Vec<Record> {
        self.switch.stopped.store(true, Ordering::Relaxed);
        let _ = self.task.await;
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *records)
    }
}

async fn run(request: Request, records: Arc<Mutex<Vec<Record>>>, switch: Arc<Switch>) {
    let mut running = JoinSet::new();
    let mut ticks = interval(Duration::from_micros(1_000_000 / RATE));
    while !switch.stopped.load(Ordering::Relaxed) {
        ticks.tick().await;
        while running.try_join_next().is_some() {}
        if switch.paused.load(Ordering::Relaxed) {
            continue;
        }
        let (response, records) = (request(), Arc::clone(&records));
        let (index, started) = record_start(&records);
        running.spawn(async move {
            let outcome = timeout(DEADLINE, response).await.unwrap_or_else(|_| Err("no response within 5 s".into()));
            let record = Record { started, ended: Instant::now(), outcome };
            records.lock().unwrap_or_else(PoisonError::into_inner)[index] = record;
        });
    }
    while running.join_next().await.is_some() {}
}

/// A request is recorded when it starts, so that [`Load::so_far`] has all arrivals. The clock is read under the lock for the same reason.
fn record_start(records: &Mutex<Vec<Record>>) -> (usize, Instant) {
    let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
    let started = Instant::now();
    records.push(Record { started, ended: started, outcome: Err("it has not ended".into()) });
    (records.len() - 1, started)
}
