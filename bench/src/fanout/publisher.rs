//! What the gateway is fed with: ticks of every symbol in turn, as many a second as it is told, made in the process that serves.

use super::crowd::since_epoch;
use super::{SENT, SYMBOLS, symbol};
use carom::feed::{Adapter, Change, Instrument, Mode, Pacing, Refused, Tick};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::yield_now;
use tokio::time::sleep;

/// How often it looks what is due.
const STEP: Duration = Duration::from_millis(1);
/// Most ticks that are made at a time, so that none takes the place of another before anybody could look at it.
const AT_ONCE: usize = SYMBOLS / 2;
/// Who falls behind by more ticks than this leaves them out.
const BEHIND: f64 = 10_000.0;

/// An upstream that needs no network. Clones have one rate.
#[derive(Clone, Default)]
pub struct Publisher {
    ticks_s: Arc<AtomicU64>,
}

impl Publisher {
    pub fn publish(&self, ticks_s: u64) {
        self.ticks_s.store(ticks_s, Ordering::Relaxed);
    }
}

pub struct Pace {
    instruments: Vec<Instrument>,
    next: usize,
    due: f64,
    looked: Instant,
}

impl Adapter for Publisher {
    type Writer = ();
    type Reader = Pace;
    type Error = Infallible;

    async fn open(&self) -> Result<((), Pace), Infallible> {
        let instruments = (0..SYMBOLS).map(|at| Instrument::new("NSE", symbol(at))).collect();
        Ok(((), Pace { instruments, next: 0, due: 0.0, looked: Instant::now() }))
    }

    async fn write(&self, (): &mut (), _: &[Change]) -> Result<Vec<Refused>, Infallible> {
        Ok(Vec::new())
    }

    async fn read(&self, pace: &mut Pace, ticks: &mut Vec<Tick>) -> Result<(), Infallible> {
        let Pace { instruments, next, due, looked } = pace;
        if *due < 1.0 {
            sleep(STEP).await;
            let passed = looked.elapsed();
            *looked += passed;
            *due = (*due + passed.as_secs_f64() * self.ticks_s.load(Ordering::Relaxed) as f64).min(BEHIND);
        } else {
            yield_now().await;
        }
        while *due >= 1.0 && ticks.len() < AT_ONCE {
            let instrument = instruments[*next % SYMBOLS].clone();
            let payload = payload(*next, since_epoch());
            ticks.push(Tick { instrument, mode: Mode::Ltp, payload: payload.into() });
            *due -= 1.0;
            *next += 1;
        }
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
