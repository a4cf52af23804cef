//! `/metrics`: everything that is measured, as Prometheus reads it.
//!
//! The recorder is our own. One that keeps samples until somebody comes for them needs memory without bound while connections are lent
//! millions of times a second, and one that forgets what was quiet for a while leaves those who hold its handles recording for nobody.
//! Here a sample is an addition to a bucket, and what somebody holds a handle of is never forgotten.

mod recorder;
mod services;
mod text;

use super::health;
use crate::failure::Failure;
use crate::up::Board;
use carom::Monitor;
use recorder::Recorder;
use services::{Reading, Services};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How Prometheus knows the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Shows what this process measures.
#[derive(Clone)]
pub(super) struct Exporter {
    recorder: Arc<Recorder>,
    services: Arc<Mutex<Services>>,
}

impl Exporter {
    /// Measures from now on. It must be there before whatever is to be measured.
    pub(super) fn install() -> Result<Exporter, Failure> {
        let recorder = Arc::new(Recorder::default());
        match metrics::set_global_recorder(Arc::clone(&recorder)) {
            Ok(()) => Ok(Exporter { recorder, services: Arc::default() }),
            Err(_) => {
                Err(Failure::Unavailable("something else records the metrics of this process already".to_owned()))
            }
        }
    }

    /// Everything, as it is now, with what is on the board.
    pub(super) fn render(&self, board: &Board) -> String {
        {
            // One at a time, from the look on: each goes on where the one before was.
            let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = board.look();
            let leaving = seen.leaving.iter().map(Reading::leaving);
            let degraded = health::is_degraded(&seen);
            services.record(seen.services.iter().map(Reading::of).chain(leaving), degraded);
        }
        Monitor::global().record();
        text::of(&self.recorder, Instant::now())
    }
}

#[cfg(test)]
mod tests;
