//! What the gateway is fed with: ticks of every symbol in turn, as many a second as it is told, made by a thread of their own in
//! the process that serves. They say when they were made, so whatever holds the gateway up is part of what is measured.

use super::crowd::since_epoch;
use super::{SENT, SYMBOLS, symbol};
use carom::feed::{Adapter, Change, Instrument, Mode, Pacing, Refused, Tick};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often the thread looks what is due, if not more often.
const STEP: Duration = Duration::from_millis(1);
/// Most ticks that are made at a time, so that none takes the place of another before anybody could look at it.
const AT_ONCE: usize = SYMBOLS / 2;
/// What is not made by then is left out.
const LATE: Duration = Duration::from_millis(100);
/// Portions that wait to be read; what is due beyond them is left out.
const WAITING: usize = 64;

/// An upstream that needs no network. Clones have one rate.
#[derive(Clone, Default)]
pub struct Publisher {
    ticks_s: Arc<AtomicU64>,
}

impl Publisher {
    pub fn publish(&self, ticks_s: u64) {
        self.ticks_s.store(ticks_s, Ordering::Relaxed);
    }

    /// Until nobody reads any more.
    fn run(&self, portions: &mpsc::Sender<Vec<Tick>>) {
        let instruments: Vec<_> = (0..SYMBOLS).map(|at| Instrument::new("NSE", symbol(at))).collect();
        let mut rhythm = Rhythm::new();
        while !portions.is_closed() {
            let ticks_s = self.ticks_s.load(Ordering::Relaxed);
            thread::sleep(Rhythm::pause(ticks_s));
            for portion in rhythm.due(ticks_s) {
                let tick = |number: usize| Tick {
                    instrument: instruments[number % SYMBOLS].clone(),
                    mode: Mode::Ltp,
                    payload: payload(number, since_epoch()).into(),
                };
                let _ = portions.try_send(portion.map(tick).collect());
            }
        }
    }
}

/// Which ticks are due, by their numbers.
pub struct Rhythm {
    next: usize,
    due: f64,
    looked: Instant,
}

impl Rhythm {
    pub fn new() -> Rhythm {
        Rhythm { next: 0, due: 0.0, looked: Instant::now() }
    }

    /// How long to wait before looking again.
    pub fn pause(ticks_s: u64) -> Duration {
        STEP.min(Duration::from_secs_f64(AT_ONCE as f64 / ticks_s.max(1) as f64 / 2.0))
    }

    /// What has become due since this was asked last, a few at a time. Whoever asks late leaves out the rest, and does not make up
    /// for it later.
    pub fn due(&mut self, ticks_s: u64) -> impl Iterator<Item = Range<usize>> {
        let passed = self.looked.elapsed();
        self.looked += passed;
        self.due += passed.min(LATE).as_secs_f64() * ticks_s as f64;
        std::iter::from_fn(|| {
            let count = (self.due as usize).min(AT_ONCE);
            let portion = self.next..self.next + count;
            (self.next, self.due) = (portion.end, self.due - count as f64);
            (count > 0).then_some(portion)
        })
    }
}

impl Adapter for Publisher {
    type Writer = ();
    type Reader = mpsc::Receiver<Vec<Tick>>;
    type Error = io::Error;

    async fn open(&self) -> Result<((), mpsc::Receiver<Vec<Tick>>), io::Error> {
        let (portions, read) = mpsc::channel(WAITING);
        let publisher = self.clone();
        thread::spawn(move || publisher.run(&portions));
        Ok(((), read))
    }

    async fn write(&self, (): &mut (), _: &[Change]) -> Result<Vec<Refused>, io::Error> {
        Ok(Vec::new())
    }

    async fn read(&self, read: &mut mpsc::Receiver<Vec<Tick>>, ticks: &mut Vec<Tick>) -> Result<(), io::Error> {
        ticks.extend(read.recv().await.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn pacing(&self) -> Pacing {
        Pacing { batch: SYMBOLS, pace: Duration::ZERO, heartbeat: None }
    }
}

/// Of such a length that a message has about 200 bytes.
pub fn payload(number: usize, now: Duration) -> String {
    let (price, millis) = (800.0 + (number % 997) as f64 / 20.0, now.as_millis());
    format!(r#"{{"mode":1,"ltp":{price:.2},"ltt":{millis},"timestamp":{millis},{SENT}{}}}"#, now.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_due_as_are_wanted_and_each_once() {
        let mut rhythm = Rhythm::new();
        rhythm.looked -= 10 * LATE;
        let numbers: Vec<usize> = rhythm.due(20_000).flatten().collect();
        assert!(numbers.iter().copied().eq(0..2_000), "as many as in {LATE:?}: {}", numbers.len());
        assert_eq!(rhythm.due(0).count(), 0);
    }
}
