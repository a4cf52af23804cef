//! Those who make the requests, each one after the other, and what they have counted.

use super::pace::Pace;
use super::tally::{Answer, Tally};
use crate::target::{Target, Trouble, next_part, protocol};
use carom::agent::{Agent, Served};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until};

/// Counts that are kept apart, so that workers seldom wait for each other, and few, so that they take little memory.
const TALLIES: usize = 16;
/// Timers are late, and that is no fault of those who answer.
const TIMER_LAG: Duration = Duration::from_millis(2);

/// After a failure, without a rate.
const PAUSE: Duration = Duration::from_millis(10);

/// All of them. Dropped, they stop where they are.
#[derive(Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    running: JoinSet<()>,
    stop: watch::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    agent: Agent,
    pace: Pace,
    begun: Instant,
    /// Requests that were made.
    made: AtomicU64,
    counts: Vec<Mutex<Count>>,
}

#[derive(Debug)]
struct Count {
    tally: Tally,
    /// When the last request ended.
    last: Instant,
}

/// How far they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) elapsed: Duration,
    pub(super) answered: u64,
    pub(super) failed: u64,
}

/// What they have come to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// From the beginning to the end of the last request that had one.
    pub(super) elapsed: Duration,
    pub(super) unfinished: u64,
    pub(super) not_started: u64,
}

impl Workers {
    pub(super) fn start(target: Target, agent: Agent, pace: Pace, count: u16) -> Workers {
        let begun = Instant::now();
        let counts = (0..TALLIES).map(|_| Mutex::new(Count { tally: Tally::default(), last: begun })).collect();
        let shared = Arc::new(Shared { target, agent, pace, begun, made: AtomicU64::new(0), counts });
        let (stop, stopped) = watch::channel(());
        let mut running = JoinSet::new();
        for number in 0..usize::from(count) {
            running.spawn(work(Arc::clone(&shared), number % TALLIES, stopped.clone()));
        }
        Workers { shared, running, stop }
    }

    /// No request is made from now on; those that were made go on.
    pub(super) fn stop(&self) {
        self.stop.send_replace(());
    }

    /// Waits until no worker has anything left to do. Cancelling it changes nothing.
    pub(super) async fn done(&mut self) {
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    pub(super) fn standing(&self) -> Standing {
        let counts = self.shared.counts.iter().map(lock);
        let sums = counts.map(|count| (count.tally.answers(), count.tally.failure_count()));
        let (answered, failed) = sums.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        Standing { elapsed: self.shared.begun.elapsed(), answered, failed }
    }

    /// Ends them all, whatever they are at.
    pub(super) async fn finish(mut self) -> Outcome {
        let stopped = self.shared.begun.elapsed();
        self.running.shutdown().await;
        let shared = &self.shared;
        let (mut tally, mut last) = (Tally::default(), shared.begun);
        for count in shared.counts.iter().map(lock) {
            tally.merge(&count.tally);
            last = last.max(count.last);
        }
        let made = shared.made.load(Ordering::Relaxed);
        let ended = tally.answers() + tally.failure_count();
        Outcome {
            tally,
            elapsed: last - shared.begun,
            unfinished: made.saturating_sub(ended),
            not_started: shared.pace.due_by(stopped).map_or(0, |due| due.saturating_sub(made)),
        }
    }
}

/// One worker: a turn after the other, until there are no more.
async fn work(shared: Arc<Shared>, tally: usize, mut stopped: watch::Receiver<()>) {
    while let Some(turn) = shared.pace.next(shared.begun.elapsed()) {
        let due = turn.due.map(|due| shared.begun + due);
        let ahead = due.filter(|due| *due > Instant::now());
        if let Some(due) = ahead {
            tokio::select! {
                () = sleep_until(due) => {}
                _ = stopped.changed() => return,
            }
        }
        if stopped.has_changed().unwrap_or(true) {
            return;
        }
        shared.made.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let begun = match (due, ahead) {
            (None, _) => now,
            (Some(due), Some(_)) if now - due <= TIMER_LAG => now,
            (Some(due), _) => due,
        };
        match ask(&shared).await {
            Ok(asked) => {
                let ended = Instant::now();
                let mut count = lock(&shared.counts[tally]);
                count.tally.answered(&asked.answer(ended - begun));
                count.last = ended;
            }
            Err(trouble) => {
                {
                    let mut count = lock(&shared.counts[tally]);
                    count.tally.failed(trouble);
                    count.last = Instant::now();
                }
                // What fails at once is not to fail a million times a second, nor to keep others from their turn.
                if turn.due.is_none() {
                    sleep(PAUSE).await;
                } else {
                    yield_now().await;
                }
            }
        }
    }
}

/// What an answer was like.
struct Asked {
    served: Option<Served>,
    status: u16,
    protocol: &'static str,
    body_bytes: u64,
}

impl Asked {
    fn answer(&self, latency: Duration) -> Answer<'_> {
        Answer {
            latency,
            status: self.status,
            body_bytes: self.body_bytes,
            backend: self.served.as_ref().map(|served| &served.backend),
            protocol: self.protocol,
            retried: self.served.as_ref().is_some_and(|served| served.attempts > 1),
        }
    }
}

/// Makes one request, and reads its answer to the end.
async fn ask(shared: &Shared) -> Result<Asked, Trouble> {
    let mut response = shared.agent.request(shared.target.request()).await?;
    let (status, protocol) = (response.status().as_u16(), protocol(response.version()));
    let mut body_bytes = 0;
    while let Some(part) = next_part(&mut response, shared.target.timeout).await? {
        body_bytes += part.len() as u64;
    }
    Ok(Asked { served: response.extensions_mut().remove(), status, protocol, body_bytes })
}

/// A worker that panicked ends the program, and what it has counted is not asked for.
fn lock(count: &Mutex<Count>) -> MutexGuard<'_, Count> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}
