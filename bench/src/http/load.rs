//! So many who each ask again as soon as they are answered, for a while.

use super::clients::Client;
use crate::waits::Waits;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What came of it.
pub struct Outcome {
    pub served_s: f64,
    pub waits: Waits,
    pub failed: u64,
    /// The most frequent reason, if any failed.
    pub reason: Option<String>,
}

/// Runs a load from now on, for `period`, after a lead that is not counted.
pub fn run(
    runtime: &Runtime,
    client: &impl Client,
    concurrency: usize,
    lead: Duration,
    period: Duration,
) -> io::Result<Outcome> {
    let begin = Instant::now() + lead;
    let end = begin + period;
    let tasks: Vec<_> = (0..concurrency).map(|_| runtime.spawn(ask(client.clone(), begin, end))).collect();
    let (mut all, mut reasons) = (Vec::new(), BTreeMap::<String, u64>::new());
    for task in tasks {
        let (waits, failures) = runtime.block_on(task).map_err(io::Error::other)?;
        all.push(waits);
        for (reason, count) in failures {
            *reasons.entry(reason).or_default() += count;
        }
    }
    let waits = Waits::sum(&all);
    Ok(Outcome {
        served_s: waits.count() as f64 / period.as_secs_f64(),
        waits,
        failed: reasons.values().sum(),
        reason: reasons.into_iter().max_by_key(|(_, count)| *count).map(|(reason, _)| reason),
    })
}

async fn ask(client: impl Client, begin: Instant, end: Instant) -> (Waits, BTreeMap<String, u64>) {
    let (mut waits, mut failures) = (Waits::new(), BTreeMap::new());
    let mut now = Instant::now();
    while now < end {
        let asked = now;
        let answer = client.get().await;
        now = Instant::now();
        if asked < begin {
            continue;
        }
        match answer {
            Ok(_) => waits.record(now - asked),
            Err(reason) => *failures.entry(reason).or_default() += 1,
        }
    }
    (waits, failures)
}
