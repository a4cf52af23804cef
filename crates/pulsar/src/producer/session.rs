//! The session: a producer is begun at the broker that has its topic now.

use super::task::Identity;
use crate::address::proxy_of;
use crate::client::{Shared, Trouble};
use crate::connection::{Assigned, Enlisted, ProducerEvent, not_begun};
use crate::connector::Connector;
use crate::error::Error;
use crate::wire::{self, Command};
use carom::Lease;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

const WHAT: &str = "the producer";

/// A producer that a broker knows of. Dropped in this order: closed at the broker, then the connection is let go of.
pub(super) struct Session {
    pub(super) enlisted: Enlisted,
    pub(super) events: mpsc::UnboundedReceiver<ProducerEvent>,
    pub(super) lease: Lease<Connector>,
    pub(super) name: String,
    pub(super) last_sequence: i64,
}

/// Begins it, for as long as there is patience: the first time until a deadline, later until it has begun.
pub(super) async fn begin(
    shared: Arc<Shared>,
    who: Identity,
    mut assigned: Option<Assigned>,
    delay: Duration,
    first: Option<Instant>,
    trouble: Trouble,
) -> Result<Session, Error> {
    tokio::time::sleep(delay).await;
    let mut patience = match first {
        Some(deadline) => shared.patience_until(deadline, WHAT, false),
        None => shared.patience(WHAT, true),
    }
    .telling(trouble);
    loop {
        let held = Arc::new(Notify::new());
        let attempt = attempt(&shared, &who, &mut assigned, &held);
        if let Some(session) = patience.attempt_held(attempt, &held).await? {
            return Ok(session);
        }
    }
}

/// One attempt, where the topic is said to be, if that is said. It may be said anew. `held` hears that the producer is known
/// and is to wait for its turn.
async fn attempt(
    shared: &Shared,
    who: &Identity,
    assigned: &mut Option<Assigned>,
    held: &Arc<Notify>,
) -> Result<Session, Error> {
    let lease = shared.lease_for(&who.topic, who.seat, assigned.take()).await?;
    let (enlisted, mut events) = lease.lines().enlist_producer(who.id)?;
    let asked = |request_id| {
        wire::Producer {
            topic: who.topic.clone(),
            producer_id: who.id,
            request_id,
            producer_name: who.name.clone(),
            epoch: Some(who.epoch),
            user_provided_producer_name: Some(who.named_by_user),
            ..wire::Producer::default()
        }
        .into()
    };
    let begun = tokio::select! {
        biased;
        begun = lease.lines().request_held(WHAT, asked, Some(Arc::clone(held))) => begun,
        to = sent_away(&mut events) => {
            enlisted.disown();
            // Behind a proxy, brokers cannot be reached by their names.
            *assigned = Some(to).filter(|_| proxy_of(lease.backend().name()).is_none());
            return Err(not_begun(WHAT));
        }
    };
    match begun {
        Ok(Command::ProducerSuccess(success)) => {
            let last_sequence = success.last_sequence_id.unwrap_or(-1);
            Ok(Session { enlisted, events, lease, name: success.producer_name, last_sequence })
        }
        Ok(other) => Err(Error::Unexpected { what: WHAT, kind: other.command_type() as i32 }),
        Err(error) => {
            if matches!(error, Error::Refused { .. }) {
                enlisted.forget();
            }
            Err(error)
        }
    }
}

/// Resolves when the broker closes the producer. Of an earlier one of the same number, only receipts may come: nothing of the line
/// has been sent yet that they could be for.
async fn sent_away(events: &mut mpsc::UnboundedReceiver<ProducerEvent>) -> Assigned {
    loop {
        match events.recv().await {
            Some(ProducerEvent::Moved(assigned)) => return assigned,
            Some(ProducerEvent::Receipt(_) | ProducerEvent::Failed(_)) => {}
            // Whoever waits for the answer is told why.
            None => std::future::pending().await,
        }
    }
}
