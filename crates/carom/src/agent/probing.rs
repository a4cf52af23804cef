//! Probing: a server is dialled with an offer of every protocol, to learn which one it chooses.

use super::dial::{DialError, Dialer, Dialled, Offer};
use super::making::Maker;
use crate::building::BuildError;
use crate::connect::{Connect, Liveness};
use crate::set::{Set, Share};
use crate::tcp::Watch;
use carom_core::backend::Backend;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// A set of which one connection is enough: however many ask, it is one dial, and a dead server is passed over.
pub(super) fn probe(maker: &Maker) -> Result<Set<Probe>, BuildError> {
    let Maker { title, settings, dialer, resolver, runtime, monitor, .. } = maker;
    Set::builder(Probe { dialer: dialer.offering(Offer::Both) })
        .name(Arc::clone(title))
        .resolver(resolver.clone())
        .runtime(runtime.clone())
        .monitor(monitor)
        .recovery(settings.recovery.clone())
        .lease_timeout(settings.claim_timeout)
        .outage_wait(settings.outage_wait)
        .build()
}

/// Dials, offering both.
pub(super) struct Probe {
    dialer: Dialer,
}

/// A stream that was dialled to find out what is spoken, until somebody takes it.
pub(super) struct Probed {
    watch: Watch,
    dialled: Mutex<Option<Dialled>>,
}

impl Probed {
    pub(super) fn take(&self) -> Option<Dialled> {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Connect for Probe {
    type Connection = Probed;
    type Error = DialError;

    async fn connect(&self, backend: &Backend) -> Result<Probed, DialError> {
        let dialled = self.dialer.dial(backend).await?;
        Ok(Probed { watch: dialled.watch(), dialled: Mutex::new(Some(dialled)) })
    }

    fn closed(&self, probed: &Probed) -> Option<impl Future<Output = Liveness> + Send + 'static> {
        Some(probed.watch.closed())
    }
}

impl Share for Probe {
    /// Whoever has taken the stream keeps it.
    fn shut(&self, probed: &Probed) {
        drop(probed.take());
    }
}
