//! What NATS says by itself: what goes wrong over and over is told now and then, and counted.

use crate::credential::CredentialError;
use crate::shared::Counter;
use async_nats::Event;
use carom_core::seldom::Seldom;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// See the [module](self). One for all connections of a gateway.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Messages that were dropped, as they came faster than they were read.
    lost: Counter,
    /// What a server complained of last.
    complaint: Mutex<Option<Arc<str>>>,
    complaints: Mutex<Seldom>,
    failures: Mutex<Seldom>,
    losses: Mutex<Seldom>,
}

impl Reports {
    /// Of the connection that has this name.
    pub(super) fn happened(&self, line: &'static str, event: &Event) {
        match event {
            Event::Connected => tracing::info!(line, "connected to NATS"),
            Event::Disconnected => tracing::warn!(line, "the connection to NATS is lost"),
            // One for each message.
            Event::SlowConsumer(_) => {
                self.lost.add(1);
                if let Some(count) = seldom(&self.losses) {
                    tracing::warn!(line, count, "messages of NATS are lost: they come faster than they are read");
                }
            }
            // What is not allowed is said here alone: nobody answers who asks for it.
            Event::ServerError(error) => {
                let error = error.to_string();
                if let Some(count) = seldom(&self.complaints) {
                    tracing::warn!(line, error, count, "NATS complains");
                }
                *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
            }
            Event::ClientError(error) => {
                if let Some(count) = seldom(&self.failures) {
                    tracing::warn!(line, %error, count, "NATS cannot be spoken to; trying again");
                }
            }
            Event::LameDuckMode | Event::Draining | Event::Closed => tracing::debug!(line, %event, "NATS"),
        }
    }

    /// There is nothing to present to a server. The client says of it that something is wrong, and not what.
    pub(super) fn unpresentable(&self, line: &'static str, error: &CredentialError) {
        if let Some(count) = seldom(&self.failures) {
            tracing::warn!(line, %error, count, "NATS cannot be spoken to; trying again");
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// What a server complained of since this was asked last.
    pub(super) fn take_complaint(&self) -> Option<Arc<str>> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn seldom(seldom: &Mutex<Seldom>) -> Option<u64> {
    seldom.lock().unwrap_or_else(PoisonError::into_inner).happened(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_nats::ServerError;

    #[test]
    fn what_is_lost_is_counted_and_what_is_complained_of_is_known_once() {
        let reports = Reports::default();
        for _ in 0..1_000 {
            reports.happened("ticks", &Event::SlowConsumer(7));
        }
        assert_eq!(reports.lost(), 1_000);
        assert!(seldom(&reports.losses).is_none(), "it was told of a moment ago");
        for wrong in ["one", "two"] {
            reports.happened("requests", &Event::ServerError(ServerError::Other(wrong.to_owned())));
        }
        assert!(reports.take_complaint().is_some_and(|said| said.contains("two")));
        assert_eq!(reports.take_complaint(), None);
    }
}
